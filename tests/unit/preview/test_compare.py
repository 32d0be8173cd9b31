"""Two merges of one sample, leave-one-out, and what knobs reach: against plain numpy over whole tensors, and by hand.

Run: .venv/bin/python -m pytest tests/unit/preview/test_compare.py
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, PlanError
from core.merge.config import parse_plan
from core.merge.plan import Plan
from core.preview.compare import compare, merged_values
from core.preview.estimate import estimate_plan
from core.preview.knobs_matter import reach
from core.preview.leave_out import leave_one_out, without
from core.preview.sample import read_sample
from tests.unit.preview.pool import config, from_bf16, plan_of, read, to_bf16, write_bank, write_model

WEIGHTS = [0.4, 0.3, 0.2, 0.1]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    return write_bank(tmp_path_factory.mktemp("bank"), 4, sparse=1.2)


def merged(base: Path, plan: Plan) -> dict[str, np.ndarray]:
    """TIES in numpy, a tensor each, fp32."""
    start = read(base)
    found = {}
    for name, values in start.items():
        kept = np.stack([read(one.path)[name] - values for one in plan.members])
        for row, one in zip(kept, plan.members, strict=True):
            if one.density < 1:
                row[np.argsort(-abs(row), kind="stable")[max(1, int(one.density * row.size)) :]] = 0
        weights = np.array([one.weight for one in plan.members], np.float32)
        x = kept * weights[:, None]
        total = np.zeros_like(values)
        for row in x:
            total += row
        agrees = np.where(total >= 0, 1, -1) * x > 0
        mixed, divisor = np.zeros_like(values), np.zeros_like(values)
        for at in range(len(x)):
            mixed += np.where(agrees[at], x[at], 0)
            divisor += np.where(agrees[at], weights[at], np.float32(0))
        if plan.normalize:
            mixed /= np.where(divisor == 0, np.float32(1), divisor)
        found[name] = values + mixed * np.float32(plan.scale)
    return found


def figures(base: Path, one: Plan, other: Plan, names: Sequence[str]) -> dict[str, float]:
    start, first, second = read(base), merged(base, one), merged(base, other)
    zero, x, y = (np.concatenate([found[name] for name in names]) for found in (start, first, second))
    here, there = x.astype(np.float64) - zero, y.astype(np.float64) - zero
    distance = np.sqrt(((here - there) ** 2).sum())
    return {
        "visible": (from_bf16(to_bf16(x)) != from_bf16(to_bf16(y))).mean(),
        "turned": (here * there < 0).mean(),
        "gone": ((here != 0) & (there == 0)).mean(),
        "distance": distance,
        "relative": distance / np.sqrt((here**2).sum()),
        "cosine": here @ there / np.sqrt((here**2).sum() * (there**2).sum()),
    }


@pytest.mark.parametrize(
    ("density", "extra"), [(1.0, ""), (0.3, "parameters: {lambda: 0.6}\n"), (0.5, "parameters: {normalize: false}\n")]
)
def test_leaving_each_out_changes_what_numpy_says(bank: tuple[Path, list[Path]], density: float, extra: str) -> None:
    plan = plan_of(*bank, WEIGHTS, density, extra=extra)
    sample = read_sample(plan)
    found = leave_one_out(sample, plan)
    assert len(found) == 4
    for at, one in enumerate(found):
        others = without(plan, at)
        expected = figures(bank[0], plan, others, sample.names)
        for name, figure in one.total.items():
            assert figure.estimate == pytest.approx(expected[name], rel=1e-6, abs=1e-9), name
            assert figure.low == figure.estimate == figure.high and figure.kind == "exact"
        expected = figures(bank[0], plan, others, [sample.names[1]])
        for name, figure in one.tensor(1).items():
            assert figure.estimate == pytest.approx(expected[name], rel=1e-6, abs=1e-9), name


def test_signs_that_turn_when_a_member_leaves_are_those_that_hang_on_it(bank: tuple[Path, list[Path]]) -> None:
    plan = plan_of(*bank, WEIGHTS)
    sample = read_sample(plan)
    flips = [estimate_plan(sample, plan).member(at)["flips"].estimate for at in range(4)]
    assert [one.total["turned"].estimate for one in leave_one_out(sample, plan)] == pytest.approx(flips, rel=0.02)


def test_other_members_and_densities_are_compared_too(bank: tuple[Path, list[Path]]) -> None:
    plan = plan_of(*bank, WEIGHTS)
    other = plan_of(bank[0], [bank[1][2], bank[1][0]], [0.5, 0.5], 0.4)
    sample = read_sample(plan)
    expected = figures(bank[0], plan, other, sample.names)
    (found,) = compare(sample, plan, [other])
    for name, figure in found.total.items():
        assert figure.estimate == pytest.approx(expected[name], rel=1e-6, abs=1e-9), name


def test_a_merge_does_not_differ_from_itself(bank: tuple[Path, list[Path]]) -> None:
    plan = plan_of(*bank, WEIGHTS, 0.5)
    sample = read_sample(plan, budget=40_000)
    found = compare(sample, plan, [plan])[0].total
    assert [found[name].estimate for name in ("visible", "turned", "gone", "distance", "relative")] == [0] * 5
    assert found["cosine"].estimate == pytest.approx(1)


def test_intervals_hold_the_truth_as_often_as_they_say(bank: tuple[Path, list[Path]]) -> None:
    plan = plan_of(*bank, WEIGHTS)
    other = without(plan, 0)
    names = read_sample(plan).names
    truth = figures(bank[0], plan, other, names)
    held = dict.fromkeys(truth, 0)
    for seed in range(80):
        found = compare(read_sample(plan, seed=seed, budget=60_000), plan, [other])[0].total
        for name, figure in found.items():
            held[name] += figure.low <= truth[name] <= figure.high
    assert min(held.values()) >= 0.89 * 80, held


def test_intervals_count_the_error_of_thresholds_where_densities_differ(bank: tuple[Path, list[Path]]) -> None:
    plan, other = (plan_of(*bank, WEIGHTS, density) for density in (1.0, 0.5))
    truth = figures(bank[0], plan, other, read_sample(plan).names)
    held = dict.fromkeys(("visible", "turned", "gone", "distance", "relative"), 0)
    for seed in range(40):
        found = compare(read_sample(plan, seed=seed, budget=60_000), plan, [other])[0].total
        for name in held:
            held[name] += found[name].low <= truth[name] <= found[name].high
    assert min(held.values()) >= 0.85 * 40, held


def test_intervals_of_what_knobs_reach_count_the_error_of_thresholds(bank: tuple[Path, list[Path]]) -> None:
    plan = plan_of(*bank, WEIGHTS, 0.3)
    truth = reach(read_sample(plan), plan, alike=[1, 2, 3, 4]).figures
    held = dict.fromkeys(truth, 0)
    for seed in range(40):
        found = reach(read_sample(plan, seed=seed, budget=60_000), plan, alike=[1, 2, 3, 4]).figures
        for name, figure in found.items():
            held[name] += figure.low <= truth[name].estimate <= figure.high
    assert min(held.values()) >= 0.88 * 40, held


def test_merged_values_are_those_of_the_merge(bank: tuple[Path, list[Path]]) -> None:
    plan = plan_of(*bank, WEIGHTS, 0.3)
    sample = read_sample(plan)
    values = merged_values(sample, plan).view(np.float32)
    expected = merged(bank[0], plan)
    for at, name in enumerate(sample.names):
        rows = values[sample.design.tensor == at].ravel()[: int(sample.design.elements[at])]
        np.testing.assert_array_equal(rows, expected[name])


def tiny(root: Path, deltas: list[list[float]], weights: list[float], density: float = 1.0, extra: str = "") -> Plan:
    base = np.ones(len(deltas[0]), np.float32)
    write_model(root / "base", {"w": base})
    members = [write_model(root / f"m{at}", {"w": base + np.array(one, np.float32)}) for at, one in enumerate(deltas)]
    return parse_plan(config(root / "base", members, weights, density, extra=extra), root)


BY_HAND = [
    # nobody, one alone, two alike, two unlike of one score, unlike of two scores, against each other
    [0, 0.5, 0.25, 0.5, 0.5, 0.5],
    [0, 0, 0.25, 0.25, 0, 0],
    [0, 0, 0, 0, 0.25, -0.25],
]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("", {"changed": 5, "weights": 3, "tau": 2, "normalize": 5, "trimmed": 0}),
        ("parameters: {normalize: false}\n", {"changed": 5, "weights": 5, "tau": 5, "normalize": 5, "trimmed": 0}),
    ],
)
def test_what_knobs_reach_by_hand(tmp_path: Path, extra: str, expected: dict[str, int]) -> None:
    plan = tiny(tmp_path, BY_HAND, [0.4, 0.4, 0.2], extra=extra)
    found = reach(read_sample(plan), plan, alike=[0.7, 0.7, 0.5])
    assert {name: round(6 * one.estimate) for name, one in found.figures.items()} == expected
    assert found.trims_below.estimate == pytest.approx(5 / 6)
    same = reach(read_sample(plan), plan, alike=[0.7, 0.7, 0.7])
    assert same.figures["tau"].estimate == 0


def test_a_density_that_keeps_all_changes_trims_nothing(tmp_path: Path) -> None:
    deltas = [[0.5, 0.25, 0, 0], [0, 0.5, 0.75, 0]]
    for density, trimmed in ((0.5, 0), (0.25, 1)):
        plan = tiny(tmp_path / str(density), deltas, [0.5, 0.5], density)
        found = reach(read_sample(plan), plan, alike=[1, 2])
        assert found.figures["trimmed"].estimate * 4 == trimmed
        assert found.trims_below.estimate == 0.5


def test_where_no_weight_is_reached_the_merge_stays_whatever_the_weights(tmp_path: Path) -> None:
    plan = tiny(tmp_path, [one[:3] for one in BY_HAND], [0.6, 0.3, 0.1])
    sample = read_sample(plan)
    assert reach(sample, plan, alike=[1, 2, 3]).figures["weights"].estimate == 0
    other = replace(plan, members=tuple(replace(one, weight=1 / 3) for one in plan.members))
    assert compare(sample, plan, [other])[0].total["relative"].estimate == pytest.approx(0, abs=1e-6)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.data())
def test_without_keeps_proportions(weights: list[float], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(weights) - 1))
    text = config(Path("/base"), [Path(f"/m{n}") for n in range(len(weights))], weights)
    for extra in ("", "parameters: {normalize: false}\n"):
        plan = parse_plan(text + extra, Path("/"))
        found = without(plan, at)
        rest = [one for place, one in enumerate(plan.members) if place != at]
        assert [one.path for one in found.members] == [one.path for one in rest]
        ratio = sum(weights) / sum(one.weight for one in rest) if extra else 1
        assert [one.weight for one in found.members] == pytest.approx([one.weight * ratio for one in rest])


def test_members_that_weigh_nothing_become_equal(tmp_path: Path) -> None:
    plan = tiny(tmp_path, BY_HAND, [1.0, 0.0, 0.0])
    assert [one.weight for one in without(plan, 0).members] == [0.5, 0.5]


def test_what_cannot_be_asked_is_refused(bank: tuple[Path, list[Path]], tmp_path: Path) -> None:
    alone = plan_of(bank[0], bank[1][:1], [1.0])
    sample = read_sample(alone)
    assert leave_one_out(sample, alone) == []
    with pytest.raises(InputError, match="only member"):
        without(alone, 0)
    with pytest.raises(InputError, match="is not among the models"):
        compare(sample, alone, [plan_of(*bank, WEIGHTS)])
    with pytest.raises(InputError, match="a value for each of 1 members"):
        reach(sample, alone, alike=[1, 2])
    with pytest.raises(InputError, match="for ties"):
        reach(sample, replace(alone, method="linear"), alike=[1])
    with pytest.raises(PlanError, match="whole models"):
        compare(sample, replace(alone, dialect="paper"), [alone])
