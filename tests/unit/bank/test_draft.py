"""From a folder to a bank: repeats set apart, every choice explicit and kept, written whole or not at all.

Run: .venv/bin/python -m pytest tests/unit/bank/test_draft.py
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.bank import load_bank, replicate_scores
from core.bank.choices import Choices, group_problems, open_settings
from core.bank.discover import discover
from core.bank.draft import Draft, Member, pool_of, write_bank
from core.bank.match import Target, as_mapping, match_scores
from core.bank.readers import ScoreRow, ScoreSet, read_scores
from core.bank.repeats import Matched, matched_scores, split_repeats
from core.errors import BankError, RunError
from core.recipe import Recipe, compile_plan, select
from tests.unit.bank.found_folder import write_run

SETTLED = Choices(tasks="intersect", duplicates="first")


def rows(*found: tuple[Any, ...]) -> ScoreSet:
    """Rows as (checkpoint, task, score[, sample[, seed]])."""
    made = [
        ScoreRow(who, task, score, sample=rest[0] if rest else None, extra={"seed": rest[1]} if len(rest) > 1 else None)
        for who, task, score, *rest in found
    ]
    return ScoreSet(made)


def alone(scores: ScoreSet) -> Matched:
    return matched_scores(scores, dict.fromkeys(scores.checkpoints, "+"), [])


def drafted(scores: ScoreSet, choices: Choices, base: str = "", found: Sequence[Member] = ()) -> Draft:
    matched = alone(scores)
    members, start = pool_of(matched, found, base)
    return Draft("made", start, members, matched, choices)


@pytest.fixture
def run_draft(tmp_path: Path) -> Draft:
    found = discover(write_run(tmp_path / "run"))
    scores = read_scores([one.path for one in found.scores])
    matched = matched_scores(scores, as_mapping(match_scores(scores.checkpoints, found.targets)), found.targets)
    members, base = pool_of(matched, [Member(one.id, one.step, one.path) for one in found.checkpoints], "base")
    return Draft("grpo", base, members, matched, SETTLED, tasks_file=found.tasks[0])


def test_a_folder_becomes_a_bank_that_says_how(run_draft: Draft, tmp_path: Path) -> None:
    bank = write_bank(run_draft, tmp_path / "bank")
    assert [(one.id, one.step) for one in bank.checkpoints] == [("checkpoint-90", 90), ("checkpoint-100", 100), ("checkpoint-200", 200)]  # fmt: skip  # noqa: E501
    assert bank.has_weights and bank.base.path == tmp_path / "run" / "base"
    dev = bank.splits["dev"]
    assert dev.tasks == ("t0", "t1", "t2")
    assert dev.scores.tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert dev.base_scores is not None and dev.base_scores.tolist() == [1, 0, 1]
    kept = dev.alignment
    assert kept is not None and kept.dropped == ("t3",)
    assert kept.problems == (("duplicated", 1, 1, "first"), ("missing", 1, 1, "intersect"))
    assert kept.matched["90"] == "checkpoint-90" and "base" not in kept.matched
    assert kept.sources == (str(tmp_path / "run" / "evals" / "dev.csv"),)
    assert "# scores aligned: duplicated: first; missing: intersect; 1 of 4 tasks dropped" in compile_plan(bank, Recipe(k=2))  # fmt: skip  # noqa: E501
    assert '"prompt": "2?"' in (bank.root / "tasks" / "dev.jsonl").read_text()


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (Choices(), r"scored 1 task more than once: t0. Choose what to do: --duplicates first, mean"),
        (
            Choices(duplicates="first"),
            r"no score for 1 task: t3. Choose what to do: --on-missing intersect, mask, impute:VALUE",
        ),
        (Choices(tasks="impute:7", duplicates="first"), "unknown choice 'impute:7'"),
    ],
)
def test_nothing_is_chosen_by_default(run_draft: Draft, tmp_path: Path, choices: Choices, said: str) -> None:
    with pytest.raises(BankError, match=said):
        write_bank(Draft(**{**run_draft.__dict__, "choices": choices}), tmp_path / "bank")
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


def test_leaving_out_opens_the_question_of_the_gaps() -> None:
    scores = rows(("a", "t", 2.0), ("a", "u", 1), ("b", "t", 1), ("b", "u", 1))
    problems = drafted(scores, Choices()).problems
    assert list(group_problems(problems)) == ["outside"]
    assert [one.name for one in open_settings(problems, Choices())] == ["outside"]
    assert open_settings(problems, Choices(outside="clamp")) == []
    assert [one.name for one in open_settings(problems, Choices(outside="mask"))] == ["tasks"]


def test_imputed_scores_are_the_value_on_every_sample(tmp_path: Path) -> None:
    scores = rows(("a", "t", 1, 0), ("a", "t", 0, 1), ("a", "u", 1, 0), ("a", "u", 1, 1), ("b", "u", 0, 0), ("b", "u", 1, 1))  # fmt: skip  # noqa: E501
    dev = write_bank(drafted(scores, Choices(tasks="impute:0.25")), tmp_path / "bank").splits["dev"]
    assert (dev.scores.tolist(), dev.samples) == ([[0.5, 1.0], [0.25, 0.5]], 2)


def test_uneven_samples_are_kept_as_means_and_said(tmp_path: Path) -> None:
    scores = rows(("a", "t", 1, 0), ("a", "t", 0, 1), ("b", "t", 0, 0), ("b", "t", 1, 1), ("a", "u", 1, 0), ("b", "u", 0, 0))  # fmt: skip  # noqa: E501
    bank = write_bank(drafted(scores, Choices(tasks="intersect")), tmp_path / "bank")
    assert (bank.splits["dev"].scores.tolist(), bank.splits["dev"].samples) == ([[0.5, 1.0], [0.5, 0.0]], 1)
    assert "mean of its samples" in bank.notes


def test_more_seeds_of_one_checkpoint_are_its_repeats() -> None:
    scores = rows(("a", "t", 0, 0, 7), ("b", "t", 1, 0, 9), ("b", "t", 0, 0, 3), ("b", "t", 1, 0, 5))
    main, repeats, notes = split_repeats(scores)
    assert [(row.checkpoint, row.score) for row in main.rows] == [("a", 0), ("b", 0)]
    assert repeats is not None and (repeats.checkpoint, repeats.runs, len(repeats.rows)) == ("b", 3, 3)
    assert notes == ["b was evaluated 3 times: the first counts as its score, all of them give the noise."]


def test_the_same_seeds_everywhere_are_samples() -> None:
    scores = rows(("a", "t", 0, 0, 1), ("a", "t", 1, 0, 2), ("b", "t", 1, 0, 1), ("b", "t", 0, 0, 2))
    assert split_repeats(scores) == (scores, None, [])


def test_several_names_of_one_checkpoint_become_replicates_of_the_bank(tmp_path: Path) -> None:
    found = [(f"b/run-{run}", task, (run + at) % 2) for run in range(3) for at, task in enumerate("tuv")]
    scores = rows(("a", "t", 1), ("a", "u", 0), ("a", "v", 1), *found, ("x", "t", 1))
    targets = [Target("a"), Target("b")]
    matched = matched_scores(scores, as_mapping(match_scores(scores.checkpoints, targets)), targets)
    assert (matched.left_out, matched.scores.checkpoints) == (("x",), ("a", "b"))
    members, base = pool_of(matched, [Member("a"), Member("b")], "")
    bank = write_bank(Draft("made", base, members, matched, Choices()), tmp_path / "bank")
    again = replicate_scores(bank.splits["dev"])
    assert again is not None
    assert (again.checkpoint, again.scores.tolist()) == ("b", [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    assert bank.splits["dev"].alignment is not None and bank.splits["dev"].alignment.left_out == ("x",)
    assert bank.base.id == "base" and not bank.has_weights


def test_repeats_that_lack_a_task_are_left_out_and_counted(tmp_path: Path) -> None:
    scores = rows(("a", "t", 1, 0, 0), ("a", "u", 0, 0, 0), *(("b", task, 1, 0, run) for run in range(3) for task in "tu" if (run, task) != (2, "u")))  # fmt: skip  # noqa: E501
    bank = write_bank(drafted(scores, Choices()), tmp_path / "bank")
    again = replicate_scores(bank.splits["dev"])
    assert again is not None and again.scores.shape == (2, 2)
    assert "1 of 3 repeats of b lack scores: left out." in bank.notes


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"x": ""}, "no scores are left: 1 names"),
        ({"x": "nobody"}, "'nobody', which is not one of a"),
        ({"x": "+", "a": "+"}, "'a' cannot stand without weights"),
    ],
)
def test_a_mapping_that_cannot_be_is_refused(mapping: dict[str, str], said: str) -> None:
    scores = rows(*((name, "t", 1) for name in mapping))
    with pytest.raises(BankError, match=said):
        matched_scores(scores, mapping, [Target("a")])


def test_the_base_must_be_known_and_is_not_in_the_pool() -> None:
    matched = alone(rows(("a", "t", 1), ("base", "t", 0)))
    members, base = pool_of(matched, [], "a")
    assert ([one.id for one in members], base.id) == (["base"], "a")
    assert pool_of(matched, [], "")[1].id == "base model"
    with pytest.raises(BankError, match="the base 'c' is not one of what was found: a, base"):
        pool_of(matched, [], "c")
    with pytest.raises(BankError, match="no checkpoint has scores besides the base"):
        pool_of(alone(rows(("a", "t", 1))), [], "a")


def test_what_is_there_is_never_overwritten(run_draft: Draft, tmp_path: Path) -> None:
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank" / "mine").touch()
    with pytest.raises(BankError, match="is there already"):
        write_bank(run_draft, tmp_path / "bank")
    (tmp_path / "bank" / "mine").unlink()
    assert load_bank(write_bank(run_draft, tmp_path / "bank").root).name == "grpo"


def test_a_place_that_cannot_be_written_leaves_nothing(run_draft: Draft, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BankError, match="expected a plain name for the task set"):
        write_bank(Draft(**{**run_draft.__dict__, "split": "../../dev"}), tmp_path / "bank")
    with pytest.raises(RunError, match="cannot be written"):
        write_bank(run_draft, tmp_path / "file" / "bank")
    broken = Draft(**{**run_draft.__dict__, "name": "", "split": "dev"})
    with pytest.raises(BankError, match=r"bank/bank.yaml:1: 'name'"):
        write_bank(broken, tmp_path / "bank")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "run"]


def test_masked_gaps_stay_gaps_and_recipes_go_around_them(tmp_path: Path) -> None:
    scores = rows(("a", "t", 1), ("a", "u", 0), ("a", "v", 1), ("b", "t", 1), ("b", "v", 1), ("c", "u", 1), ("c", "v", 0))  # fmt: skip  # noqa: E501
    bank = write_bank(drafted(scores, Choices(tasks="mask")), tmp_path / "bank")
    dev = bank.splits["dev"]
    np.testing.assert_array_equal(dev.scores, [[1, 0, 1], [1, np.nan, 1], [np.nan, 1, 0]])
    assert any("2 of 9 scores are missing and were masked" in one for one in bank.warnings)
    chosen = select(bank, Recipe(lam=0.5, k=2))
    # b has q = 1; then a: 0.5 · 2/3 − 0.5 · 1, and c: 0.5 · 1/2 − 0.5 · 0, since c has only v in common and fails it.
    assert [one.checkpoint for one in chosen.picks] == ["b", "c"]
    assert chosen.picks[1].score == pytest.approx(0.25)


def test_a_checkpoint_of_nothing_but_gaps_is_refused(tmp_path: Path) -> None:
    scores = rows(("a", "t", 1), ("b", "t", None))
    with pytest.raises(BankError, match="no scores for checkpoint 'b'"):
        write_bank(drafted(scores, Choices(tasks="mask")), tmp_path / "bank")
