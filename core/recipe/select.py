"""Applies a recipe to a bank: which checkpoints it picks, why, and with what weights.

Takes a `Bank` and a `Recipe`; gives a `Selection`. Reads no files and merges nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from core.bank.model import Bank, Split
from core.recipe.masked import means_of, rows_of
from core.recipe.mmr import MmrTrace, mmr
from core.recipe.model import Recipe, Similarity
from core.recipe.similarity import SimilarityRows
from core.recipe.validate import validate
from core.recipe.weights import effective_members, softmax_weights

# Rows already computed for a split, so that moving a knob does not compute them again. Entries go
# when their split goes. At most 8 bytes times the pool squared for each kind of similarity.
_ROWS: WeakKeyDictionary[Split, dict[Similarity, SimilarityRows]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Pick:
    """One picked checkpoint."""

    checkpoint: str
    order: int
    """1 for the first pick."""
    relevance: float
    """q, the mean of its behaviour vector."""
    max_similarity: float
    """To the earlier picks; 0 for the first."""
    score: float
    """λ·q − (1−λ)·max_similarity when it was picked."""
    margin: float | None
    """Score above the runner-up; 0 at a tie; None for a pin or where nothing else was open."""
    ties: tuple[str, ...]
    """Checkpoints with the same score, which come later in the bank."""
    pinned: bool


@dataclass(frozen=True, eq=False)
class Selection:
    """What a recipe chooses from a bank."""

    recipe: Recipe
    trace: MmrTrace
    picks: tuple[Pick, ...]
    weights: Mapping[str, float]
    """Merge weight of each pick, in pick order; they sum to 1."""
    effective_members: float
    """exp(entropy of the weights)."""
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON values: picks, weights, effective_members, warnings."""
        picks = [
            {
                "checkpoint": one.checkpoint,
                "order": one.order,
                "relevance": one.relevance,
                "max_similarity": one.max_similarity,
                "score": one.score,
                "margin": one.margin,
                "ties": list(one.ties),
                "pinned": one.pinned,
            }
            for one in self.picks
        ]
        return {
            "picks": picks,
            "weights": dict(self.weights),
            "effective_members": self.effective_members,
            "warnings": list(self.warnings),
        }


def relevances(split: Split) -> np.ndarray:
    """q of every checkpoint: mean of its behaviour vector over the tasks it has, float64, shape (checkpoints,)."""
    return means_of(split.scores)


def similarity_rows(split: Split, kind: Similarity) -> SimilarityRows:
    """Rows of the split's similarity matrix, computed when asked for and then kept."""
    by_kind = _ROWS.setdefault(split, {})
    if kind not in by_kind:
        by_kind[kind] = rows_of(split.scores, kind)
    return by_kind[kind]


def select(bank: Bank, recipe: Recipe) -> Selection:
    """Pick and weight checkpoints. Raises RecipeError when the recipe does not fit the bank."""
    validate(recipe, bank)
    split = bank.splits[recipe.split]
    q = relevances(split)
    pin = [bank.index_of(one) for one in recipe.pin]
    ban = [bank.index_of(one) for one in recipe.ban]
    trace = mmr(q, similarity_rows(split, recipe.similarity), recipe.lam, recipe.k, pin=pin, ban=ban)
    ids = [one.id for one in bank.checkpoints]
    picks = tuple(
        Pick(
            checkpoint=ids[step.index],
            order=step.order,
            relevance=float(q[step.index]),
            max_similarity=step.max_similarity,
            score=step.score,
            margin=step.margin,
            ties=tuple(ids[other] for other in step.ties),
            pinned=step.pinned,
        )
        for step in trace.steps
    )
    picked_q = q[list(trace.picks)]
    weights = softmax_weights(picked_q, recipe.tau)
    if recipe.weighting == "uniform":
        weights = np.full(recipe.k, 1.0 / recipe.k)
    return Selection(
        recipe=recipe,
        trace=trace,
        picks=picks,
        weights={pick.checkpoint: float(weight) for pick, weight in zip(picks, weights, strict=True)},
        effective_members=effective_members(weights),
        warnings=_warnings(split, picks, trace),
    )


def _warnings(split: Split, picks: tuple[Pick, ...], trace: MmrTrace) -> tuple[str, ...]:
    said = [
        f"Pick {one.order}: {one.checkpoint} ties with {', '.join(one.ties)}; the earlier in the bank was taken."
        for one in picks
        if one.ties
    ]
    if any((step.candidates.max_similarity < 0).any() for step in trace.steps):
        said.append("Some similarities are negative, so they add to a score instead of taking away from it.")
    said.extend(
        f"Pick {one.order}: {one.checkpoint} scores 0 on every task of {split.name}, so its similarity to all is 0."
        for one in picks
        if one.relevance == 0
    )
    return tuple(said)
