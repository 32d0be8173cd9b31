"""The compiled loops against values worked out by hand and against plain numpy.

Run: .venv/bin/python -m pytest tests/unit/merge/test_kernels.py
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.merge import kernels
from core.merge.blocks import SUB_BLOCK
from core.merge.engine import narrow
from tests.unit.merge import reference
from tests.unit.merge.models import from_bf16, to_bf16


def rows_of(arrays: list[np.ndarray]) -> kernels.Rows:
    """fp32 arrays as the kernels take them."""
    wide = np.stack([np.asarray(one, np.float32) for one in arrays]).view(np.uint32)
    return kernels.Rows(wide.view(np.uint16), wide, np.full(len(arrays), 2, np.int64), kernels.HALF_TO_FLOAT)


def merge(base, members, weights, *, method=kernels.TIES, divide_by=1.0, scale=1.0, thresholds=None, cutoffs=None):
    """merge_block on whole arrays: (fp32 result, figures)."""
    n, count = len(base), len(members)
    w = np.array(weights, np.float32)
    rule = kernels.Rule(method, w, np.float32(divide_by), np.float32(scale), bool((w < 0).any()))
    out, figures = np.empty(n, np.uint32), kernels.Figures.zeros(count, n)
    thresholds = np.zeros(count, np.uint32) if thresholds is None else thresholds
    cutoffs = np.zeros(count, np.int64) if cutoffs is None else cutoffs
    kernels.merge_block(rows_of([base, *members]), n, rule, thresholds, cutoffs, out, figures)
    return out.view(np.float32), figures


def test_ties_by_hand() -> None:
    # b = 1; weights 2 and 1. Deltas: (+1, +1) agree: (2+1)/(2+1) = 1. (+1, −1): 2−1 ≥ 0 elects +: 2/2 = 1.
    # (−1, +4): −2+4 elects +: 4/1 = 4. (0, −3): only the second: −3/1. (+1, −2): 2−2 = 0 elects +: 2/2 = 1. (0, 0): 0.
    base = np.ones(6, np.float32)
    first = base + np.array([1, 1, -1, 0, 1, 0], np.float32)
    second = base + np.array([1, -1, 4, -3, -2, 0], np.float32)
    merged, figures = merge(base, [first, second], [2, 1])
    assert merged.tolist() == [2, 2, 5, -2, 2, 1]
    assert figures.counts[: kernels.Count.CHANGED].tolist() == [1, 1, 4, 1, 3, 1, 0]
    assert figures.changed.tolist() == [4, 5]


def test_without_normalize_the_weighted_deltas_add_up_and_scale_multiplies() -> None:
    base = np.zeros(2, np.float32)
    merged, _ = merge(base, [[1, 1], [1, -1]], [0.5, 0.25], divide_by=0, scale=0.5)
    assert merged.tolist() == [0.375, 0.25]


def test_a_member_alone_keeps_its_delta_whatever_its_weight() -> None:
    merged, _ = merge(np.zeros(1, np.float32), [[0.0], [0.75]], [0.998, 0.002])
    assert merged[0] == pytest.approx(0.75, rel=1e-6)


def test_weights_of_opposite_sign_that_nearly_cancel_are_counted() -> None:
    # 0.5·1e-3 − 0.499·(−1e-3): both weighted deltas are positive, and 0.5 − 0.499 = 0.001 divides them.
    merged, figures = merge(np.zeros(2, np.float32), [[1e-3, 1], [-1e-3, 0]], [0.5, -0.499])
    assert merged[0] == pytest.approx(0.999, rel=1e-3)
    assert figures.counts[kernels.Count.SMALL_DIVISOR] == 1


VALUES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1e-3, -1e-3, 3.0, 1e-30, -2.5e-41, 65504.0, 1.0009765625])


@st.composite
def pools(draw):
    """base (n,), members, weights; values collide often, so that sums cancel and magnitudes tie."""
    n, count = draw(st.integers(1, 40)), draw(st.integers(1, 8))
    arrays = [np.array(draw(st.lists(VALUES, min_size=n, max_size=n)), np.float32) for _ in range(count + 1)]
    weights = draw(st.lists(st.sampled_from([1.0, 0.5, 0.456, 0.002, -0.3]), min_size=count, max_size=count))
    return arrays[0], arrays[1:], weights


@settings(max_examples=150, deadline=None)
@given(pools(), st.booleans(), st.sampled_from([1.0, 0.7]))
def test_ties_agrees_with_numpy_to_the_bit(pool, normalize: bool, scale: float) -> None:
    base, members, weights = pool
    merged, _ = merge(base, members, weights, divide_by=float(normalize), scale=scale)
    expected = reference.ties(base, members, weights, normalize=normalize, scale=scale)
    assert merged.view(np.uint32).tolist() == expected.view(np.uint32).tolist()


@settings(max_examples=60, deadline=None)
@given(pools())
def test_task_arithmetic_and_linear_agree_with_numpy_to_the_bit(pool) -> None:
    base, members, weights = pool
    merged, _ = merge(base, members, weights, method=kernels.TASK_ARITHMETIC, divide_by=0, scale=0.7)
    assert merged.tobytes() == reference.task_arithmetic(base, members, weights, 0.7).tobytes()
    total = np.float32(0)
    for one in weights:
        total = total + np.float32(one)
    merged, _ = merge(base, members, weights, method=kernels.LINEAR, divide_by=total)
    if total != 0:
        assert merged.tobytes() == reference.linear(members, weights, normalize=True).tobytes()


@settings(max_examples=60, deadline=None)
@given(pools())
def test_rounding_figures_agree_with_numpy(pool) -> None:
    base, members, weights = pool
    merged, figures = merge(base, members, weights)
    rounded, before = from_bf16(to_bf16(merged)), from_bf16(to_bf16(base))
    changed = merged != base
    assert figures.counts[kernels.Count.CHANGED] == changed.sum()
    assert figures.counts[kernels.Count.LOST] == (changed & (rounded == before)).sum()
    b, m, r, s = (one.astype(np.float64) for one in (base, merged, rounded, before))
    expected = [
        ((m - b) ** 2).sum(),
        ((r - m) ** 2).sum(),
        ((m - b) * (r - s)).sum(),
        ((r - s) ** 2).sum(),
        (b**2).sum(),
    ]
    assert np.allclose(figures.sums.sum(axis=0), expected, rtol=1e-12, atol=0)
    steps = np.floor(np.log2(reference.half_ulps(base, merged)[changed])).astype(int)
    bins = np.bincount(np.clip(steps - kernels.LOWEST_BIN, 0, kernels.BINS - 1), minlength=kernels.BINS)
    assert figures.bins.sum(axis=0)[:-1].tolist() == bins.tolist()


def test_the_histogram_is_in_half_ulps_of_the_base() -> None:
    # At b = 1 a bf16 ulp is 2^-7, half of it 2^-8: steps of 2^-8, just below it, 2^-7 and 2^-30.
    base = np.ones(4, np.float32)
    merged = base + np.array([2**-8, 2**-8 - 2**-20, 2**-7, 2**-23], np.float32)
    _, figures = merge(base, [merged], [1.0])
    bins = figures.bins.sum(axis=0)
    assert [int(bins[12 + at]) for at in (-2, -1, 0, 1)] == [0, 1, 1, 1]
    assert bins[0] == 1
    assert figures.counts[kernels.Count.LOST] == 3  # 1 + 2^-8 is a tie and goes to the even 1


def test_every_fp16_and_bf16_value_is_read_exactly() -> None:
    patterns = np.arange(65536, dtype=np.uint16)
    halves = patterns.view(np.float16)
    finite = patterns[np.isfinite(halves.astype(np.float32))]
    for code, values in ((1, finite.view(np.float16).astype(np.float32)), (0, from_bf16(finite))):
        raw = np.zeros((2, 4 * finite.size), np.uint8)
        raw.view(np.uint16)[1, : finite.size] = finite
        rows = kernels.Rows(raw.view(np.uint16), raw.view(np.uint32), np.array([2, code]), kernels.HALF_TO_FLOAT)
        out, figures = np.empty(finite.size, np.uint32), kernels.Figures.zeros(1, finite.size)
        rule = kernels.Rule(kernels.LINEAR, np.ones(1, np.float32), np.float32(0), np.float32(1), False)
        kernels.merge_block(rows, finite.size, rule, np.zeros(1, np.uint32), np.zeros(1, np.int64), out, figures)
        assert np.array_equal(out.view(np.float32), values)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 0xFFFFFFFF))
def test_narrowing_to_bf16_takes_the_nearest_and_of_two_the_even(bits: int) -> None:
    pattern = np.array([bits], np.uint32)
    value = float(pattern.view(np.float32)[0])
    if not np.isfinite(value):
        return
    got, overflowed = narrow(pattern, "BF16")
    below = bits >> 16
    candidates = [below, below + 1]
    distance = [abs(float(from_bf16(np.array([one], np.uint16))[0]) - value) for one in candidates]
    if not np.isfinite(distance[1]):
        distance[1] = abs(float.fromhex("0x1p128") - abs(value))
    best = below if (distance[0], below & 1) <= (distance[1], (below + 1) & 1) else below + 1
    assert int(got[0]) == best
    assert overflowed == ((best & 0x7F80) == 0x7F80)


def test_fp16_overflow_is_counted() -> None:
    got, overflowed = narrow(np.array([1.0, 1e6], np.float32).view(np.uint32), "F16")
    assert got.view(np.float16)[0] == 1
    assert overflowed == 1


def test_non_finite_inputs_are_counted_per_row() -> None:
    base = np.array([1, np.inf, 1], np.float32)
    _, figures = merge(base, [[np.nan, 1, -np.inf], [1, 1, 1]], [1, 1])
    assert figures.bad.tolist() == [1, 2, 0]


def test_sums_do_not_depend_on_where_blocks_are_cut() -> None:
    rng = np.random.default_rng(0)
    n = 2 * SUB_BLOCK + 700
    base = rng.standard_normal(n).astype(np.float32)
    member = base + rng.standard_normal(n).astype(np.float32) * np.float32(1e-3)
    _, whole = merge(base, [member], [1.0])
    parts = [merge(base[at : at + SUB_BLOCK], [member[at : at + SUB_BLOCK]], [1.0])[1] for at in range(0, n, SUB_BLOCK)]
    assert np.concatenate([one.sums for one in parts]).tobytes() == whole.sums.tobytes()
    assert np.array_equal(sum(one.bins for one in parts)[:, -1].sum(), whole.bins[:, -1].sum())


def test_influence_by_hand() -> None:
    # Weights 2 and 1, deltas (+1, +1): member 1 brings 2/3 of the merged 1, member 2 1/3; nothing flips.
    # (+1, −1): total +1 elects +; without member 1 it is −: one flip of member 1; all of the delta 1 is its own.
    # (0, −3): solo: all of 3 is member 2's, and nobody flips it. (−1, +4): total +2; without member 2 it is −.
    base = np.ones(4, np.float32)
    first = base + np.array([1, 1, 0, -1], np.float32)
    second = base + np.array([1, -1, -3, 4], np.float32)
    _, figures = merge(base, [first, second], [2, 1])
    assert figures.flips.tolist() == [1, 1]
    shares = figures.shares.sum(axis=0)
    assert shares[:, 0] == pytest.approx([2 / 3 + 1, 1 / 3 + 3 + 4], rel=1e-6)
    assert shares[:, 1] == pytest.approx([0, 3], rel=1e-6)


@settings(max_examples=150, deadline=None)
@given(pools())
def test_influence_agrees_with_leaving_each_member_out(pool) -> None:
    base, members, weights = pool
    _, figures = merge(base, members, weights)
    flips, parts, solo = reference.influence(base, members, weights)
    assert figures.flips.tolist() == flips
    shares = figures.shares.sum(axis=0)
    assert np.allclose(shares[:, 0], parts, rtol=1e-5)
    assert np.allclose(shares[:, 1], solo, rtol=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 16))
def test_votes_that_nearly_cancel_flip_as_the_engine_would_sum_them(seed: int, count: int) -> None:
    # Sums within their own rounding error of zero: what a bound cannot decide must be summed again, in order.
    rng = np.random.default_rng(seed)
    base = np.zeros(600, np.float32)
    members = [rng.choice([1, -1, 1 + 2**-23, 2**-24, -(2**-25), 0], 600).astype(np.float32) for _ in range(count)]
    weights = rng.choice([1.0, 0.1, 0.3], count).tolist()
    _, figures = merge(base, members, weights)
    assert figures.flips.tolist() == reference.influence(base, members, weights)[0]
