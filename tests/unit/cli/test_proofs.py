"""`verify` and `reproduce` in the shell: clear lines, JSON, and exit codes.

Run: .venv/bin/python -m pytest tests/unit/cli/test_proofs.py
"""

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Shell
from tests.unit.merge.models import ties_config, write_pool


@pytest.fixture
def out(shell: Shell, tmp_path: Path) -> Path:
    base, members = write_pool(tmp_path / "models", 2)
    (tmp_path / "c.yml").write_text(ties_config(base, members))
    assert shell("merge", tmp_path / "c.yml", tmp_path / "out").code == 0
    return tmp_path / "out"


def damage(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def test_verify_has_a_line_a_file_and_counts_them(shell: Shell, out: Path) -> None:
    found = shell("verify", out, "--inputs")
    assert (found.code, found.err) == (0, "")
    lines = [one.split()[:2] for one in found.out.splitlines()[1:-2]]
    assert lines.count(["ok", "output"]) == len(lines) - 3
    assert {one[1] for one in lines} == {"output", "base", "member"}
    assert found.out.splitlines()[-1] == f"{len(lines)} files: {len(lines)} ok."
    assert shell("verify", out, "--json").json["ok"] is True


def test_verify_fails_where_a_file_is_not_as_recorded(shell: Shell, out: Path) -> None:
    damage(out / "model.safetensors")
    (out / "model-extra.safetensors").write_bytes(b"")
    found = shell("verify", out)
    assert found.code == 1
    assert "files are not as recorded (model.safetensors)" in found.err
    assert {"changed", "extra"} <= {one.split()[0] for one in found.out.splitlines() if one}
    values = shell("verify", out, "--json")
    assert values.code == 1 and values.json["ok"] is False
    (out / "provenance.json").write_text('{"outputs": [{"file": "../models/base/config.json"}]}')
    refused = shell("verify", out)
    assert (refused.code, refused.out) == (2, "") and refused.err.startswith("error: ")
    assert len(refused.err.splitlines()) == 1


def test_reproduce_says_that_the_bytes_are_the_same_or_where_not(shell: Shell, out: Path, tmp_path: Path) -> None:
    found = shell("reproduce", out)
    assert found.code == 0 and "1 of 1 weight files are the same, byte for byte." in found.out
    kept = shell("reproduce", out, "--keep", tmp_path / "again", "--json")
    assert kept.code == 0 and kept.json["kept"] == str(tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
    damage(out / "model.safetensors")
    differs = shell("reproduce", out)
    assert differs.code == 1 and "the repetition differs. model.safetensors: tensor" in differs.err
    damage(tmp_path / "models" / "member-1" / "model.safetensors")
    refused = shell("reproduce", out)
    assert refused.code == 2 and "(member 2): has changed since the merge" in refused.err
