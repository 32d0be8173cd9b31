"""The report of a run: stands alone, says what the run measured, and lets no text of others become code.

Run: .venv/bin/python -m pytest tests/page/test_report.py
"""

import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from core.charts import result_words as words
from core.cli.app import run
from core.errors import InputError
from core.report import report_html
from tests.page.conftest import Finished

pytestmark = pytest.mark.page


class Tags(HTMLParser):
    """What a browser would see: tags with their attributes, and text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def made(finished: Finished) -> str:
    return report_html(finished.job)


def test_it_says_what_the_run_measured(made: str, finished: Finished) -> None:
    result = finished.job.result or {}
    said = re.sub(r"\s+", " ", Tags(made).text)
    found = result["comparisons"]["test"]["best_single"]
    assert words.headline("test", found, held_out=True) in said
    assert words.evidence(found, 1) in said
    assert words.distrust("dev", result["comparisons"]) in said
    assert finished.job.command.splitlines()[0] in said
    weights = next(Path(result["out"]).glob("*.safetensors"))
    assert hashlib.sha256(weights.read_bytes()).hexdigest() in said
    tasks = finished.bank.splits["dev"].tasks_path
    assert tasks is not None and hashlib.sha256(tasks.read_bytes()).hexdigest() in said


def test_it_needs_nothing_from_elsewhere(made: str) -> None:
    tags = Tags(made).found
    assert [one for one, values in tags if values.get("src") or one in ("link", "iframe", "img")] == []
    policy = next(values["content"] for one, values in tags if values.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'")


def test_texts_of_others_stay_texts(finished: Finished) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    result = dict(finished.job.result or {})
    one = result["comparisons"]["test"]["best_single"] | {"gained": [hostile], "sentence": hostile}
    comparisons = result["comparisons"] | {"test": result["comparisons"]["test"] | {"best_single": one}}
    result |= {"comparisons": comparisons, "best_single": hostile}
    spec = finished.job.spec | {"plan": hostile}
    plain, bad = (
        Tags(report_html(finished.job)),
        Tags(report_html(replace(finished.job, title=hostile, command=hostile, spec=spec, result=result))),
    )
    assert [one for one, _ in bad.found] == [one for one, _ in plain.found]
    assert bad.text.count("alert(1)") > 5


def test_the_shell_writes_it_and_refuses_other_runs(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MERGESCOPE_HOME", str(finished.home))
    assert run(["report", finished.job.id, str(tmp_path / "report.html")]) == 0
    assert "<!doctype html>" in (tmp_path / "report.html").read_text()
    assert run(["report", "nothing", str(tmp_path / "other.html")]) == 2
    assert "error: " in capsys.readouterr().err and not (tmp_path / "other.html").exists()
    with pytest.raises(InputError, match="Expected a finished merge"):
        report_html(replace(finished.job, kind="merge"))


def test_without_a_finished_run_the_shell_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MERGESCOPE_HOME", str(tmp_path))
    assert run(["report", "last", str(tmp_path / "report.html")]) == 2
    assert "no merge with its evaluation has succeeded" in capsys.readouterr().err
