"""`xray` in the shell: a place by name, an example by kind, and one line for what is wrong.

Run: .venv/bin/python -m pytest tests/unit/cli/test_xray.py
"""

import json
from pathlib import Path

import numpy as np
import pytest

from core.cli.app import run
from tests.unit.merge.models import ties_config, write_model


@pytest.fixture
def config(tmp_path: Path) -> Path:
    start = np.array([1, 1], np.float32)
    base = write_model(tmp_path / "base", {"w": start}, {})
    moves = ([0.5, 0.0], [-0.25, 0.125])
    members = [
        write_model(tmp_path / f"m{at}", {"w": start + np.array(one, np.float32)}, {}) for at, one in enumerate(moves)
    ]
    path = tmp_path / "config.yml"
    path.write_text(ties_config(base, members, [0.75, 0.25]))
    return path


def test_a_parameter_is_followed_in_words(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["xray", str(config), "w", "0"]) == 0
    said = capsys.readouterr().out
    assert "w[0] · ties, mergekit dialect" in said
    assert "0.375 + (−0.0625) = 0.3125, so + is elected" in said
    assert "(0.375) ÷ 0.75 = 0.5" in said
    assert "1 + 0.5 = 1.5" in said


def test_an_example_is_found(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["xray", str(config), "--find", "contested", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["found"]["index"], found["found"]["merged"]) == (0, 1.5)
    assert run(["xray", str(config), "--find", "lost"]) == 0
    assert "None found where" in capsys.readouterr().out


@pytest.mark.parametrize("asked", [["w"], [], ["w", "0", "--find", "solo"], ["w", "x"], ["w", "2"], ["v", "0"]])
def test_what_is_wrong_is_said_in_one_line(config: Path, asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["xray", str(config), *asked]) == 2
    assert capsys.readouterr().err.startswith("error: ")
