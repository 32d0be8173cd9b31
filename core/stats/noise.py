"""Run-to-run noise, from repeated evaluations of one model, or from the samples of one evaluation.

Takes an array of scores (runs, tasks) or (models, tasks, samples); gives the band that one run, or a difference of two,
falls in; where nothing was repeated, how many evaluations would tell.
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
    models: int = 1
    """Models that it is pooled over; more than one where it comes from the samples of one evaluation."""

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


def sample_noise(samples: np.ndarray) -> NoiseBand:
    """The noise of one run of one sample a task, from `samples`, scores in [0, 1], shape (models, tasks, samples).

    Samples of a task are independent draws, so the variance of a run's total is the sum of the tasks' variances
    (n − 1), here the mean of it over the models; the band is normal around the models' mean. NaN marks tasks that
    a model lacks. What would move a whole run, such as another machine, is not in it. Raises InputError for fewer than
    two samples.
    """
    scores = np.asarray(samples, dtype=np.float64)
    if scores.ndim != 3 or scores.shape[2] < 2 or not scores.size or not np.isfinite(scores).any():
        raise InputError(f"noise from samples needs (models, tasks, two or more samples), found shape {scores.shape}.")
    models, tasks, count = scores.shape
    has = np.isfinite(scores).all(axis=2)
    cells = scores[has]
    # Where a model lacks tasks, the others stand for them.
    share = tasks / (has.sum() / models)
    sd = math.sqrt(float(cells.var(axis=1, ddof=1).sum()) / models * share)
    total = float(cells.mean(axis=1).sum()) / models * share
    half = NormalDist().inv_cdf(0.975) * sd
    differ = sum(int((cells[:, one, None] != cells[:, one + 1 :]).sum()) for one in range(count - 1))
    return NoiseBand(
        mean_tasks=total,
        sd_tasks=sd,
        half_width_tasks=half,
        flip_rate=differ / (count * (count - 1) / 2) / len(cells),
        runs=count,
        low=max(0.0, (total - half) / tasks),
        high=min(1.0, (total + half) / tasks),
        tasks=tasks,
        models=models,
    )


def evaluations_to_tell(one: float, other: float, tasks: int) -> int:
    """Evaluations of each of two models that are enough to tell them apart, were their true means as given.

    `one` and `other` are means in [0, 1] over `tasks`. Solves z·√((p₁(1−p₁) + p₂(1−p₂)) / (n·tasks)) ≤ |p₁ − p₂| for n,
    at least 1: an upper bound, since tasks of unequal difficulty vary less than equal ones. Equal means count as one
    task apart.
    """
    if tasks < 1 or not (0 <= one <= 1 and 0 <= other <= 1):
        raise InputError(f"expected two means in [0, 1] over one or more tasks, found {one}, {other}, {tasks}.")
    apart = max(abs(one - other), 1 / tasks)
    z = NormalDist().inv_cdf(0.975)
    needed = z**2 * (one * (1 - one) + other * (1 - other)) / (tasks * apart**2)
    return max(1, math.ceil(needed - 1e-9))


def runs_to_know_noise(within: float = 0.5) -> int:
    """Runs of one model that give its standard deviation to `within` of itself, with 95 % confidence.

    The relative standard error of a standard deviation of n normal values is about 1/√(2(n − 1)).
    """
    return math.ceil((NormalDist().inv_cdf(0.975) / within) ** 2 / 2 + 1)


def _flip_rate(scores: np.ndarray) -> float:
    runs, tasks = scores.shape
    differ = sum(int((scores[one] != scores[one + 1 :]).sum()) for one in range(runs - 1))
    return differ / (runs * (runs - 1) / 2) / tasks
