"""The score heatmap and coverage: what is drawn, what a click means, what a screen reader is told.

Run: .venv/bin/python -m pytest tests/unit/charts
"""

import numpy as np
import pytest

from core.charts import bank, words
from core.charts.theme import figure_template

NAMES = ("a", "b", "c")
SCORES = np.array([[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
BASE = np.array([0.0, 0.0, 1.0, 0.0])
TASKS = ("t1", "t2", "t3", "t4")


def rows(scores: np.ndarray = SCORES, base: np.ndarray | None = BASE) -> bank.ScoreRows:
    intervals = [(0.1, 0.9)] * (len(scores) + (base is not None))
    return bank.score_rows(NAMES, scores, ("base", base), intervals)


def heatmap_values(figure: object) -> np.ndarray:
    return np.asarray(next(trace for trace in figure.data if trace.type == "heatmap").z)  # type: ignore[attr-defined]


def test_tasks_are_ordered_by_how_often_the_pool_solves_them() -> None:
    assert bank.task_order(SCORES).tolist() == [0, 2, 1, 3]
    drawn = heatmap_values(bank.score_heatmap(rows(), TASKS, {}, dark=False, samples=1))
    np.testing.assert_array_equal(drawn[:3], SCORES[:, [0, 2, 1, 3]])


def test_the_base_does_not_change_the_order_and_stands_apart() -> None:
    drawn = heatmap_values(
        bank.score_heatmap(rows(base=np.array([0.0, 0.0, 0.0, 1.0])), TASKS, {}, dark=False, samples=1)
    )
    assert drawn[-1].tolist() == [0, 0, 0, 1]
    assert np.isnan(drawn[-2]).all()
    assert np.diff(bank.row_positions(4, True)).tolist() == pytest.approx([1, 1, 1 + bank.GAP])


def test_picks_are_outlined_and_numbered() -> None:
    figure = bank.score_heatmap(rows(), TASKS, {"c": 1, "a": 2}, dark=True, samples=1)
    outlines = [shape for shape in figure.layout.shapes if shape.line.width == 2]
    assert sorted((shape.y0 + shape.y1) / 2 for shape in outlines) == [0, 2]
    badges = next(trace for trace in figure.data if trace.type == "scatter" and trace.mode == "markers+text")
    assert dict(zip(badges.y, badges.text, strict=True)) == {0.0: "2", 2.0: "1"}


def test_missing_scores_are_grey_cells_and_counted() -> None:
    holes = SCORES.copy()
    holes[1, 3] = np.nan
    figure = bank.score_heatmap(rows(holes), TASKS, {}, dark=False, samples=1)
    grey = [trace for trace in figure.data if trace.type == "heatmap"][1]
    assert np.count_nonzero(~np.isnan(np.asarray(grey.z, dtype=float))) == 1
    assert bank.score_table(rows(holes), {}, 1)["missing"].tolist() == [0, 1, 0, 0]


def test_every_cell_can_be_clicked_and_a_click_is_understood() -> None:
    figure = bank.score_heatmap(rows(), TASKS, {}, dark=False, samples=1)
    targets = [trace for trace in figure.data if trace.type == "scatter" and trace.customdata is not None]
    cells = [data for trace in targets for data in trace.customdata if data[0] == "cell"]
    assert {(name, task) for _, name, task, _ in cells} == {(n, t) for n in (*NAMES, "base") for t in TASKS}
    assert bank.clicked([{"customdata": ["cell", "b", "t3", "0"]}]) == ("b", "t3")
    assert bank.clicked([{"customdata": ["row", "b", 0.1, 0.9]}]) == ("b", None)


@pytest.mark.parametrize(
    "points", [[], [{}], [{"customdata": None}], [{"customdata": ["cell"]}], [{"customdata": "cell"}]]
)
def test_a_click_on_nothing_is_nothing(points: list[dict[str, object]]) -> None:
    assert bank.clicked(points) == (None, None)


def test_a_huge_bank_is_a_picture_without_targets() -> None:
    scores = np.zeros((3, 3000))
    figure = bank.score_heatmap(rows(scores, None), [str(i) for i in range(3000)], {}, dark=False, samples=1)
    assert sum(len(trace.x) for trace in figure.data if trace.type == "scatter") < 100


def test_means_carry_their_intervals_and_units() -> None:
    figure = bank.score_heatmap(rows(), TASKS, {}, dark=False, samples=1)
    means = next(trace for trace in figure.data if trace.type == "scatter" and trace.error_x.array is not None)
    np.testing.assert_allclose(np.asarray(means.x) + np.asarray(means.error_x.array), 0.9)
    np.testing.assert_allclose(np.asarray(means.x) - np.asarray(means.error_x.arrayminus), 0.1)
    assert figure.layout.yaxis2.ticktext[:3] == ("2/4", "1/4", "3/4")


def test_coverage_counts_every_task_once() -> None:
    found = bank.coverage(SCORES)
    assert (found.by_all, found.by_some, found.by_none) == (1, 2, 1)
    assert found.tasks_by_solvers == (1, 1, 1, 1)
    assert list(bank.coverage_bars(found, dark=False).data[0].y) == [1, 1, 1, 1]


def test_one_checkpoint_covers_all_or_none() -> None:
    found = bank.coverage(SCORES[:1])
    assert (found.by_all, found.by_some, found.by_none) == (2, 0, 2)
    bank.coverage_bars(found, dark=True)


def test_the_sentence_counts_tasks_and_names_the_noise() -> None:
    said = words.bank_sentence(rows(), "dev", 1, (3.25, 20))
    assert said == (
        "The best of three checkpoints, c, solves 3 of 4 dev tasks; the weakest, b, 1 of 4; the base 1 of 4. "
        "Repeated runs of one checkpoint differ by ± 3.2 tasks (20 runs, 95 %)."
    )


def test_shared_first_places_are_all_named() -> None:
    twins = bank.score_rows(NAMES, SCORES[[0, 1, 0]], ("base", None), [(0, 1)] * 3)
    assert "a and c, solve 2 of 4 dev tasks; the weakest, b, 1 of 4." in words.bank_sentence(twins, "dev", 1, None)


def test_the_alternative_names_the_picks_in_order() -> None:
    assert "picks in order: c, a." in words.heatmap_alt(rows(), "dev", 1, {"a": 2, "c": 1})


def test_light_and_dark_differ_and_text_can_be_read_on_its_ground() -> None:
    from core.charts.theme import ink

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    for dark in (False, True):
        colours = ink(dark)
        for text in (colours.text, colours.muted, colours.gain, colours.loss):
            high, low = sorted((luminance(text), luminance(colours.surface)), reverse=True)
            wanted = 4.5 if text in (colours.text, colours.muted) else 3.0
            assert (high + 0.05) / (low + 0.05) >= wanted, (dark, text)
    assert figure_template(True) is not figure_template(False)


def test_unknown_noise_says_how_many_runs_would_tell() -> None:
    scores = np.zeros((3, 100))
    scores[0, :50], scores[1, :60], scores[2, :40] = 1, 1, 1
    found = bank.score_rows(["a", "b", "c"], scores, ("base", None), [(0.0, 1.0)] * 3)
    said = words.unknown_noise_sentence(found, 1)
    assert "Nine runs of one checkpoint" in said
    assert said.endswith("at most two runs of each would tell b and a apart, if they truly are 10.0 tasks apart.")
    found.means[:] = 0.5
    assert "tell a and b apart, if they truly are one task apart." in words.unknown_noise_sentence(found, 1)


def test_missing_scores_are_counted_where_means_are_said() -> None:
    scores = np.array([[1, 1, np.nan, 0], [1, 0, 0, 0]])
    found = bank.score_rows(["a", "b"], scores, ("base", None), [(0.0, 1.0)] * 2)
    assert found.scored == [3, 4]
    said = words.bank_sentence(found, "dev", 1, None)
    assert "a, solves 2 of 3 dev tasks; the weakest, b, 1 of 4; 1 score is missing." in said
