"""A real server and a real browser for the journeys: one of each a session, one clean page a test.

The server's output goes to a file and is printed when a journey fails. Jobs go to a folder of the
session, so a journey never sees the runs of another checkout.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.find import chromium

ROOT = Path(__file__).resolve().parents[2]
READY = '[data-testid="stApp"][data-test-script-state="notRunning"][data-test-connection-state="CONNECTED"]'

expect.set_options(timeout=30_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every journey, so that `-m 'not browser'` leaves them out."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@dataclass
class Server:
    """A running explorer: where it listens, where its runs go, what it printed."""

    url: str
    home: Path
    log: Path
    process: subprocess.Popen[bytes]


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start_server(home: Path, log: Path) -> Server:
    """Start the explorer on a free port and wait until it answers; raises with its output otherwise."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true", f"--server.port={port}"]
    environment = os.environ | {"MERGESCOPE_HOME": str(home)}
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    server = Server(f"http://127.0.0.1:{port}", home, log, process)
    for _ in range(240):
        try:
            urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=1).read()
            return server
        except (urllib.error.URLError, OSError):
            time.sleep(0.25)
            if process.poll() is not None:
                break
    raise RuntimeError(f"the explorer did not start:\n{log.read_text()}")


def stop_server(server: Server) -> None:
    """End the explorer's own process; its jobs are detached and live on."""
    server.process.terminate()
    try:
        server.process.wait(10)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait(10)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("explorer")
    running = start_server(folder / "runs", folder / "server.log")
    yield running
    stop_server(running)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=chromium(),
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"],
        )
        yield running
        running.close()


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 800})
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    made = context.new_page()
    made.set_default_timeout(30_000)
    return made


def visit(page: Page, address: str, expected: str) -> None:
    """Open an address and wait for the script to finish and for the text the test is about."""
    page.goto(address)
    settle(page)
    page.get_by_text(expected).first.wait_for(timeout=30_000)


def settle(page: Page) -> None:
    """Wait until the page has drawn everything it was asked for."""
    page.wait_for_selector(READY, timeout=60_000)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    running = getattr(item, "funcargs", {}).get("server")
    if report.failed and running is not None:
        report.sections.append(("server output", running.log.read_text()[-4000:]))
