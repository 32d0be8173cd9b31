"""Ways of a block onto a torch device and back: a stream and page-locked staging memory each.

Threads borrow a lane for a block. What one lane copies overlaps with what another computes and with what other
threads read from disk; a lane's own copies and operations run in order. A device that shares the host's memory
copies nothing.
"""

import contextlib
from collections.abc import Iterator
from queue import SimpleQueue

import numpy as np
import torch
from torch import Tensor

LANES = 3
"""Blocks on the device at a time: one comes, one is worked on, one goes."""
STAGING_BYTES = 64 << 20
"""Page-locked memory of a lane, a power of two as torch rounds up to one; more only where a sub-block is larger."""
ALIGNED = 64
GAPS = 1 << 16
"""Bytes that aligning the rows may waste: enough for a thousand of them."""


class Lane:
    """One of them. Used by one thread at a time, inside `Lanes.borrow`."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._cuda = device.type == "cuda"
        self.stream = torch.cuda.Stream(device) if self._cuda else None
        self._staging = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def begin(self, nbytes: int) -> None:
        """Begin a slice that stages so many bytes; nothing of an earlier one may still be on its way."""
        self._used = 0
        if self._cuda and self._staging.numel() < nbytes + GAPS:
            self._staging = torch.empty(max(STAGING_BYTES, nbytes + GAPS), dtype=torch.uint8, pin_memory=True)

    def send(self, host: np.ndarray) -> Tensor:
        """A contiguous integer array on the device; on the CPU a view of it, to be left unchanged."""
        there = torch.from_numpy(host)
        if not self._cuda:
            return there
        if not there.is_pinned():
            there = self._room(there.dtype, there.numel()).copy_(there)
        return there.to(self.device, non_blocking=True)

    def bring(self, values: Tensor) -> Tensor:
        """Start a copy to the host; its contents are there after `finish`."""
        if not self._cuda:
            return values
        return self._room(values.dtype, values.numel()).copy_(values, non_blocking=True)

    def finish(self) -> None:
        """Wait for everything that this lane was asked for."""
        if self.stream is not None:
            self.stream.synchronize()

    def _room(self, dtype: torch.dtype, n: int) -> Tensor:
        begin, size = self._used, n * dtype.itemsize
        self._used = -(-(begin + size) // ALIGNED) * ALIGNED
        return self._staging[begin : begin + size].view(dtype)


class Lanes:
    """The lanes of a device."""

    def __init__(self, device: torch.device) -> None:
        self._free: SimpleQueue[Lane] = SimpleQueue()
        for _ in range(LANES):
            self._free.put(Lane(device))

    @contextlib.contextmanager
    def borrow(self) -> Iterator[Lane]:
        """A lane for this thread, whose torch operations go to the lane's stream; waits until one is free."""
        lane = self._free.get()
        try:
            with torch.inference_mode(), torch.cuda.stream(lane.stream) if lane.stream else contextlib.nullcontext():
                yield lane
        finally:
            self._free.put(lane)
