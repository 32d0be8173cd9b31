"""The ladder as a job: every rung scored and judged, nothing left but scores, and a run that goes on where one ended.

Run: .venv/bin/python -m pytest tests/unit/jobs/test_ladder.py
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.bank import load_bank
from core.errors import InputError
from core.jobs import Job, Ledger
from core.jobs.kinds import RUNG_SCORES, carry_over, kind_named
from core.jobs.ladder import LadderRun
from core.recipe import Recipe, recipe_to_dict
from core.recipe.ladder import ladder
from core.stats import read_samples
from tests.unit.jobs.tiny_bank import PROTOCOL, SOLVED, make_bank

Until = Callable[[Ledger, str, Callable[[Job], bool]], Job]
RECIPE = Recipe(k=2, tau=0.5)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank with weights; tests must not change it."""
    return make_bank(tmp_path_factory.mktemp("bank") / "tiny")


def request(bank: Path, **changes: Any) -> dict[str, Any]:
    spec = {"bank": str(bank), "recipe": recipe_to_dict(RECIPE), "splits": ["dev"], "protocol": PROTOCOL, "draws": 1}
    return spec | changes


class Silent:
    """A job's voice that nobody hears; keeps the names of the phases."""

    def __init__(self) -> None:
        self.planned: list[str] = []
        self.entered: list[str] = []

    def plan(self, phases: Any) -> None:
        self.planned = [one.name for one in phases]

    def phase(self, name: str) -> Callable[..., None]:
        assert name in self.planned
        self.entered.append(name)
        return lambda *_: None


def run(bank: Path, folder: Path) -> tuple[dict[str, Any], list[str]]:
    work = Silent()
    spec = kind_named("ladder").check(request(bank))
    return LadderRun(spec, folder, "cpu", work).run(), work.entered  # type: ignore[arg-type]


def test_every_rung_is_scored_and_judged_in_a_job(ledger: Ledger, until: Until, bank: Path) -> None:
    job = until(ledger, ledger.submit("ladder", request(bank), "ladder"), lambda one: not one.live)
    assert job.state == "succeeded", job.error
    result = job.result or {}
    rungs = ladder(load_bank(bank), RECIPE, seeds=range(1))
    own = [one.name for one in rungs if one.same_as is None]
    assert [one["name"] for one in result["rungs"]] == [one.name for one in rungs]
    assert list(result["rung_scores"]["dev"]) == own
    for name, path in result["rung_scores"]["dev"].items():
        assert list(read_samples(path).scores) == ["t0", "t1", "t2", "t3"], name
    family = result["families"]["dev"]
    assert [one["rival"] for one in family["members"]] == [one for one in own if one != "recipe"]
    assert all(one["p_adjusted"] >= one["p_value"] for one in family["members"])
    # Checkpoints of the bank keep the scores that the bank has.
    for name, who in (("base", "base"), ("best_single", "110"), ("last", "120")):
        rung = next(one for one in rungs if one.name == name)
        if rung.same_as is None:
            assert result["means"]["dev"][name] == SOLVED[who].count("1") / 4
    assert not (job.folder / "rungs").exists()
    assert next(one["members"] for one in result["soup"]) == ["110"]


def test_a_run_goes_on_with_the_scores_of_one_that_ended(bank: Path, tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    first.mkdir()
    again.mkdir()
    whole, entered = run(bank, first)
    assert sum(one.startswith("make ") for one in entered) > 3
    bytes_of = {path.name: path.read_bytes() for path in (first / RUNG_SCORES).glob("*.jsonl")}
    (first / RUNG_SCORES / "dev.no_mmr.jsonl").unlink(missing_ok=True)
    (first / RUNG_SCORES / "dev.uniform_mean.jsonl").unlink()
    carry_over(first, again)
    resumed, entered = run(bank, again)
    assert [one for one in entered if one.startswith("make ")] == ["make uniform mean"]
    assert {path.name: path.read_bytes() for path in (again / RUNG_SCORES).glob("*.jsonl")} == bytes_of
    assert (resumed["means"], resumed["families"], resumed["soup"]) == (
        whole["means"], whole["families"], whole["soup"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"splits": []}, "a ladder is evaluated on the recipe's split, dev"),
        ({"draws": -1}, "draws must be a whole number from 0 to 100, found -1"),
        ({"draws": True}, "draws must be a whole number"),
        ({"plan": "x"}, "'plan' is unknown"),
        ({"splits": ["dev", "other"]}, "unknown split 'other'"),
    ],
)
def test_what_cannot_work_is_refused(bank: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        kind_named("ladder").check(request(bank, **changes))
