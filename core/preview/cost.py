"""How long a merge and its evaluations will take, said before they start.

Takes the amount of work and what earlier runs took; gives seconds and what the guess rests on. The
constants are for two CPU cores; earlier runs on the same machine correct them.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

START_SECONDS = 9.0
"""Starting a worker and importing torch and transformers."""
MERGE_START_SECONDS = 1.0
"""What a merge takes besides its weights: headers, compiled kernels, the report."""
ALIKE = 30.0
"""An earlier merge says something of the next one where neither is so many times the other's work."""
MERGED_PER_SECOND = 1.5e8
"""Member elements merged and written a second."""
STEP_SECONDS = 0.006
"""One token of one batch of a model so small that only overhead counts."""
FLOPS = 4e10
BATCH = 32


@dataclass(frozen=True)
class Work:
    """What a run has to do."""

    elements: int
    """Parameters of one model."""
    members: int
    """Models that are merged."""
    evaluations: int
    """Models that are evaluated, on every split."""
    samples: int
    """Answers that one model gives, over all splits: tasks × samples a task."""
    tokens: int
    """Longest answer, in tokens."""


@dataclass(frozen=True)
class Estimate:
    """Seconds, and on how many earlier runs they rest (0 when on constants alone)."""

    seconds: float
    runs: int


def expected_seconds(work: Work) -> float:
    """Seconds from the constants alone."""
    merge = work.elements * work.members / MERGED_PER_SECOND
    step = max(STEP_SECONDS, 2 * work.elements * BATCH / FLOPS)
    answers = math.ceil(work.samples / BATCH) * work.tokens * step * work.evaluations
    return START_SECONDS + merge + answers


def estimate(work: Work, earlier: Sequence[tuple[Work, float]] = ()) -> Estimate:
    """Seconds for `work`; the constants are corrected by the median of what earlier runs took.

    `earlier` pairs the work of finished runs with the seconds they took.
    """
    ratios = [seconds / expected_seconds(one) for one, seconds in earlier if seconds > 0]
    factor = statistics.median(ratios) if ratios else 1.0
    return Estimate(expected_seconds(work) * factor, len(ratios))


def estimate_merge(elements: int, members: int, earlier: Sequence[Mapping[str, Any]] = ()) -> Estimate:
    """Seconds for one merge of `members` models of `elements` parameters, without evaluations.

    `earlier` are results of finished merges, as `MergeResult.as_dict` gives them; those of about this size
    correct the constants by their median.
    """
    work = elements * members
    ratios = []
    for one in earlier:
        done = one["elements"] * len(one["election"].get("member_changed", ()))
        if one["seconds"] > 0 and done > 0 and work / ALIKE <= done <= work * ALIKE:
            ratios.append(one["seconds"] / _merge_seconds(done))
    return Estimate(_merge_seconds(work) * (statistics.median(ratios) if ratios else 1.0), len(ratios))


def _merge_seconds(member_elements: int) -> float:
    return MERGE_START_SECONDS + member_elements / MERGED_PER_SECOND
