"""Which blocks of a list of tensors to look at, and what they say of the whole, with an interval.

All blocks where the tensors are small enough; else random ones of every tensor (seeded), and ratios of totals
estimated from them. Reads nothing.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.stats.student import t_quantile

WHOLE, PART = 16_384, 4_096
"""Elements of a block where everything is looked at, and where blocks are sampled."""
FEWEST = 4
"""Blocks of a tensor that is not read whole."""


@dataclass(frozen=True)
class Share:
    """A ratio of totals over all elements."""

    value: float
    low: float
    high: float
    """95 % interval; all three alike where everything was looked at."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks to look at; (n,) arrays."""

    tensor: np.ndarray
    start: np.ndarray
    size: np.ndarray
    of: np.ndarray
    """int64 (tensors,): blocks that each tensor has."""
    taken: np.ndarray
    """int64 (tensors,): blocks looked at."""

    @property
    def exact(self) -> bool:
        """Whether nothing is left out."""
        return bool((self.taken == self.of).all())

    @property
    def weight(self) -> np.ndarray:
        """(n,): how many blocks each stands for."""
        return (self.of / np.maximum(self.taken, 1))[self.tensor]

    def total(self, values: np.ndarray) -> float:
        """Estimate of a sum over all blocks from those looked at, float64 (n,)."""
        return math.fsum((self.weight * values).tolist())

    def share(self, above: np.ndarray, below: np.ndarray) -> Share:
        """Σ above / Σ below over all blocks, by the ratio estimator of stratified sampling (Cochran, ch. 6)."""
        whole = self.total(below)
        if whole == 0:
            return Share(math.nan, math.nan, math.nan)
        value = self.total(above) / whole
        if self.exact:
            return Share(value, value, value)
        rest, variances, freedom = above - value * below, [], []
        for tensor in np.flatnonzero(self.taken < self.of):
            mine = rest[self.tensor == tensor]
            n, of = int(self.taken[tensor]), int(self.of[tensor])
            variances.append(of * of * (1 - n / of) * float(np.var(mine, ddof=1)) / n)
            freedom.append(n - 1)
        half = _half_width(np.array(variances), np.array(freedom)) / abs(whole)
        return Share(value, value - half, value + half)


def _half_width(variances: np.ndarray, freedom: np.ndarray) -> float:
    """Half of a 95 % interval of a sum of independent means, by Student's t with Satterthwaite's degrees of freedom."""
    total = float(variances.sum())
    if total == 0:
        return 0.0
    degrees = total**2 / float((variances**2 / freedom).sum())
    return t_quantile(max(1, int(degrees))) * math.sqrt(total)


def choose(names: Sequence[str], elements: Sequence[int], *, limit: int, seed: int) -> Blocks:
    """All blocks of tensors of together at most `limit` elements, else about `limit` elements at random.

    Every tensor gives at least four blocks, or all it has; the same seed chooses the same.
    """
    whole = sum(elements)
    block = WHOLE if whole <= limit else PART
    tensor, start, size, of, taken = [], [], [], [], []
    for at, (name, count) in enumerate(zip(names, elements, strict=True)):
        blocks = -(-count // block)
        some = blocks if whole <= limit else min(blocks, max(FEWEST, round(blocks * limit / whole)))
        chosen = np.arange(blocks)
        if some < blocks:
            rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
            chosen = np.sort(rng.choice(blocks, some, replace=False))
        tensor.append(np.full(some, at))
        start.append(chosen * block)
        size.append(np.minimum(block, count - chosen * block))
        of.append(blocks)
        taken.append(some)
    empty = [np.zeros(0, np.int64)]
    tensors, starts, sizes = (np.concatenate(empty + one) for one in (tensor, start, size))
    return Blocks(tensors, starts, sizes, np.array(of, np.int64), np.array(taken, np.int64))
