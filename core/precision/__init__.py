"""What bf16 rounding would lose of a merge: figures per tensor and in total, from two model folders."""

from core.precision.figures import RoundingRow
from core.precision.rounding import RoundingReport, rounding_report

__all__ = ["RoundingReport", "RoundingRow", "rounding_report"]
