"""The ladder of baselines: what each rung holds, that mergekit's reader takes it, and that seeds decide.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_ladder.py
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from core.bank import Bank, Checkpoint, load_bank
from core.errors import RecipeError
from core.merge import read_plan
from core.recipe import Recipe, select
from core.recipe.ladder import Rung, greedy_soup, ladder, last_checkpoint, step_factor, strongest_first
from tests.unit.recipe.conftest import bank_of

ROOT = Path(__file__).resolve().parents[3]
# Solved of four tasks: c0 1, c1 3, c2 2, c3 3; c1 and c3 are alike.
SCORES = np.array([[1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [1, 1, 1, 0]], float)
RECIPE = Recipe(k=2, lam=0.5, tau=0.1)


def by_name(bank: Bank, recipe: Recipe = RECIPE, **options: Any) -> dict[str, Rung]:
    """Rungs by name."""
    found = ladder(bank, recipe, **options)
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


def weights(rung: Rung) -> dict[str, float]:
    """Weight of each model in a config."""
    assert rung.config is not None
    return {one["model"]: one["parameters"]["weight"] for one in yaml.safe_load(rung.config)["models"]}


def test_a_ladder_by_hand() -> None:
    found = by_name(bank_of(SCORES), seeds=(7,))
    assert list(found) == [
        "recipe", "best_single", "last", "base", "uniform_mean", "random_7", "random_delta_0", "further_along",
        "greedy_soup", "without_1", "without_2", "two_strongest", "no_steep_weights", "no_mmr", "bf16",
    ]  # fmt: skip
    # The first pick is c1; c3 is its twin, so the second is c2, of the 0.5 · 0.5 − 0.5 · 1/√6 it scores.
    assert found["recipe"].members == ("c1", "c2")
    assert weights(found["recipe"])["c1"] == pytest.approx(np.exp(2.5) / (1 + np.exp(2.5)))
    assert (found["best_single"].model, found["last"].model, found["base"].model) == ("c1", "c3", "base")
    assert weights(found["uniform_mean"]) == {"c0": 1, "c1": 1, "c2": 1, "c3": 1}
    # Steps 0 to 3: one more is 4, 4/3 of the way to the last.
    assert weights(found["further_along"]) == {"c3": pytest.approx(4 / 3)}
    assert found["further_along"].formula == "base + 1.333 · (c3 − base) = 1.333 · c3 − 0.3333 · base"
    assert found["greedy_soup"].members == ("c1", "c3", "c2", "c0")
    assert weights(found["greedy_soup"]) == {"c1": 1, "c3": 1}
    assert (found["without_1"].members, found["without_2"].members) == (("c2",), ("c1",))
    assert weights(found["two_strongest"]) == {"c1": 0.5, "c3": 0.5}
    assert weights(found["no_steep_weights"]) == {"c1": 0.5, "c2": 0.5}
    assert weights(found["no_mmr"]) == pytest.approx({"c1": 0.5, "c3": 0.5})
    assert found["no_mmr"].same_as == "two_strongest"
    assert yaml.safe_load(found["bf16"].config or "")["out_dtype"] == "bfloat16"
    assert weights(found["bf16"]) == weights(found["recipe"])


def test_leaving_one_out_keeps_the_others_in_proportion(s3_card: Bank) -> None:
    found = by_name(s3_card, Recipe())
    own = weights(found["recipe"])
    for number, left_out in enumerate(found["recipe"].members, start=1):
        rest = {one: weight for one, weight in own.items() if one != left_out}
        expected = {one: weight / sum(rest.values()) for one, weight in rest.items()}
        assert weights(found[f"without_{number}"]) == pytest.approx(expected)


def test_the_published_two_strongest(s3_card: Bank) -> None:
    assert weights(by_name(s3_card, Recipe())["two_strongest"]) == {"270": 0.5, "300": 0.5}
    assert step_factor(s3_card) == pytest.approx(310 / 300)


@pytest.mark.parametrize("name", ["s3_card", "rl_only", "sft_rl"])
@pytest.mark.parametrize("recipe", [Recipe(), Recipe(k=11), Recipe(k=1, weighting="uniform", out_dtype="bfloat16")])
def test_every_config_is_a_plan_that_our_engine_runs(tmp_path: Path, name: str, recipe: Recipe) -> None:
    bank = load_bank(ROOT / "data" / name)
    for rung in ladder(bank, recipe):
        assert (rung.config is not None) == (rung.kind in ("merge", "greedy_soup"))
        if rung.config is None:
            continue
        path = tmp_path / f"{rung.name}.yml"
        path.write_text(rung.config)
        plan = read_plan(path)
        assert plan.engine == "streaming"
        assert plan.warnings == ()
        if rung.kind == "merge":
            known = {one.id: str(one.path or one.id) for one in bank.checkpoints}
            assert [str(one.path) for one in plan.members] == [known[one] for one in rung.members]


@given(st.integers(0, 2**32 - 1))
def test_random_choices_hang_on_their_seed_alone(seed: int) -> None:
    bank = bank_of(SCORES)
    one = by_name(bank, seeds=(seed,))[f"random_{seed}"]
    assert by_name(bank, seeds=(5, seed, 3))[f"random_{seed}"].members == one.members
    assert len(set(one.members)) == 2
    assert set(one.members) != set(by_name(bank)["recipe"].members)


def test_random_choices_are_even() -> None:
    bank = bank_of(np.eye(6))
    drawn = [one.members for one in ladder(bank, Recipe(k=3), seeds=range(1900)) if one.name[:7] == "random_"]
    drawn = [one for one in drawn if len(one) == 3]
    # 20 choices of three of six, less the recipe's own: 100 of each expected, with a deviation of 9.7.
    counts = [drawn.count(one) for one in set(drawn)]
    assert len(counts) == 19
    assert all(55 < one < 145 for one in counts)


def test_what_cannot_differ_is_left_out_or_said() -> None:
    bank = bank_of(SCORES)
    whole = by_name(bank, Recipe(k=4, weighting="uniform"))
    assert not [name for name in whole if name.startswith("random_") and "delta" not in name]
    assert whole["no_steep_weights"].same_as == "recipe"
    single = by_name(bank, Recipe(k=1))
    assert not [name for name in single if name.startswith("without")]
    assert single["no_mmr"].same_as == "recipe"
    alone = by_name(bank_of(SCORES[:1]), Recipe(k=1))
    assert not {"greedy_soup", "two_strongest", "random_0"} & set(alone)
    assert alone["last"].same_as == "best_single"


def test_bans_hold_for_what_is_merged_but_not_for_the_rivals() -> None:
    found = by_name(bank_of(SCORES), replace(RECIPE, ban=("c1",)), seeds=range(30))
    assert found["best_single"].model == "c1"
    for name, rung in found.items():
        if name not in ("best_single", "uniform_mean"):
            assert "c1" not in rung.members
    with pytest.raises(RecipeError):
        ladder(bank_of(SCORES), replace(RECIPE, k=9))


def test_the_run_ends_at_its_highest_step_wherever_it_stands() -> None:
    bank = bank_of(SCORES)
    steps = (200, 300, 270, 100)
    made = replace(bank, checkpoints=tuple(Checkpoint(f"c{at}", step) for at, step in enumerate(steps)))
    assert last_checkpoint(made).id == "c1"
    assert step_factor(made) == pytest.approx(330 / 300)
    later = replace(made, base=Checkpoint("base", 200))
    assert step_factor(later) == pytest.approx(130 / 100)
    unknown = replace(bank, checkpoints=tuple(Checkpoint(f"c{at}") for at in range(4)))
    assert last_checkpoint(unknown).id == "c3"
    assert step_factor(unknown) == 1.25


def test_a_greedy_soup_by_hand() -> None:
    scores = {"a": 0.5, "ab": 0.4, "ac": 0.5, "acd": 0.7, "acde": 0.6}
    trials = greedy_soup(list("abcde"), lambda members: scores["".join(members)])
    assert ["".join(one.members) for one in trials] == list(scores)
    assert [one.kept for one in trials] == [True, False, True, True, False]


def test_pins_are_part_of_the_recipe_only(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(SCORES)
    recipe = replace(RECIPE, pin=("c0",))
    found = by_name(bank, recipe)
    assert found["recipe"].members == tuple(one.checkpoint for one in select(bank, recipe).picks)
    assert "c0" in found["recipe"].members
    assert strongest_first(bank, recipe)[0] == "c1"
    assert found["no_mmr"].members == ("c1", "c3")
