"""The X-ray's panel: a first parameter, another by name, by kind, and what is wrong in words.

Run: .venv/bin/python -m pytest tests/page/test_xray_panel.py
"""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.bank import load_bank
from core.merge import parse_plan
from core.preview.sentences import steps_of
from core.preview.xray import xray
from core.recipe import compile_plan
from core.recipe.model import Recipe

pytestmark = pytest.mark.page
APP = Path(__file__).with_name("xray_app.py")


@pytest.fixture
def panel(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setenv("MERGESCOPE_BANK", str(tiny))
    test = AppTest.from_file(str(APP), default_timeout=60).run()
    assert not test.exception
    return test


def said(test: AppTest) -> str:
    return "\n".join(one.value.replace("\\", "") for one in test.markdown)


def test_it_opens_at_a_contested_parameter(panel: AppTest) -> None:
    text = said(panel)
    assert "outvoted" in text and "agrees" in text
    for title in ("Members: δ = value − base", "Vote", "Mean", "Add, round"):
        assert f"**{title}**" in text


def test_a_parameter_by_name_has_the_numbers_of_the_core(panel: AppTest, tiny: Path) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    panel.selectbox(key="xray_tensor").select(name)
    panel.text_input(key="xray_index").set_value("3, 2").run()
    assert not panel.exception
    bank = load_bank(tiny)
    found = xray(parse_plan(compile_plan(bank, Recipe(k=2, density=0.5)), tiny / "config.yml"), name, (3, 2))
    text = said(panel)
    assert f"{name}[3, 2]" in text
    steps = dict(steps_of(found))
    assert all(steps[one] in text for one in ("base", "mean", "add", "round"))
    assert steps["round"] in panel.code[0].value


def test_each_press_shows_another(panel: AppTest) -> None:
    panel.button(key="xray_contested").click().run()
    first = (panel.selectbox(key="xray_tensor").value, panel.text_input(key="xray_index").value)
    assert "Found where its members pull in opposite directions" in panel.caption[0].value
    panel.button(key="xray_contested").click().run()
    assert (panel.selectbox(key="xray_tensor").value, panel.text_input(key="xray_index").value) != first
    panel.button(key="xray_lost").click().run()
    assert not panel.exception
    assert "lost to bf16" in said(panel)


@pytest.mark.parametrize(("index", "message"), [("x", "expected a number such as 1234"), ("99999999", "an index from")])
def test_a_wrong_index_is_said(panel: AppTest, index: str, message: str) -> None:
    panel.text_input(key="xray_index").set_value(index).run()
    assert not panel.exception
    assert message in panel.error[0].value
