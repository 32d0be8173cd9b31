"""MMR steps, the λ strip and the τ curves: figures that must agree with the numbers they show.

Run: .venv/bin/python -m pytest tests/unit/charts
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.charts import mmr as figures
from core.charts import pictures, words
from core.charts import recipe as weights
from core.recipe import mmr, softmax_weights

NAMES = ["a", "b", "c", "d"]
SCORES = np.array([[1, 1, 1, 0, 0], [1, 1, 0, 0, 1], [1, 1, 1, 0, 1], [0, 0, 1, 1, 0]], dtype=float)
NORMS = np.linalg.norm(SCORES, axis=1)
SIMILARITY = SCORES @ SCORES.T / np.outer(NORMS, NORMS)
TRACE = mmr(SCORES.mean(axis=1), SIMILARITY, 0.7, 3)
INTERVALS = [(0.0, 0.25, ("c", "d", "b")), (0.25, 0.6, ("c", "d", "a")), (0.6, 1.0, ("c", "a", "d"))]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_bars_of_a_step_add_up_to_the_score(at: int) -> None:
    step = TRACE.steps[at]
    figure = figures.step_bars(step, NAMES, dark=False)
    plus, minus, total = figure.data[:3]
    np.testing.assert_allclose(np.asarray(plus.x) + np.asarray(minus.x), total.x)
    assert total.x[0] == pytest.approx(step.score)
    assert "picked" in figure.layout.yaxis.ticktext[0]
    assert figure.layout.yaxis2.ticktext[0] == f"{step.score:.4f}"
    assert len(figure.layout.yaxis.ticktext) == len(step.candidates.index)


def test_a_long_list_of_candidates_keeps_the_pick_on_top() -> None:
    generator = np.random.default_rng(0)
    q = generator.random(60)
    step = mmr(q, np.eye(60), 0.5, 2, pin=[59]).steps[0]
    shown = figures.shown_candidates(step)
    assert len(shown) == figures.MAX_BARS
    assert step.candidates.index[shown[0]] == 59
    assert "pinned" in figures.step_bars(step, [str(i) for i in range(60)], dark=True).layout.yaxis.ticktext[0]


def test_a_negative_similarity_is_drawn_for_the_candidate() -> None:
    step = mmr(np.array([0.5, 0.4]), np.array([[1, -0.5], [-0.5, 1]]), 0.5, 2).steps[1]
    figure = figures.step_bars(step, NAMES, dark=False)
    assert figure.data[1].x[0] == pytest.approx(0.25)
    low, high = figure.layout.xaxis.range
    assert low < 0 and high >= step.score


def test_the_step_table_has_every_candidate_best_first() -> None:
    table = figures.step_table(TRACE.steps[1], NAMES)
    assert len(table) == 3
    assert table["score"].is_monotonic_decreasing
    assert table["candidate"].iloc[0] == NAMES[TRACE.steps[1].index]


def test_the_strip_covers_lambda_without_gaps_for_every_place() -> None:
    figure = figures.picks_against_lambda(INTERVALS, NAMES, 0.7, dark=False)
    for bar in figure.data:
        assert sum(bar.x) == pytest.approx(1.0)
    first = figure.data[0]
    assert list(first.y) == ["c"]  # one stretch: the first pick never changes
    assert figures.switch_points(INTERVALS) == [0.25, 0.6]
    assert 0.25 in figure.layout.xaxis.tickvals and 0.6 in figure.layout.xaxis.tickvals


def test_the_rule_stands_at_the_present_setting() -> None:
    strip = figures.picks_against_lambda(INTERVALS, NAMES, 0.7, dark=True)
    assert strip.layout.shapes[0].x0 == 0.7
    tau = weights.weights_against_tau({"a": 0.6, "b": 0.5}, 0.02, dark=False)
    assert tau.layout.shapes[0].x0 == 0.02
    named = next(one for one in tau.layout.annotations if one.text.startswith("τ"))
    assert named.x == pytest.approx(math.log10(0.02))


def test_the_curves_are_softmax_and_equal_picks_share_a_line() -> None:
    figure = weights.weights_against_tau({"a": 0.6, "b": 0.5, "c": 0.6}, 0.02, dark=False)
    lines = [trace for trace in figure.data if trace.yaxis != "y2"]
    assert [line.name for line in lines] == ["a, c", "b"]
    at = 40
    expected = softmax_weights(np.array([0.6, 0.5, 0.6]), float(weights.TAUS[at]))
    assert lines[0].y[at] == pytest.approx(expected[0])
    assert lines[1].y[at] == pytest.approx(expected[1])
    members = next(trace for trace in figure.data if trace.yaxis == "y2")
    assert members.y[-1] == pytest.approx(3, abs=0.05)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12, unique=True), st.sampled_from([1e-5, 0.02, 1.0, 50.0]))
def test_every_line_is_named_inside_the_panel(q: list[float], tau: float) -> None:
    relevance = {str(at): value for at, value in enumerate(q)}
    figure = weights.weights_against_tau(relevance, tau, dark=False)
    names = [one for one in figure.layout.annotations if not one.text.startswith("τ")]
    assert all(-0.04 <= one.y <= 1.04 for one in names)


def test_weight_bars_are_in_pick_order_with_their_values() -> None:
    figure = weights.weight_bars({"270": 0.456, "250": 0.00002}, dark=False)
    assert list(figure.data[0].y) == ["1.  270", "2.  250"]
    assert list(figure.data[0].text) == ["0.456", "2e-05"]


def test_the_tau_table_rows_sum_to_one() -> None:
    table = weights.tau_table({"a": 0.6, "b": 0.5})
    np.testing.assert_allclose(table[["a", "b"]].sum(axis=1), 1, atol=2e-5)


def test_words_use_the_present_numbers() -> None:
    step = TRACE.steps[1]
    said = words.step_formula(step, NAMES, 0.7)
    assert f"= {step.score:.4f}" in said and "most similar to c" in said
    assert "highest q wins" in words.step_formula(TRACE.steps[0], NAMES, 0.7)
    assert words.step_sentence(mmr(np.ones(3), np.eye(3), 0.7, 1).steps[0], NAMES).startswith("a ties with b and c")
    assert words.strip_alt(INTERVALS, 0.7).endswith("At λ 0.7 they are c, a, d.")


def test_what_moved_among_picks() -> None:
    assert words.pick_changes(["a", "b"], ["a", "c"]) == "c in, b out"
    assert words.pick_changes(["a", "b"], ["b", "a"]) == "same picks in another order"
    assert words.pick_changes(["a"], ["a"]) == "same picks"


def test_pictures_are_addresses_and_never_taller_than_a_line() -> None:
    import base64

    picture = pictures.weights_picture([0.9, 0.1, 0.0], "#000000")
    svg = base64.b64decode(picture.partition("base64,")[2]).decode()
    assert svg.count("<rect") == 3
    assert 'height="14"' in svg
    assert pictures.weights_picture([], "#000000").startswith("data:image/svg+xml")
