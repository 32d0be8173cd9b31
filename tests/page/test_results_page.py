"""Results: the verdict first, the same numbers as the run's record, and any task's answers.

Run: .venv/bin/python -m pytest tests/page/test_results_page.py
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.charts.result_words import signed
from core.evals.protocol import Protocol
from pages.shared.result_data import is_same_bank, samples_of
from pages.shared.runs import has_scores
from tests.page.conftest import Finished
from tests.page.made_bank import open_frame, texts

pytestmark = pytest.mark.page


def results_page(monkeypatch: pytest.MonkeyPatch, home: Path, finished: Finished) -> AppTest:
    test = open_frame(monkeypatch, home, named=finished.bank.root, bank=str(finished.bank.root)).run()
    test.switch_page("results.py").run()
    assert not test.exception
    return test


def test_without_a_result_it_says_what_to_do_and_shows_what_was_published(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path, bank="s3_card").run()
    test.switch_page("results.py").run()
    assert not test.exception
    assert test.title[0].value == "No scored merge yet"
    assert "illustrative reconstruction" in texts(test)
    assert any("43 of 57 (0.7544)" in one.value.to_string() for one in test.dataframe)


def test_the_verdict_is_of_the_held_out_split_with_its_uncertainty(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = finished.job.result["comparisons"]["test"]["best_single"]  # type: ignore[index]
    test = results_page(monkeypatch, finished.home, finished)
    title = test.title[0].value
    assert "9 held-out test tasks" in title
    assert title.startswith("Unresolved" if found["verdict"] == "unresolved" else f"The merge is {found['verdict']}")
    said = texts(test)
    assert f"Difference {signed(9 * found['difference'])} tasks, 95 % interval" in said
    assert "winner's curse" in test.warning[0].value
    assert "on dev" in test.warning[0].value and "on test" in test.warning[0].value


def test_every_pair_is_listed(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    test = results_page(monkeypatch, finished.home, finished)
    table = test.table[0].value.map(lambda text: text.replace("\N{NO-BREAK SPACE}", " "))
    pairs = set(zip(table["split"], table["merge against"], strict=True))
    assert pairs == {
        (f"{one}, 9 tasks", two) for one in ("dev", "test") for two in ("best single", "base", "uniform mean")
    }
    assert set(table["verdict"]) <= {"better", "worse", "unresolved"}


def test_a_task_shows_its_prompt_and_every_answer(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    test = results_page(monkeypatch, finished.home, finished)
    test.segmented_control(key="results_split").set_value("dev").run()
    test.selectbox(key="results_task").select("dev-4").run()
    assert not test.exception
    assert "ed: " in [one.value for one in test.code]
    answers = next(one.value for one in test.dataframe if "answer" in one.value.columns)
    assert answers["model"].tolist() == ["merge", "uniform mean", "best single", "base"]
    path = finished.job.result["scores"]["dev"]["merge"]  # type: ignore[index]
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    assert answers["answer"][0] == next(row["completion"] for row in rows if row["task"] == "dev-4")


def test_the_merge_can_be_held_against_another_rival(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    test = results_page(monkeypatch, finished.home, finished)
    test.segmented_control(key="results_rival").set_value("base").run()
    assert not test.exception
    assert "than the base on" in texts(test)


def test_a_run_is_offered_only_while_its_files_are_there(finished: Finished) -> None:
    job = finished.job
    assert has_scores(job)
    gone = json.loads(json.dumps(job.result).replace("dev.jsonl", "removed.jsonl"))
    assert not has_scores(replace(job, result=gone))
    assert not has_scores(replace(job, state="failed"))
    assert not has_scores(replace(job, result=None))


def test_a_bank_that_was_made_again_does_not_stand_beside_an_older_run(finished: Finished) -> None:
    assert finished.job.result is not None
    protocol = Protocol(**finished.job.result["protocol"])
    best, own = finished.job.result["best_single"], samples_of(finished.job, "dev")["best single"]
    task, scores = next(iter(own.items()))
    changed = own | {task: [1 - scores[0]]}
    assert is_same_bank(finished.bank, "dev", protocol, best, own)
    assert not is_same_bank(finished.bank, "dev", protocol, best, changed)
    assert not is_same_bank(finished.bank, "dev", protocol, "gone", own)
