"""`preview` in the shell. Run: .venv/bin/python -m pytest tests/unit/preview/test_cli.py"""

import json
from pathlib import Path

import pytest

from core.cli.app import run
from core.preview.result import FIGURES
from tests.unit.preview.pool import config, write_bank


@pytest.fixture
def path(tmp_path: Path) -> Path:
    base, members = write_bank(tmp_path / "bank", 2)
    (tmp_path / "config.yml").write_text(config(base, members, [0.6, 0.4], 0.3))
    return tmp_path / "config.yml"


def test_json_has_the_promised_keys(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["preview", str(path), "--budget", "40kB", "--seed", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    keys = "method seed blocks bytes_read seconds total tensors members cosines"
    assert set(keys.split()) <= set(found)
    assert (found["method"], found["seed"]) == ("ties", 5) and 0 < found["bytes_read"] <= 40_000
    assert set(found["total"]) == set(FIGURES)
    assert {one["changed"]["kind"] for one in found["tensors"]} == {"exact", "sampled"}
    assert found["total"]["changed"]["low"] < found["total"]["changed"]["estimate"] < found["total"]["changed"]["high"]
    assert sorted(one.name for one in path.parent.iterdir()) == ["bank", "config.yml"]


def test_knobs_says_what_each_can_affect_and_what_leaves(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["preview", str(path), "--knobs", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["knobs"]) == {"changed", "weights", "tau", "normalize", "trimmed", "trims_below"}
    assert found["knobs"]["changed"]["estimate"] == pytest.approx(found["total"]["changed"]["estimate"])
    assert len(found["left_out"]) == len(found["members"])
    assert all(0 < one["relative"]["estimate"] < 2 for one in found["left_out"])
    assert run(["preview", str(path), "--knobs"]) == 0
    assert "that weights can affect" in (text := capsys.readouterr().out) and "back to the base" in text


def test_text_shows_intervals_and_what_was_read(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["preview", str(path), "--budget", "40kB"]) == 0
    text = capsys.readouterr().out
    assert "rounding loss" in text and "member-1" in text and "cosine" in text
    assert "95 % intervals; 1 of 5 tensors were read whole and are exact." in text
    assert run(["preview", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("exact. Read 243,264 bytes, 100 % of")


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ("dare_ties", [], "run by mergekit itself"),
        ("ties", ["--budget", "lots"], "--budget: expected a size such as 64MB, found 'lots'"),
        ("ties", ["--seed", "-1"], "--seed: expected a whole number from 0"),
        ("ties", ["--budget", "1kB"], "too small"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    path: Path, capsys: pytest.CaptureFixture[str], change: str, options: list[str], said: str
) -> None:
    path.write_text(path.read_text().replace("merge_method: ties", f"merge_method: {change}"))
    assert run(["preview", str(path), *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and err.startswith("error: ") and err.count("\n") == 1
