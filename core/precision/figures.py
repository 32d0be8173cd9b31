"""What bf16 rounding loses, as figures: the row of one tensor, and the total of many.

Takes counts and float64 partial sums; gives `RoundingRow`s. The same for a merge's own pass and for two
finished folders. Reads no file.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class RoundingRow:
    """What casting m (fp32) to bf16 loses against the base b, over one tensor or many."""

    name: str
    elements: int
    changed: int
    """Elements with m ≠ b."""
    lost: int
    """Changed elements with bf16(m) = bf16(b)."""
    lost_fraction: float
    """lost / changed; 0 when nothing changed."""
    relative_l2: float
    """‖bf16(m) − m‖ / ‖m − b‖; 0 when nothing changed."""
    cosine: float
    """Of m − b and bf16(m) − bf16(b): 1 when nothing changed, 0 when everything was lost."""
    merged_norm: float
    """‖m − b‖."""
    base_norm: float
    """‖b‖."""
    histogram: tuple[int, ...]
    """Changed elements by |m − b| in half bf16 ulps of b: bin i holds [2^(i−12), 2^(i−11)), the first and
    last of the 24 are open."""

    def as_dict(self) -> dict[str, Any]:
        """Plain dict for JSON."""
        return asdict(self) | {"histogram": list(self.histogram)}


@dataclass(frozen=True, eq=False)
class RoundingSums:
    """Exact counts and float64 sums from which a row is made; rows of many tensors add up."""

    elements: int
    changed: int
    lost: int
    sums: tuple[float, ...]
    """Of (m−b)², (bf16(m)−m)², (m−b)(bf16(m)−bf16(b)), (bf16(m)−bf16(b))², b²."""
    histogram: np.ndarray
    """int64, shape (24,)."""

    def row(self, name: str) -> RoundingRow:
        """The figures under a name."""
        moved, error, product, kept, base = self.sums
        cosine = min(1.0, product / math.sqrt(moved * kept)) if moved * kept > 0 else 0.0
        return RoundingRow(
            name,
            self.elements,
            self.changed,
            self.lost,
            self.lost / self.changed if self.changed else 0.0,
            math.sqrt(error / moved) if self.changed and moved > 0 else 0.0,
            cosine if self.changed else 1.0,
            math.sqrt(moved),
            math.sqrt(base),
            tuple(int(count) for count in self.histogram),
        )


def sums_of_blocks(
    elements: int, changed: int, lost: int, blocks: Sequence[np.ndarray], bins: np.ndarray
) -> RoundingSums:
    """One tensor's sums from the partial sums of its sub-blocks.

    `blocks` are float64 arrays (sub-blocks, 5); `bins` int64 (any, 25), the last column left out. The sums
    are correctly rounded, so they do not depend on how the sub-blocks were grouped.
    """
    partial = np.concatenate(blocks) if blocks else np.zeros((0, 5))
    return RoundingSums(
        elements, changed, lost, tuple(math.fsum(column) for column in partial.T), bins.sum(axis=0)[:-1]
    )


def add_up(parts: Iterable[RoundingSums]) -> RoundingSums:
    """The sums over several tensors; independent of their order."""
    rows = list(parts)
    return RoundingSums(
        sum(one.elements for one in rows),
        sum(one.changed for one in rows),
        sum(one.lost for one in rows),
        tuple(math.fsum(one.sums[index] for one in rows) for index in range(5)),
        sum((one.histogram for one in rows), np.zeros(24, np.int64)),
    )
