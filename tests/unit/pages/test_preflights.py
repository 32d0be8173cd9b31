"""What the pages say of a preflight: what it needs, and the first few things in the way.

Run: .venv/bin/python -m pytest tests/unit/pages/test_preflights.py
"""

from dataclasses import replace

from core.merge import Preflight
from pages.shared.preflights import needs, obstacles

FOUND = Preflight(
    "streaming", "ties", (), (), (), "float32", tensors=46, elements=451_000, bytes_to_read=5_400_000,
    disk_needed=68_900_000, disk_free=77_000_000_000, memory_expected=320_000_000,
)  # fmt: skip


def test_what_a_merge_needs_is_one_sentence_each() -> None:
    assert needs(FOUND) == (
        "46 tensors, 451 thousand parameters. Needs up to 68.9 MB of disk (77 GB free), and up to 320 MB of memory."
    )
    assert "137.8" not in needs(FOUND, 2) and "up to 138 MB" in needs(FOUND, 2)
    assert needs(replace(FOUND, memory_expected=None)).endswith("of disk (77 GB free).")


def test_few_obstacles_are_all_shown_and_many_are_counted() -> None:
    assert obstacles(FOUND) == []
    assert obstacles(replace(FOUND, problems=("a", "b", "c"))) == ["a", "b", "c"]
    found = obstacles(replace(FOUND, problems=tuple(map(str, range(300)))))
    assert found[:3] == ["0", "1", "2"] and len(found) == 4 and found[3].startswith("And 297 more: ")
