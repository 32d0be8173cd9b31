"""Compiles the preview's loops ahead of the first one, by previewing a model of one small tensor.

Run: python -m core.preview.warm, after `core.merge.warm`. Takes nothing; leaves only numba's cache.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from core.merge.config import parse_plan
from core.preview.compare import compare
from core.preview.knobs_matter import reach
from core.preview.sample import read_sample

ELEMENTS = 4096


def compile_preview() -> None:
    """Preview once with and once without trimming, from part of a tensor, in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at, model in enumerate(("base", "member")):
            (folder / model).mkdir()
            (folder / model / "config.json").write_text("{}")
            weights = np.linspace(at, 1, ELEMENTS, dtype=np.float32)
            save_file({"w.weight": weights}, folder / model / "model.safetensors")
        text = "merge_method: ties\nbase_model: base\nmodels:\n- model: member\n  parameters: {weight: 1.0}\n"
        plan = parse_plan(text, folder / "config.yml")
        sample = read_sample(plan, budget=4 * ELEMENTS)
        for density in (1.0, 0.5):
            sample.estimate([1.0], [density])
        half = replace(plan, members=tuple(replace(one, density=0.5) for one in plan.members))
        for one in (plan, half):
            compare(sample, plan, [one])
            reach(sample, one, alike=[0])


if __name__ == "__main__":
    compile_preview()
