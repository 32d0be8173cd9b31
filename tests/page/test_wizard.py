"""*Load another bank*: every step from a folder to an opened bank, what is refused, and what is kept on the way.

Run: .venv/bin/python -m pytest tests/page/test_wizard.py
"""

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from core.bank import load_bank
from core.bank.readers import ReadOptions
from core.cli.app import run as shell_run
from core.errors import BankError
from pages.shared import wizard_state
from pages.shared.wizard_steps import mapping_of
from tests.page.made_bank import open_frame, texts
from tests.unit.bank.found_folder import write_csv, write_run, write_weights

pytestmark = pytest.mark.page


def opened(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    """The wizard at its first step, in an explorer that may read `folder`."""
    monkeypatch.setenv("MERGESCOPE_ROOTS", str(folder))
    test = open_frame(monkeypatch, folder / "home", bank="s3_card").run()
    test.button(key="load_bank").click().run()
    assert test.title[0].value == "Load another bank"
    return test


def type_in(test: Any, **values: str) -> Any:
    for name, value in values.items():
        test.text_input(key=f"wizard_{name}").set_value(value)
    return test


def on(test: Any) -> Any:
    """Press *Next*, which must work."""
    found = test.button(key="load_next").click().run()
    assert not found.exception and not found.error, [one.value for one in found.error]
    return found


def step(test: Any) -> str:
    return next(one.value for one in test.markdown if one.value.startswith("Step "))


def test_from_a_folder_to_an_opened_bank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    test = on(type_in(opened(monkeypatch, tmp_path), where=str(run)))
    assert "**Found**" in step(test)
    assert "Found four checkpoints (steps 90 to 200), one score file and one task file" in texts(test)
    test = on(test)
    assert "**Match**" in step(test) and "4 of 4 names mean a checkpoint." in texts(test)
    test = on(test)
    assert test.radio(key="wizard_base").value == "base"
    test = on(test)
    assert "checkpoint-200: has no score for 1 task: t3." in texts(test)
    assert test.radio(key="wizard_choice_tasks").value is None and test.button(key="load_next").disabled
    test.radio(key="wizard_choice_duplicates").set_value("first").run()
    assert test.button(key="load_next").disabled
    test.radio(key="wizard_choice_tasks").set_value("intersect").run()
    test = on(test)
    assert "**Save**" in step(test) and "3 of 4 tasks are kept." in texts(test)
    assert test.text_input(key="wizard_name").value == "run"
    out = tmp_path / "new" / "bank"
    test = on(type_in(test, out=str(out), title="My run"))
    assert test.title[0].value == "My run"
    assert test.selectbox(key="bank").value == str(out)
    bank = load_bank(out)
    assert bank.splits["dev"].tasks_path is not None and bank.has_weights
    assert bank.splits["dev"].alignment is not None and bank.splits["dev"].alignment.tasks_dropped == 1


def test_what_was_typed_and_chosen_is_kept_on_the_way_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    test = on(on(on(on(type_in(opened(monkeypatch, tmp_path), where=str(run))))))
    test.radio(key="wizard_choice_duplicates").set_value("mean").run()
    test.button(key="load_back").click().run()
    test.radio(key="wizard_base").set_value("checkpoint-90").run()
    for _ in range(3):
        test.button(key="load_back").click().run()
    assert test.text_input(key="wizard_where").value == str(run)
    for _ in range(3):
        test = on(test)
    assert test.radio(key="wizard_base").value == "base", "the scores were read again"
    test = on(test)
    assert test.radio(key="wizard_choice_duplicates").value == "mean"
    test.button(key="load_close").click().run()
    assert test.title[0].value != "Load another bank"
    test.button(key="load_bank").click().run()
    assert test.text_input(key="wizard_where").value == ""


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "Name a folder, or upload score files."),
        ("/etc", "lies outside the folders that this explorer may read"),
        ("{root}/nowhere", "no such folder"),
        ("Qwen/Qwen3-8B", "core hub list hf://Qwen/Qwen3-8B"),
        ("https://huggingface.co/a/b", "core hub download hf://a/b CHECKPOINT"),
        ("a\0b", "lies outside"),
    ],
)
def test_a_wrong_place_is_said_where_it_was_typed(
    typed: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = type_in(opened(monkeypatch, tmp_path), where=typed.format(root=tmp_path))
    test.button(key="load_next").click().run()
    assert not test.exception and said in texts(test)
    assert "**Where**" in step(test)
    assert test.text_input(key="wizard_where").value == typed.format(root=tmp_path)


def test_a_folder_without_scores_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_weights(tmp_path / "run" / "checkpoint-1")
    test = on(type_in(opened(monkeypatch, tmp_path), where=str(tmp_path / "run")))
    assert "No score files were found here" in texts(test)
    assert test.button(key="load_next").disabled


def test_scores_alone_become_a_bank_of_scores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = [(who, task, at) for at, who in enumerate(("step-2", "step-10")) for task in "tu"]
    write_csv(tmp_path / "evals" / "s.csv", rows)
    test = on(on(on(type_in(opened(monkeypatch, tmp_path), where=str(tmp_path / "evals")))))
    assert test.radio(key="wizard_base").value is None and test.button(key="load_next").disabled
    test.radio(key="wizard_base").set_value("None of these").run()
    test = on(on(test))
    test = on(type_in(test, out=str(tmp_path / "made"), name="alone"))
    assert [one.id for one in load_bank(tmp_path / "made").checkpoints] == ["step-2", "step-10"]


class Upload(io.BytesIO):
    """What the browser sends, as the upload widget gives it."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.name, self.size = name, len(data)


def test_uploads_of_one_name_are_kept_apart_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    state = wizard_state.Wizard()
    monkeypatch.setattr(wizard_state, "wizard", lambda: state)
    wizard_state.keep_uploads([Upload("s.csv", b"task,score\nt,1\n"), Upload("../s.csv", b"task,score\nt,0\n")])
    assert [one.relative_to(state.uploads.name).as_posix() for one in state.uploaded] == ["s/s.csv", "s_2/s.csv"]  # type: ignore[union-attr]
    scores = wizard_state.read_chosen([], ReadOptions())
    assert scores.files == ("uploaded: s.csv", "uploaded: s.csv")
    with pytest.raises(BankError, match=r"61 files of 0 MB together were uploaded\. At most 60 files"):
        wizard_state.keep_uploads([Upload("s.csv", b"x")] * 61)


def test_saving_over_something_is_refused_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_csv(tmp_path / "evals" / "s.csv", [(who, "t", 1) for who in ("step-2", "base")])
    test = on(on(on(on(on(type_in(opened(monkeypatch, tmp_path), where=str(tmp_path / "evals")))))))
    for out, said in ((str(tmp_path), "is there already"), ("/etc/bank", "must lie below"), ("", "must lie below")):
        type_in(test, out=out, title="Kept").button(key="load_next").click().run()
        assert not test.exception and said in texts(test)
        assert test.text_input(key="wizard_title").value == "Kept"
    type_in(test, out=str(tmp_path / "b"), name="a/b").button(key="load_next").click().run()
    assert "The name may hold letters" in texts(test) and not (tmp_path / "b").exists()


def test_the_edited_table_is_the_mapping() -> None:
    table = pd.DataFrame({"scores": ["a", "b", "c"], "checkpoint": ["x", "(leave out)", "(scores only)"]})
    assert mapping_of(table) == {"a": "x", "b": "", "c": "+"}


def test_a_bank_without_tasks_says_why_nothing_can_be_evaluated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run")
    (run / "tasks.jsonl").unlink()
    flags = ["--duplicates", "first", "--on-missing", "intersect"]
    assert shell_run(["bank", "make", str(run), str(tmp_path / "made"), *flags]) == 0
    test = open_frame(monkeypatch, tmp_path, named=tmp_path / "made").run()
    assert test.button(key="launch_go").disabled
    assert "This bank has no task file to evaluate on" in texts(test)
