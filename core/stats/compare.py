"""Is the second model better: one paired comparison on the same tasks, with a verdict in words.

Takes the sample scores of two models by task; gives a `Comparison`. Knows nothing about how they came.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np

from core.errors import TaskError
from core.stats.intervals import Interval, cluster_sums, difference_interval
from core.stats.noise import NoiseBand
from core.stats.paired import ALPHA, detectable_by_mcnemar, detectable_by_mean, mcnemar, sign_flip
from core.stats.power import Settling, Spread, detectable_beyond, settling, spread_of
from core.stats.protocols import Settings, protocol_differences, refuse_different
from core.stats.samples import read_samples
from core.stats.sentence import sentence_of

Scores = Mapping[str, Sequence[float]]
"""Task id to the scores of its samples, each in [0, 1]."""
Verdict = Literal["better", "worse", "unresolved"]
MAX_DENOMINATOR = 10_000
LEAST_UNITS = 6
"""Units with which a sign-flip test can be significant at all: 2 of 2⁶ signs."""


@dataclass(frozen=True)
class Comparison:
    """The second model (b) against the first (a). Scores and differences are means over tasks, in [-1, 1]."""

    n: int
    """Tasks."""
    samples_a: float
    """Samples a task, on average."""
    samples_b: float
    mean_a: float
    mean_b: float
    difference: float
    """mean_b − mean_a."""
    gained: tuple[str, ...]
    """Tasks whose mean score is higher under b."""
    lost: tuple[str, ...]
    p_value: float
    """Two-sided, of `test`."""
    test: str
    """Which test: exact McNemar for one 0/1 sample a task, else a sign-flip test."""
    clusters: int
    """Scenarios that the interval draws; equal to `n` where tasks stand alone."""
    p_value_by_cluster: float | None
    """Sign-flip test over whole scenarios; None where tasks stand alone."""
    interval: Interval
    """95 % paired bootstrap of the difference, over scenarios where there are any."""
    minimum_detectable: float
    """Difference that would be found with 80 % power at the 5 % level, given the discordance seen."""
    noise_half_width: float | None
    """Half-width of the run-to-run noise of a difference, where a band was given."""
    verdict: Verdict
    sentence: str
    protocol_differences: tuple[str, ...] = ()
    """How the two were evaluated differently, such as `temperature 0.5 against 0.9`."""
    settled_by: Settling | None = None
    """What would settle an unresolved difference; None where it is settled, or there is none."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: lists for tuples, no NaN."""
        found = asdict(self)
        lists = {name: list(found[name]) for name in ("gained", "lost", "interval", "protocol_differences")}
        return found | lists


class _Noise(NamedTuple):
    """Run-to-run noise of a mean difference, and the runs that it was measured with."""

    half_width: float
    runs: int


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Both models' scores, reduced to what the tests need."""

    d: np.ndarray
    """Mean difference of each task, float64, shape (tasks,)."""
    sums: np.ndarray
    """The same summed over each unit (scenario, or task), shape (units,)."""
    sizes: np.ndarray
    """Tasks in each unit, shape (units,)."""
    groups: list[str] | None
    single: bool
    """One 0/1 sample a task on both sides: what McNemar's test is for."""
    denominator: int | None
    """A whole number that makes every difference whole; None for scores other than 0 and 1."""


def compare(
    a: Scores,
    b: Scores,
    *,
    clusters: Mapping[str, str] | Sequence[str] | None = None,
    seed: int = 0,
    noise: NoiseBand | None = None,
    names: tuple[str, str] = ("A", "B"),
    protocols: tuple[Settings | None, Settings | None] | None = None,
    across_protocols: bool = False,
) -> Comparison:
    """Compare two models task by task.

    `clusters` gives each task's scenario (a mapping, or in the order of `a`). The verdict is better or
    worse only if everything agrees: the test's p ≤ 0.05, the same over whole scenarios where there are
    any, an interval without 0, and a difference beyond the noise of two runs where a band is given.
    `seed` is the bootstrap's. Where `protocols` (the settings of each, or None) differ, the comparison is refused
    unless it is asked for `across_protocols`, and then its sentence says so. Raises TaskError when they do, when
    the task sets differ (it names which), a task has no score, or a score is outside [0, 1].
    """
    _refuse_unlike(a, b, names)
    unlike = protocol_differences(*protocols) if protocols else ()
    if not across_protocols:
        refuse_different(unlike, names)
    groups = _groups(clusters, list(a))
    facts = {"protocol_differences": unlike, **_facts(a, b, groups, seed=seed, noise=noise, names=names)}
    return Comparison(**facts, sentence=sentence_of(names, **facts))


