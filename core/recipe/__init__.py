"""Choosing and weighting: MMR, softmax weights, recipes and presets, and the plan they compile to."""

from core.recipe.compile import compile_plan, uniform_mean_plan
from core.recipe.knobs import KNOBS, Knob, knob, knob_table_markdown
from core.recipe.mmr import TIE_TOLERANCE, Candidates, MmrTrace, Step, mmr
from core.recipe.model import Recipe
from core.recipe.presets import PRESETS, Preset, preset
from core.recipe.select import Pick, Selection, relevances, select, similarity_rows
from core.recipe.similarity import SimilarityRows, similarity_matrix
from core.recipe.switch import (
    Interval,
    LambdaPath,
    Switch,
    bank_path,
    lambda_intervals,
    lambda_path,
    lambda_switch_points,
)
from core.recipe.validate import recipe_from_dict, recipe_to_dict, validate, what_changed
from core.recipe.weights import effective_members, softmax_weights

__all__ = [
    "KNOBS",
    "PRESETS",
    "TIE_TOLERANCE",
    "Candidates",
    "Interval",
    "Knob",
    "LambdaPath",
    "MmrTrace",
    "Pick",
    "Preset",
    "Recipe",
    "Selection",
    "SimilarityRows",
    "Step",
    "Switch",
    "bank_path",
    "compile_plan",
    "effective_members",
    "knob",
    "knob_table_markdown",
    "lambda_intervals",
    "lambda_path",
    "lambda_switch_points",
    "mmr",
    "preset",
    "recipe_from_dict",
    "recipe_to_dict",
    "relevances",
    "select",
    "similarity_matrix",
    "similarity_rows",
    "softmax_weights",
    "uniform_mean_plan",
    "validate",
    "what_changed",
]
