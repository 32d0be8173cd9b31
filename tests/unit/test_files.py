"""The small file habits: whole writes, honest JSONL errors.

Run: .venv/bin/python -m pytest tests/unit/test_files.py
"""

from pathlib import Path

import pytest

from core import files
from core.errors import InputError, TaskError


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "scores.jsonl"
    files.write_atomically(target, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_atomically(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_jsonl_goes_out_and_comes_back(tmp_path: Path) -> None:
    rows = [{"task": "ä_1", "score": 1}, {"task": "b", "score": 0.5}]
    path = tmp_path / "rows.jsonl"
    files.write_atomically(path, files.jsonl_bytes(rows) + b"\n")
    assert list(files.read_jsonl(path)) == [(1, rows[0]), (2, rows[1])]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b'{"a": 1}\n[1]\n', ":2: expected a JSON object, found list"),
        (b'{"a": 1}\n{"a": \n', ":2: is not JSON"),
        (b"\xff\xfe\x00", ":1: is not JSON"),
        (b"[" * 100_000, ":1: is not JSON"),
    ],
)
def test_bad_jsonl_names_the_file_and_the_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(TaskError) as caught:
        list(files.read_jsonl(path, error=TaskError))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": "' + b"x" * (files.MAX_LINE_BYTES + 10))
    with pytest.raises(InputError, match="more than 4,000,000 bytes"):
        list(files.read_jsonl(path))


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        list(files.read_jsonl(tmp_path / "nowhere.jsonl"))


def test_a_link_out_of_the_roots_is_outside(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "rooted"
    (root / "bank").mkdir(parents=True)
    other.mkdir()
    (root / "link").symlink_to(other)
    assert files.is_inside(root / "bank", [other, root])
    assert files.is_inside(root, [root])
    assert not files.is_inside(root / "link", [root])
    assert not files.is_inside(root / ".." / "rooted", [root])
    assert not files.is_inside(other, [])


def test_lines_that_cannot_hold_a_text_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": "t1"}\n{"a": "t2"}\n{"a": "\\u0074\\u0031"}\n\n{"a": "t10"}\n')
    assert [line for line, _ in files.read_jsonl(path, holding="t1")] == [1, 3, 5]
    assert [line for line, _ in files.read_jsonl(path, holding="none")] == [3]
