"""The recipe map and the steps of knobs: against `select` at points between the switch points.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_map.py
"""

from dataclasses import replace
from itertools import pairwise

import pytest

from core.bank import Bank
from core.errors import RecipeError
from core.recipe import Recipe, select
from core.recipe.map import recipe_map, region_at
from core.recipe.nudges import lambda_room, nudges


def picked(bank: Bank, recipe: Recipe) -> set[str]:
    return {one.checkpoint for one in select(bank, recipe).picks}


def test_every_region_is_what_select_picks_there(s3_card: Bank) -> None:
    regions = recipe_map(s3_card, Recipe(), 8)
    for one in regions:
        middle = replace(Recipe(), lam=(one.low + one.high) / 2, k=one.k)
        assert picked(s3_card, middle) == set(one.picks)
    for k in range(1, 9):
        row = [one for one in regions if one.k == k]
        assert row[0].low == 0 and row[-1].high == 1
        assert all(left.high == right.low and left.picks != right.picks for left, right in pairwise(row))
    assert len([one for one in regions if one.k == 1]) == 1


def test_the_map_starts_at_the_pins_and_leaves_out_bans(s3_card: Bank) -> None:
    regions = recipe_map(s3_card, Recipe(pin=("210", "220"), ban=("300",)), 4)
    assert min(one.k for one in regions) == 2
    assert all({"210", "220"} <= set(one.picks) and "300" not in one.picks for one in regions)


def test_the_region_of_the_recipe(s3_card: Bank) -> None:
    regions = recipe_map(s3_card, Recipe(), 6)
    here = region_at(regions, 0.7, 5)
    assert here is not None and set(here.picks) == {"250", "270", "280", "290", "300"}
    assert here.mean_q == pytest.approx((33 + 38 + 36 + 32 + 38) / 57 / 5)
    assert region_at(regions, 0.7, 9) is None


def test_lambda_has_room_up_to_where_the_set_changes(s3_card: Bank) -> None:
    low, high = lambda_room(s3_card, Recipe())
    assert low <= 0.7 <= high
    now = picked(s3_card, Recipe())
    for inside in (low + 1e-6, high - 1e-6):
        assert picked(s3_card, Recipe(lam=inside)) == now
    if low > 0:
        assert picked(s3_card, Recipe(lam=low - 1e-6)) != now
    if high < 1:
        assert picked(s3_card, Recipe(lam=high + 1e-6)) != now


def test_steps_move_one_knob_each_and_fit_the_bank(s3_card: Bank) -> None:
    found = nudges(s3_card, Recipe(k=11))
    assert [one.recipe.k for one in found if one.knob == "k"] == [10]
    assert not [one for one in found if one.knob == "lam"]
    for one in found:
        select(s3_card, one.recipe)
        assert one.recipe != Recipe(k=11)
    assert [one.recipe.tau for one in found if one.knob == "tau"] == [0.01, 0.04]
    assert not [one for one in nudges(s3_card, Recipe(weighting="uniform")) if one.knob == "tau"]


def test_a_recipe_that_does_not_fit_is_refused(s3_card: Bank) -> None:
    with pytest.raises(RecipeError):
        recipe_map(s3_card, Recipe(), 40)
