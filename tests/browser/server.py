"""Starts a real explorer, waits for it and for its pages: shared by the journeys and the benchmark.

Takes a folder for its runs and a file for its output; knows nothing about pytest.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]
READY = '[data-testid="stApp"][data-test-script-state="notRunning"][data-test-connection-state="CONNECTED"]'


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


def start_server(home: Path, log: Path, script: Path = ROOT / "app.py") -> Server:
    """Start the explorer, or another app, on a free port and wait for its answer; raises with its output otherwise."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.headless=true", f"--server.port={port}"]
    environment = os.environ | {"MERGESCOPE_HOME": str(home)}
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    server = Server(f"http://127.0.0.1:{port}", home, log, process)
    for _ in range(1200):
        try:
            urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=1).read()
            return server
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
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


def visit(page: Page, address: str, expected: str) -> None:
    """Open an address and wait for the script to finish and for the text the test is about."""
    page.goto(address)
    settle(page)
    page.get_by_text(expected).first.wait_for(timeout=30_000)


def settle(page: Page) -> None:
    """Wait until the page has drawn everything it was asked for."""
    page.wait_for_selector(READY, timeout=60_000)
