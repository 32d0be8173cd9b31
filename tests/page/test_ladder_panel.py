"""The ladder on the Results page: one press queues it, and what it measured is what is said.

Run: .venv/bin/python -m pytest tests/page/test_ladder_panel.py
"""

from pathlib import Path

import pytest

from core.bank import load_bank
from core.charts import ladder as figures
from core.jobs import Ledger
from core.report import report_html
from tests.page.conftest import Finished, ended
from tests.page.made_bank import open_frame, texts

pytestmark = pytest.mark.page


def plain_texts(test: object) -> str:
    return texts(test).replace("\\", "")  # type: ignore[arg-type]


def test_one_press_runs_the_ladder_and_the_page_says_what_it_measured(
    tiny: Path, finished: Finished, own_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def page() -> object:
        test = open_frame(monkeypatch, own_ledger.home, named=tiny, bank=str(load_bank(tiny).root), k="2").run()
        test.switch_page("results.py").run()
        assert not test.exception and not test.error
        return test

    test = page()
    assert "Nothing yet. The ladder merges and evaluates" in plain_texts(test)
    assert "models to make" in plain_texts(test) and "of disk at a time" in plain_texts(test)
    test.button(key="ladder_go").click().run()  # type: ignore[attr-defined]
    job = next(iter(own_ledger.jobs(1)))
    assert job.kind == "ladder"
    assert f"as run {job.id}" in plain_texts(test)
    job = ended(own_ledger, job.id)
    assert job.state == "succeeded", job.error
    test = page()
    result = job.result or {}
    # The held-out split first; the split that chose carries the warning.
    assert figures.headline(result, "test") in plain_texts(test)
    assert not test.warning  # type: ignore[attr-defined]
    test.segmented_control(key="ladder_split").set_value("dev").run()  # type: ignore[attr-defined]
    assert figures.headline(result, "dev") in plain_texts(test)
    assert "The recipe was chosen on dev" in test.warning[0].value  # type: ignore[attr-defined]
    assert "ladder_go" not in [one.key for one in test.button]  # type: ignore[attr-defined]
    report = report_html(finished.job, job)
    assert figures.headline(result, "test") in report
    assert figures.rivals(result, "dev")[0].title in report
