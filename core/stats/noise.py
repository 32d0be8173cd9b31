"""Run-to-run noise, from repeated evaluations of one model that differ in their seed only.

Takes an array of scores (runs, tasks); gives the band that one run, or a difference of two, falls in.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from core.errors import InputError


@dataclass(frozen=True)
class NoiseBand:
    """How far repeated runs of one model lie apart."""

    mean_tasks: float
    """Mean over runs of the total, in tasks."""
    sd_tasks: float
    """Standard deviation of the total over runs (n − 1), in tasks."""
    half_width_tasks: float
    """Half of the central 95 % of the totals, in tasks."""
    flip_rate: float
    """Share of tasks whose score differs between two runs, mean over all pairs of runs."""
    runs: int
    low: float
    """2.5 % quantile of the runs' means, in [0, 1]."""
    high: float
    """97.5 % quantile of it."""
    tasks: int
    samples: int = 1
    """Samples a task behind each run."""

    def difference_half_width(self, samples_a: float = 1, samples_b: float = 1) -> float:
        """Half-width, in tasks, of the 95 % band of a difference of two runs of one model.

        z·σ·√(s/nₐ + s/n_b), with σ the standard deviation of a total of runs of s samples a task: √2 times
        as wide as one run's band, and narrower for means over more samples than the replicates had.
        """
        ratio = self.samples / samples_a + self.samples / samples_b
        return NormalDist().inv_cdf(0.975) * self.sd_tasks * math.sqrt(ratio)


def noise_band(replicates: np.ndarray, *, samples: int = 1) -> NoiseBand:
    """The noise of one model from `replicates`, scores in [0, 1], shape (runs, tasks).

    `samples` is how many samples a task each entry is the mean of. Raises InputError for fewer than two
    runs, which show no noise.
    """
    scores = np.asarray(replicates, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[0] < 2 or not scores.shape[1] or not np.isfinite(scores).all():
        raise InputError(f"a noise band needs scores of (two or more runs, tasks), found shape {scores.shape}.")
    runs, tasks = scores.shape
    totals = scores.sum(axis=1)
    low, high = np.quantile(totals, [0.025, 0.975])
    return NoiseBand(
        mean_tasks=float(totals.mean()),
        sd_tasks=float(totals.std(ddof=1)),
        half_width_tasks=float(high - low) / 2,
        flip_rate=_flip_rate(scores),
        runs=runs,
        low=float(low) / tasks,
        high=float(high) / tasks,
        tasks=tasks,
        samples=samples,
    )


def _flip_rate(scores: np.ndarray) -> float:
    runs, tasks = scores.shape
    differ = sum(int((scores[one] != scores[one + 1 :]).sum()) for one in range(runs - 1))
    return differ / (runs * (runs - 1) / 2) / tasks
