"""`ladder` and `random-delta` in a shell: the files they write, their keys, and what bad input says.

Run: .venv/bin/python -m pytest tests/unit/cli/test_ladder.py
"""

import json
from pathlib import Path

from core.merge import read_plan
from tests.unit.cli.conftest import Shell

S3 = Path(__file__).resolve().parents[3] / "data" / "s3_card"


def test_a_ladder_is_a_folder_of_configs(shell: Shell, tiny_bank: Path, tmp_path: Path) -> None:
    words = ("ladder", tiny_bank, "--k", 2, "--out", "rungs", "--draws", 2, "--deltas", 2, "--json")
    found = shell(*words)
    assert found.code == 0
    rungs = {one["name"]: one for one in found.json["rungs"]}
    assert {"recipe", "uniform_mean", "random_0", "random_1", "random_delta_1", "greedy_soup", "bf16"} <= set(rungs)
    assert json.loads((tmp_path / "rungs" / "ladder.json").read_text()) == found.json
    files = {one["file"] for one in rungs.values() if one["file"]}
    assert files == {path.name for path in (tmp_path / "rungs").glob("*.yml")}
    for file in files:
        assert all(one.path.is_dir() for one in read_plan(tmp_path / "rungs" / file).members)
    assert rungs["last"]["path"] == str(tiny_bank / "120")
    assert all(one["why"].endswith((".", "?")) for one in rungs.values())
    again = shell(*words)
    assert again.code == 2
    assert "exists and is not an empty folder" in again.err


def test_a_ladder_for_people_and_of_scores_alone(shell: Shell, tmp_path: Path) -> None:
    found = shell("ladder", S3)
    assert found.code == 0
    assert "evaluate 270" in found.out
    assert "names no folder" in found.err
    assert (tmp_path / "ladder" / "two_strongest.yml").is_file()
    for words, says in ((["--draws", -1], "--draws"), (["--k", 12], "K is 12"), (["--deltas", "x"], "--deltas")):
        wrong = shell("ladder", S3, "--out", "more", *words)
        assert (wrong.code, says in wrong.err) == (2, True)
        assert not (tmp_path / "more").exists()


def test_a_random_delta_is_a_model_that_verify_takes(shell: Shell, tiny_bank: Path) -> None:
    words = ("random-delta", "--base", tiny_bank / "base", "--merged", tiny_bank / "120", "out", "--seed", 5)
    found = shell(*words, "--json")
    assert found.code == 0
    assert found.json["seed"] == 5
    assert found.json["norm"] > 0
    assert shell("verify", "out", "--json").json["ok"]
    assert shell(*words).code == 2
