"""`stability` from the shell: the numbers of the library, readable and as JSON, and bad input in one line.

Run: .venv/bin/python -m pytest tests/unit/cli/test_stability.py
"""

import json
from pathlib import Path

import pytest

from core.bank import load_bank
from core.cli.app import run
from core.recipe import Recipe
from core.recipe.stability import over_tasks

ROOT = Path(__file__).resolve().parents[3]
BANK = str(ROOT / "data" / "rl_only")


def test_json_holds_the_frequencies_of_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stability", BANK, "--resamples", "40", "--seed", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = over_tasks(load_bank(Path(BANK)), Recipe(), resamples=40, seed=3)
    assert [one["other_tasks"] for one in found["checkpoints"]] == expected.frequency.tolist()
    assert found["same_picks_other_tasks"] == expected.same and found["drawn"] == expected.groups
    assert sum(one["other_runs"] for one in found["checkpoints"]) == pytest.approx(5)
    assert sum(one["adds_tasks"] or 0 for one in found["checkpoints"]) == found["covered"]["any"]


def test_text_is_a_table_with_two_lines_under_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stability", BANK, "--resamples", "10", "--k", "2"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0].split()[:2] == ["checkpoint", "picked"]
    assert "of 10 draws of other tasks" in text and "tasks by any pick" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--seed", "-1"], "--seed"), (["--resamples", "0"], "at least 1 resample"), (["--k", "99"], "k")],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], options: list[str], said: str) -> None:
    assert run(["stability", BANK, *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err.lower() and err.count("\n") == 1
