"""Coverage of the picks, counted by hand and by sets.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_coverage.py
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core.recipe.coverage import pick_coverage


def test_by_hand() -> None:
    scores = np.array([[1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0], [1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 0]], float)
    found = pick_coverage(scores, (1, 0, 2))
    assert (found.tasks, found.by_any, found.by_all, found.by_pool) == (6, 4, 1, 5)
    assert [one.adds for one in found.picks] == [(0, 2), (1,), (3,)]
    assert [one.alone for one in found.picks] == [(), (1,), (3,)]
    assert found.picks[0].solves == (0, 2)


def test_half_of_the_samples_right_counts_as_solved() -> None:
    assert pick_coverage(np.array([[0.5, 0.49]]), (0,)).picks[0].solves == (0,)


@given(arrays(np.float64, (5, 7), elements=st.sampled_from([0.0, 1.0])), st.permutations(range(5)), st.integers(1, 5))
def test_what_picks_add_is_what_they_cover(scores: np.ndarray, order: list[int], k: int) -> None:
    found = pick_coverage(scores, tuple(order[:k]))
    solved = [set(np.flatnonzero(scores[at]).tolist()) for at in order[:k]]
    assert found.by_any == len(set().union(*solved)) == sum(len(one.adds) for one in found.picks)
    assert found.by_all == len(set.intersection(*solved)) <= found.by_any <= found.by_pool
    for at, one in enumerate(found.picks):
        assert set(one.alone) == solved[at] - set().union(*(solved[:at] + solved[at + 1 :]))
