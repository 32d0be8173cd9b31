"""Checking a merge against its provenance.json, which may come from anywhere and is not trusted.

Run: .venv/bin/python -m pytest tests/unit/merge/test_verify.py
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from core.errors import Cancelled, InputError
from core.merge import parse_plan, run_merge
from core.merge.record import read_record
from core.merge.verify import Verification, hash_files, verify
from tests.unit.merge.models import ties_config, write_pool

Merge = tuple[Path, Path, list[Path]]


@pytest.fixture
def merge(tmp_path: Path) -> Merge:
    """A finished merge in three shards, its base and its members."""
    base, members = write_pool(tmp_path / "models", 2)
    run_merge(parse_plan(ties_config(base, members), tmp_path), tmp_path / "out", shard_size=8000)
    return tmp_path / "out", base, members


def statuses(found: Verification) -> dict[str, str]:
    return {one.file: one.status for one in found.files if one.status != "ok"}


def flip(path: Path, at: int = -1) -> None:
    """Change one byte, and nothing of the size."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def record(out: Path, **changes: Any) -> None:
    """Change entries of provenance.json."""
    path = out / "provenance.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_an_untouched_merge_is_as_it_was_written(merge: Merge) -> None:
    found = verify(merge[0])
    assert found.ok and statuses(found) == {}
    files = {one.file: one for one in found.files}
    assert {"merge_report.parquet", "mergekit_config.yml", "model.safetensors.index.json"} <= set(files)
    shards = sorted(merge[0].glob("*.safetensors"))
    assert len(shards) == 3 and {one.name for one in shards} <= set(files)
    for path in shards:
        assert files[path.name].found_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert files[path.name].bytes == path.stat().st_size


def test_changed_missing_and_added_files_are_told_apart(merge: Merge) -> None:
    out = merge[0]
    one, two, three = sorted(path.name for path in out.glob("*.safetensors"))
    flip(out / one)
    (out / two).unlink()
    (out / three).write_bytes(b"short")
    (out / "pytorch_model.bin").write_bytes(b"pickle")
    (out / "notes.txt").write_text("mine")
    found = verify(out)
    assert not found.ok
    assert statuses(found) == {one: "changed", two: "missing", three: "changed", "pytorch_model.bin": "extra"}
    by_name = {each.file: each for each in found.files}
    assert by_name[one].found_sha256 != by_name[one].expected_sha256
    assert by_name[three].found_sha256 is None and "has 5 bytes" in by_name[three].why


def test_inputs_are_checked_when_asked(merge: Merge) -> None:
    out, base, members = merge
    flip(members[0] / "model.safetensors")
    (base / "model.safetensors").unlink()
    assert verify(out).ok
    found = [one for one in verify(out, inputs=True).files if one.role != "output"]
    assert [(one.role, one.folder, one.status) for one in found] == [
        ("base", str(base), "missing"),
        ("member 1", str(members[0]), "changed"),
        ("member 2", str(members[1]), "ok"),
    ]


def test_a_link_is_not_followed_out_of_the_folder(merge: Merge, tmp_path: Path) -> None:
    out = merge[0]
    shard = sorted(out.glob("*.safetensors"))[0]
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    found = verify(out)
    assert statuses(found) == {shard.name: "changed"}
    assert any("is a link" in one.why for one in found.files)


def test_inputs_may_be_links_as_in_a_download_cache(merge: Merge, tmp_path: Path) -> None:
    weights = merge[1] / "model.safetensors"
    weights.rename(tmp_path / "blob")
    weights.symlink_to(tmp_path / "blob")
    assert verify(merge[0], inputs=True).ok


def test_what_is_no_regular_file_is_not_read(merge: Merge) -> None:
    shard = sorted(merge[0].glob("*.safetensors"))[0]
    shard.unlink()
    os.mkfifo(shard)  # reading it would wait for ever
    assert statuses(verify(merge[0])) == {shard.name: "changed"}


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "a\0b", "x" * 300, 7, None])
def test_a_name_that_leads_out_of_the_folder_is_refused(merge: Merge, name: Any) -> None:
    record(merge[0], outputs=[{"file": name, "bytes": 1, "sha256": "0" * 64}])
    with pytest.raises(InputError, match=r"provenance\.json: outputs, file 1.*cannot be relied on"):
        verify(merge[0])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"outputs": None}, "outputs has no list of files"),
        ({"outputs": ["model.safetensors"]}, "outputs, file 1 is not an object"),
        ({"outputs": [{"file": "a", "bytes": -1, "sha256": "0" * 64}]}, "bytes is not a whole number"),
        ({"outputs": [{"file": "a", "bytes": True, "sha256": "0" * 64}]}, "bytes is not a whole number"),
        ({"outputs": [{"file": "a", "bytes": 1, "sha256": "zz"}]}, "sha256 is not 64 hex digits"),
        ({"inputs": []}, "inputs is not a list of models"),
        ({"inputs": [{"role": "base", "path": "", "files": []}]}, r"inputs\[0\]\.path is not a text"),
        ({"recipe": []}, "recipe is not an object"),
        ({"settings": 3}, "settings is not an object"),
        ({"settings": {"shard_size": "5GB"}}, "shard_size is not a number"),
        ({"settings": {"dialect": "other"}}, "dialect is 'other'"),
        ({"settings": {"vocabulary": ["x"]}}, "vocabulary is"),
        ({"config_sha256": 1}, "config_sha256"),
    ],
)
def test_a_malformed_record_is_refused_with_one_message(merge: Merge, changes: dict[str, Any], says: str) -> None:
    record(merge[0], **changes)
    with pytest.raises(InputError, match=says):
        read_record(merge[0])


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "\ufffe", '{"a": 1e999}'])
def test_what_is_no_record_at_all_is_refused(merge: Merge, text: str) -> None:
    (merge[0] / "provenance.json").write_text(text)
    with pytest.raises(InputError, match=r"provenance\.json: "):
        verify(merge[0], inputs=True)


def test_a_folder_that_no_merge_wrote_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Expected the folder of a merge"):
        verify(tmp_path / "none")
    (tmp_path / "provenance.json").symlink_to("/etc/hostname")
    with pytest.raises(InputError, match="no such file"):
        verify(tmp_path)


def test_settings_come_from_the_record_or_the_recipe(merge: Merge) -> None:
    assert (read_record(merge[0]).dialect, read_record(merge[0]).vocabulary) == ("mergekit", "refuse")
    record(merge[0], settings={"shard_size": 123, "dialect": "paper", "vocabulary": "truncate"})
    found = read_record(merge[0])
    assert (found.shard_size, found.dialect, found.vocabulary) == (123, "paper", "truncate")
    record(merge[0], settings={}, recipe={"dialect": "sum", "vocabulary": "truncate"})
    found = read_record(merge[0])
    assert (found.shard_size, found.dialect, found.vocabulary) == (5e9, "sum", "truncate")


def test_hashing_says_how_far_it_is_and_can_be_stopped(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        paths.append((tmp_path / str(number), False))
        paths[-1][0].write_bytes(bytes([number]) * 10_000_000)
    seen: list[tuple[float, float]] = []
    found = hash_files(paths, 30_000_000, lambda stage, done, total, unit: seen.append((done, total)))
    assert found == [hashlib.sha256(path.read_bytes()).hexdigest() for path, _ in paths]
    assert seen[-1] == (30_000_000, 30_000_000) and seen == sorted(seen)

    def stop(*_: object) -> None:
        raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        hash_files(paths, 30_000_000, stop)
    with pytest.raises(InputError, match="cannot be read"):
        hash_files([(tmp_path / "none", False)], 1)
