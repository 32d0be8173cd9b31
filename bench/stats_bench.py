"""Checks the statistics on synthetic experiments whose truth is known, and prints what was measured.

How often a verdict, and every test behind it, finds a difference that is not there (at most 5.5 % may), also in
families with Holm's correction; whether a power that is stated is the one seen (within 5 points); and whether the
optimism of the best of many is as large as estimated. Run: python -m bench.stats_bench [--experiments 2000] [part …]
"""

import argparse
import functools
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.stats import Comparison, NoiseBand, compare, holm, judge_family, mcnemar, mcnemar_power, noise_band, sign_flip
from core.stats.optimism import selection_optimism
from core.stats.power import power_by_mean, settling, spread_of, tasks_for_mcnemar

ALLOWED, POINTS = 0.055, 0.05
"""The highest false rate, and how far a stated power may be from the one seen."""
REPLICATES = 20
Scores = dict[str, list[float]]


@dataclass(frozen=True)
class World:
    """Tasks and two models whose chances differ by `effect` on average, and by more or less on each task."""

    name: str
    tasks: int = 57
    samples: int = 1
    size: int = 1
    """Tasks in a scenario; 0 for sizes that vary from 1 to 9."""
    own: float = 0.0
    """Standard deviation of what each model is better or worse by, in each scenario or task, by chance."""
    shape: str = "even"
    """Chances of the tasks: even, extreme (most near 0 or 1), rare (nine in ten certain) or skewed (the second model
    gains much on a tenth of the tasks and loses a little on the rest)."""
    effect: float = 0.0

    def scenarios(self, rng: np.random.Generator) -> np.ndarray:
        """Number of the scenario of each task."""
        if self.size:
            return np.arange(self.tasks) // self.size
        return np.repeat(np.arange(self.tasks), rng.integers(1, 10, self.tasks))[: self.tasks]

    def chances(self, rng: np.random.Generator, groups: np.ndarray) -> np.ndarray:
        """Chance of each model to solve each task, shape (2, tasks)."""
        n = self.tasks
        if self.shape == "skewed":
            gain = np.where(rng.random(n) < 0.1, 0.72, -0.08)
            return np.clip(np.stack([np.full(n, 0.14), 0.14 + gain + self.effect]), 0, 1)
        certain = rng.choice([0.01, 0.99], n)
        base = {
            "even": rng.uniform(0.3, 0.6, n),
            "extreme": rng.beta(0.7, 0.7, n),
            "rare": np.where(rng.random(n) < 0.9, certain, 0.5),
        }[self.shape]
        own = rng.normal(0, self.own, (2, int(groups.max()) + 1))[:, groups]
        return np.clip(np.stack([base, base + self.effect]) + own, 0, 1)

    def draw(self, rng: np.random.Generator) -> "Drawn":
        """One experiment."""
        groups = self.scenarios(rng)
        p = self.chances(rng, groups)
        return Drawn(p, (rng.random((2, self.tasks, self.samples)) < p[:, :, None]).astype(float), groups)


@dataclass(frozen=True, eq=False)
class Drawn:
    """One experiment: chances (2, tasks), scores (2, tasks, samples), scenario of each task."""

    chances: np.ndarray
    scores: np.ndarray
    groups: np.ndarray

    @property
    def differences(self) -> np.ndarray:
        """Mean difference of each task."""
        return self.scores[1].mean(axis=1) - self.scores[0].mean(axis=1)

    def compared(self, seed: int, noise: NoiseBand | None = None) -> Comparison:
        """As a user would compare the two."""
        a, b = ({f"t{at}": row for at, row in enumerate(one.tolist())} for one in self.scores)
        return compare(a, b, clusters=[str(one) for one in self.groups], seed=seed, noise=noise)

    def replicates(self, rng: np.random.Generator) -> NoiseBand:
        """The noise of the first model, from runs on these tasks."""
        samples = self.scores.shape[2]
        runs = rng.random((REPLICATES, samples, len(self.groups))) < self.chances[0]
        return noise_band(runs.mean(axis=1), samples=samples)


