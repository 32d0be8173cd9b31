"""A small bank on disk that tests break in one place at a time."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKPOINTS = ("a", "b", "c")
TASKS = ("t1", "t2", "t3", "t4")


class BankFolder:
    """A folder with bank.yaml, tasks and scores; every part can be edited before it is written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.yaml: dict[str, Any] = {
            "name": "small",
            "base": {"id": "base"},
            "checkpoints": [{"id": one, "step": 10 * (at + 1)} for at, one in enumerate(CHECKPOINTS)],
            "splits": {"dev": {"tasks": "tasks.jsonl", "scores": "scores.jsonl"}},
        }
        self.tasks: list[dict[str, Any]] = [
            {"id": one, "scenario": one[:1] + str(at // 2)} for at, one in enumerate(TASKS)
        ]
        self.rows: list[dict[str, Any]] = [
            {"checkpoint": who, "task": task, "score": (row + column) % 2}
            for row, who in enumerate((*CHECKPOINTS, "base"))
            for column, task in enumerate(TASKS)
        ]

    def write(self) -> Path:
        """Write all three files; gives the folder."""
        self.root.mkdir(exist_ok=True)
        (self.root / "bank.yaml").write_text(yaml.safe_dump(self.yaml, sort_keys=False))
        write_rows(self.root / "tasks.jsonl", self.tasks)
        write_rows(self.root / "scores.jsonl", self.rows)
        return self.root


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> BankFolder:
    return BankFolder(tmp_path / "bank")


@pytest.fixture
def rows_file(tmp_path: Path) -> Callable[[Sequence[dict[str, Any]]], Path]:
    return lambda rows: write_rows(tmp_path / "rows.jsonl", rows)
