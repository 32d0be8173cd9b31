"""The table of knobs, and recipes as untrusted values.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_knobs.py
"""

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import RecipeError
from core.recipe import KNOBS, Recipe, knob, knob_table_markdown, recipe_from_dict, recipe_to_dict, what_changed
from core.recipe.similarity import KINDS

ids = st.lists(st.text(min_size=1), max_size=3, unique=True).map(tuple)
recipes = st.builds(
    Recipe,
    lam=st.floats(0, 1),
    k=st.integers(1, 1000),
    tau=st.floats(0, 100, exclude_min=True),
    weighting=st.sampled_from(["softmax", "uniform"]),
    similarity=st.sampled_from(KINDS),
    split=st.text(min_size=1),
    pin=ids,
    ban=ids,
    density=st.floats(0, 1, exclude_min=True),
    scale=st.floats(-4, 4),
    normalize=st.booleans(),
    out_dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
)


def test_the_table_has_every_field_once_with_its_default() -> None:
    assert [one.name for one in KNOBS] == [field.name for field in fields(Recipe)]
    assert {one.name: one.default for one in KNOBS} == {
        field.name: getattr(Recipe(), field.name) for field in fields(Recipe)
    }
    assert knob("tau").symbol == "τ"
    with pytest.raises(KeyError):
        knob("temperature")


@pytest.mark.parametrize("one", KNOBS, ids=lambda one: one.name)
def test_every_knob_is_usable(one: Any) -> None:
    assert len(one.help) > 20
    assert one.label
    assert "!" not in one.help
    if one.type in ("float", "int"):
        assert one.low <= one.default
        assert one.step > 0
        assert one.high is None or one.default <= one.high
        for value in (one.low, one.default, one.high):
            if value is not None:
                recipe_from_dict({one.name: value})
    if one.choices:
        assert one.default in one.choices


def test_the_documentation_has_a_row_a_knob() -> None:
    lines = knob_table_markdown().splitlines()
    assert len(lines) == 2 + len(KNOBS)
    for one, line in zip(KNOBS, lines[2:], strict=True):
        assert line.startswith(f"| `{one.name}` | {one.symbol} |")
        assert line.replace("\\|", "").count("|") == 6


@given(recipes)
def test_a_recipe_goes_out_as_json_and_comes_back(recipe: Recipe) -> None:
    assert recipe_from_dict(json.loads(json.dumps(recipe_to_dict(recipe)))) == recipe


def test_what_is_absent_takes_its_default() -> None:
    assert recipe_from_dict({}) == Recipe()
    assert recipe_from_dict({"lam": 1}) == Recipe(lam=1.0)
    assert isinstance(recipe_from_dict({"lam": 1}).lam, float)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"lamb": 0.5}, "unknown knob 'lamb'. Did you mean 'lam'?"),
        ({3: 0.5}, "unknown knob 3."),
        ({"lam": "0.5"}, "lam (λ): expected a number, at least 0, at most 1; found '0.5'"),
        ({"lam": True}, "lam (λ): expected a number"),
        ({"lam": None}, "found None"),
        ({"lam": 10**400}, "lam (λ): expected a number"),
        ({"k": 2.5}, "k (K): expected a whole number, at least 1; found 2.5"),
        ({"k": True}, "k (K): expected a whole number"),
        ({"k": -1}, "found -1"),
        ({"similarity": ["cosine"]}, "similarity (sim): expected one of cosine, pearson, jaccard, agreement"),
        ({"out_dtype": "int8"}, "out_dtype (dtype): expected one of float32, bfloat16, float16; found 'int8'"),
        ({"split": ""}, "split: expected a split of the bank; found ''"),
        ({"pin": "250"}, "pin: expected a list of checkpoint ids; found '250'"),
        ({"ban": [250]}, "ban: expected a list of checkpoint ids; found [250]"),
        ({"normalize": 1}, "normalize: expected true or false; found 1"),
        ({"split": {"a": "x" * 100_000}}, "split: expected a split of the bank"),
        ([("lam", 1)], "a recipe must be a mapping"),
    ],
)
def test_untrusted_values_are_refused_by_name(values: Any, expected: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipe_from_dict(values)
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 400


def test_what_changed_is_one_line() -> None:
    old = Recipe()
    assert what_changed(old, old) == "nothing changed"
    assert what_changed(old, replace(old, lam=0.5, k=4)) == "λ 0.7 → 0.5, K 5 → 4"
    assert what_changed(old, replace(old, pin=("250", "270"))) == "pin none → 250 270"
    assert what_changed(old, replace(old, normalize=False)) == "normalize on → off"