LONE = World("57 tasks, even chances")
WORLDS = (
    LONE,
    World("57 tasks, most easy or hard", shape="extreme"),
    World("168 tasks, most easy or hard", tasks=168, shape="extreme"),
    World("20 tasks", tasks=20),
    World("57 tasks, nine in ten certain", shape="rare"),
    World("57 tasks, models differ on each", own=0.2),
    World("57 tasks, skewed", shape="skewed"),
    World("57 tasks × 4 samples, skewed", samples=4, shape="skewed"),
    World("57 tasks × 8 samples, differ on each", samples=8, own=0.2),
    World("19 scenarios of 3", size=3, own=0.2),
    World("19 scenarios of 3, × 4 samples", samples=4, size=3, own=0.2),
    World("6 scenarios of 5", tasks=30, size=5, own=0.2),
    World("some 20 scenarios of 1 to 9", tasks=100, size=0, own=0.2, samples=4),
)


def false_findings(world: World, experiments: int, seed: int = 1, *, others: bool = True) -> dict[str, float]:
    """How often each test, the interval and the verdict see a difference where the models are equal on average.

    Every second verdict knows the noise of replicates. `others` adds the tests that are not used.
    """
    rng, found = np.random.default_rng(seed), Counter[str]()
    for number in range(experiments):
        drawn = world.draw(rng)
        one = drawn.compared(number, drawn.replicates(rng) if number % 2 else None)
        found["verdict"] += one.verdict != "unresolved"
        found["interval"] += not one.interval.low <= 0 <= one.interval.high
        if world.size == 1 and world.samples == 1:
            found["McNemar"] += one.p_value <= 0.05
        sums = np.bincount(drawn.groups, weights=drawn.differences)
        found["sign-flip"] += sign_flip(sums, denominator=world.samples, seed=number).p_value <= 0.05
        if others:
            found.update(_others(sums))
    return {name: count / experiments for name, count in found.items()}


def _others(sums: np.ndarray) -> dict[str, int]:
    """The tests that are not used, for comparison."""
    from scipy.stats import ttest_1samp, wilcoxon

    if np.ptp(sums) == 0:
        return {"t": 0, "Wilcoxon": 0}
    ranks = wilcoxon(sums, zero_method="pratt", method="approx")
    return {"t": int(ttest_1samp(sums, 0).pvalue <= 0.05), "Wilcoxon": int(ranks.pvalue <= 0.05)}


def family_findings(experiments: int, seed: int = 2, *, rivals: int = 6, real: int = 0) -> dict[str, float]:
    """How often a family has any false finding, with Holm and without; `real` of the rivals are truly worse."""
    rng, false = np.random.default_rng(seed), Counter[str]()
    tasks = 120
    for number in range(experiments):
        base = rng.uniform(0.35, 0.65, tasks)
        merge = {f"t{at}": [float(one)] for at, one in enumerate(rng.random(tasks) < base)}
        comparisons = {}
        for rival in range(rivals):
            p = base - (0.3 if rival < real else 0.0)
            scores = {f"t{at}": [float(one)] for at, one in enumerate(rng.random(tasks) < p)}
            comparisons[str(rival)] = compare(scores, merge, seed=number)
        family = judge_family(comparisons)
        null = family.members[real:]
        false["Holm"] += any(one.verdict != "unresolved" for one in null)
        false["each on its own"] += any(one.comparison.verdict != "unresolved" for one in null)
    return {name: false[name] / experiments for name in ("Holm", "each on its own")}


_mcnemar = functools.cache(mcnemar)


def mcnemar_family(experiments: int, seed: int = 3, *, rivals: int = 10) -> float:
    """How often Holm finds anything among exact McNemar tests that share one model, all of it equal."""
    rng, false = np.random.default_rng(seed), 0
    for _ in range(experiments):
        base = rng.uniform(0.3, 0.7, 57)
        merge, others = rng.random(57) < base, rng.random((rivals, 57)) < base
        p = [_mcnemar(int((merge & ~one).sum()), int((~merge & one).sum())) for one in others]
        false += any(holm(p).significant)
    return false / experiments


@dataclass(frozen=True)
class Power:
    """One power that is stated, and how often the difference was found."""

    what: str
    stated: float
    seen: float


def mcnemar_powers(experiments: int, seed: int = 4) -> list[Power]:
    """The exact power of McNemar's test, and the tasks it says are needed for 80 %."""
    rng, found = np.random.default_rng(seed), []
    for n, difference, discordance in ((57, 0.2, 0.35), (168, 0.1, 0.3), (600, 0.04, 0.12)):
        seen = _found_by_mcnemar(rng, n, difference, discordance, experiments)
        text = f"McNemar, {n} tasks, {100 * difference:g} pp at {100 * discordance:g} % discordance"
        found.append(Power(text, mcnemar_power(n, difference, discordance), seen))
    for difference, discordance in ((0.2, 0.35), (0.05, 0.3)):
        n = tasks_for_mcnemar(difference, discordance) or 0
        seen = _found_by_mcnemar(rng, n, difference, discordance, experiments)
        found.append(Power(f"tasks needed for {100 * difference:g} pp: {n}", 0.8, seen))
    return found


