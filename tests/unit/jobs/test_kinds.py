"""Merging and evaluating as jobs, on a bank in miniature, and the same bytes from the shell.

Run: .venv/bin/python -m pytest tests/unit/jobs/test_kinds.py
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.bank import load_bank
from core.errors import InputError
from core.jobs import Job, Ledger
from core.jobs.kinds import kind_named
from core.jobs.merge_eval import best_single
from core.merge import parse_plan
from core.recipe import Recipe, compile_plan, recipe_to_dict
from tests.unit.jobs.tiny_bank import PROTOCOL, make_bank, write_lines
from tests.unit.merge.test_crash import contents, stopped_at

Until = Callable[[Ledger, str, Callable[[Job], bool]], Job]
ROOT = Path(__file__).resolve().parents[3]
RECIPE = Recipe(k=2, tau=0.5)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank with weights; tests must not change it."""
    return make_bank(tmp_path_factory.mktemp("bank") / "tiny")


def request(bank: Path, **changes: Any) -> dict[str, Any]:
    loaded = load_bank(bank)
    spec = {
        "bank": str(bank),
        "recipe": recipe_to_dict(RECIPE),
        "plan": compile_plan(loaded, RECIPE),
        "splits": ["dev"],
        "protocol": PROTOCOL,
        "also_uniform": True,
    }
    return spec | changes


def ended(job: Job) -> bool:
    return not job.live


