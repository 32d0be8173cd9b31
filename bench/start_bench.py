"""How long the explorer takes to its first page, and from a key on the λ slider to redrawn picks.

Starts a real server and a real browser; prints and returns seconds. Run: python -m bench.start_bench
"""

import re
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.find import chromium
from tests.browser.server import READY, ROOT, settle, start_server, stop_server

STARTS, MOVES = 3, 20
# Resolves with the milliseconds from the next key press to the formula that holds the new λ. Reads
# textContent, which asks for no layout, so that watching does not slow what is watched.
WATCH = """() => { window.moved = new Promise(done => {
  const main = document.querySelector('[data-testid="stMain"]');
  const formula = () => main.textContent.match(/[0-9.]+ · 0\\.[0-9]+ [−-]/)?.[0];
  const before = formula();
  addEventListener('keydown', () => {
    const start = performance.now();
    const watcher = new MutationObserver(() => {
      const now = formula();
      if (now && now !== before) { watcher.disconnect(); done(performance.now() - start); }
    });
    watcher.observe(document.body, {subtree: true, childList: true, characterData: true});
  }, {once: true, capture: true});
}); }"""


def first_page(page: Page, folder: Path, script: Path, text: str) -> tuple[float, float]:
    """Seconds from starting the process to `text` on the page, and to a page that has drawn everything."""
    started = time.perf_counter()
    server = start_server(folder, folder / "server.log", script)
    try:
        page.goto(f"{server.url}/?bank=s3_card")
        page.get_by_text(text).first.wait_for()
        shown = time.perf_counter() - started
        page.wait_for_selector(READY)
        return shown, time.perf_counter() - started
    finally:
        stop_server(server)


def starts(browser: Browser, place: Path, script: Path, text: str) -> tuple[float, float]:
    """Medians of several starts, each in a new page of one browser."""
    seconds = []
    for one in range(STARTS):
        folder = place / f"{script.stem}-{one}"
        folder.mkdir()
        page = browser.new_page()
        seconds.append(first_page(page, folder, script, text))
        # A page whose server is gone would go on asking for it, and slow the next start.
        page.close()
    shown, drawn = (statistics.median(one) for one in zip(*seconds, strict=True))
    return shown, drawn


def slider(page: Page, folder: Path) -> list[float]:
    """Seconds from each key on the λ slider to the redrawn formula of the picks, on the 11 × 57 bank."""
    server = start_server(folder, folder / "server.log")
    try:
        page.goto(f"{server.url}/recipe?bank=s3_card")
        settle(page)
        page.get_by_text(re.compile("Picked in this order")).first.wait_for()
        knob = page.get_by_role("slider", name=re.compile("λ"))
        knob.focus()
        seconds = []
        for move in range(MOVES):
            page.evaluate(WATCH)
            knob.press("ArrowLeft" if move < MOVES // 2 else "ArrowRight")
            seconds.append(float(page.evaluate("() => window.moved")) / 1000)
            page.wait_for_timeout(700)
        return seconds
    finally:
        stop_server(server)


def run() -> dict[str, float]:
    """Measure both, print and return the medians in seconds."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        place = Path(name)
        browser = playwright.chromium.launch(
            executable_path=chromium(),
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"],
        )
        bare = place / "bare.py"
        bare.write_text("import streamlit as st\nst.write('One line')\n")
        floor = starts(browser, place, bare, "One line")
        ours = starts(browser, place, ROOT / "app.py", "Who solves what")
        moves = slider(browser.new_page(), place)
        browser.close()
    median = statistics.median(moves)
    print(
        f"first page, from the command: median {ours[0]:.2f} s to its text, {ours[1]:.2f} s to all drawn (of {STARTS})"
    )
    print(f"  to beat: 3 s; an app of one line, in the same run: {floor[0]:.2f} s and {floor[1]:.2f} s")
    slowest = 1000 * max(moves)
    print(f"slider to redrawn picks, 11 × 57: median {1000 * median:.0f} ms of {MOVES}, slowest {slowest:.0f} ms")
    print("  to beat: 250 ms")
    return {"first text": ours[0], "first page": ours[1], "slider": median, "floor": floor[1]}


if __name__ == "__main__":
    run()
