"""Where a Chromium for the browser tests is; `python -m tests.browser.find` says, or exits with 1.

Looks at $CHROMIUM, then at the names Linux distributions use, then at what Playwright downloaded.
"""

import os
import shutil
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """Path of a Chromium binary, or None where there is none."""
    named = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES)]
    for path in named:
        if path and Path(path).exists():
            return path
    return _downloaded()


def _downloaded() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


if __name__ == "__main__":
    found = chromium()
    print(found or "no Chromium found; install the package chromium, or name one in $CHROMIUM", file=sys.stderr)
    sys.exit(found is None)
