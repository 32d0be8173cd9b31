"""Similarities where some scores are missing: by hand, and equal to the whole ones where nothing is.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_masked.py
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.recipe.masked import MaskedSimilarityRows
from core.recipe.similarity import KINDS, SimilarityRows

NAN = float("nan")
VECTORS = np.array([[1, 1, 0, NAN], [1, 0, NAN, 1], [NAN, NAN, NAN, 1], [0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # Common tasks of rows 0 and 1 are the first two: (1, 1) and (1, 0).
        ("cosine", 1 / np.sqrt(2)),
        ("pearson", 0.0),
        ("jaccard", 0.5),
        ("agreement", 0.5),
    ],
)
def test_only_common_tasks_count(kind: str, expected: float) -> None:
    rows = MaskedSimilarityRows(VECTORS, kind)  # type: ignore[arg-type]
    assert rows(0)[1] == pytest.approx(expected)
    assert rows(0)[2] == 0, "no common task"
    assert rows(0)[3] == 0 and not rows(3).any(), "an all-zero vector is like nothing"


@pytest.mark.parametrize("kind", KINDS)
@given(arrays(np.float64, (4, 5), elements=st.sampled_from((0.0, 0.25, 0.5, 1.0))))
def test_without_gaps_it_is_the_whole_similarity(kind: str, vectors: np.ndarray) -> None:
    whole, masked = SimilarityRows(vectors, kind), MaskedSimilarityRows(vectors, kind)  # type: ignore[arg-type]
    for row in range(len(vectors)):
        np.testing.assert_allclose(masked(row), whole(row), atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@given(arrays(np.float64, (4, 6), elements=st.sampled_from((0.0, 0.5, 1.0, NAN))))
def test_a_pair_is_what_it_would_be_without_the_other_tasks(kind: str, vectors: np.ndarray) -> None:
    rows = MaskedSimilarityRows(vectors, kind)  # type: ignore[arg-type]
    one, two = vectors[0], vectors[1]
    both = np.isfinite(one) & np.isfinite(two)
    expected = SimilarityRows(np.stack([one[both], two[both]]), kind)(0)[1] if both.any() else 0.0  # type: ignore[arg-type]
    assert rows(0)[1] == pytest.approx(float(expected), abs=1e-7)
    assert rows(1)[0] == pytest.approx(rows(0)[1], abs=1e-12)
