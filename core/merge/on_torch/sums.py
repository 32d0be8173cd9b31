"""Float sums in the kernels' order, over all sub-blocks of a slice at once.

Element j of a sub-block belongs to lane j mod LANES. One operation adds the next LANES elements of every sub-block
to their lanes, so a slice takes as many operations as one sub-block has groups, whatever its size. Zeros fill the
last sub-block: adding +0 changes no lane, as none is ever −0.
"""

import numpy as np
import torch
from torch import Tensor

from core.merge.kernels.layout import CHUNK, LANES, SUB_BLOCK


def width_of(n: int) -> int:
    """Elements of n, filled up: whole sub-blocks, or whole chunks where one sub-block holds them all."""
    unit = CHUNK if n <= SUB_BLOCK else SUB_BLOCK
    return -(-n // unit) * unit


def add_groups(values: Tensor) -> Tensor:
    """Lanes, float64 (k, sub-blocks, LANES), of float64 (k, width)."""
    return _add_steps(values, SUB_BLOCK)


def add_folded(values: Tensor) -> Tensor:
    """As `add_groups`, of float32 values whose chunks have been folded to LANES each."""
    return _add_steps(values, SUB_BLOCK // CHUNK * LANES)


def _add_steps(values: Tensor, step: int) -> Tensor:
    """Add each run of LANES values to the lanes, in order; `step` is how many values make a sub-block."""
    rows, width = values.shape
    size = min(width, step)
    lanes = torch.zeros((rows, width // size, LANES), dtype=torch.float64, device=values.device)
    for group in values.view(rows, width // size, size // LANES, LANES).unbind(2):
        lanes += group
    return lanes


def fold(values: Tensor) -> Tensor:
    """Fold fp32 (k, width) to (k, width · LANES / CHUNK): the upper half of every chunk onto its lower, until LANES."""
    rows, width = values.shape
    chunks = values.view(rows, width // CHUNK, CHUNK)
    half = CHUNK // 2
    while half >= LANES:
        chunks = chunks[..., :half] + chunks[..., half:]
        half //= 2
    return chunks.reshape(rows, -1)


def close(lanes: np.ndarray) -> np.ndarray:
    """Add lanes (…, LANES) in order."""
    total = np.zeros(lanes.shape[:-1], np.float64)
    for lane in range(LANES):
        total += lanes[..., lane]
    return total
