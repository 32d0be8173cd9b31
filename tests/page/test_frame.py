"""The frame: which bank and recipe are live, what an address may say, presets, undo, and bad input.

Run: .venv/bin/python -m pytest tests/page/test_frame.py
"""

import os
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest

from tests.page.made_bank import open_frame, texts, warnings, write_bank

pytestmark = pytest.mark.page
S3 = {"bank": "s3_card"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bank(tmp_path_factory.mktemp("banks") / "made")


@pytest.mark.parametrize("page", ["bank.py", "recipe.py", "whatif.py", "runs.py", "precision.py", "results.py"])
def test_every_page_opens_on_its_own(page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = open_frame(monkeypatch, tmp_path, **S3).run()
    test.switch_page(page).run()
    assert not test.exception and not test.error
    assert len(test.title) == 1


def test_the_top_line_names_bank_and_recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = open_frame(monkeypatch, tmp_path, **S3).run()
    assert test.selectbox(key="bank").value == "s3_card"
    said = texts(test)
    assert "**11** checkpoints · **57** dev tasks" in said
    assert "illustrative reconstruction" in said
    assert "Recipe: S3" in _labels(test)


def test_a_bank_of_the_user_comes_first_and_can_be_named_in_the_address(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named = open_frame(monkeypatch, tmp_path, named=made).run()
    assert named.selectbox(key="bank").value == str(made)
    monkeypatch.setenv("MERGESCOPE_ROOTS", str(made.parent))
    asked = open_frame(monkeypatch, tmp_path)
    asked.query_params["bank"] = str(made)
    asked.run()
    assert asked.title[0].value == "A made bank"


def test_an_address_sets_every_knob(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    address: dict[str, str | list[str]] = {
        "lam": "0.35",
        "k": "3",
        "tau": "0.0123",
        "density": "0.5",
        "scale": "1.2",
        "similarity": "jaccard",
        "normalize": "false",
        "out_dtype": "bfloat16",
        "weighting": "uniform",
        "pin": ["210"],
        "ban": ["300", "290"],
    }
    test = open_frame(monkeypatch, tmp_path, **S3, **address).run()
    assert not test.exception and not test.warning.values[1:]
    assert test.slider(key="lam").value == 0.35
    assert test.number_input(key="k").value == 3
    assert test.select_slider(key="tau").value == 0.0123
    assert (test.number_input(key="density").value, test.number_input(key="scale").value) == (0.5, 1.2)
    assert test.selectbox(key="similarity").value == "jaccard"
    assert test.toggle(key="normalize").value is False
    assert test.selectbox(key="out_dtype").value == "bfloat16"
    assert test.multiselect(key="pin").value == ["210"]
    assert test.multiselect(key="ban").value == ["300", "290"]


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("lam", "7", 0.7),
        ("lam", "nan", 0.7),
        ("lam", "<script>", 0.7),
        ("tau", "0", 0.02),
        ("tau", "-1", 0.02),
        ("tau", "1e999", 0.02),
        ("density", "0", 1.0),
        ("density", "2", 1.0),
        ("k", "0", 5),
        ("k", "2.5", 2),
        ("similarity", "magic", "cosine"),
        ("normalize", "perhaps", True),
        ("out_dtype", "int4", "float32"),
    ],
)
def test_a_bad_value_in_the_address_is_named_and_the_widget_says_what_is_used(
    key: str, value: str, kept: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path, **S3, **{key: value}).run()
    assert not test.exception
    assert test.session_state[key] == kept
    assert any("is not used: expected" in one for one in warnings(test)), warnings(test)


def test_what_does_not_fit_the_bank_is_brought_within_it_and_said(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path, named=made, k="9", pin=["no such"], split="nowhere").run()
    assert not test.exception and not test.error
    assert test.number_input(key="k").value == 4
    assert test.multiselect(key="pin").value == []
    assert test.selectbox(key="split").value == "dev"
    said = " ".join(warnings(test))
    assert "K is 4" in said and "no such was dropped" in said and "“nowhere”" in said


def test_changing_the_bank_keeps_the_recipe_as_far_as_it_fits(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path, named=made).run()
    test.selectbox(key="bank").set_value("s3_card").run()
    test.number_input(key="k").set_value(8).run()
    test.selectbox(key="bank").set_value(str(made)).run()
    assert not test.exception and not test.error
    assert test.number_input(key="k").value == 4
    assert test.title[0].value == "A made bank"


def test_presets_move_the_knobs_and_undo_takes_it_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = open_frame(monkeypatch, tmp_path, **S3).run()
    test.switch_page("recipe.py").run()
    test.button(key="preset_diverse").click().run()
    assert test.slider(key="lam").value == 0.3
    assert "Recipe: Diverse" in _labels(test)
    test.slider(key="lam").set_value(0.31).run()
    assert "Recipe: Diverse, changed" in _labels(test)
    test.button(key="undo").click().run()
    test.button(key="undo").click().run()
    assert test.slider(key="lam").value == 0.7
    assert "Recipe: S3" in _labels(test)
    assert test.button(key="undo").disabled


def test_the_link_holds_bank_and_every_knob(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from core.recipe import KNOBS

    test = open_frame(monkeypatch, tmp_path, **S3, lam="0.4", ban=["200", "210"]).run()
    link = next(one.value for one in test.code if "lam=" in one.value)
    values = parse_qs(urlparse(link).query)
    assert values["bank"] == ["s3_card"] and values["lam"] == ["0.4"] and values["ban"] == ["200", "210"]
    assert {one.name for one in KNOBS} - {"pin"} <= set(values)
    again = open_frame(monkeypatch, tmp_path, **values).run()
    assert again.slider(key="lam").value == 0.4 and not again.warning.values[1:]


@pytest.mark.parametrize(("name", "asked"), [("scale", "50"), ("scale", "-1e300"), ("density", "0.0005")])
def test_a_value_beyond_its_knob_is_named_and_not_dropped_in_silence(
    name: str, asked: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path, **S3, **{name: asked}).run()
    assert test.session_state[name] == 1.0
    assert any(f"{name} = “{asked}” is beyond this knob; {name} is 1." in one for one in warnings(test))


@pytest.mark.parametrize("asked", ["inf", "-1e400"])
def test_an_infinite_k_is_named_and_the_default_is_used(
    asked: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path, **S3, k=asked).run()
    assert not test.exception and test.number_input(key="k").value == 5
    assert any(f"K = “{asked}” is not used" in one for one in warnings(test))


def test_a_ledger_that_is_none_is_said_on_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = open_frame(monkeypatch, tmp_path, **S3)
    (Path(os.environ["MERGESCOPE_HOME"]) / "ledger.sqlite").write_bytes(b"no ledger" * 100)
    test.run()
    assert not test.exception
    assert any("is not a ledger of runs" in one.value for one in test.error)


@pytest.mark.parametrize("asked", ["/etc", "../../..", "nowhere", "\x00", "a" * 5000])
def test_a_bank_that_is_not_there_is_said_and_the_first_is_shown(
    asked: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path)
    test.query_params["bank"] = asked
    test.run()
    assert not test.exception
    assert len(test.title) == 1
    said = " ".join(warnings(test))
    assert "holds a bank.yaml" in said or "outside the folders this explorer may read" in said


def test_a_bank_outside_the_allowed_roots_is_not_opened_by_an_address(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path)
    test.query_params["bank"] = str(made)
    test.run()
    assert any("outside the folders this explorer may read" in one for one in warnings(test))
    assert test.title[0].value != "A made bank"


def test_a_broken_bank_says_why_and_leaves_the_selector(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = write_bank(tmp_path / "broken")
    with (broken / "own.jsonl").open("a") as file:
        file.write('{"checkpoint": "100", "task": "t00", "score": 7}\n')
    test = open_frame(monkeypatch, tmp_path, named=broken).run()
    assert not test.exception
    assert "outside [0, 1]" in test.error[0].value
    test.selectbox(key="bank").set_value("s3_card").run()
    assert not test.error and len(test.title) == 1


def test_a_bank_is_read_again_when_its_scores_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "bank")
    test = open_frame(monkeypatch, tmp_path, named=bank).run()
    before = texts(test)
    text = (bank / "own.jsonl").read_text()
    (bank / "own.jsonl").write_text(text.replace('"score": 0', '"score": 1'))
    test.run()
    assert "12 of 12" in texts(test) and texts(test) != before


def test_a_bank_of_scores_only_says_why_it_cannot_be_merged(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path, named=made).run()
    assert "scores only" in texts(test)
    assert "no weights to merge" in texts(test)
    assert test.button(key="launch_go").disabled


def _labels(test: object) -> list[str]:
    """Labels of the menu buttons, which AppTest does not know by kind."""
    return [one.proto.label for one in test.get("menu_button")]  # type: ignore[attr-defined]


def test_progress_is_said_in_words_and_of_the_whole_run(tmp_path: Path) -> None:
    from core.jobs import Job
    from pages.shared.topline import progress_text

    job = Job(
        id="1", kind="merge", title="made: S3", spec={}, state="running", created=0, started=0, finished=None, pid=1,
        device="cpu", stage="writing", done=9, total=10, unit="tensors", fraction=0.62, eta_seconds=8.0, heartbeat=0,
        cancel_requested=False, executor="local", error=None, result=None, folder=tmp_path, log=tmp_path, command="",
    )  # fmt: skip
    assert progress_text(job).replace("\\", "") == "made: S3 · writing · 62 % · about 8 s left"


def test_with_no_live_run_the_top_line_says_so_and_nothing_refreshes(
    made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = open_frame(monkeypatch, tmp_path, named=made).run()
    assert "nothing is running" in texts(test)
    assert not test.get("progress")
