"""How alike two behaviour vectors are: cosine, Pearson, Jaccard, agreement; row by row, lazily.

Takes score matrices and gives similarities; knows nothing about picking. A row is computed when it
is first asked for, because MMR needs only the rows of its picks.
"""

from collections.abc import Callable

import numpy as np

from core.errors import RecipeError
from core.recipe.model import Similarity

KINDS: tuple[Similarity, ...] = ("cosine", "pearson", "jaccard", "agreement")
# Elements in one temporary of the Jaccard and agreement rows: 4 MB of float64.
_BLOCK = 1 << 19


class SimilarityRows:
    """Rows of the similarity matrix of `vectors`, each computed once.

    An all-zero vector has similarity 0 to everything, itself included, whatever the kind; so has a
    constant vector under Pearson, where the formula divides by 0. Rows are float64 and read-only.
    """

    def __init__(self, vectors: np.ndarray, kind: Similarity) -> None:
        """Take `vectors`, shape (checkpoints, tasks); raise RecipeError for NaN or an unknown kind."""
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float64)
        if self.vectors.ndim != 2:
            raise RecipeError(f"expected scores of shape (checkpoints, tasks), found {self.vectors.shape}.")
        self.kind = kind
        self._row = _row_function(self.vectors, kind)
        self._zero: np.ndarray = np.logical_not(self.vectors.any(axis=1))
        self._known: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.vectors)

    def __call__(self, index: int) -> np.ndarray:
        """Similarity of vector `index` to every vector, shape (checkpoints,)."""
        row = self._known.get(index)
        if row is None:
            row = np.zeros(len(self)) if self._zero[index] else np.where(self._zero, 0.0, self._row(index))
            row.flags.writeable = False
            self._known[index] = row
        return row


def similarity_matrix(vectors: np.ndarray, kind: Similarity) -> np.ndarray:
    """Similarity of every pair: float64, shape (checkpoints, checkpoints), symmetric to rounding.

    `vectors` has shape (checkpoints, tasks). For scores in [0, 1], every kind but Pearson lies in
    [0, 1]; Pearson lies in [-1, 1]. On 0/1 scores Pearson is the phi coefficient.
    """
    rows = SimilarityRows(vectors, kind)
    return np.stack([rows(index) for index in range(len(rows))]) if len(rows) else np.zeros((0, 0))


def _row_function(vectors: np.ndarray, kind: Similarity) -> Callable[[int], np.ndarray]:
    with np.errstate(invalid="ignore"):
        total = vectors.sum(axis=1)
    if not np.isfinite(total).all():
        row = int(np.flatnonzero(~np.isfinite(total))[0])
        raise RecipeError(f"scores of checkpoint {row} contain NaN or infinity. Expected numbers in [0, 1].")
    if kind not in KINDS:
        raise RecipeError(f"unknown similarity {kind!r}. Expected one of {', '.join(KINDS)}.")
    bits = _bits(vectors)
    if bits is not None:
        return _from_counts(bits, total, vectors.shape[1], kind)
    if kind == "cosine":
        return _cosine(vectors, low=0.0 if vectors.min(initial=0.0) >= 0 else -1.0)
    if kind == "pearson":
        return _pearson(vectors)
    return _jaccard(vectors, total) if kind == "jaccard" else _agreement(vectors)


def _bits(vectors: np.ndarray) -> np.ndarray | None:
    """0/1 scores as 64-bit words, shape (checkpoints, words), padded with 0; None for other scores."""
    rows, columns = vectors.shape
    packed = np.zeros((rows, -(-columns // 64) * 8), dtype=np.uint8)
    step = max(1, _BLOCK // max(1, columns))
    for at in range(0, rows, step):
        block = vectors[at : at + step]
        solved = block != 0
        if not np.array_equal(block, solved):
            return None
        packed[at : at + step, : -(-columns // 8)] = np.packbits(solved, axis=1)
    return packed.view(np.uint64)


def _from_counts(bits: np.ndarray, total: np.ndarray, tasks: int, kind: Similarity) -> Callable[[int], np.ndarray]:
    """Every kind from whole counts of tasks solved by one and by both: exact but for the last division.

    With 1/64 of the bytes of float64 this is also the quick way; four-fold tables give the formulas.
    """
    spread = np.sqrt(tasks * total - total**2)

    def row(index: int) -> np.ndarray:
        both = np.bitwise_count(bits & bits[index]).sum(axis=1, dtype=np.int64).astype(np.float64)
        mine = total[index]
        if kind == "agreement":
            return 1.0 - (total + mine - 2 * both) / tasks
        over = {
            "cosine": np.sqrt(total * mine),
            "pearson": spread * spread[index],
            "jaccard": total + mine - both,
        }[kind]
        shared = tasks * both - total * mine if kind == "pearson" else both
        return np.clip(shared / np.where(over == 0, 1.0, over), -1.0, 1.0)

    return row


def _cosine(vectors: np.ndarray, low: float) -> Callable[[int], np.ndarray]:
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    norms[norms == 0] = 1.0
    return lambda index: np.clip((vectors @ vectors[index]) / (norms * norms[index]), low, 1.0)


def _pearson(vectors: np.ndarray) -> Callable[[int], np.ndarray]:
    """Cosine of the centred vectors; a vector whose entries are all equal is centred to exact zeros."""
    centred = vectors - vectors.mean(axis=1, keepdims=True)
    centred[vectors.min(axis=1) == vectors.max(axis=1)] = 0.0
    return _cosine(centred, low=-1.0)


def _jaccard(vectors: np.ndarray, total: np.ndarray) -> Callable[[int], np.ndarray]:
    """Σ min(a, b) / Σ max(a, b): shared over all solved, for 0/1 scores."""

    def row(index: int) -> np.ndarray:
        shared = _by_blocks(vectors, lambda block: np.minimum(block, vectors[index]).sum(axis=1))
        union = total + total[index] - shared
        return np.clip(shared / np.where(union == 0, 1.0, union), 0.0, 1.0)

    return row


def _agreement(vectors: np.ndarray) -> Callable[[int], np.ndarray]:
    """1 − mean |a − b|: the share of tasks with the same outcome, for 0/1 scores."""

    def row(index: int) -> np.ndarray:
        return 1.0 - _by_blocks(vectors, lambda block: np.abs(block - vectors[index]).mean(axis=1))

    return row


def _by_blocks(vectors: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply a row-wise function to a few rows at a time, so that its temporaries stay small."""
    step = max(1, _BLOCK // max(1, vectors.shape[1]))
    return np.concatenate([function(vectors[at : at + step]) for at in range(0, len(vectors), step)])