def _facts(
    a: Scores, b: Scores, groups: list[str] | None, *, seed: int, noise: NoiseBand | None, names: tuple[str, str]
) -> dict[str, Any]:
    """The fields of a `Comparison` that follow from the scores."""
    tasks = list(a)
    means = [_means(one, tasks, name) for one, name in zip((a, b), names, strict=True)]
    pairs = _pairs(a, b, means[1] - means[0], groups)
    samples = [sum(len(one[task]) for task in tasks) / len(tasks) for one in (a, b)]
    known = _Noise(noise.difference_half_width(*samples) / noise.tasks, noise.runs) if noise else None
    within = (known.half_width / NormalDist().inv_cdf(0.975)) ** 2 if known else None
    spread = spread_of([a[task] for task in tasks], [b[task] for task in tasks], groups, within=within)
    return {
        "samples_a": samples[0],
        "samples_b": samples[1],
        "mean_a": float(means[0].mean()),
        "mean_b": float(means[1].mean()),
        "gained": tuple(task for task, one in zip(tasks, pairs.d, strict=True) if one > 0),
        "lost": tuple(task for task, one in zip(tasks, pairs.d, strict=True) if one < 0),
        **_judged(pairs, seed, known, spread),
    }


def _judged(pairs: _Pairs, seed: int, noise: _Noise | None, spread: Spread) -> dict[str, Any]:
    """The fields of a `Comparison` that follow from the differences and their variance."""
    p_value, test, by_cluster = _test(pairs, seed)
    interval, difference = difference_interval(pairs.d, pairs.groups, seed=seed), float(pairs.d.mean())
    band = noise.half_width if noise else None
    verdict = _verdict(difference, max(p_value, by_cluster or 0.0), interval, band)
    alone = pairs.single and pairs.groups is None
    discordance = float((pairs.d != 0).mean()) if alone else None
    return {
        "n": len(pairs.d),
        "difference": difference,
        "p_value": p_value,
        "test": test,
        "clusters": len(pairs.sums),
        "p_value_by_cluster": by_cluster,
        "interval": interval,
        "minimum_detectable": _detectable(pairs, noise, spread),
        "noise_half_width": band,
        "verdict": verdict,
        "settled_by": settling(difference, spread, discordance) if verdict == "unresolved" else None,
    }


def compare_files(
    path_a: Path | str,
    path_b: Path | str,
    *,
    checkpoint_a: str | None = None,
    checkpoint_b: str | None = None,
    seed: int = 0,
    noise: NoiseBand | None = None,
) -> Comparison:
    """Compare two score files, aligned by task id and clustered by their scenarios.

    `checkpoint_a` and `checkpoint_b` choose a model where a file holds several. Raises an InputError for
    a malformed file, several models where none is chosen, or task sets that differ.
    """
    one, two = read_samples(path_a, checkpoint=checkpoint_a), read_samples(path_b, checkpoint=checkpoint_b)
    names = (one.checkpoint or "A", two.checkpoint or "B")
    if names[0] == names[1]:
        names = (f"{names[0]} ({one.path.name})", f"{names[1]} ({two.path.name})")
    scenarios = {task: own if own != task else two.scenarios.get(task, own) for task, own in one.scenarios.items()}
    return compare(one.scores, two.scores, clusters=scenarios, seed=seed, noise=noise, names=names)


def _refuse_unlike(a: Scores, b: Scores, names: tuple[str, str]) -> None:
    if not a and not b:
        raise TaskError("There are no tasks to compare. Expected at least one.")
    only_a, only_b = [task for task in a if task not in b], [task for task in b if task not in a]
    if not (only_a or only_b):
        return
    parts = [
        f"{len(missing)} only in {name} ({', '.join(missing[:5])}{', and more' if len(missing) > 5 else ''})"
        for missing, name in ((only_a, names[0]), (only_b, names[1]))
        if missing
    ]
    raise TaskError(f"The two have different tasks: {'; '.join(parts)}. Compare models on the same task file.")


