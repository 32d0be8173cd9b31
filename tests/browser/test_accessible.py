"""axe on every page, in light and in dark: no violation is accepted.

Run: .venv/bin/python -m pytest tests/browser/test_accessible.py
"""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from tests.browser.server import Server, visit
from tests.browser.test_first_look import PAGES


@pytest.mark.parametrize("address", [one for one in PAGES if one])
def test_axe_finds_nothing(server: Server, browser: Browser, address: str, theme: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=theme)  # type: ignore[arg-type]
    page = context.new_page()
    visit(page, f"{server.url}/{address}", PAGES[address])
    page.wait_for_timeout(1500)
    results = Axe().run(page)
    context.close()
    assert results.violations_count == 0, results.generate_report()
