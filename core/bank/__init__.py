"""The pool: a base, its checkpoints, their scores and tasks, read from a folder with `bank.yaml`."""

from core.bank.load import (
    MoreScores,
    Replicates,
    bank_files,
    list_banks,
    load_bank,
    load_more_scores,
    replicate_scores,
)
from core.bank.model import Alignment, Bank, Checkpoint, Split
from core.bank.noise import split_noise
from core.bank.scores import SampleRow, iterate_scores, read_scores, scores_of_task
from core.bank.summary import bank_summary

__all__ = [
    "Alignment",
    "Bank",
    "Checkpoint",
    "MoreScores",
    "Replicates",
    "SampleRow",
    "Split",
    "bank_files",
    "bank_summary",
    "iterate_scores",
    "list_banks",
    "load_bank",
    "load_more_scores",
    "read_scores",
    "replicate_scores",
    "scores_of_task",
    "split_noise",
]
