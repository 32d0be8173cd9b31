"""Runs and the launch panel: what is submitted, how a run is shown, and what can be done with it.

Run: .venv/bin/python -m pytest tests/page/test_runs_page.py
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.bank import load_bank
from core.jobs import Ledger
from core.recipe import Recipe, compile_plan
from tests.page.conftest import Finished, ended, submit
from tests.page.made_bank import open_frame, texts

pytestmark = pytest.mark.page


def runs_page(monkeypatch: pytest.MonkeyPatch, home: Path, bank: Path | None = None, **address: Any) -> AppTest:
    """The Runs page on a home folder; on the bundled bank of scores where no bank is named."""
    address |= {"bank": str(bank) if bank else "s3_card"}
    test = open_frame(monkeypatch, home, named=bank, **address).run()
    test.switch_page("runs.py").run()
    assert not test.exception
    return test


def part(test: AppTest, name: str) -> AppTest:
    """Open one part of the run."""
    test.segmented_control(key="run_part").set_value(name).run()
    assert not test.exception
    return test


def test_an_empty_ledger_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = runs_page(monkeypatch, tmp_path)
    assert test.title[0].value == "No runs yet"
    assert "Press **Merge and evaluate**" in texts(test)


def test_scores_alone_cannot_be_merged_and_the_panel_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = runs_page(monkeypatch, tmp_path)
    assert test.button(key="launch_go").disabled
    assert "This bank has scores only" in texts(test)


def test_the_panel_says_what_it_takes_and_submits_exactly_the_plan(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, own_ledger: Ledger
) -> None:
    test = runs_page(monkeypatch, own_ledger.home, tiny, k="2")
    said = texts(test)
    assert "tensors" in said and "parameters" in said and "free" in said and "About" in said
    assert own_ledger.jobs() == []
    test.toggle(key="launch_uniform").set_value(False).run()
    test.button(key="launch_go").click().run()
    assert not test.exception
    (job,) = own_ledger.jobs()
    bank = load_bank(tiny)
    assert job.kind == "merge_eval"
    assert job.spec["plan"] == compile_plan(bank, Recipe(k=2))
    assert job.spec["splits"] == ["dev", "test"]
    assert job.spec["protocol"] == bank.splits["dev"].protocol.as_dict()  # type: ignore[union-attr]
    assert job.spec["also_uniform"] is False
    assert f"as run {job.id}. It goes on when this page is closed" in texts(test)
    assert job.pid != os.getpid()
    own_ledger.cancel(job.id)


def test_a_split_must_be_chosen(tiny: Path, monkeypatch: pytest.MonkeyPatch, own_ledger: Ledger) -> None:
    test = runs_page(monkeypatch, own_ledger.home, tiny)
    test.pills(key="launch_splits").set_value([]).run()
    assert not test.exception
    assert test.button(key="launch_go").disabled
    assert "No split is chosen" in texts(test)


def test_an_earlier_run_does_not_stand_in_the_way_of_the_next(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = runs_page(monkeypatch, finished.home, finished.bank.root)
    assert not test.button(key="launch_go").disabled
    assert "is not empty" not in texts(test)


def test_a_finished_run_is_told_in_one_line_and_opens_to_its_parts(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = runs_page(monkeypatch, finished.home, finished.bank.root)
    assert test.title[0].value == "One run, succeeded"
    table = test.dataframe[0].value
    assert table["state"].tolist() == ["succeeded"]
    assert table["result"][0].startswith("dev ") and "of 9" in table["result"][0]
    assert any("succeeded" in one.value for one in test.code)

    stages = part(test, "Stages").dataframe[1].value
    assert {"submitted", "running", "stage", "succeeded"} <= set(stages["event"])
    assert "evaluate merge on dev" in stages["what"].tolist()

    members = part(test, "Members")
    rows, election = members.dataframe[1].value, finished.job.result["merge"]["election"]  # type: ignore[index]
    assert rows["of the merged change"].tolist() == [f"{100 * one:.1f} %" for one in election["member_share"]]
    assert f"and not of {election['contested']:,}" in texts(members)

    assert any("merge_method: ties" in one.value for one in part(test, "Config").code)
    assert "Preflight: " in texts(test)

    assert any("python -m core merge" in one.value for one in part(test, "Repeat it").code)


def test_files_are_listed_with_the_hashes_that_the_merge_recorded(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = part(runs_page(monkeypatch, finished.home, finished.bank.root), "Files")
    files = test.dataframe[1].value.set_index("file")
    weights = next(name for name in files.index if name.startswith("merged/") and name.endswith(".safetensors"))
    actual = hashlib.sha256((finished.job.folder / weights).read_bytes()).hexdigest()
    assert files.loc[weights, "sha256"] == actual
    assert "scores/dev.jsonl" in files.index


def broken_model(tiny: Path, folder: Path) -> Path:
    """A copy of a checkpoint whose weights end too early."""
    shutil.copytree(tiny / "base", folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])
    return folder


def test_a_failed_run_says_why_and_can_be_run_again(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, own_ledger: Ledger, tmp_path: Path
) -> None:
    spec = {
        "model": str(broken_model(tiny, tmp_path / "broken")),
        "tasks": str(tiny / "tasks" / "dev.jsonl"),
        "protocol": {"samples": 1},
    }
    job = ended(own_ledger, own_ledger.submit("eval", spec, "broken"))
    assert job.state == "failed"
    test = runs_page(monkeypatch, own_ledger.home)
    assert test.title[0].value == "One run, failed"
    said = test.error[0].value.replace("\\", "")
    assert str(tmp_path / "broken") in said
    assert "Run again" in said or "run it again" in said
    test.button(key="run_again").click().run()
    assert not test.exception
    jobs = own_ledger.jobs()
    assert len(jobs) == 2
    assert test.selectbox(key="run").value == jobs[0].id
    assert jobs[0].spec == jobs[1].spec


def test_a_running_job_shows_progress_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch, own_ledger: Ledger) -> None:
    monkeypatch.setenv("MERGESCOPE_KINDS", "tests.unit.jobs.sleepers")
    job = own_ledger.submit("sleep", {"steps": 1000, "pause": 0.05}, "a long count")
    while own_ledger.job(job).state == "queued" or not own_ledger.job(job).done:
        pass
    test = runs_page(monkeypatch, own_ledger.home)
    assert test.title[0].value == "One run, running"
    assert "numbers" in " ".join(one.text for one in test.progress)
    test.button(key="run_cancel").click().run()
    assert not test.exception
    assert own_ledger.job(job).state == "cancelled"
    assert test.title[0].value == "One run, cancelled"
    assert "What was half-written has been removed" in test.info[0].value


def test_cleaning_up_removes_the_files_and_keeps_the_record(
    finished: Finished, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "copy"
    shutil.copytree(finished.home, home)
    folder = home / "jobs" / finished.job.id
    test = runs_page(monkeypatch, home, finished.bank.root)
    assert (folder / "merged").is_dir()
    test.button(key="run_clean_sure").click().run()
    assert not test.exception
    assert sorted(one.name for one in folder.iterdir()) == ["spec.json", "worker.log"]
    assert test.dataframe[0].value["state"].tolist() == ["succeeded"]


def test_the_run_of_the_address_is_open_and_a_wrong_one_does_no_harm(
    finished: Finished, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "copy"
    shutil.copytree(finished.home, home)
    second = submit(Ledger(home), finished.bank)
    Ledger(home).cancel(second)
    asked = runs_page(monkeypatch, home, run=finished.job.id)
    assert asked.selectbox(key="run").value == finished.job.id
    asked.selectbox(key="run").select(second).run()
    assert asked.query_params["run"] in (second, [second])
    wrong = runs_page(monkeypatch, home, run="../../etc/passwd")
    assert wrong.selectbox(key="run").value == second
