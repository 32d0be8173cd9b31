"""How alike two behaviour vectors are where some scores are missing: over the tasks that both have.

Takes score matrices with NaN in the gaps; gives rows of similarities like `similarity.py`, whose formulas these are.
"""

from collections.abc import Callable

import numpy as np

from core.errors import RecipeError
from core.recipe.model import Similarity
from core.recipe.similarity import KINDS, SimilarityRows


class MaskedSimilarityRows(SimilarityRows):
    """Rows of the similarity matrix of `vectors` with gaps, each computed once.

    Two checkpoints without a common task, and one that scores 0 on all they have in common, have similarity 0.
    """

    def __init__(self, vectors: np.ndarray, kind: Similarity) -> None:
        """Take `vectors`, shape (checkpoints, tasks), NaN where missing; raise RecipeError for an unknown kind."""
        if kind not in KINDS:
            raise RecipeError(f"unknown similarity {kind!r}. Expected one of {', '.join(KINDS)}.")
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float64)
        self.kind = kind
        self._has = np.isfinite(self.vectors)
        self._filled = np.where(self._has, self.vectors, 0.0)
        self._ones = self._has.astype(np.float64)
        self._squares = self._filled**2
        self._zero = np.logical_not(self._filled.any(axis=1))
        self._known = {}
        rows: dict[Similarity, Callable[[int], np.ndarray]] = {
            "cosine": self._cosine,
            "pearson": self._pearson,
            "jaccard": self._jaccard,
            "agreement": self._agreement,
        }
        self._row = rows[kind]

    def _sums(self, index: int) -> tuple[np.ndarray, ...]:
        """Over common tasks with `index`: their number, Σa, Σb, Σa², Σb², Σab; each of shape (checkpoints,)."""
        mine, here = self._filled[index], self._ones[index]
        rows, ones = self._filled, self._ones
        return ones @ here, rows @ here, ones @ mine, self._squares @ here, ones @ mine**2, rows @ mine

    def _cosine(self, index: int) -> np.ndarray:
        _, _, _, aa, bb, ab = self._sums(index)
        return _ratio(ab, np.sqrt(aa * bb), low=0.0)

    def _pearson(self, index: int) -> np.ndarray:
        n, a, b, aa, bb, ab = self._sums(index)
        # Spreads of constant vectors are zero but for rounding, which must not be divided by.
        least = 1e-12 * np.maximum(n, 1) ** 2
        spread_a, spread_b = n * aa - a**2, n * bb - b**2
        spread_a[spread_a <= least], spread_b[spread_b <= least] = 0.0, 0.0
        return _ratio(n * ab - a * b, np.sqrt(spread_a * spread_b), low=-1.0)

    def _jaccard(self, index: int) -> np.ndarray:
        both = self._has & self._has[index]
        shared = np.where(both, np.minimum(self._filled, self._filled[index]), 0.0).sum(axis=1)
        union = np.where(both, np.maximum(self._filled, self._filled[index]), 0.0).sum(axis=1)
        return _ratio(shared, union, low=0.0)

    def _agreement(self, index: int) -> np.ndarray:
        both = self._has & self._has[index]
        apart = np.where(both, np.abs(self._filled - self._filled[index]), 0.0).sum(axis=1)
        count = both.sum(axis=1).astype(np.float64)
        _, a, b, *_ = self._sums(index)
        return np.where((a == 0) | (b == 0), 0.0, _ratio(count - apart, count, low=0.0))


def rows_of(scores: np.ndarray, kind: Similarity) -> SimilarityRows:
    """Rows of similarities of `scores` (checkpoints, tasks), which may have gaps."""
    return (MaskedSimilarityRows if np.isnan(scores).any() else SimilarityRows)(scores, kind)


def means_of(scores: np.ndarray) -> np.ndarray:
    """Mean of each row over the tasks it has, float64, shape (checkpoints,); 0 where it has none."""
    has = np.isfinite(scores)
    if has.all():
        return np.asarray(scores.mean(axis=1))
    return np.asarray(np.where(has, scores, 0.0).sum(axis=1) / np.maximum(has.sum(axis=1), 1))


def _ratio(over: np.ndarray, under: np.ndarray, *, low: float) -> np.ndarray:
    """The quotient in [low, 1]; 0 where the divisor is 0."""
    return np.clip(np.where(under == 0, 0.0, over / np.where(under == 0, 1.0, under)), low, 1.0)