def _found_by_mcnemar(
    rng: np.random.Generator, n: int, difference: float, discordance: float, experiments: int
) -> float:
    up = (discordance + difference) / 2
    draws = rng.multinomial(n, [up, discordance - up, 1 - discordance], experiments)
    kinds, counts = np.unique(draws[:, :2], axis=0, return_counts=True)
    significant = [mcnemar(gained, lost) <= 0.05 for gained, lost in kinds.tolist()]
    return float(counts[significant].sum()) / experiments


def true_effect(world: World, rng: np.random.Generator) -> float:
    """Mean difference of chances: the effect less what was cut off at 0 and 1."""
    drawn = [world.chances(rng, world.scenarios(rng)).mean(axis=1) for _ in range(4000)]
    return float(np.mean([b - a for a, b in drawn]))


POWER_WORLDS = (
    World("57 tasks", effect=0.2),
    World("168 tasks, models differ on each", tasks=168, own=0.15, effect=0.15),
    World("57 tasks × 8 samples", samples=8, own=0.1, effect=0.1),
    World("19 scenarios of 3", size=3, own=0.1, effect=0.25),
    World("19 scenarios of 3, × 4 samples", samples=4, size=3, own=0.1, effect=0.15),
    World("56 scenarios of 3, × 4 samples", tasks=168, samples=4, size=3, own=0.1, effect=0.08),
)


def mean_power(world: World, experiments: int, seed: int = 5) -> Power:
    """The power that the t approximation states for the sign-flip test, at the world's own effect and variance."""
    rng, means, found = np.random.default_rng(seed), [], 0
    units = world.tasks // max(world.size, 1)
    for number in range(experiments):
        drawn = world.draw(rng)
        d = drawn.differences
        means.append(float(d.mean()))
        sums = np.bincount(drawn.groups, weights=d)
        found += sign_flip(sums, denominator=world.samples, seed=number).p_value <= 0.05
    step = 1 / (world.samples * world.tasks)
    stated = power_by_mean(float(np.mean(means)), float(np.std(means, ddof=1)), units, step=step)
    return Power(f"sign-flip, {world.name}, {100 * world.effect:g} pp", stated, found / experiments)


def verdict_power(world: World, experiments: int, seed: int = 6, *, noise: bool = False) -> Power:
    """How often a difference as large as the detectable one that comparisons state is called by the verdict."""
    rng = np.random.default_rng(seed)
    effect = world.effect
    for _ in range(3):
        # What is detectable hangs on the variance, which hangs a little on the effect itself.
        at = replace(world, effect=effect)
        pilot = [at.draw(rng) for _ in range(150)]
        stated = [one.compared(0, one.replicates(rng) if noise else None).minimum_detectable for one in pilot]
        effect = float(np.mean(stated)) * effect / true_effect(at, rng)
    at, found = replace(world, effect=effect), 0
    for number in range(experiments):
        drawn = at.draw(rng)
        found += drawn.compared(number, drawn.replicates(rng) if noise else None).verdict == "better"
    what = f"verdict at the detectable {100 * effect:.1f} pp, {world.name}{', with noise band' if noise else ''}"
    return Power(what, 0.8, found / experiments)


def settled_power(world: World, experiments: int, seed: int = 7) -> list[Power]:
    """Whether the tasks, and the samples, that are said to settle a difference do find it four times in five."""
    rng = np.random.default_rng(seed)
    pilot = [world.draw(rng) for _ in range(400)]
    spreads = [spread_of(one.scores[0].tolist(), one.scores[1].tolist(), one.groups.tolist()) for one in pilot]
    within = [one.within for one in spreads if one.within is not None]
    mean = replace(
        spreads[0],
        total=float(np.mean([one.total for one in spreads])),
        within=float(np.mean(within)) if within else None,
    )
    said = settling(true_effect(world, rng), mean)
    found = []
    if said and said.tasks:
        tasks = math.ceil(said.tasks / world.size) * world.size
        found.append(_seen(replace(world, tasks=tasks), f"{tasks} tasks instead of {world.tasks}", experiments, rng))
    if said and said.samples:
        more = f"{said.samples} samples instead of {world.samples}"
        found.append(_seen(replace(world, samples=said.samples), more, experiments, rng))
    return found


