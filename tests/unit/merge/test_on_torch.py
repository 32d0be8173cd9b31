"""The block operations in torch against the compiled ones: equal bytes, and equal figures to the last bit.

Run: .venv/bin/python -m pytest tests/unit/merge/test_on_torch.py (with a GPU, each case runs on it too)
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.merge import kernels
from core.merge.kernels import Count, Figures, Rows, Rule
from core.merge.kernels.bits import BF16, F16, F32
from core.merge.kernels.layout import CHUNK, LANES, SUB_BLOCK
from core.merge.on_torch import DeviceLost, describe, load_kernels
from core.merge.on_torch.check import check
from core.merge.on_torch.kernels import TorchKernels
from core.merge.on_torch.lanes import Lane
from core.merge.on_torch.slices import Slices

ONE_SUB_BLOCK = 1
"""A memory so small that every slice is one sub-block."""
CUDA = pytest.param(
    "cuda:0", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch can use")
)
METHODS = (kernels.TIES, kernels.TASK_ARITHMETIC, kernels.LINEAR)
SIZES = (1, 63, 64, 65, 511, 512, 513, 65535, 65536, 65537, 200_000)


@pytest.fixture(scope="module", params=["cpu", CUDA])
def device(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def on_device(device: str) -> TorchKernels:
    return TorchKernels(device)


@pytest.fixture(scope="module")
def sliced(device: str) -> TorchKernels:
    return TorchKernels(device, memory=ONE_SUB_BLOCK)


def as_rows(arrays: list[np.ndarray], codes: list[int]) -> Rows:
    """fp32 arrays as raw rows, each rounded to the dtype of its code."""
    raw = np.zeros((len(arrays), 4 * arrays[0].size), np.uint8)
    rows = Rows(raw.view(np.uint16), raw.view(np.uint32), np.array(codes, np.int64), kernels.HALF_TO_FLOAT)
    for row, (values, code) in enumerate(zip(arrays, codes, strict=True)):
        if code == F32:
            rows.raw32[row] = values.view(np.uint32)
        elif code == BF16:
            rows.raw16[row, : values.size] = values.view(np.uint32) >> 16
        else:
            rows.raw16[row, : values.size] = values.astype(np.float16).view(np.uint16)
    return rows


def random_rows(n: int, members: int, seed: int) -> Rows:
    """A base and members in all dtypes: noise, equal steps that tie and cancel, subnormals, and values left alone."""
    random = np.random.default_rng(seed)
    base = random.standard_normal(n).astype(np.float32)
    base[random.random(n) < 0.1] = 0
    base[random.random(n) < 0.1] *= np.float32(1e-39)
    base = (base.view(np.uint32) & 0xFFFF0000).view(np.float32)  # so that a bf16 row can equal it
    arrays = [base]
    for _ in range(members):
        noise = random.standard_normal(n) * 10.0 ** random.integers(-5, 0, n) * (random.random(n) < 0.5)
        step = random.choice([0, 0, 2.0**-9, -(2.0**-9), 2.0**-4, 1e-40], n)
        arrays.append(np.where(random.random(n) < 0.5, base + noise, base + step).astype(np.float32))
    codes = random.choice([BF16, F16, F32], members + 1).tolist()
    return as_rows(arrays, codes)


def rule_of(method: int, weights: list[float], **options) -> Rule:
    w = np.array(weights, np.float32)
    divide_by, scale = options.pop("divide_by", 1.0), options.pop("scale", 1.0)
    return Rule(method, w, np.float32(divide_by), np.float32(scale), bool((w < 0).any()), **options)


def no_trim(members: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(members, np.uint32), np.zeros(members, np.int64)


def merged(one, rows: Rows, n: int, rule: Rule, trim=None) -> tuple[np.ndarray, Figures]:
    members = rule.weights.size
    out, figures = np.full(n, 0x7FC00000, np.uint32), Figures.zeros(members, n)
    one.merge_block(rows, n, rule, *(trim or no_trim(members)), out, figures)
    return out, figures


def compare(one, rows: Rows, n: int, rule: Rule, trim=None) -> Figures:
    """Merge both ways; every array must have the same bytes. Gives the figures."""
    out, figures = merged(kernels, rows, n, rule, trim)
    other, found = merged(one, rows, n, rule, trim)
    assert np.flatnonzero(out != other).tolist() == []
    for name, expected, value in zip(Figures._fields, figures, found, strict=True):
        assert value.tobytes() == expected.tobytes(), (name, expected, value)
    return figures


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", SIZES)
def test_around_every_edge_the_result_and_all_figures_are_equal(on_device, sliced, n: int, method: int) -> None:
    rows = random_rows(n, 4, n + method)
    rule = rule_of(method, [0.456, 0.3, 0.2, 0.044], scale=0.7)
    for one in (on_device, sliced):
        figures = compare(one, rows, n, rule)
    if n > CHUNK:
        assert 0 < figures.counts[Count.LOST] < figures.counts[Count.CHANGED]
        assert figures.shares[0].all()
        assert method != kernels.TIES or (figures.flips.any() and figures.counts[Count.CONTESTED] > 0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("divide_by", [0.0, 1.0, 0.3])
@pytest.mark.parametrize("options", [{}, {"scale": -1.3}, {"zero_plus": False}, {"figures": False}])
def test_every_option_gives_the_same(on_device, method: int, divide_by: float, options: dict) -> None:
    rows = random_rows(3000, 5, 7)
    compare(on_device, rows, 3000, rule_of(method, [0.2, 0.2, -0.199, 0.5, 0.1], divide_by=divide_by, **options))


def test_small_divisors_and_zero_sums_are_met_and_equal(on_device) -> None:
    n = 3000
    base, up, down = np.ones(n, np.float32), np.full(n, 1.5, np.float32), np.full(n, 0.5, np.float32)
    rows = as_rows([base, up, down, up], [F32, BF16, F16, F32])
    assert compare(on_device, rows, n, rule_of(kernels.TIES, [1, 1, 0])).counts[Count.ZERO_SUM] == n
    figures = compare(on_device, rows, n, rule_of(kernels.TIES, [0.5, -0.499, 0]))
    assert figures.counts[Count.SMALL_DIVISOR] == n


@pytest.mark.parametrize("zero_plus", [True, False])
def test_a_sign_that_hangs_on_rounding_flips_alike(on_device, zero_plus: bool) -> None:
    # Deltas that cancel up to the last bits of their sum: without a member the rest is near zero, or zero.
    random = np.random.default_rng(3)
    n = 4096
    base = np.zeros(n, np.float32)
    first, second, third = (random.standard_normal(n).astype(np.float32) for _ in range(3))
    arrays = [base, first, second, third, -(first + second), -(second + third), -first]
    rows = as_rows(arrays, [F32] * len(arrays))
    figures = compare(on_device, rows, n, rule_of(kernels.TIES, [1.0] * 6, zero_plus=zero_plus))
    assert figures.flips.all()


@pytest.mark.parametrize("cutoff", [-5, 0, 1, 511, 512, 65535, 65536, 65600, 69_999, 70_000, 80_000])
def test_ties_at_the_threshold_are_cut_at_the_same_place(on_device, sliced, cutoff: int) -> None:
    n = 70_000
    random = np.random.default_rng(cutoff + 9)
    steps = random.choice([0, 2.0**-9, 2.0**-8, -(2.0**-8), 2.0**-7, 1e-40], (2, n)).astype(np.float32)
    rows = as_rows([np.zeros(n, np.float32), *steps], [F32, F32, BF16])
    at = np.array([2.0**-8, 1e-40], np.float32).view(np.uint32)
    trim = at, np.array([cutoff, n - cutoff])
    for one in (on_device, sliced):
        figures = compare(one, rows, n, rule_of(kernels.TIES, [0.6, 0.4]), trim)
        assert figures.trimmed[0] > 0
    nothing = np.full(2, 0x7F800000, np.uint32), np.zeros(2, np.int64)
    assert compare(on_device, rows, n, rule_of(kernels.TIES, [0.6, 0.4]), nothing).counts[Count.CHANGED] == 0


VALUES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.5, 1e-3, -1e-3, 3.0, 1e-30, -2.5e-41, 1.4e-45, 65504.0, 1.0009765625, 3e38, -3e38]
)


@st.composite
def cases(draw):
    """Rows, elements, a rule and a trim; values collide often, and some sums overflow."""
    n, members = draw(st.integers(1, 140)), draw(st.integers(1, 7))
    values = st.lists(VALUES | st.floats(-4, 4, width=32), min_size=n, max_size=n)
    arrays = [np.array(draw(values), np.float32) for _ in range(members + 1)]
    codes = draw(st.lists(st.sampled_from([BF16, F32]), min_size=members + 1, max_size=members + 1))
    weights = st.sampled_from([1.0, 0.5, 0.456, 0.002, -0.3, 0.0])
    rule = rule_of(
        draw(st.sampled_from(METHODS)),
        draw(st.lists(weights, min_size=members, max_size=members)),
        divide_by=draw(st.sampled_from([0.0, 1.0, -0.7])),
        scale=draw(st.sampled_from([1.0, 0.7, -2.0])),
        zero_plus=draw(st.booleans()),
        figures=draw(st.booleans()),
    )
    limit = VALUES.map(lambda value: np.abs(np.float32(value)).view(np.uint32))
    thresholds = np.array(draw(st.lists(limit, min_size=members, max_size=members)), np.uint32)
    cutoffs = np.array(draw(st.lists(st.integers(-2, n + 2), min_size=members, max_size=members)), np.int64)
    return as_rows(arrays, codes), n, rule, (thresholds, cutoffs)


@settings(max_examples=200, deadline=None)
@given(cases())
def test_whatever_is_merged_the_results_are_equal(on_device, case) -> None:
    rows, n, rule, trim = case
    out, figures = merged(kernels, rows, n, rule, trim)
    if figures.counts[Count.OVERFLOW] == 0:
        compare(on_device, rows, n, rule, trim)
        return
    other, found = merged(on_device, rows, n, rule, trim)
    assert np.array_equal(out.view(np.float32), other.view(np.float32), equal_nan=True)
    assert found.counts[Count.OVERFLOW] == figures.counts[Count.OVERFLOW]


@pytest.mark.parametrize("code", [BF16, F16, F32])
def test_every_pattern_is_widened_alike_and_what_is_not_finite_is_counted(on_device, code: int) -> None:
    n = 65536
    patterns = np.random.default_rng(0).permutation(n).astype(np.uint32)
    raw = np.zeros((2, 4 * n), np.uint8)
    rows = Rows(raw.view(np.uint16), raw.view(np.uint32), np.array([F32, code]), kernels.HALF_TO_FLOAT)
    if code == F32:
        rows.raw32[1] = patterns << 16 | 0x1234
    else:
        rows.raw16[1, :n] = patterns
    rule = rule_of(kernels.LINEAR, [1.0], divide_by=0, figures=False)
    out, figures = merged(kernels, rows, n, rule)
    other, found = merged(on_device, rows, n, rule)
    assert np.array_equal(out.view(np.float32), other.view(np.float32), equal_nan=True)
    assert found.bad[1] == figures.bad[1] == (2048 if code == F16 else 256)
    assert found.bad[0] == 0
    assert found.counts[Count.OVERFLOW] == figures.counts[Count.OVERFLOW]


def test_bad_values_are_counted_in_each_row(on_device) -> None:
    base = np.array([1, np.inf, 1, np.nan], np.float32)
    first, second = np.array([np.nan, 1, -np.inf, np.inf], np.float32), np.ones(4, np.float32)
    rows = as_rows([base, first, second], [F32, F32, BF16])
    _, found = merged(on_device, rows, 4, rule_of(kernels.TIES, [1, 1]))
    assert found.bad.tolist() == [2, 3, 0]


def test_figures_are_added_to_what_was_there(on_device) -> None:
    rows, rule = random_rows(700, 3, 1), rule_of(kernels.TIES, [1, 1, 1])
    figures = Figures.zeros(3, 700)
    for _ in range(2):
        on_device.merge_block(rows, 700, rule, *no_trim(3), np.empty(700, np.uint32), figures)
    _, once = merged(kernels, rows, 700, rule)
    assert all(np.array_equal(two, 2 * one) for one, two in zip(once[:6], figures[:6], strict=True))
    assert figures.sums.tobytes() == once.sums.tobytes()


def both(on_device: TorchKernels, work: Callable) -> None:
    """Give an operation to the compiled kernels and to the device; what it gives must be equal."""
    expected, found = work(kernels), work(on_device)
    for one, two in zip(expected, found, strict=True):
        assert np.array_equal(one, two)


def count_high(which, rows: Rows, n: int) -> np.ndarray:
    counts = np.ones((3, 1 << kernels.HIGH_BITS), np.int64)
    which.count_high(rows, n, counts)
    return counts


@pytest.mark.parametrize("n", [1, 63, 513, 65536, 70_001])
def test_histograms_of_magnitudes_are_equal(on_device, sliced, n: int) -> None:
    rows = random_rows(n, 3, n)
    for one in (on_device, sliced):
        both(one, lambda which: (count_high(which, rows, n),))
        most = [int(row.argmax()) for row in count_high(kernels, rows, n)]
        high = np.array([most[0], -1, most[2]])

        def count_low(which, high=high):
            counts = np.ones((3, (1 << kernels.LOW_BITS) + kernels.SPARES), np.int64)
            which.count_low(rows, n, high, counts)
            return (counts,)

        both(one, count_low)


@pytest.mark.parametrize("room", [0, 7, 1000, 70_001])
@pytest.mark.parametrize("n", [1, 64, 513, 70_001])
def test_windows_count_and_collect_alike(on_device, sliced, n: int, room: int) -> None:
    rows = random_rows(n, 4, n + room)
    low = np.array([1e-3, 2.0**-9, 0.0, 0.01], np.float32).view(np.uint32)
    high = np.array([0.1, 2.0**-9, 3e38, 1.0], np.float32).view(np.uint32)
    wanted = np.array([True, True, True, False])

    def count(which):
        counts, found = np.zeros((4, 4), np.int64), np.zeros((4, room), np.uint32)
        for _ in range(2):
            which.count_window(rows, n, wanted, low, high, counts, found)
        return counts, found

    for one in (on_device, sliced):
        both(one, count)


def test_ties_are_found_at_the_same_place(on_device, sliced) -> None:
    n = 140_000
    places = np.sort(np.random.default_rng(1).choice(n, 300, replace=False))
    member = np.zeros(n, np.float32)
    member[places] = -(2.0**-8)
    rows = as_rows([np.zeros(n, np.float32), np.ones(n, np.float32), member], [F32, F32, BF16])
    bits = np.float32(2.0**-8).view(np.uint32)
    for one in (on_device, sliced):
        for wanted in (1, 2, 150, 300):
            assert one.find_tie(rows, n, 1, bits, wanted) == (places[wanted - 1] + 1, 0)
            assert kernels.find_tie(rows, n, 1, bits, wanted) == (places[wanted - 1] + 1, 0)
        for wanted in (301, 1 << 62):
            assert one.find_tie(rows, n, 1, bits, wanted) == kernels.find_tie(rows, n, 1, bits, wanted)


def test_samples_and_bf16_are_equal(on_device) -> None:
    rows = random_rows(999, 2, 5)

    def look(which):
        found = np.empty((2, 143), np.uint32)
        which.sample_magnitudes(rows, 7, found)
        return (found,)

    def narrow(which):
        bits, out = rows.raw32[0].copy() & 0x7F7FFFFF, np.empty(999, np.uint16)
        return which.narrow_bf16(bits, 999, out), out

    both(on_device, look)
    both(on_device, narrow)


def test_many_threads_may_use_one_device(sliced) -> None:
    n, rule = 150_000, rule_of(kernels.TIES, [0.5, 0.3, 0.2])
    blocks = [random_rows(n, 3, seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda rows: merged(sliced, rows, n, rule), blocks))
    for rows, (out, figures) in zip(blocks, found, strict=True):
        expected, counted = merged(kernels, rows, n, rule)
        assert out.tobytes() == expected.tobytes()
        assert all(one.tobytes() == two.tobytes() for one, two in zip(counted, figures, strict=True))


def test_a_full_device_gets_smaller_slices_and_every_element_is_worked_on_once() -> None:
    slices, sizes, done = Slices(torch.device("cpu"), 8 * SUB_BLOCK * 100), [], np.zeros(10 * SUB_BLOCK + 5, np.int64)

    def work(_lane: Lane, start: int, size: int) -> bool:
        sizes.append(size)
        if size > 3 * SUB_BLOCK:
            raise torch.OutOfMemoryError("full")
        done[start : start + size] += 1
        return False

    slices.for_each(done.size, 100, 1, work)
    assert sizes[:3] == [8 * SUB_BLOCK, 4 * SUB_BLOCK, 2 * SUB_BLOCK]
    assert all(size == 2 * SUB_BLOCK for size in sizes[2:-1])
    assert (done == 1).all()


def test_a_device_too_full_for_one_sub_block_is_lost_and_says_so() -> None:
    def work(_lane: Lane, _start: int, _size: int) -> bool:
        raise torch.OutOfMemoryError("full")

    with pytest.raises(DeviceLost, match=r"is full: 65,536 elements of every model, about 6 MiB, do not fit"):
        Slices(torch.device("cpu")).for_each(5 * SUB_BLOCK, 100, 1, work)


def test_a_device_that_cannot_be_opened_is_lost_in_one_line() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(DeviceLost) as problem:
        load_kernels("cuda:0")
    assert "cuda:0 cannot be used" in str(problem.value)
    assert "\n" not in str(problem.value)


class OneBitOff:
    """A device whose arithmetic is wrong in one bit of one element."""

    def merge_block(self, *arguments) -> None:
        kernels.merge_block(*arguments)
        arguments[5][-1] ^= 1


def test_a_device_that_computes_other_bits_is_refused(on_device) -> None:
    check(on_device)
    with pytest.raises(DeviceLost, match="differs from the CPU's"):
        check(OneBitOff())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch can use")
def test_a_gpu_passes_its_check_and_works_from_page_locked_memory() -> None:
    one = load_kernels("cuda:0")
    assert "cuda:0" in describe("cuda:0")
    n = 3 * SUB_BLOCK + LANES + 1
    rows = random_rows(n, 4, 11)
    locked = torch.empty(rows.raw32.nbytes, dtype=torch.uint8, pin_memory=True).numpy().reshape(5, -1)
    locked[:] = rows.raw32.view(np.uint8)
    pinned = Rows(locked.view(np.uint16), locked.view(np.uint32), rows.codes, rows.table)
    compare(one, pinned, n, rule_of(kernels.TIES, [0.4, 0.3, 0.2, 0.1]))
