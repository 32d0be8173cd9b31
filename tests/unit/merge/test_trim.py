"""Exact-k selection against a full sort, ties and blocks included.

Run: .venv/bin/python -m pytest tests/unit/merge/test_trim.py
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.merge import kernels
from core.merge.blocks import Buffer
from core.merge.header import TensorInfo
from core.merge.trim import OneBlock, kept_count, select, threshold_of
from tests.unit.merge import reference


class Cut:
    """An in-memory source in blocks of any length."""

    kernels = kernels

    def __init__(self, arrays: list[np.ndarray], block: int) -> None:
        self.arrays, self.block = arrays, block

    def each(self, function):
        """Every block in order."""
        n = self.arrays[0].size
        for start in range(0, n, self.block):
            yield self.at(start, min(self.block, n - start), function)

    def at(self, start: int, n: int, function):
        """One block."""
        buffer = Buffer(len(self.arrays), n)
        for row, one in enumerate(self.arrays):
            buffer.raw32[row, :n] = one[start : start + n].view(np.uint32)
        return function(buffer, start, n)

    def sample(self, function):
        """The first part of every block: far from even, which costs time only."""
        n = self.arrays[0].size
        return [self.at(start, min(7, self.block, n - start), function) for start in range(0, n, self.block)]


def infos(arrays: list[np.ndarray]) -> list[TensorInfo]:
    return [TensorInfo("t", "F32", one.shape, Path("none"), 0, one.nbytes) for one in arrays]


def kept(arrays: list[np.ndarray], densities: list[float], block: int) -> list[np.ndarray]:
    """Deltas after trimming by thresholds and cutoffs."""
    found = select(infos(arrays), densities, Cut(arrays, block))
    result = []
    for index, member in enumerate(arrays[1:]):
        delta = member - arrays[0]
        bits = np.abs(delta).view(np.uint32)
        threshold, cutoff = found.thresholds[index], found.cutoffs[index]
        keep = (bits > threshold) | ((bits == threshold) & (np.arange(delta.size) < cutoff)) | (threshold == 0)
        result.append(np.where(keep, delta, np.float32(0)))
    return result


MAGNITUDES = st.sampled_from([0.0, 1.0, -1.0, 0.5, 0.50000006, 2.0, 1e-3, -1e-3, 1e-42, 3e38])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(MAGNITUDES, min_size=1, max_size=60),
    st.sampled_from([0.0, 0.01, 0.2, 0.29, 0.5, 0.9, 1.0]),
    st.integers(1, 70),
)
def test_the_k_largest_are_kept_and_ties_go_to_the_lowest_index(
    values: list[float], density: float, block: int
) -> None:
    member = np.array(values, np.float32)
    arrays = [np.zeros_like(member), member, -member[::-1].copy()]
    got = kept(arrays, [density, density], block)
    for delta, one in zip(arrays[1:], got, strict=True):
        expected = reference.keep_largest(delta, kept_count(density, delta.size))
        assert np.array_equal(one, expected)


def test_density_is_a_floor_as_in_mergekit() -> None:
    assert kept_count(0.29, 100) == 28  # 0.29 · 100 is 28.999…
    assert kept_count(0.2, 4) == 1
    assert kept_count(0.0, 4) == 0
    assert kept_count(1.0, 4) == 4
    assert kept_count(0.5, 0) == 0


def test_most_deltas_equal() -> None:
    member = np.full(10_000, 0.125, np.float32)
    member[7000] = 0.25
    (got,) = kept([np.zeros_like(member), member], [0.3], 999)
    assert np.flatnonzero(got).tolist() == [*range(2999), 7000]


def test_threshold_of_counts_from_the_top() -> None:
    counts = np.array([5, 0, 2, 3])
    assert threshold_of(counts, 3) == (3, 3)
    assert threshold_of(counts, 4) == (2, 1)
    assert threshold_of(counts, 10) == (0, 5)


@pytest.mark.parametrize("density", [0.2, 0.5])
def test_one_buffer_and_many_blocks_agree(density: float) -> None:
    rng = np.random.default_rng(3)
    arrays = [np.round(rng.standard_normal(5000).astype(np.float32), 2) for _ in range(4)]
    buffer = Buffer(4, 5000)
    for row, one in enumerate(arrays):
        buffer.raw32[row, :5000] = one.view(np.uint32)
    whole = select(infos(arrays), [density] * 3, OneBlock(buffer, 5000, kernels))
    cut = select(infos(arrays), [density] * 3, Cut(arrays, 1234))
    assert whole.thresholds.tolist() == cut.thresholds.tolist()
    assert whole.cutoffs.tolist() == cut.cutoffs.tolist()
