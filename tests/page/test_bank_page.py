"""The Bank page: its sentence, switches, coverage, one task, one checkpoint, and banks that lack things.

Run: .venv/bin/python -m pytest tests/page/test_bank_page.py
"""

from pathlib import Path

import pytest

from core.cli.app import run
from tests.page.made_bank import open_frame, texts, write_bank
from tests.unit.bank.found_folder import write_csv

pytestmark = pytest.mark.page


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bank(tmp_path_factory.mktemp("banks") / "made")


def test_one_sentence_says_what_the_scores_come_to(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = texts(open_frame(monkeypatch, tmp_path, named=made).run())
    assert "The best of four checkpoints" in said
    assert "of 12 dev tasks" in said and "the base" in said
    assert "Repeated runs of one checkpoint differ by ±" in said and "20 runs" in said


def test_every_chart_has_an_alternative_and_a_table(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path, named=made).run()
    charts = test.get("plotly_chart")
    assert len(charts) == 2
    assert all(one.proto.alt for one in charts)
    tables = [one.proto.popover.label for one in _blocks(test, "popover") if one.proto.popover.label == "Table"]
    assert len(tables) == 2


def test_the_split_switch_changes_what_is_shown_but_not_the_recipe(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path, named=made).run()
    dev = test.get("plotly_chart")[0].proto.spec
    test.button_group(key="view").set_value("test").run()
    assert not test.exception
    assert "of 12 test tasks" in texts(test)
    assert test.get("plotly_chart")[0].proto.spec != dev
    assert test.selectbox(key="split").value == "dev"
    assert "Repeated runs" not in texts(test)


def test_the_view_is_in_the_address_and_a_bad_one_does_no_harm(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "of 12 test tasks" in texts(open_frame(monkeypatch, tmp_path, named=made, view="test").run())
    bad = open_frame(monkeypatch, tmp_path, named=made, view="nowhere").run()
    assert not bad.exception and "of 12 dev tasks" in texts(bad)


def test_another_protocol_shows_means_over_its_samples(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path, named=made).run()
    test.button_group(key="protocol_dev").set_value("T=0.9 n=4 fp32").run()
    assert not test.exception
    answers = _frame(test, "Every answer")
    assert sorted(answers["sample"].unique()) == [0, 1, 2, 3]


def test_a_task_shows_its_prompt_what_was_wanted_and_every_answer(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path, named=made).run()
    test.selectbox(key="bank_task").set_value("t04").run()
    codes = [one.value for one in test.code]
    assert "add 4 and 2 =" in codes and "6" in codes
    answers = _frame(test, "Every answer")
    assert answers["checkpoint"].tolist() == ["100", "110", "120", "130", "base"]
    assert answers["answer"].iloc[0] == "answer of 100"


def test_a_checkpoint_says_where_it_comes_from(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = open_frame(monkeypatch, tmp_path, named=made).run()
    test.selectbox(key="bank_checkpoint").set_value("base").run()
    assert "Role: **the base" in texts(test)
    test.selectbox(key="bank_checkpoint").set_value("120").run()
    said = texts(test)
    assert "Training step: **120**" in said and "95 % interval" in said and "n = 12 tasks" in said


def test_coverage_counts_all_some_and_none(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from core.bank import load_bank
    from core.charts.bank import coverage

    found = coverage(load_bank(made).splits["dev"].scores)
    said = texts(open_frame(monkeypatch, tmp_path, named=made).run())
    assert f"all checkpoints solve {found.by_all}, some {found.by_some}, none {found.by_none}" in said


def test_the_reconstruction_says_so_before_anything_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = open_frame(monkeypatch, tmp_path)
    test.query_params["bank"] = "s3_card"
    test.run()
    assert "Illustrative reconstruction" in test.warning[0].value and "not measured" in test.warning[0].value.replace(
        "\n", " "
    )
    assert "38 of 57" in texts(test)
    assert "holds no prompts" in texts(test)
    assert any("43 of 57" in one for one in test.table[0].value["value"])


def test_a_bank_without_replicates_draws_no_band(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "bare", replicates=False)
    test = open_frame(monkeypatch, tmp_path, named=bank).run()
    assert not test.exception
    assert "Repeated runs" not in texts(test) and "grey band" not in texts(test)
    assert "The run-to-run noise is unknown" in texts(test) and "of each would tell" in texts(test)


def _frame(test: object, key: str) -> object:
    return next(one.value for one in test.dataframe if key in one.proto.alt)  # type: ignore[attr-defined]


def _blocks(test: object, kind: str) -> list[object]:
    return list(test.get(kind))  # type: ignore[attr-defined]


def test_a_bank_with_masked_gaps_opens_on_every_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [(who, f"t{n}", (n * who) % 3 % 2) for who in (1, 2, 3, 4, 5) for n in range(8) if (who, n) != (3, 7)]
    write_csv(tmp_path / "evals" / "s.csv", [(f"step-{who}", task, score) for who, task, score in rows])
    code = run(["bank", "make", str(tmp_path / "evals"), str(tmp_path / "gaps"), "--on-missing", "mask"])
    assert code == 0
    test = open_frame(monkeypatch, tmp_path, named=tmp_path / "gaps").run()
    assert not test.exception and not test.error
    assert "1 score is missing" in texts(test) and "1 of 40 scores are missing and were masked" in texts(test)
    assert "How these scores were made comparable: missing: mask." in texts(test)
    for page in ("recipe.py", "whatif.py", "runs.py", "precision.py", "results.py"):
        test.switch_page(page).run()
        assert not test.exception and not test.error


def test_samples_give_the_band_where_nothing_was_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [(f"step-{who}", f"t{n}", (n + who + sample) % 2, sample) for who in (1, 2) for n in range(6) for sample in range(2)]  # fmt: skip  # noqa: E501
    write_csv(tmp_path / "evals" / "s.csv", rows, "checkpoint,task,score,sample")
    assert run(["bank", "make", str(tmp_path / "evals"), str(tmp_path / "made")]) == 0
    said = texts(open_frame(monkeypatch, tmp_path, named=tmp_path / "made").run())
    # Each task's two samples have variance 1/2; six tasks make 3, their mean over two samples 3/2: 1.96 · √1.5 = 2.4.
    assert "would differ by ± 2.4 tasks (from 2 samples a task, 95 %)" in said
    assert "worked out from the 2 samples a task (95 %): 0.6 to 5.4 of 6 tasks" in said
