"""Counts of |δ| bit patterns in a slice; see `core.merge.kernels.threshold`."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from core.merge.kernels.threshold import ABOVE, AT_HIGH, AT_LOW, HIGH_BITS, INSIDE, LOW_BITS, SPARES
from core.merge.on_torch.bits import as_float, magnitude
from core.merge.on_torch.tally import Tally

LOW_BINS = 1 << LOW_BITS


def magnitudes(base: Tensor, value: Tensor) -> Tensor:
    """|value − base| as int32 patterns, of int32 fp32 patterns."""
    return magnitude(as_float(value) - as_float(base))


def count_window(size: Tensor, window: tuple[int, int], counts: np.ndarray, found: np.ndarray, tally: Tally) -> None:
    """One member's; `counts` int64 (4,); `found` uint32 (room,), whose first `counts[INSIDE]` are taken already."""
    low, high = window
    inside = (size > low) & (size < high)
    tally.add(counts, ABOVE, (size > high).sum())
    tally.add(counts, AT_HIGH, (size == high).sum())
    if low != high:
        tally.add(counts, AT_LOW, (size == low).sum())
    tally.add(counts, INSIDE, inside.sum())
    free = found[int(counts[INSIDE]) :]

    def take(picked: np.ndarray) -> None:
        free[: picked.size] = picked.view(np.uint32)

    tally.give(take, size[inside][: free.size])


def count_high(size: Tensor, counts: np.ndarray, tally: Tally) -> None:
    """One member's; `counts` int64 (2**16,)."""
    tally.give(_add_to(counts), torch.bincount(size >> LOW_BITS, minlength=1 << HIGH_BITS))


def count_low(size: Tensor, high: int, counts: np.ndarray, tally: Tally) -> None:
    """One member's; `counts` int64 (2**15 + SPARES,)."""
    spare = (torch.arange(size.numel(), dtype=torch.int32, device=size.device) & (SPARES - 1)) + LOW_BINS
    place = torch.where((size >> LOW_BITS) == high, size & (LOW_BINS - 1), spare)
    tally.give(_add_to(counts), torch.bincount(place, minlength=LOW_BINS + SPARES))


def find_tie(size: Tensor, threshold: int, wanted: int) -> tuple[int, int]:
    """(position + 1, 0) of the `wanted`-th element at the threshold, or (-1, elements still wanted)."""
    places = torch.nonzero(size == threshold).squeeze(1)
    if places.numel() < wanted:
        return -1, wanted - places.numel()
    return int(places[wanted - 1]) + 1, 0


def _add_to(counts: np.ndarray) -> Callable[[np.ndarray], None]:
    def add(more: np.ndarray) -> None:
        counts[:] += more

    return add
