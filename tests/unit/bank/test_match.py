"""Step numbers in names, and which checkpoint a name in a score file means.

Run: .venv/bin/python -m pytest tests/unit/bank/test_match.py
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.bank.match import Target, as_mapping, edited, match_scores, step_of
from core.errors import BankError

TARGETS = [Target("base", None, "base"), Target("checkpoint-200", 200, "run/checkpoint-200"), Target("x", 210, "run/x")]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-200", 200),
        ("global_step_200", 200),
        ("global_steps_200", 200),
        ("global_step200_hf", 200),
        ("step-200", 200),
        ("iter_0000200", 200),
        ("200", 200),
        ("0200.jsonl", 200),
        ("200-steps", 200),
        ("grpo-lr1e-6-step200-v2", 200),
        ("run_3/global_step_200/actor/huggingface", 200),
        ("checkpoint-100/checkpoint-200", 200),
        ("org__checkpoint-200", 200),
        ("step=200.csv", 200),
        ("Qwen3-8B", None),
        ("Qwen2.5-0.5B", None),
        ("seed3", None),
        ("kit5", None),
        ("step200k", None),
        ("misstep-5", None),
        ("", None),
    ],
)
def test_steps_in_names_that_tools_write(name: str, step: int | None) -> None:
    assert step_of(name) == step


SHAPES = ("checkpoint-{}", "global_step_{}", "global_step{}_hf", "step-{}", "iter_{:07d}", "{}", "{}.jsonl", "step_{}")


@given(st.integers(0, 10**9), st.sampled_from(SHAPES), st.sampled_from(("", "run/", "a/b-7b/", "org__")))
def test_every_shape_gives_its_step_back(step: int, shape: str, before: str) -> None:
    assert step_of(before + shape.format(step)) == step


@given(st.text(max_size=60))
def test_no_name_breaks_it_and_a_step_is_a_number_that_is_written_there(name: str) -> None:
    step = step_of(name)
    assert step is None or (any(one.isdigit() for one in name) and 0 <= step < 10**12)


def test_names_then_folders_then_steps() -> None:
    found = match_scores(["base", "run/x", "checkpoint-200/eval", "step_210"], TARGETS)
    assert [(one.checkpoint, one.how) for one in found] == [
        ("base", "name"),
        ("x", "name"),
        ("checkpoint-200", "sub-folder"),
        ("x", "step"),
    ]
    assert found[3].reason == "x is step 210 too"


def test_what_fits_twice_or_not_at_all_is_left_to_people() -> None:
    twins = [Target("a/checkpoint-5", 5, "a/checkpoint-5"), Target("b/checkpoint-5", 5, "b/checkpoint-5")]
    (two,) = match_scores(["step-5"], twins)
    assert (two.checkpoint, two.how) == (None, "ambiguous")
    assert two.reason == "fits 2 checkpoints alike: a/checkpoint-5, b/checkpoint-5"
    (by_path,) = match_scores(["b/checkpoint-5"], twins)
    assert by_path.checkpoint == "b/checkpoint-5"
    same = match_scores(["200", "step-200"], TARGETS)
    assert [one.checkpoint for one in same] == [None, None]
    assert same[0].reason == "checkpoint-200 is step 200 too, and so are other scores"
    missing, nameless = match_scores(["step-7", "what"], TARGETS)
    assert missing.reason == "no checkpoint is step 7"
    assert nameless.reason == "says no step, and no checkpoint has this name"


def test_repeats_in_folders_of_their_own_are_all_matched() -> None:
    found = match_scores(["seed_1/checkpoint-200", "seed_2/checkpoint-200"], TARGETS)
    assert [one.checkpoint for one in found] == ["checkpoint-200"] * 2


def test_the_mapping_is_data_that_can_be_edited() -> None:
    mapping = as_mapping(match_scores(["200", "odd", "other"], TARGETS))
    assert mapping == {"200": "checkpoint-200", "odd": "", "other": ""}
    assert edited(mapping, ["x=odd", "=200", "+=other"], TARGETS) == {"200": "", "odd": "x", "other": "+"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("odd", "expected CHECKPOINT=NAME"),
        ("x=odder", "no scores are named 'odder'. The score files have: odd"),
        ("y=odd", "no checkpoint 'y' was found. There are: base, checkpoint-200, x"),
    ],
)
def test_a_wrong_change_says_what_there_is(change: str, said: str) -> None:
    with pytest.raises(BankError, match=said):
        edited({"odd": ""}, [change], TARGETS)
