"""The sample of a preview: raw blocks of the base and of every model that may be merged, read once.

Takes a plan (or its pairing) and a source of bytes; keeps what was read, and what follows from it whatever the knobs:
magnitudes in order, inner products of the task vectors. `core.preview.estimate` makes figures of it. Writes nothing.
"""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import CheckpointError, PlanError
from core.merge.blocks import codes_of, thread_count
from core.merge.header import ITEM_SIZES
from core.merge.pairing import TensorJob, pair, refuse_problems
from core.merge.plan import Member, Plan
from core.preview.design import Design, draw
from core.preview.source import LocalSource, Request, Source

if TYPE_CHECKING:
    from core.preview.result import Preview
    from core.preview.tally import Raw

BUDGET = 64_000_000
"""Bytes that a preview reads at most, unless told otherwise."""


@dataclass(eq=False)
class Sample:
    """What was read. Its arrays are not to be written to."""

    names: tuple[str, ...]
    """Tensors, in the order of the merged file."""
    members: tuple[Path, ...]
    """Models besides the base, in the order of the rows."""
    reference: Path
    """The base, or a linear merge's first model."""
    seed: int
    design: Design
    raw: "Raw"
    """Row 0 is the base (or a linear merge's first model)."""
    bytes_read: int
    warnings: tuple[str, ...] = ()
    kept: dict[tuple[str, Hashable], Any] = field(default_factory=dict, repr=False)
    """What `remember` has."""

    def remember(self, kind: str, key: Hashable, make: Callable[[], Any], *, all_keys: bool = False) -> Any:
        """What `make` gives, made once; of a kind only the latest key is kept, unless all are. Safe in threads."""
        found = self.kept.get((kind, key))
        if found is None:
            found = make()
            for old in [] if all_keys else [one for one in list(self.kept) if one[0] == kind]:
                self.kept.pop(old, None)
            self.kept[kind, key] = found
        return found

    def estimate(
        self, weights: Sequence[float], densities: Sequence[float] | None = None, *, scale: float = 1.0,
        normalize: bool = True, method: str = "ties", members: Sequence[int] | None = None,
    ) -> "Preview":  # fmt: skip
        """What a merge would do; see `core.preview.estimate.estimate`."""
        from core.preview.estimate import estimate

        return estimate(
            self, weights=weights, densities=densities, scale=scale, normalize=normalize, method=method, members=members
        )


def read_sample(
    plan: Plan, *, also: Sequence[Path] = (), seed: int = 0, budget: int = BUDGET, block: int | None = None,
    source: Source | None = None,
) -> Sample:  # fmt: skip
    """Read random blocks of the models of a streaming plan, and of `also`, other models that it may come to use.

    `budget` bounds the bytes read; `block` (elements) overrides the size of a block. Raises PlanError for a plan that
    only mergekit runs, CheckpointError for models that cannot be merged, InputError for too small a budget.
    """
    if plan.engine != "streaming":
        raise PlanError(
            f"this plan ({plan.reason}) is run by mergekit itself, so its result cannot be previewed. "
            "Expected ties, task_arithmetic or linear with plain numbers."
        )
    known = {one.path for one in plan.members}
    more = tuple(Member(path, 0.0) for path in also if path not in known)
    found = pair(replace(plan, members=(*plan.members, *more)))
    refuse_problems(found)
    jobs = [one for one in found.jobs if not one.copied and one.duplicate_of is None and one.elements]
    if not jobs:
        raise CheckpointError(f"{found.reference.folder}: has no floating-point tensors. There is nothing to preview.")
    names = tuple(job.name for job in jobs)
    elements = np.array([job.elements for job in jobs], np.int64)
    cost = np.array([sum(ITEM_SIZES[one.dtype] for one in dict.fromkeys(job.inputs)) for job in jobs], np.int64)
    design = draw(names, elements, cost, budget=budget, seed=seed, block=block)
    source = source or LocalSource()
    before = source.bytes_read
    raw = _read(jobs, design, source)
    paths = tuple(one.path for one in (*plan.members, *more))
    return Sample(
        names, paths, found.reference.folder, seed, design, raw, source.bytes_read - before, tuple(found.warnings)
    )


