"""Softmax weights: the golden figures, and what must hold for any relevances.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_weights.py
"""

from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.errors import RecipeError
from core.recipe import effective_members, softmax_weights

SOLVED = (38, 38, 36, 33, 32)
relevances = arrays(np.float64, st.integers(1, 12), elements=st.floats(0, 1))
taus = st.floats(1e-3, 10)


def test_the_published_weights() -> None:
    """The exact formula in 40 digits, of which the published weights are the first three."""
    getcontext().prec = 40
    powers = [((Decimal(one) - 38) / 57 / Decimal("0.02")).exp() for one in SOLVED]
    exact = [float(power / sum(powers)) for power in powers]
    found = softmax_weights(np.array(SOLVED) / 57, 0.02)
    np.testing.assert_allclose(found, exact, rtol=1e-13)
    assert found.round(5).tolist() == [0.45649, 0.45649, 0.07898, 0.00568, 0.00236]
    assert found.round(3).tolist() == [0.456, 0.456, 0.079, 0.006, 0.002]
    assert effective_members(found) == pytest.approx(2.612, abs=5e-4)


def test_the_published_weights_give_back_the_published_counts() -> None:
    """The five-place weights as published differ in the last places, yet invert to the same whole counts."""
    published = np.array([0.45647, 0.45647, 0.07901, 0.00568, 0.00236])
    counts = 38 + 57 * 0.02 * np.log(published / published[0])
    np.testing.assert_allclose(counts, SOLVED, atol=0.01)
    np.testing.assert_allclose(softmax_weights(np.array(SOLVED) / 57, 0.02), published, atol=4e-5)


@given(relevances, taus)
def test_they_sum_to_1_and_keep_the_order(q: np.ndarray, tau: float) -> None:
    weights = softmax_weights(q, tau)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert (weights >= 0).all()
    assert (np.diff(weights[np.argsort(q, kind="stable")]) >= 0).all()


@given(relevances, taus, st.floats(-5, 5))
def test_a_shift_of_all_relevances_changes_nothing(q: np.ndarray, tau: float, shift: float) -> None:
    np.testing.assert_allclose(softmax_weights(q + shift, tau), softmax_weights(q, tau), atol=1e-11)


@given(relevances, taus)
def test_effective_members_lie_between_1_and_k(q: np.ndarray, tau: float) -> None:
    assert 1 - 1e-12 <= effective_members(softmax_weights(q, tau)) <= len(q) + 1e-9


def test_equal_relevances_share_equally_and_a_tiny_tau_picks_one() -> None:
    np.testing.assert_array_equal(softmax_weights(np.full(4, 0.3), 0.02), np.full(4, 0.25))
    assert effective_members(np.full(4, 0.25)) == pytest.approx(4)
    for tau in (1e-300, 5e-324):
        np.testing.assert_array_equal(softmax_weights(np.array([0.2, 0.9]), tau), [0, 1])
    assert effective_members(np.array([0.0, 1.0])) == 1


@pytest.mark.parametrize("tau", [0, -0.1, float("nan"), float("inf")])
def test_tau_must_be_above_0(tau: float) -> None:
    with pytest.raises(RecipeError, match="τ must be a number above 0"):
        softmax_weights(np.array([0.1]), tau)


@pytest.mark.parametrize("q", [[], [0.1, float("nan")], [[0.1]]])
def test_relevances_must_be_finite_and_some(q: list[float]) -> None:
    with pytest.raises(RecipeError, match="one finite relevance a pick"):
        softmax_weights(np.array(q), 0.02)
