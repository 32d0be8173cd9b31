"""What a plan's dialect of TIES means for the kernels: weights, division, and what is known of whole models.

`mergekit` trims each tensor and votes with weighted deltas. `paper` and `sum` follow the paper's repository
(github.com/prateeky2806/ties-merging): each member is trimmed over its whole vector, all |δ| equal to the
threshold are kept, votes are unweighted, and a vote of zero takes the sign that most elements elected; `paper`
then takes the plain mean of the agreeing deltas, `sum` their sum (as FusionBench does). Weights count for nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from core.merge.blocks import Buffer, codes_of
from core.merge.pairing import TensorJob
from core.merge.plan import Plan
from core.merge.trim import KEEP_NOTHING, MANY, Kept, threshold_of
from core.merge.window import Source
from core.progress import Progress

if TYPE_CHECKING:
    from core.merge.kernels import Rule


def divisor_of(plan: Plan, weights: np.ndarray) -> np.float32:
    """0 for no division; ties divides by the agreeing weights (any number says so), the others by their fp32 sum."""
    if not plan.normalize:
        return np.float32(0)
    if plan.method == "ties":
        return np.float32(1)
    total = np.float32(0)
    for weight in weights:
        total = total + weight
    # task_arithmetic in mergekit does not divide by a sum that is nearly zero.
    return np.float32(1) if plan.method == "task_arithmetic" and abs(total) < np.float32(1e-8) else total


def rule_of(plan: Plan, *, figures: bool = True) -> "Rule":
    """The kernels' rule for a plan."""
    from core.merge import kernels

    method = {"ties": kernels.TIES, "task_arithmetic": kernels.TASK_ARITHMETIC, "linear": kernels.LINEAR}[plan.method]
    weights = np.array([one.weight for one in plan.members], np.float32)
    divide = divisor_of(plan, weights)
    if plan.dialect != "mergekit" and plan.method == "ties":
        weights = np.ones(len(plan.members), np.float32)
        divide = np.float32(plan.dialect == "paper")
    guard = bool((weights < 0).any())
    return kernels.Rule(method, weights, divide, np.float32(plan.scale), guard, zero_plus=True, figures=figures)


class WholeModels:
    """Counts over every merged tensor, tied copies once, in blocks; as many reads as it has methods called."""

    def __init__(self, jobs: Sequence[TensorJob], source: Callable[[TensorJob], Source]) -> None:
        self._jobs, self._source = jobs, source
        self._elements = sum(job.elements for job in jobs)

    def kept(self, densities: Sequence[float], progress: Progress) -> Kept:
        """Each member's threshold over its whole vector of n elements.

        As in the repository: the (n − k)-th smallest |δ|, k = int(density·n), and all that are not below it; one
        more than k, then, where none are equal. Density 1 keeps all, 0 nothing.
        """
        kept = Kept(np.zeros(len(densities), np.uint32), np.full(len(densities), MANY, np.int64))
        wanted = {
            index: min(self._elements, int(density * self._elements) + 1)
            for index, density in enumerate(densities)
            if 0 < density < 1
        }
        kept.thresholds[[index for index, density in enumerate(densities) if density <= 0]] = KEEP_NOTHING
        if not wanted or not self._elements:
            return kept
        upper = self._sum(len(densities), progress, None)
        high = np.full(len(densities), -1, np.int64)
        for index, count in wanted.items():
            high[index], wanted[index] = threshold_of(upper[index], count)
        lower = self._sum(len(densities), progress, high)
        for index, count in wanted.items():
            low, _ = threshold_of(lower[index], count)
            kept.thresholds[index] = (int(high[index]) << 15) | low
        return kept

    def majority_is_plus(self, kept: Kept, progress: Progress) -> bool:
        """Whether more elements elect + than −, over all tensors; a draw takes −, as in the repository."""
        from core.merge import kernels

        def count(job: TensorJob) -> Callable[[Buffer, int, int], int]:
            codes = codes_of(job.inputs)
            return lambda buffer, _start, n: int(kernels.sum_signs(buffer.rows(codes), n, kept.thresholds))

        return sum(int(one) for job in self._each(progress) for one in self._source(job).each(count(job))) > 0

    def _sum(self, members: int, progress: Progress, high: np.ndarray | None) -> np.ndarray:
        """The histograms of `trim.py`, over all tensors: the upper bits, or the lower ones of those at `high`."""
        from core.merge import kernels

        bins = 1 << (kernels.HIGH_BITS if high is None else kernels.LOW_BITS)
        total = np.zeros((members, bins), np.int64)
        for job in self._each(progress):
            codes, source = codes_of(job.inputs), self._source(job)

            def count(
                buffer: Buffer, _start: int, n: int, codes: np.ndarray = codes, source: Source = source
            ) -> np.ndarray:
                counts = np.zeros((members, bins + (0 if high is None else kernels.SPARES)), np.int64)
                if high is None:
                    source.kernels.count_high(buffer.rows(codes), n, counts)
                else:
                    source.kernels.count_low(buffer.rows(codes), n, high, counts)
                return counts[:, :bins]

            for one in source.each(count):
                total += one
        return total

    def _each(self, progress: Progress) -> Iterator[TensorJob]:
        done = 0
        for job in self._jobs:
            yield job
            done += job.elements
            progress("looking at whole models", done, self._elements, "parameters")