def _means(scores: Scores, tasks: list[str], name: str) -> np.ndarray:
    for task in tasks:
        one = scores[task]
        if not len(one) or not all(0 <= value <= 1 for value in one):
            raise TaskError(f"{name} on task '{task}': expected scores in [0, 1], found {list(one)!r:.80}.")
    return np.array([math.fsum(scores[task]) / len(scores[task]) for task in tasks])


def _groups(clusters: Mapping[str, str] | Sequence[str] | None, tasks: list[str]) -> list[str] | None:
    """Scenario of each task, or None where every task stands alone."""
    if clusters is None:
        return None
    if isinstance(clusters, Mapping):
        missing = [task for task in tasks if task not in clusters]
        if missing:
            raise TaskError(f"task '{missing[0]}' has no scenario. Expected one for each of {len(tasks)} tasks.")
        groups = [clusters[task] for task in tasks]
    else:
        groups = list(clusters)
        if len(groups) != len(tasks):
            raise TaskError(f"expected a scenario for each of {len(tasks)} tasks, found {len(groups)}.")
    return groups if len(set(groups)) < len(groups) else None


def _pairs(a: Scores, b: Scores, d: np.ndarray, groups: list[str] | None) -> _Pairs:
    # Equal means of uneven samples may differ in the last bit.
    d = np.where(np.abs(d) < 1e-12, 0.0, d)
    every = [*a.values(), *b.values()]
    binary = all(value in (0, 1) for one in every for value in one)
    common = math.lcm(*{len(one) for one in every})
    return _Pairs(
        d=d,
        sums=d if groups is None else cluster_sums(d, groups),
        sizes=np.ones_like(d) if groups is None else cluster_sums(np.ones_like(d), groups),
        groups=groups,
        single=binary and common == 1,
        denominator=common if binary and common <= MAX_DENOMINATOR else None,
    )


def _test(pairs: _Pairs, seed: int) -> tuple[float, str, float | None]:
    """P-value, name of the test, and p-value over scenarios where there are any."""
    d, clustered = pairs.d, pairs.groups is not None
    if pairs.single and not clustered:
        return mcnemar(int((d > 0).sum()), int((d < 0).sum())), "exact McNemar", None
    flipped = sign_flip(pairs.sums, denominator=pairs.denominator, seed=seed)
    by_cluster = flipped.p_value if clustered else None
    if pairs.single:
        return mcnemar(int((d > 0).sum()), int((d < 0).sum())), "exact McNemar", by_cluster
    name = f"{'exact' if flipped.exact else 'sampled'} sign-flip test over {'scenarios' if clustered else 'tasks'}"
    return flipped.p_value, name, by_cluster


def _detectable(pairs: _Pairs, noise: _Noise | None, spread: Spread) -> float:
    """The difference that gets past every condition of the verdict with 80 % power."""
    n, discordant = len(pairs.d), int((pairs.d != 0).sum())
    found = detectable_by_mcnemar(n, discordant) if pairs.single else 0.0
    if not pairs.single or pairs.groups is not None:
        # Six units must move the same way before all signs alike are rarer than 1 in 20, each by one sample at least.
        least = 0.0 if discordant else min(1.0, LEAST_UNITS / (pairs.denominator or 1) / n)
        # Half of the way between two possible sums of signs, as in `power_by_mean`.
        step = 1 / (pairs.denominator * n) if pairs.denominator else 0.0
        by_mean = detectable_by_mean(pairs.sums, pairs.sizes) + step if len(pairs.sums) >= LEAST_UNITS else 1.0
        found = max(found, min(1.0, by_mean), least)
    if noise is not None:
        error = math.sqrt(spread.total) if math.isfinite(spread.total) else 0.0
        found = detectable_beyond(found, error, noise.half_width, noise.runs)
    return found


def _verdict(difference: float, p_value: float, interval: Interval, band: float | None) -> Verdict:
    if p_value > ALPHA or interval.low <= 0 <= interval.high or (band is not None and abs(difference) <= band):
        return "unresolved"
    return "better" if difference > 0 else "worse"
