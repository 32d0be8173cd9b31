"""Journeys of the first five minutes: a screen that is alive, knobs that answer, links that hold.

Run: .venv/bin/python -m pytest tests/browser/test_first_look.py
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.server import ROOT, Server, settle, visit

PAGES = {
    "": "Who solves what",
    "bank": "Who solves what",
    "recipe": "Picks for every λ",
    "whatif": "What else could this recipe pick?",
    "runs": "No runs yet",
    "precision": "merge",
    "results": "merge",
}


def shell(*arguments: str) -> dict[str, object]:
    """What the shell says, as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "core", *arguments, "--json"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def picks_on_screen(page: Page) -> list[str]:
    """Checkpoint ids in the order of the chips on the Recipe page."""
    sentence = page.get_by_text(re.compile(r"^Picked in this order: ")).inner_text()
    return re.findall(r"\d+", sentence.split(":")[1].split(".")[0])


def test_the_first_screen_is_alive_before_anything_is_pressed(server: Server, page: Page) -> None:
    visit(page, server.url, "Who solves what")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("slider").first).to_be_visible()
    page.locator(".js-plotly-plot").first.wait_for()
    assert page.get_by_text(re.compile("Traceback|Error")).count() == 0


@pytest.mark.parametrize("address", PAGES)
def test_a_cold_link_opens_every_page_in_its_frame(server: Server, page: Page, address: str) -> None:
    visit(page, f"{server.url}/{address}", PAGES[address])
    expect(page.get_by_role("button", name="Merge and evaluate")).to_be_visible()


def test_the_picks_on_screen_are_those_of_the_shell(server: Server, page: Page) -> None:
    for lam, k in (("0.7", "5"), ("1.0", "4"), ("0.3", "6")):
        visit(page, f"{server.url}/recipe?bank=s3_card&lam={lam}&k={k}", "Picked in this order")
        said = shell("select", "data/s3_card", "--lambda", lam, "--k", k)
        assert picks_on_screen(page) == [one["checkpoint"] for one in said["picks"]]  # type: ignore[attr-defined]


def test_keyboard_moves_a_knob_and_the_address_follows(server: Server, page: Page) -> None:
    visit(page, f"{server.url}/recipe?bank=s3_card", "Picked in this order")
    before = picks_on_screen(page)
    slider = page.get_by_role("slider", name=re.compile("λ"))
    slider.focus()
    for _ in range(4):
        slider.press("PageDown")
    settle(page)
    page.wait_for_url(re.compile("lam=0"))
    expect(page.get_by_role("button", name="Undo")).to_be_enabled()
    lam = re.search(r"lam=([0-9.]+)", page.url)
    assert lam
    said = shell("select", "data/s3_card", "--lambda", lam.group(1), "--k", "5")
    expected = [one["checkpoint"] for one in said["picks"]]  # type: ignore[attr-defined]
    page.wait_for_timeout(500)
    assert picks_on_screen(page) == expected != before


def test_a_link_with_nonsense_says_so_and_keeps_working(server: Server, page: Page) -> None:
    visit(page, f"{server.url}/recipe?bank=s3_card&lam=7&tau=-1&k=abc", "Picked in this order")
    assert page.get_by_text(re.compile("is not used: expected")).count() >= 2
    assert len(picks_on_screen(page)) == 5


def test_a_bank_outside_the_allowed_folders_is_not_opened(server: Server, page: Page, tmp_path: Path) -> None:
    (tmp_path / "bank.yaml").write_text("name: elsewhere\n")
    visit(page, f"{server.url}/?bank={tmp_path}", "Who solves what")
    expect(page.get_by_text(re.compile("The link asks for the bank")).first).to_be_visible()


def test_the_steps_of_mmr_are_walked_with_back_and_next(server: Server, page: Page) -> None:
    visit(page, f"{server.url}/recipe?bank=s3_card", "Picked in this order")
    at = int(page.get_by_text(re.compile(r"^Step \d of 5")).inner_text().split()[1])
    for button, step in (("Next", at + 1), ("Next", at + 2), ("Back", at + 1)):
        page.get_by_role("button", name=button).click()
        expect(page.get_by_text(re.compile(rf"^Step {step} of 5"))).to_be_visible()


def test_the_downloaded_config_is_the_plan_of_the_shell(server: Server, page: Page, tmp_path: Path) -> None:
    visit(page, f"{server.url}/recipe?bank=rl_only&density=0.5", "Picked in this order")
    with page.expect_download() as info:
        page.get_by_role("button", name=re.compile("Download config")).click()
    info.value.save_as(tmp_path / "config.yml")
    planned = subprocess.run(
        [sys.executable, "-m", "core", "plan", "data/rl_only", "--density", "0.5"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "config.yml").read_text() == planned.stdout


def test_the_reconstruction_says_what_it_is_and_cannot_be_merged(server: Server, page: Page) -> None:
    visit(page, f"{server.url}/?bank=s3_card", "Who solves what")
    expect(page.get_by_text(re.compile("illustrative reconstruction", re.I)).first).to_be_visible()
    expect(page.get_by_role("button", name="Merge and evaluate")).to_be_disabled()
    expect(page.get_by_text(re.compile("scores only: there are no weights")).first).to_be_visible()


def test_undo_takes_back_a_preset_and_another_bank_keeps_the_knobs(server: Server, page: Page) -> None:
    visit(page, f"{server.url}/recipe?bank=s3_card", "Picked in this order")
    before = picks_on_screen(page)
    page.get_by_role("button", name=re.compile("Two strongest")).click()
    page.wait_for_url(re.compile("k=2"))
    expect(page.get_by_text(re.compile(r"^Picked in this order: 270 and 300"))).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text(re.compile(r"^Picked in this order: " + before[0] + ","))).to_be_visible()
    assert picks_on_screen(page) == before
    page.get_by_role("combobox", name="Bank").click()
    page.get_by_role("option", name="sft_rl").click()
    page.wait_for_url(re.compile("bank=sft_rl"))
    expect(page.get_by_role("button", name="Merge and evaluate")).to_be_enabled()


def test_a_task_is_found_by_typing_and_shows_every_answer(server: Server, page: Page) -> None:
    visit(page, f"{server.url}/?bank=rl_only", "Who solves what")
    tasks = [json.loads(line) for line in (ROOT / "data/rl_only/tasks/dev.jsonl").read_text().splitlines()]
    chosen = tasks[7]
    box = page.get_by_role("combobox", name="Task", exact=True)
    box.focus()
    box.press("ArrowDown")
    box.fill(chosen["id"])
    page.get_by_role("option", name=chosen["id"]).wait_for()
    box.press("Enter")
    expect(page.get_by_test_id("stCode").get_by_text(chosen["prompt"])).to_be_visible()
    expect(page.get_by_text("Wanted")).to_be_visible()
