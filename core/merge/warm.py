"""Compiles the kernels ahead of the first merge, by merging a model of one small tensor.

`make setup` runs `python -m core.merge.warm`, so that nobody waits for a compiler in the browser.
Takes nothing; leaves only numba's cache.
"""

import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from core.merge.config import parse_plan, with_dialect
from core.merge.run import run_merge
from core.precision.rounding import rounding_report

ELEMENTS = 64
CASES = ((1.0, "float32", "mergekit"), (0.5, "bfloat16", "mergekit"), (0.5, "float32", "paper"))


def compile_kernels() -> None:
    """Merge with and without trimming, to fp32 and to bf16, in each way to trim, in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at, model in enumerate(("base", "member")):
            (folder / model).mkdir()
            (folder / model / "config.json").write_text("{}")
            weights = np.linspace(at, 1, ELEMENTS, dtype=np.float32)
            save_file({"w.weight": weights}, folder / model / "model.safetensors")
        for density, out_dtype, dialect in CASES:
            plan = with_dialect(parse_plan(_config(density, out_dtype), folder / "config.yml"), dialect)
            run_merge(plan, folder / dialect / out_dtype)
            rounding_report(folder / "base", folder / dialect / out_dtype)


def _config(density: float, out_dtype: str) -> str:
    return (
        f"merge_method: ties\nbase_model: base\nmodels:\n- model: member\n  parameters: {{weight: 1.0, "
        f"density: {density}}}\ndtype: float32\nout_dtype: {out_dtype}\n"
    )


if __name__ == "__main__":
    compile_kernels()
