"""`jobs …` and `worker` from the shell, on jobs that only count.

Run: .venv/bin/python -m pytest tests/unit/cli/test_jobs.py
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.jobs import Ledger
from tests.unit.cli.conftest import Shell

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERGESCOPE_KINDS", "tests.unit.jobs.sleepers")


def request(path: Path, steps: int) -> Path:
    path.write_text(json.dumps({"kind": "sleep", "spec": {"steps": steps}, "title": "counting"}))
    return path


def test_a_job_from_submission_to_cleaning_up(shell: Shell, tmp_path: Path) -> None:
    done = shell("jobs", "submit", request(tmp_path / "job.json", 2), "--wait", "--json")
    assert done.code == 0, done.err
    assert (done.json["state"], done.json["result"]["steps"]) == ("succeeded", 2)
    listed = shell("jobs", "list", "--json").json
    assert [one["id"] for one in listed["jobs"]] == [done.json["id"]]
    assert "counting" in shell("jobs", "list").out
    shown = shell("jobs", "show", "last", "--log", 5, "--json").json
    assert [one["kind"] for one in shown["events"]][-1] == "succeeded"
    assert any("succeeded" in line for line in shown["log_lines"])
    assert "repeat with\npython -m core jobs submit" in shell("jobs", "show", done.json["id"]).out
    assert shell("jobs", "clean", "last", "--json").json["bytes"] == 0
    assert shell("worker", done.json["id"]).code == 1


def test_cancelling_and_recovering(shell: Shell, tmp_path: Path) -> None:
    begun = shell("jobs", "submit", request(tmp_path / "job.json", 1000), "--json").json
    assert begun["state"] in ("queued", "running")
    assert shell("jobs", "recover", "--json").json == {"lost": []}
    assert shell("jobs", "cancel", begun["id"], "--json").json["state"] == "cancelled"
    again = shell("jobs", "cancel", begun["id"])
    assert (again.code, again.out) == (1, "")
    assert "Only a queued or running job" in again.err
    assert Ledger().live_jobs() == []


def test_a_request_that_is_none(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text("[]")
    for name in ("odd.json", "missing.json"):
        found = shell("jobs", "submit", tmp_path / name)
        assert (found.code, found.out) == (2, "")
    assert shell("jobs", "show", "last").code == 2
    assert not (tmp_path / "home" / "jobs").exists()


def test_interrupting_a_shell_that_waits_leaves_the_job_alone(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "core", "jobs", "submit", str(request(tmp_path / "job.json", 2000)), "--wait"]
    home = tmp_path / "home"
    environment = os.environ | {"MERGESCOPE_HOME": str(home)}
    # As a terminal starts it: a test run in the background would hand down that SIGINT is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    waiting = subprocess.Popen(words, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    ledger = Ledger(home)
    end = time.monotonic() + 60
    while not any(one.state == "running" for one in ledger.live_jobs()) and time.monotonic() < end:
        time.sleep(0.1)
    waiting.send_signal(signal.SIGINT)
    said = waiting.communicate(timeout=30)[1]
    assert waiting.returncode == 130
    assert said == "error: interrupted.\n"
    [job] = ledger.live_jobs()
    assert job.state == "running"
    assert ledger.cancel(job.id).state == "cancelled"
