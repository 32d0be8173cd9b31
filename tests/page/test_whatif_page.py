"""What-if: the preview's own numbers on screen, no second read, who leaves, inert knobs, banks without weights.

Run: .venv/bin/python -m pytest tests/page/test_whatif_page.py
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from streamlit.testing.v1 import AppTest

from core.bank import Bank, load_bank
from core.merge import parse_plan
from core.preview.estimate import estimate_plan
from core.preview.leave_out import leave_one_out
from core.preview.sample import read_sample
from core.recipe import Recipe, compile_plan, select
from pages.shared import whatif_data
from tests.page.made_bank import ROOT, open_frame, texts, write_bank

pytestmark = pytest.mark.page
RL_ONLY = ROOT / "data" / "rl_only"


@pytest.fixture(scope="module")
def rl_only() -> Bank:
    return load_bank(RL_ONLY)


def whatif_page(monkeypatch: pytest.MonkeyPatch, home: Path, *, named: Path | None = None, **address: str) -> AppTest:
    test = open_frame(monkeypatch, home, named=named, **address).run()
    test.switch_page("whatif.py").run()
    assert not test.exception
    assert len(test.title) == 1
    return test


def test_the_three_questions_are_answered_with_the_numbers_of_the_preview(
    rl_only: Bank, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = parse_plan(compile_plan(rl_only, Recipe()), RL_ONLY / "config.yml")
    sample = read_sample(plan)
    found = estimate_plan(sample, plan)
    test = whatif_page(monkeypatch, tmp_path, bank="rl_only")
    heads = [one.value for one in test.header]
    assert heads[:3] == ["What would the merge do to the weights?", "Who decides?", "Which knobs matter here?"]
    total = found.total
    assert f"{100 * total['changed'].estimate:.1f} % of the parameters" in test.title[0].value
    assert [one.value for one in test.metric][:4] == [
        f"{100 * total[name].estimate:.1f} %" for name in ("changed", "solo", "unanimous", "contested")
    ]
    said = texts(test)
    assert "Previewed, nothing is merged" in said and "so the figures are exact" in said
    moves = [one.total["relative"].estimate for one in leave_one_out(sample, plan)]
    most = list(select(rl_only, Recipe()).weights)[moves.index(max(moves))]
    assert f"Without {most} the merge would move by {100 * max(moves):.1f} % of its length" in said


def test_knobs_move_the_figures_without_another_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = whatif_page(monkeypatch, tmp_path, bank="rl_only")
    reads: list[object] = []
    monkeypatch.setattr("core.preview.sample.LocalSource.fetch", lambda *_: reads.append(1))
    before = [one.value for one in test.metric]
    for key, value in (("tau", 0.2), ("k", 4), ("density", 0.2), ("scale", 0.3)):
        test.session_state[key] = value
        test.run()
        assert not test.exception and not test.error
    after = [one.value for one in test.metric]
    assert reads == []
    assert after[0] != before[0] and after[5] != before[5]


def test_inert_knobs_are_called_inert(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = whatif_page(monkeypatch, tmp_path, bank="rl_only", weighting="uniform")
    said = texts(test)
    assert "**τ**: Inert: the weights are uniform." in said
    assert "**density**: Inert at 1" in said
    assert "λ is inert from" in said


def test_another_member_can_be_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = whatif_page(monkeypatch, tmp_path, bank="rl_only")
    box = test.selectbox(key="whatif_member")
    other = next(one for one in box.options if one != box.value)
    box.select(other).run()
    assert not test.exception
    assert f"Without {other} the merge would move by" in texts(test)
    for label in ("Other direction", "Back to the base", "Another number in bf16", "Its part of the change"):
        test.segmented_control(key="whatif_member_figure").set_value(label).run()
        assert not test.exception


def test_every_tensor_is_listed_with_every_figure(
    rl_only: Bank, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    test = whatif_page(monkeypatch, tmp_path, bank="rl_only")
    test.session_state["whatif_every"] = True
    test.run()
    assert not test.exception
    table = next(one.value for one in test.dataframe if "tensor" in one.value.columns)
    sample = read_sample(parse_plan(compile_plan(rl_only, Recipe()), RL_ONLY / "config.yml"))
    assert table["tensor"].tolist() == list(sample.names) and "length of the change" in table.columns


def test_one_member_and_every_figure_of_the_tensors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = whatif_page(monkeypatch, tmp_path, bank="rl_only", k="1")
    assert "is the only member" in texts(test)
    for label in ("Changed", "One member alone", "Agreed", "Lost in bf16"):
        test.segmented_control(key="whatif_figure").set_value(label).run()
        assert not test.exception


def test_a_bank_of_scores_says_why_and_still_shows_the_map(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = whatif_page(monkeypatch, tmp_path / "home", named=write_bank(tmp_path / "made"), k="2")
    assert test.title[0].value == "What else could this recipe pick?"
    said = texts(test)
    assert "This bank has scores only" in said and "choose a bank with weights above" in said
    assert "tasks" in said and "the same two checkpoints would be picked in" in said
    assert "the whole pool could reach" in said
    assert not test.metric


@pytest.fixture
def broken(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "broken"))


def rewrite(folder: Path, change: str) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = next(one for one in sorted(tensors) if tensors[one].ndim == 2)
    one = tensors[name].copy()
    if change == "nan":
        one[0, 0] = np.nan
    tensors[name] = one[:-1].copy() if change == "shape" else one
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("change", "said"), [("shape", "shape"), ("nan", "NaN or infinite"), ("gone", "checkpoint-10")]
)
def test_weights_that_cannot_be_merged_are_said_and_the_rest_stays(
    broken: Path, change: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if change == "gone":
        shutil.rmtree(broken / "checkpoint-10")
    else:
        rewrite(broken / "checkpoint-10", change)
    test = whatif_page(monkeypatch, tmp_path / "home", named=broken, k="3")
    assert test.title[0].value == "These weights cannot be previewed"
    assert said in test.error[0].value
    assert "the whole pool could reach" in texts(test)


def test_checkpoints_that_are_the_base_decide_nothing(
    broken: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for one in ("10", "20", "30"):
        shutil.copy(broken / "base" / "model.safetensors", broken / f"checkpoint-{one}" / "model.safetensors")
    test = whatif_page(monkeypatch, tmp_path / "home", named=broken, k="2")
    assert not test.error
    said = texts(test)
    assert test.title[0].value.startswith("This merge would change 0 % of the parameters")
    assert (
        "nobody decides" in said
        and "are not estimable" in said
        and "not estimable of its length" not in said
        and "nan %" not in said
    )


def test_a_sample_is_read_again_only_when_a_weight_file_changes(tiny: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny, tmp_path / "copy"))
    bank, recipe = load_bank(copy), Recipe(k=2)
    chosen = select(bank, recipe)
    first, key = whatif_data.sample_of(bank, recipe, chosen)
    assert whatif_data.sample_of(bank, Recipe(k=3, lam=0.1), select(bank, Recipe(k=3)))[0] is first
    rewrite(copy / "checkpoint-30", "touch")
    again, other = whatif_data.sample_of(bank, recipe, chosen)
    assert again is not first and other != key


def test_the_x_ray_is_part_of_the_page_and_moves_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = whatif_page(monkeypatch, tmp_path, bank="rl_only")
    assert "One parameter, step by step" in [one.value for one in test.header]
    test.button(key="xray_contested").click().run()
    assert not test.exception
    assert any("Found where its members pull in opposite directions" in one.value for one in test.caption)
