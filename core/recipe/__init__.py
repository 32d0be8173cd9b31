"""Choosing and weighting: MMR, softmax weights, recipes and presets, and the plan they compile to."""

from core.recipe.compile import compile_plan, uniform_mean_plan
from core.recipe.knobs import KNOBS, Knob, knob, knob_table_markdown
from core.recipe.mmr import TIE_TOLERANCE, Candidates, MmrTrace, Step, mmr
from core.recipe.model import Recipe
from core.recipe.select import Pick, Selection, relevances, select, similarity_rows
from core.recipe.similarity import SimilarityRows, similarity_matrix
from core.recipe.validate import recipe_from_dict, recipe_to_dict, validate, what_changed
from core.recipe.weights import effective_members, softmax_weights

__all__ = [
    "KNOBS",
    "TIE_TOLERANCE",
    "Candidates",
    "Knob",
    "MmrTrace",
    "Pick",
    "Recipe",
    "Selection",
    "SimilarityRows",
    "Step",
    "compile_plan",
    "effective_members",
    "knob",
    "knob_table_markdown",
    "mmr",
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