def _read(jobs: Sequence[TensorJob], design: Design, source: Source) -> "Raw":
    from core.merge.kernels import HALF_TO_FLOAT
    from core.preview.tally import Raw

    rows = len(jobs[0].inputs)
    wide = max(min(ITEM_SIZES[one.dtype], 4) for job in jobs for one in job.inputs)
    data = np.zeros((design.numbers.size, rows, wide * design.block), np.uint8)
    room, width = data.reshape(-1).data, wide * design.block
    requests: list[Request] = []
    doubles: list[tuple[np.ndarray, memoryview]] = []
    copies: list[tuple[slice, int, int]] = []
    starts, sizes = (design.numbers * design.block).tolist(), design.sizes.tolist()
    for job, first, taken in zip(jobs, design.first.tolist(), design.taken.tolist(), strict=True):
        for row, info in enumerate(job.inputs):
            same = job.inputs.index(info)
            if same < row:
                copies.append((slice(first, first + taken), row, same))
                continue
            item = ITEM_SIZES[info.dtype]
            for at in range(first, first + taken):
                place = (at * rows + row) * width
                target = room[place : place + sizes[at] * min(item, 4)]
                if item == 8:
                    double = np.empty(sizes[at], np.float64)
                    doubles.append((double, target))
                    target = double.data.cast("B")
                requests.append(Request(info, starts[at] * item, target))
    source.fetch(requests)
    with np.errstate(over="ignore"):
        for double, target in doubles:
            target[:] = double.astype(np.float32).data.cast("B")
    for where, row, same in copies:
        data[where, row] = data[where, same]
    before = np.cumsum(design.sizes) - design.sizes
    tensor = design.tensor
    return Raw(
        data.view(np.uint16), data.view(np.uint32), np.stack([codes_of(job.inputs) for job in jobs]), tensor,
        design.sizes, before - before[design.first][tensor], HALF_TO_FLOAT,
    )  # fmt: skip


def picked(sample: Sample, members: tuple[int, ...]) -> "Raw":
    """The blocks of the base and some members only, in that order; the last choice is kept."""
    if members == tuple(range(len(sample.members))):
        return sample.raw

    def make() -> "Raw":
        rows = [0, *(one + 1 for one in members)]
        raw32 = np.ascontiguousarray(sample.raw.raw32[:, rows])
        codes = np.ascontiguousarray(sample.raw.codes[:, rows])
        return sample.raw._replace(raw32=raw32, raw16=raw32.view(np.uint16), codes=codes)

    found: Raw = sample.remember("raw", members, make)
    return found


def inner_products(sample: Sample) -> np.ndarray:
    """Inner products of all members' task vectors over each block: float64 (n, members, members); made once."""
    raw, n = sample.raw, sample.design.numbers.size

    def make() -> np.ndarray:
        products = np.empty((n, len(sample.members), len(sample.members)))

        def work(part: np.ndarray) -> None:
            for at in np.array_split(part, -(-part.size // 32)):
                deltas = _deltas(raw, int(at[0]), int(at[-1]) + 1, sample.design.block)
                products[at[0] : at[-1] + 1] = deltas @ deltas.transpose(0, 2, 1)

        in_threads(work, n)
        return products

    found: np.ndarray = sample.remember("products", (), make)
    return found


def _deltas(raw: "Raw", first: int, last: int, block: int) -> np.ndarray:
    """Task vectors over blocks `first` … `last`: float64 (blocks, members, block); zero past a block's end."""
    codes = raw.codes[raw.tensor[first:last]]
    values = np.empty((last - first, codes.shape[1], block), np.float32)
    bits = values.view(np.uint32)
    for code in np.unique(codes).tolist():
        here: Any = codes == code
        here = here if not here.all() else slice(None)
        if code == 2:
            bits[here] = raw.raw32[first:last, :, :block][here]
            continue
        half = raw.raw16[first:last, :, :block][here]
        bits[here] = half.astype(np.uint32) << np.uint32(16) if code == 0 else raw.table[half]
    deltas = (values[:, 1:] - values[:, :1]).astype(np.float64)
    for at, size in enumerate(raw.sizes[first:last].tolist()):
        deltas[at, :, size:] = 0
    return deltas


def in_threads(work: Callable[[np.ndarray], None], n: int) -> None:
    """Run `work` on a share of 0 … n in each thread, several shares a thread."""
    threads = thread_count()
    parts = [one for one in np.array_split(np.arange(n), min(n, 4 * threads)) if one.size]
    with ThreadPoolExecutor(threads, thread_name_prefix="preview") as pool:
        list(pool.map(work, parts))
