"""MMR against its definition, its ties and margins, and the properties it must have.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_mmr.py
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import RecipeError
from core.recipe import SimilarityRows, mmr, similarity_matrix
from core.recipe.similarity import KINDS


def by_definition(q: np.ndarray, sim: np.ndarray, lam: float, k: int) -> list[int]:
    """The formula written out, with no state carried from step to step."""
    picked = [max(range(len(q)), key=lambda i: (round(float(q[i]), 9), -i))]
    while len(picked) < k:
        rest = [i for i in range(len(q)) if i not in picked]
        score = {i: lam * q[i] - (1 - lam) * max(sim[i, j] for j in picked) for i in rest}
        picked.append(max(rest, key=lambda i: (round(float(score[i]), 9), -i)))
    return picked


@st.composite
def pools(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """0/1 or quarter scores, shape (2..9, 1..24), and a K that fits."""
    rows, columns = draw(st.integers(2, 9)), draw(st.integers(1, 24))
    values = draw(st.lists(st.integers(0, 4), min_size=rows * columns, max_size=rows * columns))
    scores = np.array(values, dtype=float).reshape(rows, columns) / 4
    return (scores.round() if draw(st.booleans()) else scores), draw(st.integers(1, rows))


@given(pools(), st.sampled_from(KINDS), st.integers(0, 20))
@settings(max_examples=300, deadline=None)
def test_it_is_the_definition(pool: tuple[np.ndarray, int], kind: Any, twentieth: int) -> None:
    scores, k = pool
    q, sim, lam = scores.mean(axis=1), similarity_matrix(scores, kind), twentieth / 20
    assert list(mmr(q, sim, lam, k).picks) == by_definition(q, sim, lam, k)
    assert mmr(q, SimilarityRows(scores, kind), lam, k).picks == mmr(q, sim, lam, k).picks


@given(pools())
@settings(deadline=None)
def test_at_lambda_1_it_sorts_by_relevance(pool: tuple[np.ndarray, int]) -> None:
    scores, k = pool
    q = scores.mean(axis=1)
    assert list(mmr(q, similarity_matrix(scores, "cosine"), 1.0, k).picks) == list(np.argsort(-q, kind="stable")[:k])


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.floats(0, 1))
@settings(deadline=None)
def test_without_ties_the_order_of_the_bank_does_not_matter(seed: int, size: int, lam: float) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.random((size, 17))
    order = rng.permutation(size)

    def picks(vectors: np.ndarray) -> tuple[int, ...]:
        trace = mmr(vectors.mean(axis=1), similarity_matrix(vectors, "cosine"), lam, size // 2 + 1)
        assert not any(step.ties for step in trace.steps)
        return trace.picks

    assert [int(order[pick]) for pick in picks(scores[order])] == list(picks(scores))


def test_every_step_explains_itself() -> None:
    q = np.array([0.5, 0.9, 0.8, 0.1])
    sim = np.array([[1, 0.2, 0.9, 0], [0.2, 1, 0.95, 0.3], [0.9, 0.95, 1, 0.1], [0, 0.3, 0.1, 1.0]])
    first, second, third = mmr(q, sim, 0.6, 3).steps
    assert (first.index, first.runner_up, first.most_similar_index, first.penalty_term) == (1, 2, None, 0)
    assert first.margin == pytest.approx(0.6 * 0.1)
    assert (second.index, second.most_similar_index, second.runner_up) == (0, 1, 2)
    assert second.score == pytest.approx(0.6 * 0.5 - 0.4 * 0.2)
    assert second.margin == pytest.approx(second.score - (0.6 * 0.8 - 0.4 * 0.95))
    assert (third.index, third.max_similarity, third.most_similar_index) == (2, 0.95, 1)
    np.testing.assert_array_equal(third.candidates.index, [2, 3])
    np.testing.assert_allclose(third.candidates.score, [0.6 * 0.8 - 0.4 * 0.95, 0.6 * 0.1 - 0.4 * 0.3])
    np.testing.assert_array_equal(third.candidates.most_similar, [1, 1])


def test_the_first_pick_is_the_strongest_even_at_lambda_0() -> None:
    q = np.array([0.1, 0.2, 0.9])
    assert mmr(q, np.eye(3), 0.0, 1).picks == (2,)


@pytest.mark.parametrize("columns", [3, 57, 1001, 10_000])
def test_identical_vectors_tie_exactly_whatever_the_row(columns: int) -> None:
    rng = np.random.default_rng(columns)
    vectors = np.tile(rng.random(columns), (33, 1))
    vectors[20] = rng.random(columns) * 0.5
    trace = mmr(vectors.mean(axis=1), SimilarityRows(vectors, "cosine"), 0.2, 3)
    assert trace.picks == (0, 20, 1)
    for step in (trace.steps[0], trace.steps[2]):
        assert step.ties == tuple(i for i in range(1 if step.order == 1 else 2, 33) if i != 20)
        assert step.margin == 0
        assert step.runner_up == step.ties[0]


def test_a_difference_of_one_task_in_ten_thousand_is_no_tie() -> None:
    vectors = np.zeros((2, 10_000))
    vectors[0, :5000] = vectors[1, :5001] = 1
    step = mmr(vectors.mean(axis=1), SimilarityRows(vectors, "cosine"), 0.7, 1).steps[0]
    assert (step.index, step.ties) == (1, ())
    assert step.margin == pytest.approx(0.7e-4)


def test_pins_come_first_in_their_order_and_bans_never() -> None:
    rng = np.random.default_rng(3)
    scores = rng.random((6, 9))
    trace = mmr(scores.mean(axis=1), similarity_matrix(scores, "cosine"), 0.7, 4, pin=[5, 2], ban=[0])
    assert trace.picks[:2] == (5, 2)
    assert 0 not in trace.picks
    assert [step.pinned for step in trace.steps] == [True, True, False, False]
    assert trace.steps[0].margin is None
    assert trace.steps[1].max_similarity == pytest.approx(similarity_matrix(scores, "cosine")[5, 2])
    assert all(0 not in step.candidates.index for step in trace.steps)


def test_the_last_open_candidate_has_no_margin() -> None:
    step = mmr(np.array([0.5, 0.4]), np.eye(2), 0.7, 2).steps[1]
    assert (step.margin, step.runner_up, step.ties) == (None, None, ())


def test_only_the_rows_of_picks_are_asked_for() -> None:
    asked: list[int] = []

    def row(index: int) -> np.ndarray:
        asked.append(index)
        return np.eye(100)[index]

    picks = mmr(np.linspace(0, 1, 100), row, 0.7, 6).picks
    assert asked == list(picks[:-1])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"lam": 1.1}, "λ must be in"),
        ({"lam": float("nan")}, "λ must be in"),
        ({"k": 0}, "K must be from 1"),
        ({"k": 5}, "K must be from 1 .* to 4"),
        ({"k": 4, "ban": [0]}, "to 3"),
        ({"k": 1, "pin": [0, 1]}, "K must be from 2"),
        ({"pin": [4]}, "no checkpoint at position 4"),
        ({"ban": [-1]}, "no checkpoint at position -1"),
        ({"pin": [1, 1]}, "pinned twice"),
        ({"pin": [1], "ban": [1]}, "both pinned and banned"),
        ({"relevance": np.array([0.1, np.nan, 0.2, 0.3])}, "finite"),
        ({"similarity": np.full((4, 4), np.nan)}, "contains NaN"),
        ({"similarity": np.eye(3)}, "shape"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], expected: str) -> None:
    arguments = {"relevance": np.arange(4) / 4, "similarity": np.eye(4), "lam": 0.7, "k": 2} | change
    with pytest.raises(RecipeError, match=expected):
        mmr(**arguments)
