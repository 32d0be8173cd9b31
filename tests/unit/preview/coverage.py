"""How often intervals hold the truth, over seeds: for the tests, and for the longer study of `bench.preview_bench`."""

from collections.abc import Sequence

import numpy as np

from core.merge import Plan
from core.preview.estimate import estimate_plan
from core.preview.result import Preview
from core.preview.sample import read_sample
from tests.unit.preview.pool import Truth


def bounds(preview: Preview, tensor: int | None) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(estimate, low, high) arrays by the names of `Truth.figures`."""
    found = {}
    every = {**preview.figures, **preview.of_members, "member_changed": preview.of_members["changed"]}
    every |= {"changed": preview.figures["changed"], "cosines": preview.cosines}
    for name, both in every.items():
        one = both.total if tensor is None else both.tensors
        pick = () if tensor is None else tensor
        found[name] = tuple(np.atleast_1d(part[pick]) for part in one)
    return found  # type: ignore[return-value]


def coverage(
    plan: Plan, truth: Truth, seeds: Sequence[int], *, budget: int, block: int
) -> dict[tuple[str, str], np.ndarray]:
    """By (tensor or "total", figure): share of seeds whose interval holds the truth, one a member or pair."""
    hits: dict[tuple[str, str], list[np.ndarray]] = {}
    for seed in seeds:
        preview = estimate_plan(read_sample(plan, seed=seed, budget=budget, block=block), plan)
        for tensor in (None, *range(len(preview.names))):
            name = "total" if tensor is None else preview.names[tensor]
            real = truth.figures(None if tensor is None else name)
            for figure, (_, low, high) in bounds(preview, tensor).items():
                value = np.atleast_1d(real[figure])
                slack = 1e-9 + 1e-6 * abs(value)
                inside = (low <= value + slack) & (high >= value - slack)
                hits.setdefault((name, figure), []).append(inside | np.isnan(value))
    return {key: np.mean(one, axis=0) for key, one in hits.items()}