def rows(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_merge_and_evaluate_gives_scores_comparisons_and_the_bytes_of_the_shell(
    ledger: Ledger, until: Until, bank: Path, tmp_path: Path
) -> None:
    spec = request(bank)
    done = until(ledger, ledger.submit("merge_eval", spec, "S3"), ended)
    assert done.state == "succeeded", done.error
    assert done.spec == spec
    result = done.result or {}
    assert Path(result["out"]) == done.folder / "merged"
    assert (done.folder / "merged" / "merge_report.parquet").is_file()
    assert (done.folder / "uniform" / "model.safetensors").is_file()
    assert result["best_single"] == "110"
    assert set(result["scores"]["dev"]) == {"merge", "uniform", "base", "best_single"}
    assert result["sources"]["dev"] == {
        "merge": "evaluated", "uniform": "evaluated", "base": "bank", "best_single": "bank",
    }  # fmt: skip
    assert [one["score"] for one in rows(result["scores"]["dev"]["best_single"])] == [1, 1, 0, 1]
    assert (result["means"]["dev"]["base"], result["means"]["dev"]["best_single"]) == (0.25, 0.75)
    compared = result["comparisons"]["dev"]
    assert set(compared) == {"best_single", "base", "uniform"}
    assert (compared["base"]["n"], compared["base"]["clusters"], compared["base"]["mean_a"]) == (4, 2, 0.25)
    assert compared["base"]["mean_b"] == result["means"]["dev"]["merge"]
    stages = [one.data["stage"] for one in ledger.events(done.id) if one.kind == "stage"]
    evaluated = ["evaluate merge on dev", "evaluate uniform on dev"]
    assert stages == ["merge", "uniform mean", "load torch and transformers", *evaluated, "compare"]
    assert_the_shell_gives_the_same(done, tmp_path)


def assert_the_shell_gives_the_same(done: Job, folder: Path) -> None:
    """The job's own commands, with the merge in a folder of another name."""
    script = done.command.replace("python -m core", f"{sys.executable} -m core").replace(" merged", " elsewhere")
    words = ["/bin/sh", "-ec", script]
    made = subprocess.run(
        words, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    assert (folder / "elsewhere.dev.jsonl").read_bytes() == (done.folder / "scores" / "dev.jsonl").read_bytes()
    weights = "model.safetensors"
    assert (folder / "elsewhere" / weights).read_bytes() == (done.folder / "merged" / weights).read_bytes()


def test_under_another_protocol_base_and_best_single_are_evaluated(ledger: Ledger, until: Until, bank: Path) -> None:
    protocol = PROTOCOL | {"seed": 7, "samples": 2}
    spec = request(bank, protocol=protocol, also_uniform=False)
    done = until(ledger, ledger.submit("merge_eval", spec, "two samples"), ended)
    assert done.state == "succeeded", done.error
    result = done.result or {}
    assert set(result["sources"]["dev"].values()) == {"evaluated"}
    assert set(result["comparisons"]["dev"]) == {"best_single", "base"}
    for who, checkpoint in (("merge", "merged"), ("base", "base"), ("best_single", "110")):
        found = rows(result["scores"]["dev"][who])
        assert [(one["task"], one["sample"]) for one in found] == [(f"t{at // 2}", at % 2) for at in range(8)]
        assert {one["checkpoint"] for one in found} == {checkpoint}
    assert not (done.folder / "uniform").exists()


def test_a_merge_and_an_evaluation_are_jobs_of_their_own(
    ledger: Ledger, until: Until, bank: Path, tmp_path: Path
) -> None:
    shutil.copytree(bank, tmp_path / "models")
    text = request(bank)["plan"].replace(str(bank) + "/", "models/")
    out = tmp_path / "out"
    spec = {"config": text, "cwd": str(tmp_path), "where": "config.yml", "out": str(out)}
    merged = until(ledger, ledger.submit("merge", spec, "relative paths"), ended)
    assert merged.state == "succeeded", merged.error
    assert (merged.result or {})["out"] == str(out)
    assert (merged.result or {})["merge"]["tensors"] > 5
    assert merged.command == f"python -m core merge {merged.folder}/config.yml {out}"
    with pytest.raises(InputError, match="already exists"):
        ledger.resubmit(merged.id)
    scored = until(ledger, ledger.submit("eval", evaluation(bank, out), "scored"), ended)
    assert scored.state == "succeeded", scored.error
    figures = (scored.result or {})["eval"]
    assert (figures["n_tasks"], figures["samples"]) == (4, 1)
    assert {one["checkpoint"] for one in rows(figures["path"])} == {"merged"}


def evaluation(bank: Path, model: Path) -> dict[str, Any]:
    return {"model": str(model), "tasks": str(bank / "dev.jsonl"), "protocol": PROTOCOL}


def test_a_defect_in_a_model_is_the_jobs_error(ledger: Ledger, until: Until, bank: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(bank, broken)
    weights = broken / "110" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    done = until(ledger, ledger.submit("merge_eval", request(broken), "broken"), ended)
    assert done.state == "failed"
    assert "110" in (done.error or "")
    assert "internal error" not in (done.error or "")
    assert sorted(path.name for path in done.folder.iterdir()) == ["config.yml", "spec.json", "worker.log"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"bank": "/nowhere"}, "no bank here"),
        ({"recipe": {"k": 9}}, "K is 9"),
        ({"recipe": {"colour": 1}}, "unknown knob"),
        ({"plan": "merge_method: ties\nmodels: [{model: /nowhere}]\n"}, "base_model|weight"),
        ({"plan": "{}"}, "merge_method"),
        ({"splits": []}, "no split"),
        ({"splits": ["train"]}, "unknown split 'train'"),
        ({"protocol": {"temperature": -1}}, "temperature must be a number from 0"),
        ({"protocol": {"temperature": 0, "samples": 2}}, "would all be the same"),
        ({"protocol": {"heat": 1}}, "unknown protocol setting 'heat'"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"surprise": 1}, "'surprise' is unknown"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    ledger: Ledger, bank: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        ledger.submit("merge_eval", request(bank) | changes, "no")
    assert not ledger.home.exists()


def test_models_and_tasks_that_do_not_exist_are_named(ledger: Ledger, bank: Path, tmp_path: Path) -> None:
    missing = request(bank)["plan"].replace("/110", "/111")
    for kind, spec in (
        ("merge_eval", request(bank, plan=missing)),
        ("merge", {"config": missing}),
        ("eval", evaluation(bank, tmp_path / "111")),
    ):
        with pytest.raises(InputError, match=r"/111: no such folder\. Expected a model folder"):
            ledger.submit(kind, spec, "no")
    with pytest.raises(InputError, match=r"none\.jsonl: no such file"):
        ledger.submit("eval", evaluation(bank, bank / "base") | {"tasks": str(tmp_path / "none.jsonl")}, "no")
    with pytest.raises(InputError, match="'protocol' is missing"):
        ledger.submit("eval", {"model": str(bank / "base"), "tasks": "x"}, "no")
    assert not ledger.home.exists()


def test_the_best_single_is_chosen_on_the_recipes_split_and_the_earlier_of_equals(bank: Path, tmp_path: Path) -> None:
    assert best_single(load_bank(bank), RECIPE) == "110"
    tied = tmp_path / "tied"
    shutil.copytree(bank, tied)
    scores = [one | {"score": 1} for one in rows(bank / "scores.jsonl")]
    write_lines(tied / "scores.jsonl", scores)
    assert best_single(load_bank(tied), RECIPE) == "100"


def test_what_a_killed_merge_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (".out.partial", ".outer.partial", "out", "own", ".mine.partial"):
        (tmp_path / name).mkdir()
    (tmp_path / "own" / ".scores.jsonl.x1.tmp").write_text("")
    spec = {"config": "x", "out": str(tmp_path / "out")}
    kind_named("merge").remove_half_written(spec, tmp_path / "own", keep=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mine.partial", ".outer.partial", "out", "own"]
    assert not list((tmp_path / "own").iterdir())


def test_running_a_lost_merge_again_goes_on_with_it(
    ledger: Ledger, until: Until, bank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = request(bank)["plan"].replace(str(bank) + "/", "")
    spec = {"config": text, "cwd": str(bank), "where": "config.yml"}
    first = until(ledger, ledger.submit("merge", spec, "killed"), ended)
    assert first.state == "succeeded", first.error
    whole = contents(first.folder / "merged")
    shutil.rmtree(first.folder / "merged")
    monkeypatch.setattr("core.merge.writer.SYNC_BYTES", 256)
    stopped_at(parse_plan(text, bank / "config.yml"), first.folder / "merged", 0.9, shard_size=5e9)
    kind_named("merge").remove_half_written(spec, first.folder, keep=True)
    again = until(ledger, ledger.resubmit(first.id), ended)
    assert again.state == "succeeded", again.error
    assert (again.result or {})["merge"]["resumed"] > 0
    assert contents(again.folder / "merged") == whole
    assert not list(first.folder.glob(".*.partial")) and not list(again.folder.glob(".*.partial"))


def test_commands_spell_out_every_setting(tmp_path: Path) -> None:
    spec = {"model": "/m", "tasks": "/my tasks.jsonl", "protocol": PROTOCOL, "batch_size": 8, "checkpoint": "x"}
    command = kind_named("eval").command(spec, tmp_path)
    assert command.startswith("python -m core eval /m --tasks '/my tasks.jsonl' --out samples.jsonl --temperature 0.5")
    assert command.endswith("--max-new-tokens 4 --checkpoint x --batch-size 8")
