"""Merging: a mergekit config in, a complete model folder out, with a row of figures a tensor.

`read_plan`/`parse_plan`, `open_checkpoint`/`checkpoint_summary`, `preflight`, `run_merge`, `read_report`.
Importing this package is cheap: numba, pandas and mergekit load when a merge or a report is asked for.
"""

from core.merge.checkpoint import CheckpointFile, checkpoint_summary, open_checkpoint
from core.merge.config import parse_plan, read_plan, with_dialect, with_vocabulary
from core.merge.header import TensorInfo
from core.merge.plan import AUTO, Dialect, Member, Plan
from core.merge.preflight import ModelFigures, Preflight, preflight
from core.merge.report import read_report
from core.merge.run import MergeResult, run_merge

__all__ = [
    "AUTO",
    "CheckpointFile",
    "Dialect",
    "Member",
    "MergeResult",
    "ModelFigures",
    "Plan",
    "Preflight",
    "TensorInfo",
    "checkpoint_summary",
    "open_checkpoint",
    "parse_plan",
    "preflight",
    "read_plan",
    "read_report",
    "run_merge",
    "with_dialect",
    "with_vocabulary",
]
