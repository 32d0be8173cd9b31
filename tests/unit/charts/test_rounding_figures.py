"""Figures of a merge's report against counts that can be added up by hand.

Run: .venv/bin/python -m pytest tests/unit/charts/test_rounding_figures.py
"""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from core.charts import election, rounding


def row(name: str, layer: int, module: str, counts: tuple[int, int, int, int], **more: Any) -> dict[str, Any]:
    """A row of the report: `counts` is unchanged, solo, agreed, contested; everything but the first changed."""
    none, solo, agreed, contested = counts
    changed = solo + agreed + contested
    lost = more.pop("lost", changed // 2)
    return {
        "name": name,
        "layer": layer,
        "module": module,
        "shape": "2 x 5",
        "elements": sum(counts),
        "members_changed_0": none,
        "members_changed_1": solo,
        "members_changed_2plus": agreed + contested,
        "unanimous": agreed,
        "contested": contested,
        "changed": changed,
        "lost": lost,
        "lost_fraction": lost / changed if changed else math.nan,
        "relative_l2": 0.5,
        "cosine": 0.9,
        "merged_norm": 1.0,
        "base_norm": 2.0,
        "histogram": more.pop("histogram", [0] * 24),
    }


@pytest.fixture
def report() -> pd.DataFrame:
    return pd.DataFrame(
        [
            row("model.embed_tokens.weight", -1, "embed_tokens", (10, 0, 0, 0)),
            row("model.layers.0.mlp.up_proj.weight", 0, "mlp.up_proj", (1, 2, 3, 4), lost=9),
            row("model.layers.0.self_attn.q_proj.weight", 0, "self_attn.q_proj", (0, 10, 0, 0), lost=0),
            row("model.layers.1.self_attn.q_proj.weight", 1, "self_attn.q_proj", (0, 0, 8, 2), lost=4),
            row("model.layers.1.odd.thing.weight", 1, "odd.thing", (5, 5, 0, 0), lost=5),
        ]
    )


def cells(figure: Any, axis: str) -> dict[tuple[int, int], tuple[float, str]]:
    """Every drawn cell of one block of the heatmap: (row, column) to value and text."""
    found = {}
    for trace in figure.data:
        if trace.type == "heatmap" and (trace.xaxis or "x") == axis:
            z = np.asarray(trace.z, dtype=float)
            for at in zip(*np.nonzero(~np.isnan(z)), strict=True):
                assert at not in found
                found[int(at[0]), int(at[1])] = (z[at], trace.text[at])
    return found


def test_totals_add_up(report: pd.DataFrame) -> None:
    found = rounding.totals(report)
    assert (found.tensors, found.elements, found.changed, found.lost) == (5, 50, 9 + 10 + 10 + 5, 18)
    assert found.lost_share == pytest.approx(18 / 34)
    assert math.isnan(rounding.totals(report.head(1)).lost_share)


def test_percent_lost_is_of_the_changed_and_unknown_where_nothing_changed(report: pd.DataFrame) -> None:
    np.testing.assert_array_equal(rounding.percent_lost(report), [math.nan, 100, 0, 40, 100])


def test_modules_keep_their_usual_order_and_unknown_ones_follow(report: pd.DataFrame) -> None:
    assert rounding.module_columns(report) == ["self_attn.q_proj", "mlp.up_proj", "odd.thing"]


@pytest.mark.parametrize("dark", [False, True])
def test_heatmap_puts_each_tensor_in_its_layer_and_module_on_a_fixed_scale(report: pd.DataFrame, dark: bool) -> None:
    figure = rounding.loss_heatmap(report, chosen="model.layers.1.self_attn.q_proj.weight", dark=dark)
    assert cells(figure, "x") == {
        (0, 0): (0.0, "0"),
        (0, 1): (100.0, "100"),
        (1, 0): (40.0, "40"),
        (1, 2): (100.0, "100"),
    }
    assert cells(figure, "x2") == {(0, 0): (0.0, "·")}, "a tensor that did not change is grey and has no number"
    heatmaps = [one for one in figure.data if one.type == "heatmap"]
    assert {(one.zmin, one.zmax) for one in heatmaps} == {(0, 100)}
    box = figure.layout.shapes[0]
    assert (box.x0, box.x1, box.y0, box.y1) == (-0.5, 0.5, 0.5, 1.5)


def test_every_tensor_can_be_clicked(report: pd.DataFrame) -> None:
    figure = rounding.loss_heatmap(report, chosen=None, dark=False)
    names = [one[0] for trace in figure.data if trace.type == "scatter" for one in trace.customdata]
    assert sorted(names) == sorted(report["name"])
    assert not figure.layout.shapes


def test_a_report_of_layers_only_or_of_none_is_drawn(report: pd.DataFrame) -> None:
    inside, outside = report[report["layer"] >= 0], report[report["layer"] < 0]
    assert len(cells(rounding.loss_heatmap(inside, chosen=None, dark=False), "x")) == 4
    assert list(cells(rounding.loss_heatmap(outside, chosen=None, dark=False), "x2")) == [(0, 0)]


def test_the_table_puts_the_largest_loss_first_and_unchanged_tensors_last(report: pd.DataFrame) -> None:
    table = rounding.loss_table(report)
    assert table["lost, % of changed"].tolist()[:4] == [100, 100, 40, 0]
    assert table["tensor"].tolist()[-1] == "model.embed_tokens.weight"


def test_histogram_splits_at_half_an_ulp() -> None:
    counts = [0] * 24
    counts[0], counts[11], counts[12], counts[23] = 10, 20, 30, 40
    figure = rounding.ulp_histogram(counts, dark=False)
    below, above = figure.data
    assert sum(below.y) == pytest.approx(30)
    assert sum(above.y) == pytest.approx(70)
    assert max(below.x) < 0 < min(above.x)
    assert [one.text for one in figure.layout.annotations] == ["30.0 % below ½ ulp", "70.0 % above"]


def test_histogram_of_nothing_is_drawn() -> None:
    assert sum(rounding.ulp_histogram([0] * 24, dark=True).data[0].y) == 0


def test_histogram_table_names_the_edges() -> None:
    counts = [0] * 24
    counts[12] = 3
    table = rounding.histogram_table(counts)
    line = table.iloc[12]
    assert (line["from, half-ulps"], line["to, half-ulps"], line["parameters"]) == ("1", "2", 3)
    assert table.iloc[0]["from, half-ulps"] == "0"
    assert table.iloc[-1]["to, half-ulps"] == "and more"


def test_votes_are_shares_that_sum_to_100(report: pd.DataFrame) -> None:
    shares = election.election_shares(report)
    assert shares.index.tolist() == ["all tensors", "self_attn.q_proj", "mlp.up_proj", "odd.thing", "other tensors"]
    assert shares.loc["mlp.up_proj"].tolist() == pytest.approx([10, 20, 30, 40])
    assert shares.loc["all tensors"].tolist() == pytest.approx([32, 34, 22, 12])
    assert shares.sum(axis=1).tolist() == pytest.approx([100] * 5)


def test_votes_are_drawn_with_a_pattern_beside_the_colour(report: pd.DataFrame) -> None:
    figure = election.election_bars(election.election_shares(report), dark=False)
    looks = {(trace.marker.color, trace.marker.pattern.shape) for trace in figure.data}
    assert len(looks) == len(election.VOTES)
    assert {trace.marker.pattern.fillmode for trace in figure.data} == {"overlay"}
