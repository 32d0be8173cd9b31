"""The main job in a real browser: press the button, watch, read the verdict; cancel; restart the app.

Run: .venv/bin/python -m pytest tests/browser/test_main_job.py
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from core.jobs import Ledger
from core.jobs.model import Job
from tests.browser.server import ROOT, Server, settle, start_server, stop_server, visit

LIVE = ("queued", "running")
SHOWN = {"runs": "Open run", "precision": "Where it is lost", "results": "Where every model stands"}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An explorer with runs of its own, so that these journeys count only what they started."""
    folder = tmp_path_factory.mktemp("workshop")
    running = start_server(folder / "runs", folder / "server.log")
    yield running
    stop_server(running)


def press(server: Server, page: Page, query: str) -> Job:
    """Press *Merge and evaluate* on the Runs page; the job it started."""
    known = {one.id for one in Ledger(server.home).jobs()}
    page.goto(f"{server.url}/runs?{query}")
    settle(page)
    page.get_by_role("button", name="Merge and evaluate").click()
    page.get_by_text(re.compile("Queued as run")).first.wait_for()
    (new,) = [one for one in Ledger(server.home).jobs() if one.id not in known]
    return new


def wait_until_ended(server: Server, page: Page, job: str) -> Job:
    """Wait for a job's end, three minutes at most."""
    for _ in range(360):
        now = Ledger(server.home).job(job)
        if now.state not in LIVE:
            return now
        page.wait_for_timeout(500)
    raise AssertionError(f"job {job} did not end: {now}")


def core(*arguments: str) -> None:
    """Run the shell, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "core", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_from_the_button_to_the_verdict_and_the_same_bytes_from_the_shell(
    workshop: Server, page: Page, tmp_path: Path
) -> None:
    started = press(workshop, page, "bank=rl_only")
    ended = wait_until_ended(workshop, page, started.id)
    assert ended.state == "succeeded", ended.error

    visit(page, f"{workshop.url}/results?bank=rl_only", "Where every model stands")
    verdict = page.get_by_role("heading", level=1).inner_text()
    assert re.match("Unresolved|Better|Worse", verdict)
    expect(page.get_by_text(re.compile("95 % interval")).first).to_be_visible()
    visit(page, f"{workshop.url}/precision?bank=rl_only", "Where it is lost")
    expect(page.get_by_role("heading", level=1)).to_contain_text("bf16 would round away")

    planned = subprocess.run(
        [sys.executable, "-m", "core", "plan", "data/rl_only"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (tmp_path / "config.yml").write_text(planned.stdout)
    core("merge", str(tmp_path / "config.yml"), str(tmp_path / "merged"))
    core(
        "eval",
        str(tmp_path / "merged"),
        "--tasks",
        "data/rl_only/tasks/dev.jsonl",
        "--out",
        str(tmp_path / "dev.jsonl"),
    )
    assert ended.result is not None
    weights = Path(ended.result["out"]) / "model.safetensors"
    assert weights.read_bytes() == (tmp_path / "merged/model.safetensors").read_bytes()
    assert Path(ended.result["scores"]["dev"]["merge"]).read_bytes() == (tmp_path / "dev.jsonl").read_bytes()


@pytest.mark.parametrize("address", ["runs", "precision", "results"])
def test_axe_finds_nothing_on_a_finished_run(workshop: Server, browser: Browser, address: str, theme: str) -> None:
    finished = [one for one in Ledger(workshop.home).jobs() if one.state == "succeeded"]
    assert finished, "the journey before this one left no finished run"
    context = browser.new_context(viewport={"width": 1024, "height": 768}, color_scheme=theme)  # type: ignore[arg-type]
    page = context.new_page()
    visit(page, f"{workshop.url}/{address}?bank=rl_only", SHOWN[address])
    page.wait_for_timeout(1500)
    results = Axe().run(page)
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    context.close()
    assert results.violations_count == 0, results.generate_report()
    assert wide <= 0, "the page is wider than the window"


def test_cancel_stops_the_run_and_leaves_no_half_merge(workshop: Server, page: Page) -> None:
    started = press(workshop, page, "bank=rl_only&k=8&lam=0.5")
    page.get_by_role("button", name="Cancel").first.click()
    ended = wait_until_ended(workshop, page, started.id)
    assert ended.state == "cancelled"
    page.get_by_text(re.compile("cancelled", re.I)).first.wait_for()
    assert [one for one in ended.folder.rglob("*.safetensors") if "merged" not in one.parts] == []


def test_a_run_outlives_the_app_and_the_next_one_sees_it(tmp_path: Path, page: Page) -> None:
    first = start_server(tmp_path / "runs", tmp_path / "server.log")
    started = press(first, page, "bank=rl_only&k=3")
    stop_server(first)
    assert Ledger(first.home).job(started.id).state in LIVE
    second = start_server(tmp_path / "runs", tmp_path / "server.log")
    try:
        page.goto(f"{second.url}/runs?bank=rl_only")
        settle(page)
        ended = wait_until_ended(second, page, started.id)
        assert ended.state == "succeeded", ended.error
        page.reload()
        page.get_by_text(re.compile("succeeded")).first.wait_for()
    finally:
        stop_server(second)
