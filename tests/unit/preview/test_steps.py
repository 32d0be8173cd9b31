"""The steps against the compiled kernel, bit for bit, for whatever values, weights and thresholds.

Run: .venv/bin/python -m pytest tests/unit/preview/test_steps.py
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from core.merge import kernels
from core.merge.blocks import Buffer
from core.preview.steps import bf16, kept_of, take_steps
from tests.unit.merge.models import from_bf16, to_bf16

MEMBERS, N = 3, 5
VALUES = st.one_of(st.sampled_from([0.0, 1.0, 1.25, -1.0, 0.75]), st.floats(-4, 4, width=32))
WEIGHTS = st.sampled_from([0.5, 0.25, 0.25, -0.25, 0.1, 0.0])
LEVELS = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(VALUES, min_size=(MEMBERS + 1) * N, max_size=(MEMBERS + 1) * N),
    weights=st.lists(WEIGHTS, min_size=MEMBERS, max_size=MEMBERS),
    levels=st.lists(LEVELS, min_size=MEMBERS, max_size=MEMBERS),
    cutoffs=st.lists(st.integers(0, N), min_size=MEMBERS, max_size=MEMBERS),
    rule=st.tuples(st.integers(0, 2), st.sampled_from([0.0, 1.0, 0.7]), st.sampled_from([1.0, 0.3]), st.booleans()),
)
def test_the_last_step_is_the_kernels(
    *, values: list[float], weights: list[float], levels: list[float], cutoffs: list[int], rule: tuple
) -> None:
    rows = np.array(values, np.float32).reshape(MEMBERS + 1, N)
    method, divide, scale, plus = rule
    made = kernels.Rule(
        method, np.array(weights, np.float32), np.float32(divide), np.float32(scale), True, zero_plus=plus
    )
    thresholds, before = np.array(levels, np.float32).view(np.uint32), np.array(cutoffs, np.int64)
    buffer, out = Buffer(MEMBERS + 1, N), np.empty(N, np.uint32)
    buffer.raw32[:, :N] = rows.view(np.uint32)
    figures = kernels.Figures.zeros(MEMBERS, N)
    kernels.merge_block(buffer.rows(np.full(MEMBERS + 1, 2)), N, made, thresholds, before, out, figures)
    kept = kept_of(rows[1:] - rows[0], 0, thresholds, before)
    steps = take_steps(rows[0], rows[1:], kept, made)
    assert np.array_equal(steps.merged.view(np.uint32), out)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20))
def test_bf16_is_the_nearest(values: list[float]) -> None:
    array = np.array(values, np.float32)
    assert np.array_equal(bf16(array).view(np.uint32), from_bf16(to_bf16(array)).view(np.uint32))
