"""The Bank page: who solves what, how far apart the checkpoints are, and what lies behind a score.

Shows measured scores; a bank that was constructed says so before anything else.
"""

from typing import Any

import streamlit as st

from core.bank import Bank, SampleRow, Split, load_more_scores, read_scores, replicate_scores
from core.charts import bank as figures
from core.charts import words
from core.errors import MergescopeError
from core.evals.protocol import Protocol
from core.stats import mean_interval, noise_band
from pages.shared import chart, current_bank, current_recipe, is_dark
from pages.shared.banks import Stamp, stamp_of
from pages.shared.recipes import selection_of

TASK, MEMBER = "bank_task", "bank_checkpoint"


@st.cache_resource(max_entries=32, show_spinner=False)
def _rows(_bank: Bank, root: str, stamp: Stamp, split: str, at: int) -> tuple[figures.ScoreRows, int]:
    """Scores under one protocol (0 is the bank's own) with the 95 % interval of every mean, by scenario."""
    one = _bank.splits[split]
    if at == 0 or one.protocol is None:
        scores, base, samples = one.scores, one.base_scores, one.samples
    else:
        scores, base, samples = load_more_scores(_bank, one, one.more_scores[at - 1][0])
    names = tuple(c.id for c in _bank.checkpoints)
    return figures.score_rows(names, scores, _bank.base.id, base, one.scenarios, mean_interval), samples
