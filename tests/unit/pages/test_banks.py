"""A bank is read once for each state of its files, and again when one of them changes.

Run: .venv/bin/python -m pytest tests/unit/pages/test_banks.py
"""

import os
from pathlib import Path

import pytest

from core.errors import BankError
from pages.shared.banks import mark_of, read_bank

YAML = """\
name: two
base: {id: base}
checkpoints: [{id: "1"}, {id: "2"}]
splits: {dev: {scores: deep/down/scores.jsonl}}
"""


def write_scores(folder: Path, score: int) -> None:
    file = folder / "deep" / "down" / "scores.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f'{{"checkpoint": "{who}", "task": "t", "score": {score}}}\n' for who in (1, 2)))


def test_a_bank_is_read_again_only_when_a_file_changes(tmp_path: Path) -> None:
    (tmp_path / "bank.yaml").write_text(YAML)
    write_scores(tmp_path, 0)
    first = read_bank(tmp_path)
    assert read_bank(tmp_path) is first
    assert mark_of(first) == mark_of(first)
    write_scores(tmp_path, 1)
    os.utime(tmp_path / "deep" / "down" / "scores.jsonl", ns=(1, 1))
    second = read_bank(tmp_path)
    assert second.splits["dev"].scores.tolist() == [[1.0], [1.0]]
    assert mark_of(second) != mark_of(first)


def test_a_file_that_goes_is_an_error_and_not_the_old_bank(tmp_path: Path) -> None:
    (tmp_path / "bank.yaml").write_text(YAML)
    write_scores(tmp_path, 0)
    read_bank(tmp_path)
    (tmp_path / "deep" / "down" / "scores.jsonl").unlink()
    with pytest.raises(BankError, match="no file"):
        read_bank(tmp_path)
