"""Similarities against their formulas, on 0/1 and on graded scores.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_similarity.py
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.errors import RecipeError
from core.recipe import SimilarityRows, similarity_matrix
from core.recipe.similarity import KINDS

A, B = np.array([1, 1, 1, 0, 0.0]), np.array([1, 1, 0, 1, 0.0])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("cosine", 2 / 3), ("pearson", 2 / 5 / (6 / 5)), ("jaccard", 2 / 4), ("agreement", 3 / 5)],
)
def test_by_hand(kind: Any, expected: float) -> None:
    # Phi by hand: (n11·n00 − n10·n01)/√(3·2·3·2) = (2·1 − 1·1)/6 = 1/6, which is pearson too.
    wanted = 1 / 6 if kind == "pearson" else expected
    assert similarity_matrix(np.stack([A, B]), kind)[0, 1] == pytest.approx(wanted, abs=1e-15)


@given(
    arrays(np.float64, (6, 11), elements=st.floats(0, 1, width=32))
    | arrays(np.float64, (6, 70), elements=st.sampled_from([0.0, 1.0]))
)
@settings(max_examples=60, deadline=None)
def test_graded_and_0_1_scores_follow_the_general_formulas(vectors: np.ndarray) -> None:
    vectors[vectors < 1e-3] = 0
    zero = ~vectors.any(axis=1)
    for i, a in enumerate(vectors):
        for j, b in enumerate(vectors):
            if zero[i] or zero[j]:
                assert all(similarity_matrix(vectors, kind)[i, j] == 0 for kind in KINDS)
                continue
            got = {kind: similarity_matrix(vectors, kind)[i, j] for kind in KINDS}
            assert got["cosine"] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-12)
            assert got["jaccard"] == pytest.approx(np.minimum(a, b).sum() / np.maximum(a, b).sum(), abs=1e-12)
            assert got["agreement"] == pytest.approx(1 - np.abs(a - b).mean(), abs=1e-12)
            if a.std() > 1e-3 and b.std() > 1e-3:
                assert got["pearson"] == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_and_diagonal(kind: Any) -> None:
    vectors = (np.random.default_rng(0).random((40, 57)) < 0.5).astype(float)
    matrix = similarity_matrix(vectors, kind)
    assert matrix.max() <= 1.0
    assert matrix.min() >= (-1.0 if kind == "pearson" else 0.0)
    np.testing.assert_allclose(np.diag(matrix), 1.0, atol=1e-12)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-14)


def test_pearson_can_be_negative_and_a_constant_vector_is_like_nothing() -> None:
    matrix = similarity_matrix(np.array([[1, 0, 1, 0], [0, 1, 0, 1], [0.3, 0.3, 0.3, 0.3]]), "pearson")
    assert matrix[0, 1] == pytest.approx(-1.0)
    assert matrix[2].tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_pool_goes_by_blocks_to_the_same_numbers(kind: Any) -> None:
    vectors = np.random.default_rng(1).random((130, 9000))
    for scores in (vectors, vectors.round()):
        few = similarity_matrix(scores[:3], kind)
        np.testing.assert_allclose(SimilarityRows(scores, kind)(1)[:3], few[1], atol=1e-12)


def test_a_row_is_computed_once_and_cannot_be_changed() -> None:
    rows = SimilarityRows(np.eye(3), "cosine")
    assert rows(1) is rows(1)
    with pytest.raises(ValueError, match="read-only"):
        rows(1)[0] = 5


@pytest.mark.parametrize(
    ("vectors", "kind", "expected"),
    [
        (np.array([[1.0], [np.nan]]), "cosine", "checkpoint 1 contain NaN"),
        (np.array([[1.0], [np.inf]]), "cosine", "checkpoint 1 contain NaN or infinity"),
        (np.ones(3), "cosine", "shape"),
        (np.ones((2, 2)), "euclid", "unknown similarity 'euclid'"),
    ],
)
def test_bad_input_is_refused(vectors: np.ndarray, kind: Any, expected: str) -> None:
    with pytest.raises(RecipeError, match=expected):
        similarity_matrix(vectors, kind)
