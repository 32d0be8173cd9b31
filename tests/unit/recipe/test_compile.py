"""The mergekit config that a recipe compiles to: every number whole, the same text every time.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_compile.py
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from core.bank import Bank
from core.errors import RecipeError
from core.recipe import Recipe, compile_plan, select, uniform_mean_plan
from core.recipe.compile import yaml_float

AWKWARD = 'we"ird: #dir é\\'


@pytest.fixture
def bank(make_bank: Callable[..., Bank], tmp_path: Path) -> Bank:
    scores = (np.random.default_rng(5).random((7, 30)) < 0.5).astype(float)
    return make_bank(scores, tmp_path / AWKWARD)


def test_the_config_says_what_the_selection_says(bank: Bank, tmp_path: Path) -> None:
    recipe = Recipe(k=3, tau=0.002, density=0.2, scale=0.5, normalize=False, out_dtype="bfloat16", ban=("c0",))
    chosen = select(bank, recipe)
    config = yaml.safe_load(compile_plan(bank, recipe, chosen))
    assert config == {
        "merge_method": "ties",
        "base_model": str(tmp_path / AWKWARD / "base"),
        "models": [
            {
                "model": str(tmp_path / AWKWARD / pick.checkpoint),
                "parameters": {"weight": chosen.weights[pick.checkpoint], "density": 0.2},
            }
            for pick in chosen.picks
        ],
        "parameters": {"normalize": False, "lambda": 0.5},
        "dtype": "float32",
        "out_dtype": "bfloat16",
    }


def test_the_text_is_the_same_every_time_and_says_where_it_came_from(bank: Bank) -> None:
    recipe = Recipe(pin=("c3",))
    text = compile_plan(bank, recipe)
    assert text == compile_plan(bank, recipe, select(bank, recipe))
    assert text.startswith(
        "# Mergescope: bank made, split dev\n# MMR λ=0.7 K=5 cosine, softmax at τ=0.02\n# pinned: c3\n"
    )
    assert text.endswith("out_dtype: float32\n")


def test_the_plain_mean_takes_everyone_at_weight_1(bank: Bank, tmp_path: Path) -> None:
    config = yaml.safe_load(uniform_mean_plan(bank, "float16"))
    assert config == {
        "merge_method": "linear",
        "models": [{"model": str(tmp_path / AWKWARD / f"c{at}"), "parameters": {"weight": 1.0}} for at in range(7)],
        "parameters": {"normalize": True},
        "dtype": "float32",
        "out_dtype": "float16",
    }


def test_a_bank_of_scores_only_names_ids_and_says_so(s3_card: Bank) -> None:
    text = compile_plan(s3_card, Recipe())
    assert "replace their ids below by the folders of their weights" in text
    config = yaml.safe_load(text)
    assert config["base_model"] == "base"
    assert {one["model"] for one in config["models"]} == {"250", "270", "280", "290", "300"}
    assert "replace their ids below" in uniform_mean_plan(s3_card)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_survives_yaml_to_the_last_bit(value: float) -> None:
    found = yaml.safe_load(yaml_float(value))
    assert isinstance(found, float)
    assert found == value


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(RecipeError, match="finite"):
        yaml_float(float("nan"))


def test_mergekit_reads_both_configs(bank: Bank) -> None:
    from mergekit.config import MergeConfiguration

    for text in (compile_plan(bank, Recipe(tau=0.0005)), uniform_mean_plan(bank)):
        config = MergeConfiguration.model_validate(yaml.safe_load(text))
        assert config.dtype == "float32"
        assert config.models is not None
        for model in config.models:
            assert model.parameters is not None
            assert isinstance(model.parameters["weight"], float)


def test_our_own_engine_reads_both_configs(bank: Bank, tmp_path: Path) -> None:
    from core.merge import parse_plan

    folder = tmp_path / AWKWARD
    for name in ("base", *(one.id for one in bank.checkpoints)):
        (folder / name).mkdir(parents=True)
    chosen = select(bank, Recipe(tau=0.0005, density=0.3, scale=1.5))
    plan = parse_plan(compile_plan(bank, chosen.recipe, chosen), tmp_path / "config.yml")
    assert (plan.method, plan.engine, plan.base) == ("ties", "streaming", folder / "base")
    assert (plan.normalize, plan.scale, plan.dtype, plan.out_dtype) == (True, 1.5, "float32", "float32")
    assert [(one.path, one.weight, one.density) for one in plan.members] == [
        (folder / name, weight, 0.3) for name, weight in chosen.weights.items()
    ]
    mean = parse_plan(uniform_mean_plan(bank), tmp_path / "config.yml")
    assert (mean.method, mean.engine, len(mean.members)) == ("linear", "streaming", 7)
