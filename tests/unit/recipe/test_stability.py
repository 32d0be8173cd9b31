"""How stable picks are: cases whose answer is known, and chances that binomials give.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_stability.py
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from core.bank import Bank
from core.errors import InputError, RecipeError
from core.recipe import Recipe
from core.recipe.stability import over_runs, over_tasks, rerun

MakeBank = Callable[..., Bank]


def test_one_that_always_wins_is_always_picked(make_bank: MakeBank) -> None:
    bank = make_bank(np.array([[1.0] * 8, [0.0] * 8, [0.0] * 8]))
    found = over_tasks(bank, Recipe(k=1), resamples=60)
    assert found.frequency.tolist() == [1.0, 0.0, 0.0]
    assert (found.same, found.resamples, found.groups) == (1.0, 60, 8)


def test_frequencies_sum_to_k_and_hold_pins_and_bans(make_bank: MakeBank) -> None:
    scores = (np.random.default_rng(3).random((6, 20)) < 0.6).astype(float)
    found = over_tasks(make_bank(scores), Recipe(k=3, pin=("c4",), ban=("c0",)), resamples=80)
    assert found.frequency.sum() == pytest.approx(3)
    assert found.frequency[4] == 1 and found.frequency[0] == 0


def test_the_bootstrap_over_two_tasks_has_the_chances_of_two_draws(make_bank: MakeBank) -> None:
    # c0 solves task 0, c1 task 1. Draws: (0,0) c0, (1,1) c1, one of each: a tie that c0 wins.
    bank = make_bank(np.eye(2))
    found = over_tasks(bank, Recipe(k=1), resamples=4000)
    assert found.frequency[0] == pytest.approx(0.75, abs=0.03)


def test_tasks_of_a_scenario_are_drawn_together(make_bank: MakeBank) -> None:
    bank = make_bank(np.array([[1, 1, 0, 0], [0, 0, 1, 1]], float))
    split = replace(bank.splits["dev"], scenarios=("a", "a", "b", "b"))
    bank = replace(bank, splits={"dev": split})
    found = over_tasks(bank, Recipe(k=1), resamples=4000)
    assert found.groups == 2
    assert found.frequency[0] == pytest.approx(0.75, abs=0.03)


def test_without_noise_every_run_picks_the_same(make_bank: MakeBank) -> None:
    scores = (np.random.default_rng(1).random((5, 30)) < 0.5).astype(float)
    assert over_runs(make_bank(scores), Recipe(k=2), 0.0, resamples=20).same == 1.0


def test_a_rerun_keeps_the_mean_and_flips_as_many_as_were_measured() -> None:
    rng = np.random.default_rng(0)
    scores = np.array([[1.0] * 40 + [0.0] * 20] * 4000)
    again = rerun(scores, 1, 0.2, rng)
    assert again.mean() == pytest.approx(40 / 60, abs=0.004)
    assert (again != scores).mean() == pytest.approx(0.2, abs=0.002)
    all_right = rerun(np.ones((3, 10)), 1, 0.5, rng)
    assert (all_right == 1).all()


def test_a_rerun_of_several_samples_is_binomial() -> None:
    again = rerun(np.full((2000, 10), 0.25), 4, 0.0, np.random.default_rng(0))
    assert set(np.unique(again)) <= {0, 0.25, 0.5, 0.75, 1.0}
    assert again.var() == pytest.approx(0.25 * 0.75 / 4, rel=0.05)


def test_the_same_seed_gives_the_same(s3_card: Bank) -> None:
    first, second = (over_tasks(s3_card, Recipe(), resamples=30, seed=5) for _ in range(2))
    assert first.frequency.tolist() == second.frequency.tolist()


def test_what_does_not_fit_is_refused(make_bank: MakeBank) -> None:
    bank = make_bank(np.eye(3))
    with pytest.raises(RecipeError):
        over_tasks(bank, Recipe(k=9))
    with pytest.raises(InputError, match="at least 1 resample"):
        over_tasks(bank, Recipe(k=1), resamples=0)
    with pytest.raises(InputError, match="flip rate"):
        over_runs(bank, Recipe(k=1), 1.5)


def test_gaps_stay_gaps_in_a_second_run() -> None:
    scores = np.array([[1, np.nan, 0, 1], [0, 1, 1, np.nan]])
    for samples in (1, 4):
        again = rerun(scores, samples, 0.5, np.random.default_rng(0))
        np.testing.assert_array_equal(np.isnan(again), np.isnan(scores))
    # Rows of one kind alone cannot flip, whatever the rate.
    fixed = np.array([[1, 1, np.nan]])
    np.testing.assert_array_equal(rerun(fixed, 1, 1.0, np.random.default_rng(0)), fixed)
