"""`bank discover` and `bank make`, as people and programs use them.

Run: .venv/bin/python -m pytest tests/unit/cli/test_new_bank.py
"""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.bank.found_folder import write_csv, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


def test_discover_says_what_there_is_and_what_does_not_fit(shell: Any, run: Path) -> None:
    found = shell("bank", "discover", run, "--json").json
    assert [one["id"] for one in found["checkpoints"]] == ["checkpoint-90", "checkpoint-100", "checkpoint-200", "base"]
    assert {one["scores"]: one["checkpoint"] for one in found["matches"]}["90"] == "checkpoint-90"
    assert [one["kind"] for one in found["problems"]] == ["duplicated", "missing"]
    people = shell("bank", "discover", run)
    assert people.code == 0 and "base? 3 of the others say in config.json" in people.out
    assert "checkpoint-200: has no score for 1 task: t3." in people.out


def test_make_asks_for_each_choice_and_then_makes_a_bank(shell: Any, run: Path, tmp_path: Path) -> None:
    asked = shell("bank", "make", run, "made")
    assert (asked.code, asked.out) == (2, "") and "--duplicates first, mean" in asked.err
    asked = shell("bank", "make", run, "made", "--duplicates", "mean")
    assert asked.code == 2 and "--on-missing intersect, mask, impute:VALUE" in asked.err
    assert not (tmp_path / "made").exists()
    made = shell("bank", "make", run, "made", "--duplicates", "mean", "--on-missing", "intersect", "--json").json
    assert made["alignment"] == "duplicated: mean; missing: intersect; 1 of 4 tasks dropped"
    shown = shell("bank", "show", "made", "--json").json
    assert (shown["name"], shown["splits"]) == ("made", {"dev": {"tasks": 3, "samples": 1}})
    assert "# scores aligned: duplicated: mean" in shell("plan", "made", "--k", 2).out
    again = shell("bank", "make", run, "made", "--duplicates", "mean", "--on-missing", "intersect")
    assert again.code == 2 and "is there already" in again.err


def test_matches_and_the_base_can_be_said_by_hand(shell: Any, run: Path) -> None:
    flags = ("--duplicates", "first", "--on-missing", "impute:0", "--split", "test", "--base", "checkpoint-90")
    made = shell("bank", "make", run, "made", *flags, "--match", "=base", "--match", "+=200", "--json").json
    assert made["base"]["id"] == "checkpoint-90"
    assert [(one["id"], bool(one["path"])) for one in made["checkpoints"]] == [("checkpoint-100", True), ("200", False)]
    assert list(made["splits"]) == ["test"]


def test_scores_alone_make_a_bank_of_scores(shell: Any, tmp_path: Path) -> None:
    write_csv(tmp_path / "evals" / "s.csv", [(who, task, 1) for who in ("step-2", "step-10", "base") for task in "tu"])
    made = shell("bank", "make", tmp_path / "evals", "made", "--json").json
    assert ([one["id"] for one in made["checkpoints"]], made["base"]["id"]) == (["step-2", "step-10"], "base")


def test_nothing_to_make_a_bank_of(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = shell("bank", "make", tmp_path / "empty", "made")
    assert found.code == 2 and "no score files were found" in found.err
    assert shell("bank", "discover", tmp_path / "nowhere").err.startswith("error: ")
