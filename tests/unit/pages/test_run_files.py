"""Files of a run, listed while a worker moves them.

Run: .venv/bin/python -m pytest tests/unit/pages/test_run_files.py
"""

from pathlib import Path

from pages.shared.run_details import MAX_FILES, sizes


def test_files_are_listed_by_path_with_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "merged").mkdir()
    (tmp_path / "merged" / "model.safetensors").write_bytes(b"12345")
    (tmp_path / "spec.json").write_bytes(b"{}")
    assert sizes(tmp_path) == {tmp_path / "spec.json": 2, tmp_path / "merged" / "model.safetensors": 5}
    assert sizes(tmp_path / "none") == {}


def test_what_is_gone_by_the_time_it_is_looked_at_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "moved.tmp").symlink_to(tmp_path / "nowhere")
    (tmp_path / "kept").write_bytes(b"1")
    assert sizes(tmp_path) == {tmp_path / "kept": 1}


def test_no_more_files_are_listed_than_a_page_can_show(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 5):
        (tmp_path / f"{number:04d}").touch()
    assert len(sizes(tmp_path)) == MAX_FILES
