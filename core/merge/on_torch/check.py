"""A small merge on a device and on the CPU, compared bit by bit, before a merge is trusted to the device.

It holds what could differ: all input dtypes, subnormals, cancelling and tied deltas, weights of both signs, a trim
in the middle, more than one sub-block and a last one that is not full.
"""

from typing import NamedTuple

import numpy as np

from core.merge import kernels
from core.merge.kernels import Figures, Rows, Rule
from core.merge.kernels.bits import BF16, F16, F32
from core.merge.kernels.layout import SUB_BLOCK
from core.merge.on_torch.device import DeviceLost
from core.merge.on_torch.protocol import Kernels

MEMBERS = 4
ELEMENTS = SUB_BLOCK + 700


class Merged(NamedTuple):
    """What a merge of one block gives."""

    bits: np.ndarray
    figures: Figures

    def equals(self, other: "Merged") -> bool:
        """To the bit, in the result and in every figure."""
        pairs = zip((self.bits, *self.figures), (other.bits, *other.figures), strict=True)
        return all(one.tobytes() == two.tobytes() for one, two in pairs)


def check(device: Kernels) -> None:
    """Raise DeviceLost where a device's merge differs from the CPU's."""
    rows = rows_to_try()
    for method, divide_by in ((kernels.TIES, 1.0), (kernels.TASK_ARITHMETIC, 0.9)):
        weights = np.array([0.456, 0.31, -0.309, 0.002], np.float32)
        rule = Rule(method, weights, np.float32(divide_by), np.float32(0.7), True)
        on_cpu, there = (_merge(one, rows, rule) for one in (kernels, device))
        if not on_cpu.equals(there):
            raise DeviceLost(
                "The GPU's arithmetic differs from the CPU's on a test block. Expected equal bits; found others: "
                "this GPU and this build of torch cannot be used for merging."
            )


def _merge(one: Kernels, rows: Rows, rule: Rule) -> Merged:
    out, figures = np.empty(ELEMENTS, np.uint32), Figures.zeros(MEMBERS, ELEMENTS)
    tiny = np.array([2**-7, 2**-9, 2**-8, 0], np.float32).view(np.uint32)
    one.merge_block(rows, ELEMENTS, rule, tiny, np.array([0, 1000, ELEMENTS, 0]), out, figures)
    return Merged(out, figures)


def rows_to_try() -> Rows:
    """A base in fp32 and members in every dtype, whose deltas are small multiples of a power of two, or subnormal."""
    random = np.random.default_rng(0)
    raw = np.zeros((MEMBERS + 1, 4 * ELEMENTS), np.uint8)
    rows = Rows(raw.view(np.uint16), raw.view(np.uint32), np.array([F32, BF16, F16, F32, F32]), kernels.HALF_TO_FLOAT)
    base = (random.integers(-8, 8, ELEMENTS) * 2.0**-6).astype(np.float32)
    base[::5] = np.float32(3e-40)
    for row, code in enumerate(rows.codes):
        step = np.float32(2.0**-9) * random.integers(-9, 10, ELEMENTS).astype(np.float32) * np.float32(row > 0)
        values = base + np.where(random.random(ELEMENTS) < 0.3, step, np.float32(0)).astype(np.float32)
        if code == F32:
            noise = random.standard_normal(ELEMENTS).astype(np.float32) * np.float32(1e-3 * (row > 2))
            rows.raw32[row] = np.where(random.random(ELEMENTS) < 0.5, values, values + noise).view(np.uint32)
        elif code == BF16:
            rows.raw16[row, :ELEMENTS] = values.view(np.uint32) >> 16
        else:
            rows.raw16[row, :ELEMENTS] = values.astype(np.float16).view(np.uint16)
    return rows
