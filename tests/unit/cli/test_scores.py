"""`scores read` and `scores align`, as people and programs use them.

Run: .venv/bin/python -m pytest tests/unit/cli/test_scores.py
"""

import json
from pathlib import Path
from typing import Any

import pytest

CSV = "checkpoint,task,sample,score\na,t1,0,1\na,t1,1,0\na,t2,0,1\na,t2,1,1\nb,t1,0,1\nb,t1,1,\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "evals" / "scores.csv"
    path.parent.mkdir()
    path.write_text(CSV)
    return path


def test_read_has_the_promised_keys(shell: Any, table: Path) -> None:
    found = shell("scores", "read", table, "--json")
    assert (found.code, found.err) == (0, "")
    assert found.json["scores"] == {"a": {"t1": 0.5, "t2": 1.0}, "b": {"t1": 1.0, "t2": None}}
    head = {key: found.json[key] for key in ("format", "checkpoints", "tasks", "samples")}
    assert head == {"format": "table", "checkpoints": ["a", "b"], "tasks": ["t1", "t2"], "samples": 2}
    assert found.json["warnings"] == [
        "b: has no score for 1 task: t2.",
        "b: has samples without a score (NaN or empty) on 1 task: t1.",
    ]


def test_read_for_people(shell: Any, table: Path) -> None:
    found = shell("scores", "read", table.parent)
    assert "table: 2 checkpoints, 2 tasks" in found.out
    assert [line.split() for line in found.out.splitlines()[2:]] == [
        ["a", "2", "0", "2", "0.7500"],
        ["b", "1", "0", "2", "1.0000"],
    ]
    assert "warning: b: has no score for 1 task: t2." in found.err


def test_options_reach_the_readers(shell: Any, tmp_path: Path) -> None:
    report = {"submitted_ids": ["x-1", "x-2"], "resolved_ids": ["x-1"], "error_ids": ["x-2"]}
    file = tmp_path / "m.r.json"
    file.write_text(json.dumps(report))
    assert shell("scores", "read", file, "--json").json["scores"] == {"m": {"x-1": 1, "x-2": 0}}
    masked = shell("scores", "read", file, "--mask-errors", "--format", "swe-bench", "--json").json
    assert masked["scores"] == {"m": {"x-1": 1, "x-2": None}}
    individual = {"a_1": {"success": False, "num_tests": 4, "passes": [1]}}
    file.write_text(json.dumps({"individual": individual}))
    soft = shell("scores", "read", file, "--soft", "--json").json
    assert (soft["scores"], soft["figures"]["m.r"]["task_goal_completion"]) == ({"m.r": {"a_1": 0.25}}, 0.25)


def test_align_shows_problems_and_settles_them(shell: Any, table: Path) -> None:
    shown = shell("scores", "align", table, "--json").json
    assert [(one["kind"], one["checkpoint"], one["tasks"]) for one in shown["problems"]] == [
        ("missing", "b", ["t2"]),
        ("unscored", "b", ["t1"]),
    ]
    assert "scores" not in shown
    cut = shell("scores", "align", table, "--tasks", "intersect", "--json").json
    assert (cut["scores"], cut["dropped"]) == ({"a": {"t1": 1.0}, "b": {"t1": 1.0}}, ["t2"])
    masked = shell("scores", "align", table, "--tasks", "mask", "--json").json
    assert masked["scores"]["b"] == {"t1": 1.0, "t2": None}
    assert masked["choices"] == {"tasks": "mask"}
    people = shell("scores", "align", table, "--tasks", "intersect")
    assert "kept     1 of 2 tasks; dropped: t2" in people.out


def test_what_is_wrong_is_one_line_and_exit_code_2(shell: Any, table: Path, tmp_path: Path) -> None:
    table.write_text("checkpoint,task,score\na,t,1\na,t,0\n")
    found = shell("scores", "align", table, "--tasks", "mask")
    assert found.code == 2
    assert found.err.startswith("error: a: scored 1 task more than once: t.")
    assert shell("scores", "align", table, "--tasks", "mask", "--duplicates", "first").code == 0
    assert "together with --tasks" in shell("scores", "align", table, "--duplicates", "first").err
    (tmp_path / "x.json").write_bytes(b"\x00\x01")
    for words in (("read", tmp_path / "x.json"), ("read", tmp_path / "none"), ("read", table, "--format", "x")):
        said = shell("scores", *words)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
