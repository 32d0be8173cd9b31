"""Intervals against values worked out by hand. Run: .venv/bin/python -m pytest tests/unit/preview/test_intervals.py"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.preview.design import Design, draw
from core.preview.intervals import Column, Strata, cosines, norms, shares, wilson
from core.stats import wilson_interval
from core.stats.student import t_quantile


def strata(taken: int, blocks: int, size: int = 10) -> Strata:
    """One tensor of so many blocks, the first of which are read."""
    return Strata(Design(size, np.array([blocks * size]), np.array([taken]), np.array([blocks]), np.arange(taken)))


def column(*values: float) -> Column:
    array = np.array(values, np.float64)[:, None]
    return Column(array, array)


def test_wilson_is_that_of_the_statistics() -> None:
    z = 1.959963984540054
    low, high = wilson(np.array([0.3]), np.array([50.0]), np.array([z]))
    assert (low[0], high[0]) == pytest.approx(wilson_interval(15, 50))


def test_a_share_by_hand() -> None:
    # 4 of 1,000 blocks of ten: 1, 3, 2 and 2 hits. p = 0.2; residuals −1, 1, 0, 0, each over 1 − 1/4.
    found = shares(strata(4, 1000), column(1, 3, 2, 2), column(10, 10, 10, 10)).tensors
    # Σ(e/0.75)² = 32/9, times 4/3, 0.996 and 1/40². Less than 40 elements on their own would give: 0.996 · 0.16 / 40.
    variance = max(0.996 * 32 / 9 * 4 / 3 / 1600, 0.996 * 0.16 / 40)
    # Fourth moment over the square of the second is 2: no excess over 3, so three degrees of freedom.
    low, high = wilson(np.array([0.2]), np.array([0.16 / variance]), np.array([t_quantile(3)]))
    assert (found.estimate[0, 0], found.low[0, 0], found.high[0, 0]) == pytest.approx((0.2, low[0], high[0]))


@pytest.mark.parametrize(("hits", "end"), [(0, 0.0), (10, 1.0)])
def test_all_alike_counts_a_block_as_one(hits: int, end: float) -> None:
    both = shares(strata(8, 10**6), column(*[hits] * 8), column(*[10] * 8))
    t = t_quantile(6)  # 8/0.999992 blocks less one, rounded down
    room = t * t / (8 + t * t)
    for found in both:
        ends = sorted((end, abs(end - room)))
        assert [np.ravel(found.low)[0], np.ravel(found.high)[0]] == pytest.approx(ends, rel=0.2)
        assert np.ravel(found.estimate)[0] == end


def test_what_was_read_whole_narrows_the_total() -> None:
    design = Design(
        10, np.array([900, 1000]), np.array([90, 5]), np.array([90, 100]), np.r_[np.arange(90), np.arange(5)]
    )
    part = column(*[0] * 95)
    tensors, total = shares(Strata(design), part, column(*[10] * 95))
    assert (tensors.low[0, 0], tensors.high[0, 0]) == (0, 0)
    assert 0 < total.high[0] == pytest.approx(tensors.high[1, 0] * 1000 / 1900, rel=0.02)


def test_a_whole_tensor_has_no_width() -> None:
    both = shares(strata(3, 3), column(1, 0, 5), column(10, 10, 10))
    assert [float(np.ravel(one)[0]) for found in both for one in found] == pytest.approx([0.2] * 6)
    found = norms(strata(2, 2), column(9, 16), np.ones((2, 1)), both).total
    assert [float(one[0]) for one in found] == [5, 5, 5]


def test_a_norm_counts_every_element_for_those_not_read() -> None:
    moved = column(*[5] * 4)
    some = shares(strata(4, 100), moved, column(*[10] * 4))
    found = norms(strata(4, 100), column(1, 2, 3, 2), moved.values, some).tensors
    assert found.estimate[0, 0] == pytest.approx(math.sqrt(200))
    assert found.low[0, 0] < math.sqrt(200) < found.high[0, 0]
    assert found.low[0, 0] * found.high[0, 0] == pytest.approx(200)


def test_cosines_of_opposite_and_unrelated_vectors() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3, 10))
    x[:, 1] = -x[:, 0]
    found = cosines(strata(20, 1000), x @ x.transpose(0, 2, 1)).tensors
    assert found.estimate[0, 0] == pytest.approx(-1) and -1 < found.high[0, 0] < -0.5
    assert found.low[0, 1] < 0 < found.high[0, 1]


@given(
    sizes=st.lists(st.integers(1, 10**7), min_size=1, max_size=40),
    budget=st.integers(10**5, 10**7),
    seed=st.integers(0, 2**32),
)
def test_a_design_keeps_its_budget_and_draws_each_block_once(sizes: list[int], budget: int, seed: int) -> None:
    elements, cost = np.array(sizes), np.full(len(sizes), 8)
    design = draw([str(one) for one in range(len(sizes))], elements, cost, budget=budget, seed=seed)
    assert int(design.sizes.sum()) * 8 <= budget
    assert (design.sizes > 0).all()
    for at, first in enumerate(design.first.tolist()):
        numbers = design.numbers[first : first + int(design.taken[at])]
        assert (np.diff(numbers) > 0).all() and numbers[0] >= 0 and numbers[-1] < design.blocks[at]
    if int(elements.sum()) * 8 <= budget // 4:
        assert design.exact.all()
