"""Writes a recipe's choice as a mergekit config: the plan that any engine can run.

Takes a bank, a recipe and its selection; gives YAML text, the same text for the same input. Runs
nothing, and does not look at the folders it names.
"""

import json
from collections.abc import Sequence

from core.bank.model import Bank, Checkpoint
from core.errors import RecipeError
from core.recipe.model import Dtype, Recipe
from core.recipe.select import Selection, select


def compile_plan(bank: Bank, recipe: Recipe, selection: Selection | None = None) -> str:
    """A mergekit `ties` config of the picks against the bank's base, as YAML text.

    Members are in pick order with weights to full precision; the arithmetic is float32 and the file
    `out_dtype`. For a bank of scores only the models are named by checkpoint id, and a comment says
    that they must be replaced. Raises RecipeError when the recipe does not fit the bank.
    """
    chosen = selection or select(bank, recipe)
    members = [bank.checkpoints[bank.index_of(pick.checkpoint)] for pick in chosen.picks]
    lines = [
        *_comments(bank, recipe, [bank.base, *members]),
        "merge_method: ties",
        f"base_model: {_model(bank.base)}",
        "models:",
    ]
    for member in members:
        lines += [
            f"  - model: {_model(member)}",
            "    parameters:",
            f"      weight: {yaml_float(chosen.weights[member.id])}",
            f"      density: {yaml_float(recipe.density)}",
        ]
    lines += [
        "parameters:",
        f"  normalize: {'true' if recipe.normalize else 'false'}",
        f"  lambda: {yaml_float(recipe.scale)}",
        "dtype: float32",
        f"out_dtype: {recipe.out_dtype}",
    ]
    return "\n".join(lines) + "\n"


def uniform_mean_plan(bank: Bank, out_dtype: Dtype = "float32", members: Sequence[str] = ()) -> str:
    """A mergekit `linear` config, as YAML text: the plain mean of every checkpoint of the bank, or of `members`.

    `members` are checkpoint ids; raises KeyError for an unknown one.
    """
    chosen = [bank.checkpoints[bank.index_of(one)] for one in members] or list(bank.checkpoints)
    which = f"{len(chosen)} of the" if members else "all"
    lines = [
        f"# Mergescope: plain mean of {which} {len(bank.checkpoints)} checkpoints of {_one_line(bank.name)}",
        *_scores_only(chosen),
        "merge_method: linear",
        "models:",
    ]
    for member in chosen:
        lines += [f"  - model: {_model(member)}", "    parameters:", "      weight: 1.0"]
    lines += ["parameters:", "  normalize: true", "dtype: float32", f"out_dtype: {out_dtype}"]
    return "\n".join(lines) + "\n"


def line_plan(bank: Bank, member: str, factor: float, out_dtype: Dtype = "float32") -> str:
    """A mergekit `task_arithmetic` config, as YAML text: base + factor · (member − base).

    `member` is a checkpoint id; a factor above 1 goes beyond it. Raises KeyError for an unknown id.
    """
    one = bank.checkpoints[bank.index_of(member)]
    lines = [
        f"# Mergescope: base + {factor:.6g} * ({_one_line(one.id)} - base), bank {_one_line(bank.name)}",
        *_scores_only([bank.base, one]),
        "merge_method: task_arithmetic",
        f"base_model: {_model(bank.base)}",
        "models:",
        f"  - model: {_model(one)}",
        "    parameters:",
        f"      weight: {yaml_float(factor)}",
        "parameters:",
        "  normalize: false",
        "  lambda: 1.0",
        "dtype: float32",
        f"out_dtype: {out_dtype}",
    ]
    return "\n".join(lines) + "\n"


def yaml_float(value: float) -> str:
    """A float with all its digits, in a form that YAML 1.1 reads as a float (`5.0e-07`, never `5e-07`)."""
    text = repr(float(value))
    if "inf" in text or "nan" in text:
        raise RecipeError(f"a plan needs finite numbers, found {text}.")
    mantissa, letter, exponent = text.partition("e")
    return text if "." in mantissa else f"{mantissa}.0{letter}{exponent}"


def _comments(bank: Bank, recipe: Recipe, models: Sequence[Checkpoint]) -> list[str]:
    weights = f"softmax at τ={recipe.tau:g}" if recipe.weighting == "softmax" else "uniform weights"
    lines = [
        f"# Mergescope: bank {_one_line(bank.name)}, split {_one_line(recipe.split)}",
        f"# MMR λ={recipe.lam:g} K={recipe.k} {recipe.similarity}, {weights}",
    ]
    alignment = bank.splits[recipe.split].alignment
    if alignment is not None:
        lines.append(f"# scores aligned: {_one_line(alignment.sentence)}")
    for word, ids in (("pinned", recipe.pin), ("banned", recipe.ban)):
        if ids:
            lines.append(f"# {word}: {_one_line(', '.join(ids))}")
    return [*lines, *_scores_only(models)]


def _scores_only(models: Sequence[Checkpoint]) -> list[str]:
    if all(one.path is not None for one in models):
        return []
    return ["# The bank names no folder for some models: replace their ids below by the folders of their weights."]


def _model(one: Checkpoint) -> str:
    """A quoted YAML scalar: JSON strings are YAML, so any path survives."""
    return json.dumps(str(one.path) if one.path else one.id, ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())
