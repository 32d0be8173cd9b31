"""Runs work over a block in slices that fit the device; smaller ones after it was full.

Slices are whole sub-blocks, so that float sums do not depend on their size.
"""

import threading
from collections.abc import Callable

import torch

from core.merge.kernels.layout import SUB_BLOCK
from core.merge.on_torch.device import GIB, DeviceLost, describe, first_line
from core.merge.on_torch.lanes import GAPS, LANES, STAGING_BYTES, Lane, Lanes

LARGEST = 2 * GIB
"""Device memory for a slice: beyond some million elements larger ones are no faster."""
ON_CPU = 256 << 20

Work = Callable[[Lane, int, int], bool]
"""Called with the position and length of a slice; True ends the block. It must leave nothing behind when it raises."""


class Slices:
    """Slices of blocks on one device, from any number of threads."""

    def __init__(self, device: torch.device, memory: int | None = None) -> None:
        """`memory`, in bytes, is for each slice; default: a share of what is free."""
        self._device = device
        try:
            self._memory = memory or _share(device)
            self._lanes = Lanes(device)
        except (RuntimeError, AssertionError) as problem:  # the latter from a torch without CUDA
            raise DeviceLost(f"{device} cannot be used: {first_line(problem)}") from None
        self._lock = threading.Lock()

    def for_each(self, n: int, per_element: int, staged: int, work: Work) -> None:
        """Work on n elements in order; each takes `per_element` bytes of the device, and `staged` ones of a lane.

        Raises DeviceLost when one sub-block does not fit, or the device fails.
        """
        with self._lanes.borrow() as lane:
            start = 0
            while start < n:
                size = min(n - start, self._largest(per_element, staged))
                done = self._attempt(lane, start, size, staged, work)
                if done is None:
                    self._shrink(size, per_element)
                    continue
                if done:
                    return
                start += size

    def _attempt(self, lane: Lane, start: int, size: int, staged: int, work: Work) -> bool | None:
        """What the work said; None when the device was full."""
        try:
            lane.begin(staged * size)
            return work(lane, start, size)
        except torch.OutOfMemoryError:
            pass
        except RuntimeError as problem:
            if self._device.type != "cuda":
                raise
            raise DeviceLost(f"{self._device} stopped working: {first_line(problem)}") from None
        # Only here has the exception let go of the tensors of the failed slice.
        try:
            lane.finish()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
        except RuntimeError as problem:
            raise DeviceLost(f"{self._device} stopped working: {first_line(problem)}") from None
        return None

    def _largest(self, per_element: int, staged: int) -> int:
        fitting = min(self._memory // per_element, (STAGING_BYTES - GAPS) // staged)
        return max(SUB_BLOCK, fitting // SUB_BLOCK * SUB_BLOCK)

    def _shrink(self, size: int, per_element: int) -> None:
        """Halve the slices, after one of so many elements did not fit."""
        if size <= SUB_BLOCK:
            where = describe(str(self._device))
            need = size * per_element >> 20
            raise DeviceLost(f"{where} is full: {size:,} elements of every model, about {need} MiB, do not fit.")
        with self._lock:
            self._memory = min(self._memory, size * per_element // 2)


def _share(device: torch.device) -> int:
    if device.type != "cuda":
        return ON_CPU
    free, _ = torch.cuda.mem_get_info(device)
    return min(LARGEST, free // (2 * LANES))
