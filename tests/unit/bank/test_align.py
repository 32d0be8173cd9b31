"""Whether scores may be compared: each way in which they do not fit, and each choice that settles it.

Run: .venv/bin/python -m pytest tests/unit/bank/test_align.py
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.bank.align import align, find_problems
from core.bank.readers import ScoreRow, ScoreSet
from core.errors import BankError

NAN = float("nan")


def scores_of(*rows: tuple[Any, ...], limited: dict[str, str] | None = None) -> ScoreSet:
    """Rows as (checkpoint, task, score[, sample[, prompt hash]])."""
    made = [
        ScoreRow(who, task, score, None, *rest[:1], **({"prompt_hash": rest[1]} if len(rest) > 1 else {}))
        for who, task, score, *rest in rows
    ]
    return ScoreSet(made, limited=limited or {})


def kinds(scores: ScoreSet) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(one.kind, one.checkpoint, one.tasks) for one in find_problems(scores)]


def test_scores_that_fit_have_no_problems() -> None:
    scores = scores_of(("a", "t1", 1), ("a", "t2", 0), ("b", "t1", 0), ("b", "t2", 1))
    assert kinds(scores) == []
    found = align(scores, "intersect")
    np.testing.assert_array_equal(found.scores, [[1, 0], [0, 1]])
    assert (found.choices, found.dropped) == ({"tasks": "intersect"}, ())


def test_missing_tasks_are_found_and_settled_three_ways() -> None:
    scores = scores_of(("a", "t1", 1), ("a", "t2", 0), ("a", "t3", 1), ("b", "t3", 1), ("b", "t1", 0))
    assert kinds(scores) == [("missing", "b", ("t2",)), ("order", "b", ("t3", "t1"))]
    assert find_problems(scores)[0].sentence == "b: has no score for 1 task: t2."
    cut = align(scores, "intersect")
    assert (cut.tasks, cut.dropped) == (("t1", "t3"), ("t2",))
    np.testing.assert_array_equal(cut.scores, [[1, 1], [0, 1]])
    masked = align(scores, "mask")
    np.testing.assert_array_equal(masked.scores, [[1, 0, 1], [0, NAN, 1]])
    np.testing.assert_array_equal(masked.samples, [[1, 1, 1], [1, 0, 1]])
    filled = align(scores, "impute:0.25")
    np.testing.assert_array_equal(filled.scores, [[1, 0, 1], [0, 0.25, 1]])
    assert filled.choices == {"tasks": "impute:0.25"}
    assert filled.samples[1, 1] == 0


def test_duplicates_need_a_choice_of_their_own() -> None:
    scores = scores_of(("a", "t", 1), ("a", "t", 0), ("a", "t", 0), ("b", "t", 1))
    assert kinds(scores) == [("duplicated", "a", ("t",))]
    with pytest.raises(BankError, match=r"a: scored 1 task more than once: t. Choose .* duplicates first or mean"):
        align(scores, "mask")
    np.testing.assert_array_equal(align(scores, "mask", duplicates="first").scores, [[1], [1]])
    found = align(scores, "mask", duplicates="mean")
    np.testing.assert_allclose(found.scores, [[1 / 3], [1]])
    assert found.choices == {"tasks": "mask", "duplicates": "mean"}


def test_scores_outside_the_range_need_a_choice_of_their_own() -> None:
    scores = scores_of(("a", "t", -1, 0), ("a", "t", 0.5, 1), ("a", "u", 66.7, 0), ("a", "u", 1, 1))
    assert kinds(scores) == [("outside", "a", ("t", "u"))]
    with pytest.raises(BankError, match=r"outside \[0, 1\] on 2 tasks: t, u. Choose .* clamp or mask"):
        align(scores, "mask")
    np.testing.assert_array_equal(align(scores, "mask", outside="clamp").scores, [[0.25, 1]])
    np.testing.assert_array_equal(align(scores, "mask", outside="mask").scores, [[0.5, 1]])


def test_unscored_samples_are_left_out_or_imputed() -> None:
    scores = scores_of(
        ("a", "t", 1, 0), ("a", "t", None, 1), ("b", "t", None, 0), ("b", "t", None, 1), ("b", "u", 1, 0)
    )
    assert ("unscored", "b", ("t",)) in kinds(scores)
    np.testing.assert_array_equal(align(scores, "mask").scores, [[1, NAN], [NAN, 1]])
    np.testing.assert_array_equal(align(scores, "impute:0").scores, [[0.5, 0], [0, 1]])
    with pytest.raises(BankError, match=r"no task is left that all 2 checkpoints .* a has 1 of 2"):
        align(scores, "intersect")


def test_fewer_samples_are_found_and_cut_to_those_that_all_have() -> None:
    scores = scores_of(("a", "t", 1, 0), ("a", "t", 1, 1), ("a", "t", 0, 2), ("b", "t", 1, 1))
    assert kinds(scores) == [("samples", "b", ("t",))]
    cut = align(scores, "intersect")
    np.testing.assert_array_equal(cut.scores, [[1], [1]])
    np.testing.assert_array_equal(cut.samples, [[1], [1]])
    np.testing.assert_allclose(align(scores, "mask").scores, [[2 / 3], [1]])


def test_other_prompts_are_found_and_not_compared_unless_asked() -> None:
    rows = [("a", "t", 1, 0, "x"), ("b", "t", 0, 0, "y"), ("c", "t", 0, 0, "x")]
    scores = scores_of(*rows, ("a", "u", 1, 0, "z"), ("b", "u", 1, 0), ("c", "u", 1, 0, "z"))
    assert kinds(scores) == [("prompts", "b", ("t",))]
    cut = align(scores, "intersect")
    assert (cut.tasks, cut.choices) == (("u",), {"tasks": "intersect", "prompts": "same"})
    np.testing.assert_array_equal(align(scores, "mask").scores, [[1, 1], [NAN, 1], [0, 1]])
    everything = align(scores, "intersect", prompts="any")
    np.testing.assert_array_equal(everything.scores, [[1, 1], [0, 1], [0, 1]])
    assert everything.choices["prompts"] == "any"
    with pytest.raises(BankError, match="prompts any compares them"):
        align(scores_of(*rows), "intersect")


def test_a_limited_run_is_shown() -> None:
    scores = scores_of(("a", "t", 1), limited={"a": "x was run on 1 of its 9 documents (--limit)"})
    assert find_problems(scores)[0].sentence == "a: x was run on 1 of its 9 documents (--limit)."
    assert kinds(scores) == [("limited", "a", ("t",))]


@pytest.mark.parametrize(
    ("choice", "more"),
    [("impute", {}), ("impute:2", {}), ("impute:x", {}), ("drop", {}), ("mask:1", {}), ("", {})]
    + [("mask", {name: "x"}) for name in ("duplicates", "outside", "prompts")],
)
def test_unknown_choices_are_refused(choice: str, more: dict[str, str]) -> None:
    with pytest.raises(BankError, match="unknown choice"):
        align(scores_of(("a", "t", 1)), choice, **more)


CELLS = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.sampled_from("tuvw")), st.none() | st.floats(0, 1), min_size=1, max_size=12
)


@given(CELLS, st.randoms(use_true_random=False))
def test_masked_entries_are_the_cells_themselves_in_any_order(cells: dict[tuple[str, str], Any], random: Any) -> None:
    rows = [(who, task, score) for (who, task), score in cells.items()]
    random.shuffle(rows)
    found = align(scores_of(*rows), "mask")
    assert set(found.checkpoints) == {who for who, _ in cells}
    for row, who in enumerate(found.checkpoints):
        for column, task in enumerate(found.tasks):
            score = cells.get((who, task))
            np.testing.assert_equal(found.scores[row, column], NAN if score is None else score)
    fits = not find_problems(scores_of(*rows))
    assert fits == (found.dropped == () and not np.isnan(found.scores).any() and not any(found.problems))
