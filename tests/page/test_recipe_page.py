"""The Recipe page: picks, weights, steps, what changed, the plan; the published recipe's own numbers.

Run: .venv/bin/python -m pytest tests/page/test_recipe_page.py
"""

import json
from pathlib import Path

import pytest
import yaml
from streamlit.testing.v1 import AppTest

from tests.page.made_bank import open_frame, texts, write_bank

pytestmark = pytest.mark.page


def recipe_page(
    monkeypatch: pytest.MonkeyPatch, home: Path, *, named: Path | None = None, **address: str | list[str]
) -> AppTest:
    """The Recipe page of the published recipe's bank, or of one that was named at the start."""
    where = {} if named else {"bank": "s3_card"}
    return open_frame(monkeypatch, home, named=named, **where, **address).run().switch_page("recipe.py").run()


def test_the_published_recipe_gives_the_published_picks_and_weights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = recipe_page(monkeypatch, tmp_path)
    assert not test.exception and not test.error
    said = texts(test)
    picked = said.partition("Picked in this order: ")[2].partition(".")[0]
    assert set(picked.replace(" and ", ", ").split(", ")) == {"250", "270", "280", "290", "300"}
    assert "270 and 300 each have the largest weight, 0.456" in said or "300 and 270 each have" in said
    assert test.title[0].value == "Five picks, 2.61 effective members"


def test_every_chart_has_an_alternative(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    charts = recipe_page(monkeypatch, tmp_path).get("plotly_chart")
    assert len(charts) == 4
    assert all(len(one.proto.alt) > 30 for one in charts)


def test_moving_a_knob_moves_the_picks_and_says_what_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = recipe_page(monkeypatch, tmp_path)
    test.number_input(key="k").set_value(2).run()
    assert test.title[0].value.startswith("Two picks")
    said = texts(test)
    assert "Changed last: K 5 → 2. Picks: " in said and " out" in said


def test_steps_go_back_and_forth_with_the_numbers_of_the_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = recipe_page(monkeypatch, tmp_path)
    assert "Step **2** of 5" in texts(test)
    test.button(key="step_back").click().run()
    assert "Step **1** of 5" in texts(test) and "highest q wins" in texts(test)
    assert test.button(key="step_back").disabled
    for _ in range(4):
        test.button(key="step_next").click().run()
    assert "Step **5** of 5" in texts(test) and test.button(key="step_next").disabled
    test.number_input(key="k").set_value(3).run()
    assert "Step **3** of 3" in texts(test)


def test_a_pin_is_taken_first_and_said_to_be_pinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = recipe_page(monkeypatch, tmp_path, pin=["210"])
    test.button(key="step_back").click().run()
    assert "210 is pinned" in texts(test)
    assert "Picked in this order: 210" in texts(test)


def test_the_rules_stand_at_the_present_knobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = recipe_page(monkeypatch, tmp_path, lam="0.42", tau="0.05")
    specs = [json.loads(one.proto.spec) for one in test.get("plotly_chart")]
    rules = {shape["x0"] for one in specs for shape in one["layout"].get("shapes", [])}
    assert rules == {0.42, 0.05}


def test_the_plan_is_the_mergekit_config_of_these_picks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = recipe_page(monkeypatch, tmp_path, density="0.5")
    text = next(one.value for one in test.code if "merge_method" in one.value)
    plan = yaml.safe_load(text)
    assert plan["merge_method"] == "ties" and plan["dtype"] == "float32"
    assert [one["parameters"]["density"] for one in plan["models"]] == [0.5] * 5
    assert sum(one["parameters"]["weight"] for one in plan["models"]) == pytest.approx(1)


@pytest.mark.parametrize("name", ["s3", "greedy", "diverse", "winner", "soup", "two_strongest", "best_single"])
def test_every_preset_can_be_pressed(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = recipe_page(monkeypatch, tmp_path)
    test.button(key=f"preset_{name}").click().run()
    assert not test.exception and not test.error


def test_a_tie_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "bank")
    lines = (bank / "own.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    first = {row["task"]: row["score"] for row in rows if row["checkpoint"] == "100"}
    for row in rows:
        if row["checkpoint"] == "110":
            row["score"] = first[row["task"]]
    (bank / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    test = recipe_page(monkeypatch, tmp_path, named=bank, k="1", ban=["120", "130"])
    assert "100 ties with 110" in texts(test)


def test_all_but_one_banned_still_draws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "bank")
    test = recipe_page(monkeypatch, tmp_path, named=bank, ban=["100", "110", "120"], lam="0", tau="0.001")
    assert not test.exception and not test.error
    assert test.title[0].value.startswith("One pick")