def _seen(world: World, what: str, experiments: int, rng: np.random.Generator) -> Power:
    found = 0
    for number in range(experiments):
        drawn = world.draw(rng)
        sums = np.bincount(drawn.groups, weights=drawn.differences)
        found += sign_flip(sums, denominator=world.samples, seed=number).p_value <= 0.05
    return Power(f"settled by {what}, {world.name}", 0.8, found / experiments)


def optimism_of(sd: float, experiments: int, seed: int = 8, *, candidates: int = 11) -> tuple[float, float]:
    """(estimated, true) mean optimism of the best of candidates whose chances differ by this deviation, in tasks."""
    rng, estimated, true = np.random.default_rng(seed), [], []
    for number in range(experiments):
        skill = rng.normal(0, sd, candidates)
        chances = np.clip(rng.uniform(0.3, 0.7, 57) + skill[:, None], 0, 1)
        scores = (rng.random(chances.shape) < chances).astype(float)
        means = scores.mean(axis=1)
        best = means >= means.max() - 1e-12
        true.append(57 * float((means - chances.mean(axis=1))[best].mean()))
        estimated.append(57 * selection_optimism(scores, seed=number).amount)
    return float(np.mean(estimated)), float(np.mean(true))


def print_false(experiments: int) -> None:
    """Part `false`."""
    columns = ("verdict", "interval", "McNemar", "sign-flip", "t", "Wilcoxon")
    print(f"False findings in % of {experiments:,} experiments without a difference (t and Wilcoxon are not used)")
    print(f"{'world':42}" + "".join(f"{name:>10}" for name in columns))
    for world in WORLDS:
        found = false_findings(world, experiments)
        cells = "".join(f"{100 * found[name]:10.2f}" if name in found else f"{'-':>10}" for name in columns)
        used = [found[name] for name in columns[:4] if name in found]
        print(f"{world.name:42}{cells}{'' if max(used) <= ALLOWED else '  ABOVE 5.5'}", flush=True)


def print_families(experiments: int) -> None:
    """Part `families`."""
    print(f"\nFamilies with any false finding, in % of {experiments:,}")
    rows: Mapping[str, Callable[[], dict[str, float]]] = {
        "6 rivals, all equal": lambda: family_findings(experiments),
        "6 rivals, 2 truly worse": lambda: family_findings(experiments, real=2),
        "10 exact McNemar tests, all equal": lambda: {"Holm": mcnemar_family(experiments)},
    }
    for name, measure in rows.items():
        found = measure()
        print(f"{name:42}" + "  ".join(f"{who} {100 * rate:.2f}" for who, rate in found.items()), flush=True)


def print_power(experiments: int) -> None:
    """Part `power`."""
    print(f"\nPower in %, stated and seen in {experiments:,} experiments")
    for one in mcnemar_powers(experiments):
        _row(one)
    for world in POWER_WORLDS:
        if world.samples > 1 or world.size > 1:
            _row(mean_power(world, experiments))
    for world in POWER_WORLDS:
        _row(verdict_power(world, experiments))
    for world in (POWER_WORLDS[0], POWER_WORLDS[2]):
        _row(verdict_power(world, experiments, noise=True))
    for world in (replace(POWER_WORLDS[2], samples=2, effect=0.08), replace(POWER_WORLDS[4], effect=0.1)):
        for one in settled_power(world, experiments):
            _row(one)


def _row(one: Power) -> None:
    far = abs(one.stated - one.seen) > POINTS
    print(f"{one.what:90}{100 * one.stated:7.1f}{100 * one.seen:7.1f}{'  FAR' if far else ''}", flush=True)


def print_optimism(experiments: int) -> None:
    """Part `optimism`."""
    print("\nOptimism of the best of 11 on 57 tasks, in tasks: estimated, true")
    for sd in (0.0, 0.02, 0.05, 0.1):
        estimated, true = optimism_of(sd, max(100, experiments // 10))
        print(f"candidates differ by {100 * sd:g} pp{'':30}{estimated:7.2f}{true:7.2f}", flush=True)


PARTS: dict[str, Callable[[int], Any]] = {
    "false": print_false, "families": print_families, "power": print_power, "optimism": print_optimism,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every part, or those named."""
    parser = argparse.ArgumentParser(prog="python -m bench.stats_bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all unless named")
    parser.add_argument("--experiments", type=int, default=2000)
    given = parser.parse_args(arguments)
    started = time.perf_counter()
    for name in given.parts or PARTS:
        PARTS[name](given.experiments)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
