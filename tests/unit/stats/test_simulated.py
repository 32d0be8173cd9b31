"""Synthetic experiments with a known truth, at fixed seeds: false findings, families, stated powers, optimism.

The whole study is `python -m bench.stats_bench`. Run: .venv/bin/python -m pytest tests/unit/stats/test_simulated.py
"""

from collections import Counter
from dataclasses import replace

import pytest

from bench import stats_bench as bench

# Of every kind: lone tasks, several samples, scenarios of equal and of unequal size, few scenarios.
WORLDS = (bench.WORLDS[1], bench.WORLDS[7], bench.WORLDS[9], bench.WORLDS[11], bench.WORLDS[12])


def test_at_most_5_5_percent_of_2000_experiments_without_a_difference_show_one() -> None:
    each = 400
    total: Counter[str] = Counter()
    for world in WORLDS:
        found = bench.false_findings(world, each, others=False)
        # One world alone: 5 % and three standard errors.
        assert max(found.values()) < 0.083, (world.name, found)
        total.update({name: round(rate * each) for name, rate in found.items()})
    rates = {name: total[name] / (each * len(WORLDS)) for name in ("verdict", "interval", "sign-flip")}
    print(rates)
    assert max(rates.values()) <= bench.ALLOWED
    assert rates["interval"] > 0.02


def test_at_most_5_5_percent_of_families_have_any_false_finding() -> None:
    assert bench.mcnemar_family(2000) <= bench.ALLOWED
    found = bench.family_findings(200, rivals=5, real=1)
    assert found["Holm"] <= bench.ALLOWED
    assert found["each on its own"] > 2 * found["Holm"]


def test_the_stated_power_of_mcnemars_test_is_the_one_seen() -> None:
    for one in bench.mcnemar_powers(20_000):
        assert one.seen == pytest.approx(one.stated, abs=0.012), one.what


@pytest.mark.parametrize("world", bench.POWER_WORLDS[2:], ids=lambda one: one.name)
def test_the_stated_power_over_tasks_and_scenarios_is_the_one_seen(world: bench.World) -> None:
    one = bench.mean_power(world, 2000)
    assert one.seen == pytest.approx(one.stated, abs=bench.POINTS)


@pytest.mark.parametrize(("world", "noise"), [(bench.POWER_WORLDS[0], True), (bench.POWER_WORLDS[3], False)])
def test_the_detectable_difference_is_found_4_times_in_5(world: bench.World, noise: bool) -> None:
    one = bench.verdict_power(world, 500, noise=noise)
    assert one.seen == pytest.approx(0.8, abs=bench.POINTS)


def test_what_is_said_to_settle_a_difference_does() -> None:
    found = bench.settled_power(replace(bench.POWER_WORLDS[2], samples=2, effect=0.08), 1000)
    assert len(found) == 2
    for one in found:
        assert one.seen == pytest.approx(0.8, abs=bench.POINTS), one.what


def test_the_optimism_of_the_best_is_estimated() -> None:
    estimated, true = bench.optimism_of(0.0, 150)
    assert estimated == pytest.approx(true, rel=0.15)
    estimated, true = bench.optimism_of(0.1, 150)
    assert true < estimated < 1.5 * true
