"""Reads ranges of a tensor as fp32 values, widened as the merge's kernels widen them.

Takes a `TensorInfo` and a position; gives numpy arrays. Knows nothing about merging.
"""

import numpy as np

from core.merge.blocks import Files
from core.merge.header import ITEM_SIZES, TensorInfo


def read_values(files: Files, info: TensorInfo, start: int, n: int) -> np.ndarray:
    """Elements start … start+n of a float tensor in flat order: float32 (n,). Opens the file when needed.

    F64 is rounded to the nearest fp32. Raises CheckpointError for a file that cannot be read.
    """
    files.open(info.file)
    size = ITEM_SIZES[info.dtype]
    raw = np.empty(n * size, np.uint8)
    files.read(info.file, info.offset + start * size, raw.data)
    return widen(raw, info.dtype)


def widen(raw: np.ndarray, dtype: str) -> np.ndarray:
    """The fp32 values of raw little-endian bytes (uint8) of a safetensors float dtype; all but F64 exactly."""
    if dtype == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype == "F16":
        return raw.view(np.float16).astype(np.float32)
    if dtype == "F64":
        with np.errstate(over="ignore"):
            return raw.view(np.float64).astype(np.float32)
    return raw.view(np.float32)
