"""The exact switch points in λ against MMR itself, on grids, at random λ and at the points.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_switch.py
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.bank import Bank
from core.errors import RecipeError
from core.recipe import Recipe, bank_path, lambda_path, lambda_switch_points, mmr, select, similarity_matrix
from core.recipe.similarity import KINDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(25))
def test_the_path_is_what_mmr_picks_at_every_lambda(kind: Any, seed: int) -> None:
    rng = np.random.default_rng((seed, len(kind)))
    size, tasks = rng.integers(2, 12), rng.integers(3, 40)
    # Short 0/1 vectors tie often, and agreement crosses at simple fractions: the hard cases.
    scores = (rng.random((size, tasks)) < rng.random((size, 1))).astype(float)
    if seed % 5 == 4:
        scores = rng.random((size, tasks))
    q, sim = scores.mean(axis=1), similarity_matrix(scores, kind)
    k = int(rng.integers(1, size + 1))
    order = rng.permutation(size).tolist()
    pin, ban = (order[:1], order[1:2]) if seed % 3 == 2 and 2 <= k < size else ([], [])
    path = lambda_path(q, lambda index: sim[index], k, pin=pin, ban=ban)
    points = [lam for lam, _ in path.points]
    middles = [(one.low + one.high) / 2 for one in path.intervals]
    for lam in (*np.linspace(0, 1, 201), *rng.random(40), *points, *middles):
        assert path.at(float(lam)) == mmr(q, sim, float(lam), k, pin=pin, ban=ban).picks, lam


def test_intervals_cover_0_to_1_and_neighbours_differ(s3_card: Bank) -> None:
    path = bank_path(s3_card, Recipe())
    assert path.intervals[0].low == 0
    assert path.intervals[-1].high == 1
    for left, right in zip(path.intervals, path.intervals[1:], strict=False):
        assert left.high == right.low
        assert left.picks != right.picks


def test_switch_points_are_where_two_candidates_score_the_same(s3_card: Bank) -> None:
    for switch in lambda_switch_points(s3_card, Recipe())[1:]:
        steps = select(s3_card, replace(Recipe(), lam=switch.lam)).trace.steps
        assert any(step.ties or (step.margin is not None and step.margin < 1e-9) for step in steps[1:])


def test_the_recipes_own_lambda_is_looked_up(s3_card: Bank) -> None:
    points = lambda_switch_points(s3_card, Recipe(lam=0.1))
    assert points == lambda_switch_points(s3_card, Recipe(lam=0.9))
    now = [one for one in points if one.lam <= 0.7][-1]
    assert now.picks == tuple(pick.checkpoint for pick in select(s3_card, Recipe()).picks)


def test_one_pick_or_only_pins_never_switch(s3_card: Bank) -> None:
    assert [one.picks for one in lambda_switch_points(s3_card, Recipe(k=1))] == [("270",)]
    pinned = Recipe(k=2, pin=("300", "200"))
    assert [one.picks for one in lambda_switch_points(s3_card, pinned)] == [("300", "200")]


def test_outside_0_to_1_there_is_no_path(s3_card: Bank) -> None:
    with pytest.raises(ValueError, match="λ must be in"):
        bank_path(s3_card, Recipe()).at(1.5)
    with pytest.raises(RecipeError, match="K is 12"):
        lambda_switch_points(s3_card, Recipe(k=12))
