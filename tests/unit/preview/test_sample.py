"""The preview against exact runs: figures of whole reads, coverage of intervals, knobs that move without a read.

Run: .venv/bin/python -m pytest tests/unit/preview/test_sample.py
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from core.errors import CheckpointError, InputError, PlanError
from core.merge import parse_plan, run_merge
from core.preview.estimate import estimate_plan
from core.preview.result import EACH_MEMBER, FIGURES, Preview
from core.preview.sample import Sample, read_sample
from core.preview.source import LocalSource, Request
from tests.unit.preview.coverage import bounds, coverage
from tests.unit.preview.large import write_large
from tests.unit.preview.pool import Truth, config, plan_of, write_bank, write_model

WEIGHTS = [0.4, 0.3, 0.2, 0.1]
LEAST, SEEDS = 0.93, range(240)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """bf16, most elements moved by few distinct steps: at density 0.5 and 0.2 masses of deltas tie."""
    return write_bank(tmp_path_factory.mktemp("bank"), 4, sparse=1.4)


def flat(preview: Preview) -> list[float]:
    every = [*preview.figures.values(), *preview.of_members.values(), preview.cosines]
    return [float(one) for both in every for bound in (*both.tensors, *both.total) for one in np.ravel(bound)]


@pytest.mark.parametrize(
    ("density", "method", "extra"),
    [
        (1.0, "ties", ""),
        (0.2, "ties", "parameters: {lambda: 0.6}\n"),
        (0.5, "ties", "parameters: {normalize: false}\n"),
        (1.0, "task_arithmetic", "parameters: {lambda: 0.5}\n"),
        (1.0, "linear", "parameters: {weight: 0.2}\n"),
    ],
)
def test_a_whole_read_gives_the_exact_figures(
    bank: tuple[Path, list[Path]], density: float, method: str, extra: str
) -> None:
    plan = plan_of(*bank, WEIGHTS, density, method=method, extra=extra)
    truth = Truth(bank[0], [one.path for one in plan.members], plan)
    found = estimate_plan(read_sample(plan), plan)
    assert found.exact and {one.kind for one in found.total.values()} == {"exact"}
    for tensor in (None, *range(len(found.names))):
        real = truth.figures(None if tensor is None else found.names[tensor])
        for name, (estimate, low, high) in bounds(found, tensor).items():
            np.testing.assert_allclose(estimate, np.atleast_1d(real[name]), rtol=1e-6, atol=1e-12, err_msg=name)
            np.testing.assert_array_equal(low, estimate)
            np.testing.assert_array_equal(high, estimate)


def test_a_whole_read_agrees_with_the_merge_itself(bank: tuple[Path, list[Path]], tmp_path: Path) -> None:
    plan = plan_of(*bank, WEIGHTS, 0.2, extra="parameters: {lambda: 0.3}\n")
    preview = estimate_plan(read_sample(plan), plan)
    found = preview.total
    merged = run_merge(plan, tmp_path / "out").as_dict()
    elements = merged["elements"]
    assert found["rounding_loss"].estimate == pytest.approx(merged["rounding"]["lost_fraction"], rel=1e-12)
    assert found["changed"].estimate == pytest.approx(merged["rounding"]["changed"] / elements, rel=1e-12)
    assert found["merged_norm"].estimate == pytest.approx(merged["rounding"]["merged_norm"], rel=1e-12)
    for name, counted in (("contested", "contested"), ("unanimous", "unanimous"), ("solo", "members_changed_1")):
        assert found[name].estimate == pytest.approx(merged["election"][counted] / elements, rel=1e-12)
    for member in range(len(plan.members)):
        mine = preview.member(member)
        for name in ("share", "solo_share"):
            assert mine[name].estimate == pytest.approx(merged["election"][f"member_{name}"][member], rel=1e-9)
        assert mine["flips"].estimate == merged["election"]["member_flips"][member] / elements


def test_figures_by_hand(tmp_path: Path) -> None:
    values = {"base": [0, 0, 0, 0], "one": [1, 1, -1, 0], "two": [1, -1, 0, 0]}
    paths = [write_model(tmp_path / name, {"w": np.array(row, np.float32)}) for name, row in values.items()]
    plan = plan_of(paths[0], paths[1:], [0.5, 0.5])
    found = estimate_plan(read_sample(plan), plan)
    # Votes: both alike; one against the other, to zero, which elects +; the first alone; nobody.
    shares = {"changed": 0.75, "solo": 0.25, "unanimous": 0.25, "contested": 0.25, "zero_sum": 0.25}
    expected = shares | {"rounding_loss": 0.0, "merged_norm": math.sqrt(3)}
    assert {name: one.estimate for name, one in found.total.items()} == pytest.approx(expected)
    # Merged 1, 1, −1: halves of the first are both members', the other two the first's; alone it is on the third.
    first = {"changed": 0.75, "share": 2.5 / 3, "solo_share": 1 / 2.5, "flips": 0.25}
    assert {name: one.estimate for name, one in found.member(0).items()} == pytest.approx(first)
    assert found.member(1)["flips"].estimate == 0
    assert found.pair(0).estimate == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("density", "method", "scale"), [(1.0, "task_arithmetic", 0.4), (0.5, "ties", 0.45), (0.2, "ties", 0.45)]
)
def test_intervals_hold_the_truth(bank: tuple[Path, list[Path]], density: float, method: str, scale: float) -> None:
    plan = plan_of(*bank, WEIGHTS, density, method=method, extra=f"parameters: {{lambda: {scale}}}\n")
    found = coverage(plan, Truth(*bank, plan), SEEDS, budget=130_000, block=64)
    short = {}
    for figure in {name for _, name in found}:
        tensors = np.array([one for (tensor, name), one in found.items() if name == figure and tensor != "total"])
        # Over members or pairs, and over tensors: one of them alone has a standard error of 1.4 %.
        for what, share in (("total", found["total", figure].mean()), ("tensors", tensors.mean())):
            if share < LEAST:
                short[figure, what] = share
        assert min(found["total", figure].min(), tensors.min()) >= 0.88, figure
    assert not short


def test_intervals_of_shares_stay_in_bounds_and_never_collapse(bank: tuple[Path, list[Path]]) -> None:
    plan = plan_of(*bank, WEIGHTS, 0.2)
    found = estimate_plan(read_sample(plan, budget=40_000, block=64), plan)
    assert {name for name, exact in zip(found.names, found.design.exact, strict=True) if exact} == {"norm.weight"}
    shares = [both for name, both in found.figures.items() if name != "merged_norm"]
    for both in (*shares, *found.of_members.values()):
        sampled = [one[~found.design.exact] for one in both.tensors]
        for estimate, low, high in (sampled, both.total):
            assert (low >= 0).all() and (high <= 1).all() and (low < high).all()
            assert (low <= estimate).all() and (estimate <= high).all()
    assert found.total["rounding_loss"].estimate == 0 < found.total["rounding_loss"].high


def test_moved_knobs_read_nothing_and_equal_a_fresh_preview(bank: tuple[Path, list[Path]]) -> None:
    base, members = bank
    source = LocalSource()
    sample = read_sample(plan_of(base, members[:1], [1.0]), also=members, source=source, seed=3)
    read = source.bytes_read
    assert read == sample.bytes_read
    picks, weights, densities = [2, 0], [0.7, 0.3], [0.5, 0.3]
    moved = sample.estimate(weights, densities, scale=0.6, members=picks)
    assert source.bytes_read == read
    plan = plan_of(base, [members[2], members[0]], weights, extra="parameters: {lambda: 0.6}\n")
    plan = replace(plan, members=tuple(replace(one, density=d) for one, d in zip(plan.members, densities, strict=True)))
    assert flat(moved) == flat(estimate_plan(read_sample(plan), plan))
    again = sample.estimate(weights, densities, scale=0.3, members=picks)
    assert again.total["merged_norm"].estimate == pytest.approx(moved.total["merged_norm"].estimate / 2, rel=1e-3)


def test_a_seed_repeats_and_another_reads_elsewhere(bank: tuple[Path, list[Path]]) -> None:
    plan = plan_of(*bank, WEIGHTS, 0.5)

    def figures(seed: int) -> list[float]:
        return flat(estimate_plan(read_sample(plan, seed=seed, budget=50_000), plan))

    assert figures(1) == figures(1) != figures(2)


@pytest.mark.parametrize("budget", [30_000, 100_000, 250_000, 10_000_000])
def test_the_budget_is_kept_and_used(bank: tuple[Path, list[Path]], budget: int) -> None:
    sample = read_sample(plan_of(*bank, WEIGHTS), budget=budget)
    assert sample.bytes_read <= budget
    assert sample.bytes_read >= min(0.75 * budget, 5 * 2 * int(sample.design.elements.sum()))
    assert (sample.design.taken[~sample.design.exact] >= 4).all()


def test_models_of_8b_are_read_in_small_parts(tmp_path: Path) -> None:
    base, members = write_large(tmp_path, 11)
    plan = plan_of(base, members, [1 / 11] * 11, 0.2)
    sample = read_sample(plan)
    found = estimate_plan(sample, plan)
    assert len(found.names) == 399 and int(found.design.elements.sum()) == 8_190_735_360
    assert 50e6 < found.bytes_read <= 64e6
    assert found.design.taken[~found.design.exact].min() >= 8
    # The files are holes: nothing moved where it was read, and nobody can say how far the rest did.
    changed, norm = found.total["changed"], found.total["merged_norm"]
    assert (changed.estimate, changed.low) == (0, 0) and 0 < changed.high < 0.01
    assert (norm.estimate, norm.low, norm.as_dict()["high"]) == (0, 0, None)
    assert found.pair(0).as_dict() == {"estimate": None, "low": -1, "high": 1, "kind": "sampled"}


@pytest.mark.parametrize("dtype", ["F16", "F32", "F64"])
def test_every_float_dtype_is_read(tmp_path: Path, dtype: str) -> None:
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    kind = {"F16": np.float16, "F32": np.float32, "F64": np.float64}[dtype]
    for name, step in (("base", 0.0), ("one", 0.5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        moved = (rng.random(3000) < 0.4) * step
        save_file({"w": moved.astype(kind)}, tmp_path / name / "model.safetensors")
    plan = plan_of(tmp_path / "base", [tmp_path / "one"], [1.0])
    norm = estimate_plan(read_sample(plan, budget=10**9), plan).total["merged_norm"].estimate
    assert norm == pytest.approx(0.5 * math.sqrt(np.count_nonzero(moved)))


def test_equal_members_have_an_interval_below_one(bank: tuple[Path, list[Path]], tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    twin.symlink_to(bank[1][0])
    plan = plan_of(bank[0], [bank[1][0], twin], [0.5, 0.5])
    found = estimate_plan(read_sample(plan, budget=30_000), plan).pair(0)
    assert found.estimate == pytest.approx(1) and 0.8 < found.low < 1


def test_what_cannot_be_previewed_is_said(bank: tuple[Path, list[Path]], tmp_path: Path) -> None:
    base, members = bank
    text = config(base, members, WEIGHTS).replace("merge_method: ties", "merge_method: dare_ties")
    with pytest.raises(PlanError, match=r"dare_ties.*mergekit itself.*cannot be previewed"):
        read_sample(parse_plan(text, tmp_path))
    plan = plan_of(base, members, WEIGHTS)
    with pytest.raises(InputError, match=r"budget of 1,000 bytes is too small.*at least"):
        read_sample(plan, budget=1000)
    sample = read_sample(plan, budget=50_000)
    wrong: Sequence[tuple[Sequence[float], dict[str, object]]] = (
        ([1.0], {}), (WEIGHTS, {"densities": [2.0] * 4}), (WEIGHTS, {"members": [0, 1, 2, 9]}),
        (WEIGHTS, {"method": "dare_ties"}), ([math.nan] * 4, {}), (WEIGHTS, {"scale": math.inf}),
    )  # fmt: skip
    for weights, more in wrong:
        with pytest.raises(InputError):
            sample.estimate(weights, **more)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="dialect paper"):
        estimate_plan(sample, replace(plan, dialect="paper"))
    with pytest.raises(InputError, match="not among the models"):
        estimate_plan(sample, plan_of(base, [tmp_path], [1.0]))


def test_nan_in_what_is_read_is_refused(tmp_path: Path) -> None:
    values = np.ones(100, np.float32)
    base = write_model(tmp_path / "base", {"w": values})
    values[7] = math.nan
    bad = write_model(tmp_path / "bad", {"w": values})
    plan = plan_of(base, [bad], [1.0])
    with pytest.raises(CheckpointError, match=r"bad: tensor w has values that are NaN or infinite, 1 of those"):
        estimate_plan(read_sample(plan), plan)


def test_another_source_is_asked_for_all_at_once(bank: tuple[Path, list[Path]]) -> None:
    class Counting(LocalSource):
        asked: list[int] = []  # noqa: RUF012

        def fetch(self, requests: Sequence[Request]) -> None:
            self.asked.append(len(requests))
            super().fetch(requests)

    source = Counting()
    sample: Sample = read_sample(plan_of(*bank, WEIGHTS), budget=50_000, source=source)
    assert source.asked == [5 * sample.design.numbers.size]


def test_json_has_every_figure(bank: tuple[Path, list[Path]]) -> None:
    plan = plan_of(*bank, WEIGHTS)
    found = estimate_plan(read_sample(plan, budget=50_000), plan).as_dict(full=True)
    assert set(FIGURES) == set(found["total"]) and len(found["tensors"]) == 5
    assert len(found["members"]) == 4 and len(found["cosines"]) == 6
    assert set(EACH_MEMBER) | {"path"} == set(found["members"][0])
    one = found["tensors"][0]
    assert len(one["members"]) == 4 and len(one["cosines"]) == 6
    assert set(one["changed"]) == {"estimate", "low", "high", "kind"}
