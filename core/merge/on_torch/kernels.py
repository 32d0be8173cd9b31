"""`TorchKernels`: the block operations of `core.merge.kernels` on a torch device, with the same results.

Takes and fills numpy arrays in host memory, as the compiled ones do; may be called from any number of threads.
What comes out has the same bits as theirs, as long as inputs and results are finite: NaN has many patterns, and
devices differ in which they make. What is not finite is counted alike, and no merge goes on with it.
"""

# ruff: noqa: PLR0917 -- called as the compiled kernels are: by position

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from core.merge import kernels
from core.merge.kernels import Figures, Rows, Rule
from core.merge.kernels.bits import F32
from core.merge.on_torch import threshold
from core.merge.on_torch.bits import widen
from core.merge.on_torch.lanes import Lane
from core.merge.on_torch.merge import Constants, Slice, merge_slice
from core.merge.on_torch.slices import Slices
from core.merge.on_torch.tally import Tally

MERGING, A_MEMBER = 128, 6
"""Device memory of a merge, bytes an element: all that does not grow with the members, and what each one adds.

Measured at the peak: 118 in all with 5 members, 160 with 20; what is left is for the allocator's gaps.
"""
COUNTING = 48

OnMagnitudes = Callable[[int, Tensor, Tally], None]
"""Called with a member, its |δ| patterns in a slice, and where to put counts."""


class TorchKernels:
    """Block operations on one device. Every method raises DeviceLost when the device is full or fails."""

    def __init__(self, device: str, *, memory: int | None = None) -> None:
        """`device` as torch names it; `memory` bounds the device memory of a slice of a block, in bytes."""
        self.device = torch.device(device)
        self._slices = Slices(self.device, memory)
        self._table = torch.from_numpy(kernels.HALF_TO_FLOAT.view(np.int32)).to(self.device)

    def merge_block(
        self,
        rows: Rows,
        n: int,
        rule: Rule,
        thresholds: np.ndarray,
        cutoffs: np.ndarray,
        out: np.ndarray,
        figures: Figures,
        /,
    ) -> None:
        """See `core.merge.kernels.merge_block`."""

        def work(lane: Lane, start: int, size: int) -> bool:
            tally, constants = Tally(), Constants.of(rule, self.device)

            def load(row: int) -> Tensor:
                return self._load(lane, rows, row, start, size)

            limits, kept_before = thresholds.tolist(), (cutoffs - start).tolist()
            part = Slice(load, start, rule, constants, limits, kept_before, figures, tally)
            merged = lane.bring(merge_slice(part))
            tally.commit()
            lane.finish()
            out[start : start + size] = merged.numpy().view(np.uint32)
            return False

        members = rule.weights.size
        staged = sum(map(_item_size, rows.codes)) + out.itemsize
        self._slices.for_each(n, MERGING + A_MEMBER * members, staged, work)

    def count_window(
        self,
        rows: Rows,
        n: int,
        wanted: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        counts: np.ndarray,
        found: np.ndarray,
        /,
    ) -> None:
        """See `core.merge.kernels.count_window`."""

        def count(member: int, size: Tensor, tally: Tally) -> None:
            window = int(low[member]), int(high[member])
            threshold.count_window(size, window, counts[member], found[member], tally)

        self._count(rows, n, np.flatnonzero(wanted), count)

    def count_high(self, rows: Rows, n: int, counts: np.ndarray, /) -> None:
        """See `core.merge.kernels.count_high`."""

        def count(member: int, size: Tensor, tally: Tally) -> None:
            threshold.count_high(size, counts[member], tally)

        self._count(rows, n, np.arange(counts.shape[0]), count)

    def count_low(self, rows: Rows, n: int, high: np.ndarray, counts: np.ndarray, /) -> None:
        """See `core.merge.kernels.count_low`."""

        def count(member: int, size: Tensor, tally: Tally) -> None:
            threshold.count_low(size, int(high[member]), counts[member], tally)

        self._count(rows, n, np.flatnonzero(high >= 0), count)

    def find_tie(self, rows: Rows, n: int, member: int, bits: np.uint32, wanted: int, /) -> tuple[int, int]:
        """See `core.merge.kernels.find_tie`."""
        position, left = -1, wanted

        def work(lane: Lane, start: int, size: int) -> bool:
            nonlocal position, left
            base = self._load(lane, rows, 0, start, size)
            sizes = threshold.magnitudes(base, self._load(lane, rows, member + 1, start, size))
            at, left = threshold.find_tie(sizes, int(bits), left)
            position = start + at if left == 0 else -1
            return left == 0

        self._slices.for_each(n, COUNTING, _item_size(rows.codes[0]) + _item_size(rows.codes[member + 1]), work)
        return position, left

    def sample_magnitudes(self, rows: Rows, stride: int, found: np.ndarray, /) -> None:
        """The compiled one: it looks at a few thousand elements, which lie in host memory."""
        kernels.sample_magnitudes(rows, stride, found)

    def narrow_bf16(self, bits: np.ndarray, n: int, out: np.ndarray, /) -> int:
        """The compiled one: the merged block lies in host memory, and to copy it takes longer than to round it."""
        return int(kernels.narrow_bf16(bits, n, out))

    def _count(self, rows: Rows, n: int, members: np.ndarray, count: OnMagnitudes) -> None:
        """Give every slice's |δ| patterns of some members to `count`, one member after the other."""

        def work(lane: Lane, start: int, size: int) -> bool:
            tally = Tally()
            base = self._load(lane, rows, 0, start, size)
            for member in members.tolist():
                value = self._load(lane, rows, member + 1, start, size)
                count(member, threshold.magnitudes(base, value), tally)
            tally.commit()
            lane.finish()
            return False

        if members.size:
            staged = _item_size(rows.codes[0]) + sum(map(_item_size, rows.codes[members + 1]))
            self._slices.for_each(n, COUNTING + A_MEMBER * members.size, staged, work)

    def _load(self, lane: Lane, rows: Rows, row: int, start: int, n: int) -> Tensor:
        """Elements start … start+n of a row, widened: int32 fp32 bit patterns on the device."""
        code = int(rows.codes[row])
        raw = rows.raw32[row].view(np.int32) if code == F32 else rows.raw16[row].view(np.int16)
        return widen(lane.send(raw[start : start + n]), code, self._table)


def _item_size(code: int) -> int:
    return 4 if code == F32 else 2
