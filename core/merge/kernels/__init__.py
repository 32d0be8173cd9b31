"""The compiled inner loops: threshold histograms, the fused merge of a block, and rounding figures.

Take raw tensor bytes as numpy arrays and write into arrays given by the caller; allocate only scratch.
fp32 arithmetic in member order, no fused multiply-add, so results do not depend on threads or block
size. Importing this package imports numba. Knows nothing about files or plans.
"""

import hashlib
import importlib
import os
import sys
from pathlib import Path

import numba

HERE = Path(__file__).parent


def _cache_folder() -> str:
    """Where compiled code is kept: a folder named by the hash of every kernel's source.

    numba's own cache looks at the file of the outermost function only, and would go on using a compiled
    caller after a change in what it calls.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py")))).hexdigest()[:16]
    given = os.environ.get("NUMBA_CACHE_DIR")
    for place in (Path(given) if given else HERE / "__pycache__", Path.home() / ".cache" / "mergescope"):
        folder = place / f"numba-{digest}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return str(folder)
    return str(numba.config.CACHE_DIR)


def _load_without_blas() -> None:
    """Load the part of numba that imports scipy.linalg, 0.2 s, for matrix products, which no kernel of ours has.

    numba asks for one module of it and does without where that is missing; whoever needs scipy.linalg still gets it.
    """
    wanted = "scipy.linalg.cython_blas"
    if wanted in sys.modules or "numba.np.arraymath" in sys.modules:
        return
    sys.modules[wanted] = None  # type: ignore[assignment]
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        del sys.modules[wanted]


_load_without_blas()
_before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, _cache_folder()
try:
    from core.merge.kernels.bits import HALF_TO_FLOAT, Rows, narrow_bf16
    from core.merge.kernels.layout import BINS, CHUNK, COUNTS, LOWEST_BIN, SUB_BLOCK, SUMS, Count, Figures
    from core.merge.kernels.merge import LINEAR, TASK_ARITHMETIC, TIES, Rule, merge_block
    from core.merge.kernels.rounding import round_block
    from core.merge.kernels.threshold import (
        ABOVE,
        AT_HIGH,
        AT_LOW,
        HIGH_BITS,
        INSIDE,
        LOW_BITS,
        SPARES,
        count_high,
        count_low,
        count_window,
        find_tie,
        sample_magnitudes,
        sum_signs,
    )
finally:
    numba.config.CACHE_DIR = _before

__all__ = [
    "ABOVE",
    "AT_HIGH",
    "AT_LOW",
    "BINS",
    "CHUNK",
    "COUNTS",
    "HALF_TO_FLOAT",
    "HIGH_BITS",
    "INSIDE",
    "LINEAR",
    "LOWEST_BIN",
    "LOW_BITS",
    "SPARES",
    "SUB_BLOCK",
    "SUMS",
    "TASK_ARITHMETIC",
    "TIES",
    "Count",
    "Figures",
    "Rows",
    "Rule",
    "count_high",
    "count_low",
    "count_window",
    "find_tie",
    "merge_block",
    "narrow_bf16",
    "round_block",
    "sample_magnitudes",
    "sum_signs",
]
