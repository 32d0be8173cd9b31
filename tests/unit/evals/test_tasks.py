"""Task files: read in order, and every defect is named with its file and line.

Run: .venv/bin/python -m pytest tests/unit/evals/test_tasks.py
"""

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import TaskError
from core.evals import Task, read_tasks
from core.files import jsonl_bytes

GOOD: dict[str, Any] = {"id": "a", "scenario": "s", "prompt": "1+1=", "target": "2", "scorer": "numeric"}


def written(path: Path, *rows: dict[str, Any]) -> Path:
    """A task file with these rows."""
    path.write_bytes(jsonl_bytes(rows))
    return path


def without(key: str) -> dict[str, Any]:
    """The good row less one key."""
    return {k: v for k, v in GOOD.items() if k != key}


def test_tasks_come_in_file_order_and_alone_where_they_have_no_scenario(tmp_path: Path) -> None:
    path = written(
        tmp_path / "t.jsonl",
        GOOD | {"id": "b", "extra": 1},
        without("scenario") | {"target": 2, "scorer": {"name": "numeric", "tolerance": 0.5}},
        GOOD | {"id": 7, "scenario": None, "target": "", "scorer": "exact"},
    )
    assert read_tasks(path) == [
        Task("b", "s", "1+1=", "2", "numeric"),
        Task("a", "a", "1+1=", "2", {"name": "numeric", "tolerance": 0.5}),
        Task("7", "7", "1+1=", "", "exact"),
    ]
    assert [task.scorer_name for task in read_tasks(path)] == ["numeric", "numeric", "exact"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (without("prompt"), "key 'prompt' is missing"),
        (without("target") | {"targets": "2"}, "key 'target' is missing.*Is 'targets' meant"),
        (without("scorer"), "key 'scorer' is missing"),
        (GOOD | {"prompt": ""}, "prompt must be a non-empty text"),
        (GOOD | {"prompt": ["a"]}, "prompt must be a non-empty text"),
        (GOOD | {"id": None}, "id must be a non-empty text"),
        (GOOD | {"id": True}, "id must be a non-empty text"),
        (GOOD | {"target": None}, "target must be a text"),
        (GOOD | {"target": "two"}, "needs a number as target"),
        (GOOD | {"scorer": "exakt"}, "unknown scorer.*Is 'exact' meant"),
        (GOOD | {"scorer": "regex", "target": "["}, "not a regular expression"),
    ],
)
def test_a_bad_task_is_named_with_file_and_line(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    path = written(tmp_path / "t.jsonl", GOOD | {"id": "first"}, row)
    with pytest.raises(TaskError, match=rf"t\.jsonl:2: .*{message}"):
        read_tasks(path)


def test_an_id_used_twice_names_both_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", GOOD, GOOD | {"id": "b"}, GOOD)
    with pytest.raises(TaskError, match=r"t\.jsonl:3: task id 'a' is used twice \(first on line 1\)"):
        read_tasks(path)


def test_half_a_character_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(GOOD | {"prompt": "\ud800"}))
    with pytest.raises(TaskError, match=r"t\.jsonl:1: prompt holds half of a surrogate pair"):
        read_tasks(path)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"[1]\n", b"{\n", b"\xff\n"])
def test_what_is_no_task_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(TaskError, match=r"t\.jsonl"):
        read_tasks(path)
    with pytest.raises(TaskError, match="cannot be read"):
        read_tasks(tmp_path / "none.jsonl")
