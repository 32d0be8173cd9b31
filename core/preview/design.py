"""Which blocks of which tensors a preview reads: a stratified cluster sample within a budget of bytes.

Every tensor is a stratum and every run of `block` neighbouring elements a sampling unit, since weights are
alike within rows and columns; blocks are drawn without replacement, each with the same chance. Small tensors
are taken whole. Takes sizes and a seed; reads nothing.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.errors import InputError
from core.merge.blocks import SUB_BLOCK

BLOCKS = (2048, 1024, 512, 256, 128, 64)
"""Elements a block may have: the largest is taken that leaves `WANTED` blocks a tensor."""
WANTED, FEWEST = 10, 4
"""Blocks of a tensor that is not taken whole: wished for, and at least."""
NEARLY_WHOLE = 0.8
"""From this share of its blocks on, a tensor is taken whole."""


@dataclass(frozen=True, eq=False)
class Design:
    """The blocks of a sample, tensor by tensor and in order of position; n is their number."""

    block: int
    """Elements of a block; a tensor's last one may have fewer."""
    elements: np.ndarray
    """int64 (tensors,): elements of each tensor."""
    taken: np.ndarray
    """int64 (tensors,): blocks of it that are read."""
    blocks: np.ndarray
    """int64 (tensors,): blocks that it has."""
    numbers: np.ndarray
    """int64 (n,): which block of its tensor."""

    @property
    def tensor(self) -> np.ndarray:
        """int64 (n,): the tensor of each block."""
        return np.repeat(np.arange(self.taken.size), self.taken)

    @property
    def first(self) -> np.ndarray:
        """int64 (tensors,): each tensor's first place among the n blocks."""
        return np.cumsum(self.taken) - self.taken

    @property
    def sizes(self) -> np.ndarray:
        """int64 (n,): elements of each block."""
        return np.minimum(self.block, self.elements[self.tensor] - self.numbers * self.block)

    @property
    def exact(self) -> np.ndarray:
        """bool (tensors,): whether the tensor is read whole."""
        return self.taken == self.blocks


def draw(
    names: Sequence[str], elements: np.ndarray, cost: np.ndarray, *, budget: int, seed: int, block: int | None = None
) -> Design:
    """Choose blocks at random. `elements` and `cost` (bytes of one element over all models) are int64 (tensors,).

    The blocks of a tensor depend on the seed, its name and how many are taken, not on the other tensors.
    Raises InputError when even the fewest blocks do not fit `budget` bytes, and for a `block` (elements) out of range.
    """
    if block is not None and not 1 <= block <= SUB_BLOCK:
        raise InputError(f"a block has from 1 to {SUB_BLOCK:,} elements, found {block}.")
    size, taken = _allocate(elements, cost, budget, (block,) if block else BLOCKS)
    blocks = -(-elements // size)
    numbers = []
    for name, some, whole in zip(names, taken.tolist(), blocks.tolist(), strict=True):
        if some == whole:
            numbers.append(np.arange(whole))
            continue
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        numbers.append(np.sort(rng.choice(whole, some, replace=False, shuffle=False)))
    return Design(size, elements, taken, blocks, np.concatenate(numbers) if numbers else np.zeros(0, np.int64))


def _allocate(elements: np.ndarray, cost: np.ndarray, budget: int, sizes: Sequence[int]) -> tuple[int, np.ndarray]:
    """The block size, and how many blocks of each tensor."""
    best: tuple[int, np.ndarray] | None = None
    for size in sizes:
        blocks = -(-elements // size)
        taken = _fit(elements, blocks, cost, budget, size)
        if taken is None:
            continue
        best = size, taken
        sampled = taken[taken < blocks]
        if not sampled.size or (sampled.min() >= WANTED // 2 and sampled.mean() >= WANTED):
            break
    if best is None:
        least = int((np.minimum(elements, FEWEST * sizes[-1]) * cost).sum())
        raise InputError(
            f"the budget of {budget:,} bytes is too small for {elements.size} tensors of these models. "
            f"Expected at least {least:,}."
        )
    return best


def _fit(elements: np.ndarray, blocks: np.ndarray, cost: np.ndarray, budget: int, size: int) -> np.ndarray | None:
    """Blocks of each tensor: half of the budget evenly, half by size; None when the fewest do not fit."""
    aim = float(budget)
    for _ in range(40):
        even = _even(elements, cost, aim / 2)
        rest = aim - float((np.minimum(elements, even) * cost).sum())
        larger = np.where(elements > even, elements, 0)
        share = rest / max(float((larger * cost).sum()), 1.0)
        taken = np.maximum(np.floor((np.minimum(elements, even) + share * larger) / size).astype(np.int64), FEWEST)
        taken = np.where(taken >= NEARLY_WHOLE * blocks, blocks, taken)
        if int((np.minimum(taken * size, elements) * cost).sum()) <= budget:
            return taken
        aim *= 0.93
    return None


def _even(elements: np.ndarray, cost: np.ndarray, budget: float) -> float:
    """The most elements that can be read of every tensor alike (or all of it) within a budget."""
    low, high = 0.0, float(elements.max(initial=0))
    for _ in range(50):
        middle = (low + high) / 2
        if float((np.minimum(elements, middle) * cost).sum()) <= budget:
            low = middle
        else:
            high = middle
    return low if low < high * (1 - 1e-9) or high == 0 else high
