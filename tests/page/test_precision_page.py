"""Precision: the number first, from the merge's own report; one tensor at a choice; the votes.

Run: .venv/bin/python -m pytest tests/page/test_precision_page.py
"""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.merge import read_report
from pages.shared.runs import clicked_name
from tests.page.conftest import Finished
from tests.page.made_bank import open_frame, texts

pytestmark = pytest.mark.page


def precision_page(monkeypatch: pytest.MonkeyPatch, finished: Finished) -> AppTest:
    test = open_frame(monkeypatch, finished.home, named=finished.bank.root, bank=str(finished.bank.root)).run()
    test.switch_page("precision.py").run()
    assert not test.exception
    return test


def test_without_a_merge_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = open_frame(monkeypatch, tmp_path, bank="s3_card").run()
    test.switch_page("precision.py").run()
    assert not test.exception
    assert test.title[0].value == "No finished merge yet"
    assert "Choose one with weights above" in texts(test)


def test_the_one_number_is_that_of_the_report(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    report = read_report(Path(finished.job.result["out"]))  # type: ignore[index]
    lost, changed = int(report["lost"].sum()), int(report["changed"].sum())
    assert 0 < lost < changed, "the tiny bank no longer has changes around half an ulp"
    test = precision_page(monkeypatch, finished)
    assert test.title[0].value.startswith(f"bf16 would round away {100 * lost / changed:.0f} % of this merge's")
    assert "at cosine 0." in test.title[0].value
    said = texts(test)
    assert f"{changed:,} changed, of which {lost:,} would be lost" in said
    assert test.metric[0].value == f"{100 * lost / changed:.0f} %"


def test_a_tensor_is_opened_by_name(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    report = read_report(Path(finished.job.result["out"]))  # type: ignore[index]
    row = report[report["module"] == "mlp.up_proj"].iloc[0]
    test = precision_page(monkeypatch, finished)
    test.selectbox(key="precision_tensor").select(row["name"]).run()
    assert not test.exception
    assert f"Of {row['elements']:,} parameters {row['changed']:,} changed" in texts(test)


def test_the_uniform_mean_of_the_run_can_be_looked_at_too(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    test = precision_page(monkeypatch, finished)
    test.segmented_control(key="precision_which").set_value("uniform mean").run()
    assert not test.exception
    assert "of this uniform mean's changed parameters" in test.title[0].value


def test_solo_parameters_are_explained_and_every_tensor_is_listed(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = precision_page(monkeypatch, finished)
    assert "whatever its weight" in texts(test)
    report = read_report(Path(finished.job.result["out"]))  # type: ignore[index]
    table = next(one.value for one in test.dataframe if "tensor" in one.value.columns)
    assert sorted(table["tensor"]) == sorted(report["name"])


def test_a_click_names_its_tensor() -> None:
    assert clicked_name([]) is None
    assert clicked_name([{"x": 1}]) is None
    assert clicked_name([{"customdata": ["model.norm.weight", "said"]}]) == "model.norm.weight"


def test_what_survives_and_what_would_save_it_are_shown(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    report = read_report(Path(finished.job.result["out"]))  # type: ignore[index]
    survive = 100 * (1 - report["lost"].sum() / report["changed"].sum())
    test = precision_page(monkeypatch, finished)
    said = texts(test)
    assert f"In bf16 {survive:.1f} % of the changed parameters survive at the present scale" in said
    assert "bf16 with a residual file beside it" in said
    test.toggle(key="compare_dialects").set_value(True).run()
    assert not test.exception
    tables = [one.value for one in test.dataframe if "dialects" in one.value.columns]
    assert tables[0]["dialects"].tolist() == ["mergekit and paper", "mergekit and sum", "paper and sum"]


def test_tensors_outside_the_layers_have_no_layer_named_none(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = precision_page(monkeypatch, finished)
    table = next(one.value for one in test.dataframe if "layer" in one.value.columns)
    layers = dict(zip(table["tensor"], table["layer"], strict=True))
    assert layers["model.norm.weight"] == "–"
    assert layers["model.layers.0.mlp.up_proj.weight"] == "00"
