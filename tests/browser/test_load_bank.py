"""From a folder of evaluation files to an opened bank, by keyboard, with axe on every step.

Run: .venv/bin/python -m pytest tests/browser/test_load_bank.py
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from core.bank import load_bank
from tests.browser.server import Server, settle, start_server, stop_server, visit

# Streamlit's own upload area is marked so, and cannot be marked otherwise from here.
EXCEPT = {"rules": {"presentation-role-conflict": {"enabled": False}}}


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An explorer that may read its own folder, in which there are evaluations."""
    folder = tmp_path_factory.mktemp("evaluated")
    write_evaluations(folder / "grpo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MERGESCOPE_ROOTS", str(folder))
        running = start_server(folder / "runs", folder / "server.log")
    yield running
    stop_server(running)


def write_evaluations(folder: Path) -> None:
    """lm-evaluation-harness samples of a base and three steps; step 30 was not asked the last question."""
    for at, model in enumerate(("base", "checkpoint-10", "checkpoint-20", "checkpoint-30")):
        rows = [
            {
                "doc_id": n, "doc": {}, "target": "4", "resps": [["4"]], "filtered_resps": ["4"], "filter": "none",
                "metrics": ["exact_match"], "exact_match": float((n + at) % 3 > 0), "doc_hash": f"d{n}",
                "prompt_hash": f"p{n}", "target_hash": "t",
            }
            for n in range(5 if model == "checkpoint-30" else 6)
        ]  # fmt: skip
        path = folder / model / "samples_sums_2026-01-01T00-00-00.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(one) + "\n" for one in rows))


def press(page: Page, name: str) -> None:
    """Reach a button by focus and press it with the keyboard."""
    # While a step is drawn anew, the button of the one before may still be there.
    button = page.get_by_role("button", name=name, exact=True, disabled=False)
    expect(button.first).to_be_enabled()
    settle(page)
    expect(button).to_have_count(1)
    button.focus()
    button.press("Enter")


def accessible(page: Page) -> None:
    settle(page)
    page.wait_for_timeout(300)
    results = Axe().run(page, options=EXCEPT)
    assert results.violations_count == 0, results.generate_report()


def say_where(page: Page, folder: Path) -> None:
    """First a folder that may not be read, which is said; then the right one."""
    where = page.get_by_role("textbox", name=re.compile("^Folder with"))
    where.fill("/etc")
    where.press("Enter")
    press(page, "Next")
    expect(page.get_by_text(re.compile("lies outside the folders"))).to_be_visible()
    accessible(page)
    where.fill(str(folder))
    where.press("Enter")
    expect(where).to_have_value(str(folder))
    press(page, "Next")


def test_from_evaluation_files_to_an_opened_bank(explorer: Server, browser: Browser, theme: str) -> None:
    folder = explorer.home.parent
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=theme)  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(30_000)
    visit(page, f"{explorer.url}/?bank=s3_card", "Who solves what")
    press(page, "Load another bank")
    say_where(page, folder / "grpo")
    expect(page.get_by_text(re.compile("no checkpoints, four score files"))).to_be_visible()
    accessible(page)
    press(page, "Next")
    expect(page.get_by_text(re.compile("4 stand without weights"))).to_be_visible()
    press(page, "Next")
    expect(page.get_by_role("radio", name=re.compile("^base"))).to_be_checked()
    press(page, "Next")
    expect(page.get_by_text(re.compile("checkpoint-30: has no score for 1 task"))).to_be_visible()
    expect(page.get_by_role("button", name="Next", exact=True)).to_be_disabled()
    accessible(page)
    page.get_by_role("radio", name=re.compile("^Keep only the tasks")).press("Space")
    press(page, "Next")
    expect(page.get_by_text("5 of 6 tasks are kept.")).to_be_visible()
    accessible(page)
    out = folder / f"made_{theme}"
    place = page.get_by_role("textbox", name="New folder")
    place.fill(str(out))
    place.press("Enter")
    press(page, "Save and open")
    expect(page.get_by_role("heading", level=1)).to_have_text("grpo")
    expect(page.get_by_text(re.compile("missing: intersect; 1 of 6 tasks dropped"))).to_be_visible()
    context.close()
    bank = load_bank(out)
    assert [one.id for one in bank.checkpoints] == ["checkpoint-10", "checkpoint-20", "checkpoint-30"]
    assert bank.splits["dev"].scores.shape == (3, 5)
