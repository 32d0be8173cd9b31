"""Readers of the score files that evaluation tools write, one module a format, each knowing its own files.

`read_scores` takes paths and gives a `ScoreSet`; `core.bank.align` finds what does not fit and settles it.
"""

from core.bank.readers.common import ReadOptions, ScoreRow
from core.bank.readers.reading import FORMATS, read_scores
from core.bank.readers.score_set import ScoreSet

__all__ = ["FORMATS", "ReadOptions", "ScoreRow", "ScoreSet", "read_scores"]
