"""Standings, flips and what is said about them, against scores that can be counted by hand.

Run: .venv/bin/python -m pytest tests/unit/charts/test_result_figures.py
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from core.charts import result_words as words
from core.charts import results
from core.charts.outcome import Band, Panel, Role, Scores, flips, standings
from core.charts.theme import ink

TASKS = ["a", "b", "c", "d"]


def scores(*values: float) -> dict[str, list[float]]:
    return {task: [value] for task, value in zip(TASKS, values, strict=True)}


def interval(means: np.ndarray) -> tuple[float, float]:
    return float(means.mean()) - 0.1, float(means.mean()) + 0.1


def verdict(a: Scores, b: Scores) -> Any:
    by = sum(one[0] for one in b.values()) - sum(one[0] for one in a.values())
    return SimpleNamespace(verdict="unresolved" if abs(by) < 2 else "better" if by > 0 else "worse")


MODELS: dict[str, tuple[Role, Scores]] = {
    "merge": ("merge", scores(1, 1, 1, 0)),
    "270": ("best single", scores(1, 1, 0, 0)),
    "280": ("single", scores(1, 0, 0, 0)),
    "base": ("base", scores(0, 0, 0, 0)),
}


def panel(
    *, chosen_here: bool = True, models: dict[str, tuple[Role, Scores]] = MODELS, band: Band | None = None
) -> Panel:
    found = standings(models, interval, verdict, TASKS)
    return Panel("dev" if chosen_here else "test", 4, 1, chosen_here, found, band)


def test_standings_keep_the_order_and_compare_with_the_best_single() -> None:
    found = panel().standings
    assert [one.name for one in found] == ["merge", "270", "280", "base"]
    assert [one.mean for one in found] == [0.75, 0.5, 0.25, 0.0]
    assert [one.verdict for one in found] == ["unresolved", "itself", "unresolved", "worse"]
    assert (found[0].low, found[0].high) == pytest.approx((0.65, 0.85))


def test_intervals_get_the_task_means_in_the_order_of_the_tasks() -> None:
    seen: list[list[float]] = []

    def keep(means: np.ndarray) -> tuple[float, float]:
        seen.append(means.tolist())
        return 0.0, 1.0

    shuffled = {"d": [0.0], "a": [1.0, 0.0], "c": [1.0], "b": [0.25]}
    standings({"x": ("best single", shuffled)}, keep, verdict, TASKS)
    assert seen == [[0.5, 0.25, 1.0, 0.0]]


def test_flips_are_the_tasks_that_moved_gains_first() -> None:
    moved = flips(scores(1, 0.5, 0, 0), scores(0, 1, 1, 0), {"a": "s1"})
    assert [(one.task, one.change) for one in moved] == [("c", 1.0), ("b", 0.5), ("a", -1.0)]
    assert [one.scenario for one in moved] == ["c", "b", "s1"]


@pytest.mark.parametrize("dark", [False, True])
def test_what_is_unresolved_is_hollow_and_what_is_resolved_is_filled(dark: bool) -> None:
    figure = results.standings_chart([panel()], dark=dark)
    fills = {trace.hovertemplate.split(" on ")[0]: trace.marker.color for trace in figure.data}
    surface = ink(dark).surface
    assert fills["merge"] == surface
    assert fills["280"] == surface
    assert surface not in (fills["270"], fills["base"])


def test_roles_differ_in_shape_as_well_as_in_colour() -> None:
    assert len(set(results.SYMBOLS.values())) == len(results.SYMBOLS)


def test_two_splits_stand_side_by_side_on_one_scale_with_the_band_of_each() -> None:
    band = Band(0.4, 0.6, "270", 20)
    figure = results.standings_chart([panel(band=band), panel(chosen_here=False)], dark=False)
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range
    assert figure.layout.xaxis.domain[1] < figure.layout.xaxis2.domain[0]
    (drawn,) = figure.layout.shapes
    assert (drawn.xref, drawn.x0, drawn.x1) == ("x", 0.4, 0.6)
    heads = [one.text for one in figure.layout.annotations if one.text.startswith("<b>")]
    assert heads == ["<b>dev</b> (the recipe was chosen here)", "<b>test</b> (held out)"]


def test_a_large_pool_shares_one_row() -> None:
    many: dict[str, tuple[Role, Scores]] = {f"m{n}": ("single", scores(1, 0, 0, 0)) for n in range(60)}
    figure = results.standings_chart([panel(models=MODELS | many)], dark=False)
    assert list(figure.layout.yaxis.ticktext) == ["<b>merge</b>", "270, best single", results.SHARED_ROW, "base"]


def test_the_standings_table_says_everything_the_chart_does() -> None:
    table = results.standings_table([panel()])
    assert table["solved"].tolist() == ["3 of 4", "2 of 4", "1 of 4", "0 of 4"]
    assert table["against best single"].tolist() == ["unresolved", "", "unresolved", "worse"]


def test_flip_bars_point_up_for_gains_and_down_for_losses() -> None:
    moved = flips(scores(1, 0, 0, 0), scores(0, 1, 0, 0))
    gained, lost = results.flip_bars(moved, names=("best single", "merge"), chosen="b", dark=False).data
    assert (list(gained.x), list(gained.y)) == (["b"], [1.0])
    assert (list(lost.x), list(lost.y)) == (["a"], [-1.0])
    assert gained.marker.pattern.shape != lost.marker.pattern.shape
    assert gained.customdata[0][0] == "b"


def comparison(**more: Any) -> dict[str, Any]:
    values = {
        "n": 57,
        "mean_a": 38 / 57,
        "mean_b": 43 / 57,
        "difference": 5 / 57,
        "gained": ["t1"] * 9,
        "lost": ["t2"] * 4,
        "p_value": 0.27,
        "test": "exact McNemar",
        "interval": [-2 / 57, 12 / 57],
        "minimum_detectable": 10 / 57,
        "verdict": "unresolved",
    }
    return values | more


def test_the_headline_says_unresolved_and_where() -> None:
    said = words.headline("test", comparison(n=168), held_out=True)
    assert said.startswith("Unresolved: on 168 held-out test tasks")
    said = words.headline("dev", comparison(verdict="worse", difference=-12 / 57), held_out=False)
    assert said == "The merge is worse than the best single checkpoint, by 12.0 of 57 dev tasks"


def test_the_evidence_has_n_interval_p_and_what_could_be_detected() -> None:
    said = words.evidence(comparison(), 1)
    for part in (
        "merge 43,",
        "38 of 57",
        "one sample",
        "+5.0",
        "−2.0 to +12.0",
        "p 0.27",
        "exact McNemar",
        "of 10.0 tasks",
    ):
        assert part in said


def test_the_split_that_chose_is_distrusted_and_the_held_out_one_stands_beside_it() -> None:
    both = {"dev": {"best_single": comparison()}, "test": {"best_single": comparison(n=168, difference=-3 / 168)}}
    said = words.distrust("dev", both)
    assert "+5.0 of 57 on dev, −3.0 of 168 on test" in said
    assert "Believe the held-out one" in said
    assert "no held-out score" in words.distrust("dev", {"dev": both["dev"]})
    assert words.main_split(["dev", "test"], "dev") == "test"
    assert words.main_split(["dev"], "dev") == "dev"


def test_the_comparison_table_counts_in_tasks() -> None:
    table = words.comparison_table({"dev": {"best_single": comparison()}}, {"best_single": "best single"})
    line = table.map(lambda text: text.replace("\N{NO-BREAK SPACE}", " ")).iloc[0].to_dict()
    assert line["merge against"] == "best single"
    assert (line["difference"], line["95 % interval"], line["gained, lost"]) == ("+5.0", "−2.0 to +12.0", "9, 4")


@pytest.mark.parametrize(("p", "text"), [(1.0, "1.00"), (0.27, "0.27"), (0.043, "0.043"), (0.0004, "< 0.001")])
def test_p_values_are_never_a_bare_zero(p: float, text: str) -> None:
    assert words.p_text(p) == text
