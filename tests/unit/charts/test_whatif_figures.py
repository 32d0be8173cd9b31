"""Figures and sentences of the What-if page, from values set by hand.

Run: .venv/bin/python -m pytest tests/unit/charts/test_whatif_figures.py
"""

import math
from pathlib import Path

import numpy as np
import pytest

from core.bank import load_bank
from core.charts import recipe_map, recipe_map_words, whatif
from core.charts import whatif_words as words
from core.charts.election import VOTES, election_shares
from core.recipe import Recipe
from core.recipe.coverage import pick_coverage
from core.recipe.map import recipe_map as map_of
from core.recipe.stability import Stability

ROOT = Path(__file__).resolve().parents[3]
NAN = math.nan


def exactly(value: float) -> whatif.Exactly:
    return whatif.Exactly(value, value, value)


@pytest.mark.parametrize(
    ("one", "percent", "said"),
    [
        (exactly(0.1234), True, "12.3 %"),
        (exactly(0.0), True, "0 %"),
        (exactly(1.0), True, "100 %"),
        (exactly(0.0001), True, "<0.1 %"),
        (whatif.Exactly(0.5, 0.48, 0.52), True, "50.0 % (48.0 to 52.0 %)"),
        (whatif.Exactly(1.885, 1.8, 1.97), False, "1.89 (1.8 to 1.97)"),
        (exactly(0.9987), False, "0.9987"),
        (whatif.Exactly(NAN, 0.0, 1.0), True, "not estimable"),
    ],
)
def test_numbers_are_said_with_their_interval(one: whatif.Exactly, percent: bool, said: str) -> None:
    assert whatif.range_text(one, percent) == said


@pytest.mark.parametrize("dark", [False, True])
def test_panels_hold_every_value_and_whiskers_only_where_estimated(dark: bool) -> None:
    columns = [
        whatif.Panel("sure", [exactly(0.2), exactly(NAN)]),
        whatif.Panel("about", [whatif.Exactly(0.5, 0.4, 0.7), whatif.Exactly(0.1, 0.0, math.inf)]),
    ]
    figure = whatif.panels(["a", "b"], columns, dark=dark)
    assert list(figure.data[0].x) == [0.2, 0] and figure.data[0].error_x.array is None
    assert figure.data[2].error_x.array == pytest.approx((0.2, 0))
    assert figure.data[2].error_x.arrayminus == pytest.approx((0.1, 0.1))
    assert figure.data[1].text[1].strip() == "not estimable"
    assert list(figure.data[3].x) == [0.7, 0.1]
    table = whatif.panel_table("row", ["a", "b"], columns)
    assert table["about"][0] == "50.0 % (40.0 to 70.0 %)"


def test_votes_are_counted_over_tensors_by_their_size() -> None:
    places = [(0, "mlp.up_proj"), (1, "mlp.up_proj"), (-1, "norm")]
    tensors = [
        {"solo": exactly(0.5), "unanimous": exactly(0.25), "contested": exactly(0.25)},
        {"solo": exactly(0.0), "unanimous": exactly(1.0), "contested": exactly(0.0)},
        {"solo": exactly(0.0), "unanimous": exactly(0.0), "contested": exactly(0.0)},
    ]
    shares = election_shares(whatif.votes_report(places, [100, 300, 100], tensors))
    assert shares.loc["all tensors", list(VOTES)].tolist() == pytest.approx([20, 10, 65, 5])
    assert shares.loc["mlp.up_proj", list(VOTES)].tolist() == pytest.approx([0, 12.5, 81.25, 6.25])
    assert shares.loc["other tensors", VOTES[0]] == 100


def test_the_heatmap_puts_each_tensor_in_its_place() -> None:
    rows = whatif.place_rows(
        ["l0", "l1", "n"], [(0, "mlp.up_proj"), (1, "mlp.up_proj"), (-1, "norm")],
        [exactly(0.1), whatif.Exactly(0.3, 0.2, 0.4), exactly(NAN)],
    )  # fmt: skip
    figure = whatif.place_heatmap(rows, what="contested", dark=False)
    values = [value for trace in figure.data for value in np.ravel(trace.z) if not np.isnan(value)]
    assert sorted(values) == [0.1, 0.3]
    table = whatif.place_table(rows, "contested")
    assert table["tensor"].tolist() == ["l1", "l0", "n"]
    assert table["contested"].tolist() == ["30.0 % (20.0 to 40.0 %)", "10.0 %", "not estimable"]


def test_cosines_are_symmetric() -> None:
    matrix = whatif.cosine_matrix(3, {(0, 1): 0.5, (0, 2): 0.25, (1, 2): NAN})
    assert matrix[1, 0] == 0.5 and matrix[2, 0] == 0.25 and matrix[1, 1] == 1
    assert len(whatif.cosine_heatmap(["a", "b", "c"], matrix, dark=True).data) == 2
    said = words.pairs_sentence(["a", "b", "c"], {(0, 1): exactly(0.5), (0, 2): exactly(0.25), (1, 2): exactly(NAN)})
    assert said == "Of the changes against the base, most alike are a and b, cosine 0.5; least alike a and c, 0.25."


def member(share: float, solo: float) -> dict[str, whatif.Exactly]:
    return {"share": exactly(share), "solo_share": exactly(solo)}


def test_who_decides_more_than_its_weight_is_named_with_the_reason() -> None:
    names, weights = ["a", "b"], [0.99, 0.01]
    said = words.outweighed(names, weights, [member(0.6, 0.1), member(0.4, 0.95)], True)
    assert said.startswith("b has 1.0 % of the weight and 40.0 % of the merged change, 95.0 % of that where")
    assert "kept whole, whatever its weight" in said
    even = words.outweighed(names, weights, [member(0.985, 0.1), member(0.015, 0.1)], True)
    assert even.startswith("Each member has about the part") and "b, 1.0 % of the weight" in even
    assert "only member" in words.outweighed(["a"], [1.0], [member(1, 1)], True)


def test_the_map_is_drawn_cell_by_cell_with_the_present_one_outlined() -> None:
    bank = load_bank(ROOT / "data" / "s3_card")
    regions = map_of(bank, Recipe(), 6)
    figure = recipe_map.map_figure(regions, 0.7, 5, dark=False)
    assert len(figure.data[0].x) == len(regions) == len(recipe_map.map_table(regions))
    here = figure.layout.shapes[0]
    assert here.x0 <= 0.7 <= here.x1 and (here.y0 + here.y1) / 2 == 5
    assert not recipe_map.map_figure(regions, 0.7, 9, dark=False).layout.shapes
    said = recipe_map_words.map_sentence(regions, 0.7, 5)
    assert "250, 270, 280, 290 and 300" in said and f"{here.x0:.4f} to {here.x1:.4f}" in said
    assert "the same checkpoints are picked whatever λ is" in recipe_map_words.map_sentence(regions, 0.7, 1)


def test_stability_and_coverage_are_said_in_numbers() -> None:
    by_tasks = Stability(400, np.array([0.9, 0.4, 0.7]), 0.35, 19)
    by_runs = Stability(400, np.array([0.8, 0.5, 0.7]), 0.2, 57)
    names, picked = ["a", "b", "c"], ["c", "a"]
    said = recipe_map_words.stability_sentence(names, picked, by_tasks, by_runs, "tasks")
    assert "picked in 35 % of the draws; the least certain pick, c, in 70 %" in said and "come out in 20 %" in said
    figure = recipe_map.stability_bars(names, picked, by_tasks, by_runs, shown=["a"], dark=False)
    assert list(figure.data[0].y) == ["<b>a</b>", "<b>c</b>"] and list(figure.data[1].x) == pytest.approx([80, 70])
    found = pick_coverage(np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]], float), (0, 1))
    assert recipe_map_words.coverage_sentence(["a", "b"], found) == (
        "Of 3 tasks, all two picks solve 1 and at least one solves 2; the whole pool could reach 3. b adds no task "
        "that an earlier pick does not solve."
    )
    assert list(recipe_map.coverage_steps(["a", "b"], found, dark=True).data[1].x) == [2, 0]
    assert recipe_map.coverage_table(["a", "b"], ["x", "y", "z"], found)["added tasks"].tolist() == ["x, y", ""]


@pytest.mark.parametrize(
    ("low", "high", "k", "said"),
    [
        (0.25, 0.75, 5, "λ is inert from 0.2500 to 0.7500"),
        (0.0, 1.0, 5, "at every λ"),
        (0.2, 0.3, 11, "with K 11 of 11"),
    ],
)
def test_where_lambda_is_inert(low: float, high: float, k: int, said: str) -> None:
    assert said in words.lambda_sentence(0.7, low, high, 11, k)


def test_influence_shows_weight_and_share() -> None:
    figure = whatif.influence(["a", "b"], [0.9, 0.1], [exactly(0.6), whatif.Exactly(0.4, 0.35, 0.45)], dark=False)
    by_name = {one.name: one for one in figure.data if one.name}
    assert list(by_name["weight in the recipe"].x) == [0.9, 0.1]
    assert list(by_name["share of the merged change"].x) == [0.6, 0.4]
