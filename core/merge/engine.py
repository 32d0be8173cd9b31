"""The streaming engine: one pass over all tensors that merges, counts and casts, block by block.

Takes a plan and its paired tensors; yields finished bytes in the order of the jobs, and each tensor's
figures. Writes nothing. The bytes and figures do not depend on threads or block size.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from core.errors import CheckpointError, RunError
from core.merge.blocks import (
    SUB_BLOCK,
    Buffer,
    BufferPool,
    Files,
    block_elements,
    codes_of,
    in_order,
    spans,
    thread_count,
)
from core.merge.header import ITEM_SIZES
from core.merge.pairing import Equal, Pairing, TensorJob
from core.merge.plan import Plan
from core.merge.trim import Kept, ManyBlocks, OneBlock, keep_all, kept_count, select
from core.precision.figures import RoundingSums, sums_of_blocks

if TYPE_CHECKING:
    from core.merge.kernels import Figures

COPY_BYTES = 8 << 20


@dataclass(frozen=True, eq=False)
class TensorFigures:
    """What the pass counted over one tensor."""

    job: TensorJob
    election: dict[str, int]
    """Elements by how they were elected; see `ELECTION`."""
    member_changed: tuple[int, ...]
    """Of each member, elements that differ from the base."""
    member_trimmed: tuple[int, ...]
    """Of those, how many the trim dropped."""
    rounding: RoundingSums


ELECTION = (
    "members_changed_0", "members_changed_1", "members_changed_2plus", "unanimous", "contested", "zero_sum",
    "small_divisor",
)  # fmt: skip
"""Elements that no, one, or more members vote on (kept weighted delta not zero); where two or more vote, alike or
not; where the votes cancel to exactly zero; where the divisor is below 1 % of the agreeing members' Σ|w|."""


@dataclass(frozen=True, eq=False)
class _Block:
    """One finished block: its output bytes and figures."""

    job: TensorJob
    start: int
    n: int
    data: np.ndarray
    figures: "Figures | None"
    """None for a copied tensor."""


OnBytes = Callable[[np.ndarray], None]


def divisor_of(plan: Plan, weights: np.ndarray) -> np.float32:
    """0 for no division; ties divides by the agreeing weights (any number says so), the others by their fp32 sum."""
    if not plan.normalize:
        return np.float32(0)
    if plan.method == "ties":
        return np.float32(1)
    total = np.float32(0)
    for weight in weights:
        total = total + weight
    # task_arithmetic in mergekit does not divide by a sum that is nearly zero.
    return np.float32(1) if plan.method == "task_arithmetic" and abs(total) < np.float32(1e-8) else total


class StreamingEngine:
    """Merges the tensors of a pairing. `with` closes the files; `run` may be called once."""

    def __init__(self, plan: Plan, pairing: Pairing, *, block: int | None = None, threads: int | None = None) -> None:
        """`block` (elements, rounded up to sub-blocks of 65,536) and `threads` change speed and memory only."""
        from core.merge import kernels

        self._plan, self._pairing = plan, pairing
        self._threads = threads or thread_count()
        self._in_flight = self._threads + 2
        rows = len(plan.members) + 1
        size = block or block_elements(rows, self._in_flight)
        self._block = -(-size // SUB_BLOCK) * SUB_BLOCK
        self.files = Files()
        self._buffers = BufferPool(rows, self._block)
        self._results: SimpleQueue[np.ndarray] = SimpleQueue()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="merge")
        self._densities = [one.density for one in plan.members]
        weights = np.array([one.weight for one in plan.members], np.float32)
        method = {"ties": kernels.TIES, "task_arithmetic": kernels.TASK_ARITHMETIC, "linear": kernels.LINEAR}
        self._rule = kernels.Rule(
            method[plan.method], weights, divisor_of(plan, weights), np.float32(plan.scale), bool((weights < 0).any())
        )
        self.warnings: list[str] = []

    def __enter__(self) -> "StreamingEngine":
        for job in self._pairing.jobs:
            for info in job.inputs:
                self.files.open(info.file)
        for pair in self._pairing.equal:
            self.files.open(pair.first.file)
            self.files.open(pair.second.file)
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.files.__exit__()

    def check_equal(self) -> None:
        """Check the equalities that the pairing could not, before anything is written; raises CheckpointError."""
        for pair in self._pairing.equal:
            if not self._same(pair):
                raise CheckpointError(pair.problem)
        jobs = {job.name: job for job in self._pairing.jobs}
        for index, job in enumerate(self._pairing.jobs):
            source = jobs.get(job.duplicate_of or "")
            if source is None:
                continue
            if not all(self._same(Equal(*two, "")) for two in zip(job.inputs, source.inputs, strict=True)):
                self.warnings.append(
                    f"{job.name} differs from {source.name} in some model although config.json ties them: "
                    "it is merged on its own."
                )
                self._pairing.jobs[index] = TensorJob(job.name, job.shape, job.inputs, job.out_dtype)

    def _same(self, pair: Equal) -> bool:
        one, two = pair.first, pair.second
        if one == two:
            return True
        if (one.dtype, one.shape) != (two.dtype, two.shape):
            return False
        for start, n in spans(one.nbytes, COPY_BYTES):
            first, second = bytearray(n), bytearray(n)
            self.files.read(one.file, one.offset + start, memoryview(first))
            self.files.read(two.file, two.offset + start, memoryview(second))
            if first != second:
                return False
        return True

    def run(self, on_bytes: OnBytes, on_elements: Callable[[int], None]) -> Iterator[TensorFigures]:
        """Merge every job in order, giving each piece of output to `on_bytes`; yields figures as tensors end.

        The array is used again once `on_bytes` has returned.

        Raises CheckpointError for NaN or infinity in an input (tensor, model and count), RunError where the
        result does not fit its dtype.
        """
        mine: list[Figures] = []
        for block in in_order(self._pool, self._work(), self._in_flight):
            on_bytes(block.data)
            if block.data.dtype == np.uint32:
                self._results.put(block.data)
            on_elements(block.n)
            if block.figures is None:
                continue
            mine.append(block.figures)
            if block.start + block.n == block.job.elements:
                figures = self._add_up(block.job, mine)
                if block.job.duplicate_of is None:
                    yield figures
                mine = []

    def _work(self) -> Iterator[Callable[[], _Block]]:
        for job in self._pairing.jobs:
            if job.copied:
                for start, n in spans(job.nbytes, COPY_BYTES):
                    yield partial(self._copy, job, start, n)
                continue
            self._warn_small(job)
            if job.elements <= self._block:
                yield partial(self._whole, job)
                continue
            kept = self._kept_of_large(job)
            for start, n in spans(job.elements, self._block):
                yield partial(self._part, job, start, n, kept)

    def _warn_small(self, job: TensorJob) -> None:
        if any(0 < one < 1 and int(one * job.elements) == 0 for one in self._densities):
            self.warnings.append(f"{job.name}: density × {job.elements} elements is below 1: one is kept.")

    def _trims(self, job: TensorJob) -> bool:
        return self._plan.method == "ties" and any(
            kept_count(one, job.elements) < job.elements for one in self._densities
        )

    def _kept_of_large(self, job: TensorJob) -> Kept:
        if not self._trims(job):
            return keep_all(len(self._densities))
        source = ManyBlocks(job.inputs, self.files, self._buffers, self._pool, self._block)
        return select(job.inputs, self._densities, source)

    def _copy(self, job: TensorJob, start: int, n: int) -> _Block:
        data = np.empty(n, np.uint8)
        self.files.read(job.inputs[0].file, job.inputs[0].offset + start, data.data)
        return _Block(job, start, n // ITEM_SIZES[job.out_dtype], data, None)

    def _whole(self, job: TensorJob) -> _Block:
        buffer = self._buffers.take()
        try:
            buffer.fill(self.files, job.inputs, 0, job.elements)
            kept = keep_all(len(self._densities))
            if self._trims(job):
                kept = select(job.inputs, self._densities, OneBlock(buffer, job.elements))
            return self._merge(job, buffer, 0, job.elements, kept)
        finally:
            self._buffers.give(buffer)

    def _part(self, job: TensorJob, start: int, n: int, kept: Kept) -> _Block:
        buffer = self._buffers.take()
        try:
            buffer.fill(self.files, job.inputs, start, n)
            return self._merge(job, buffer, start, n, kept)
        finally:
            self._buffers.give(buffer)

    def _merge(self, job: TensorJob, buffer: Buffer, start: int, n: int, kept: Kept) -> _Block:
        from core.merge import kernels

        figures = kernels.Figures.zeros(len(self._densities), n)
        bits = self._room(n)
        rows = buffer.rows(codes_of(job.inputs))
        kernels.merge_block(rows, n, self._rule, kept.thresholds, kept.cutoffs - start, bits, figures)
        data, overflowed = narrow(bits, job.out_dtype)
        if data is not bits:
            self._results.put(bits)
        figures.counts[kernels.Count.OVERFLOW] += overflowed
        return _Block(job, start, n, data, figures)

    def _room(self, n: int) -> np.ndarray:
        """uint32 (n,) for a block's result, from an earlier block where one is free."""
        try:
            room = self._results.get_nowait()
        except Empty:
            return np.empty(n, np.uint32)
        whole = room if room.base is None else room.base
        return whole[:n] if whole.size >= n else np.empty(n, np.uint32)

    def _add_up(self, job: TensorJob, blocks: list["Figures"]) -> TensorFigures:
        from core.merge.kernels import Count

        parts = zip(*(one[:5] for one in blocks), strict=True)
        counts, bad, changed, trimmed, _flips = (np.sum(one, axis=0) for one in parts)
        refuse_bad(job, bad, int(counts[Count.OVERFLOW]))
        sums, bins = [one.sums for one in blocks], np.concatenate([one.bins for one in blocks])
        lost, moved = int(counts[Count.LOST]), int(counts[Count.CHANGED])
        rounding = sums_of_blocks(job.elements, moved, lost, sums, bins)
        election = dict(zip(ELECTION, (int(one) for one in counts), strict=False))
        return TensorFigures(
            job, election, tuple(int(one) for one in changed), tuple(int(one) for one in trimmed), rounding
        )


def refuse_bad(job: TensorJob, bad: np.ndarray, overflowed: int) -> None:
    """Raise CheckpointError for a non-finite input, RunError for a result that does not fit its dtype."""
    for info, count in zip(job.inputs, bad, strict=True):
        if count:
            raise CheckpointError(
                f"{info.file.parent}: tensor {info.name} has {count:,} values that are NaN or infinite, "
                f"of {job.elements:,}. Expected finite weights: this checkpoint cannot be merged."
            )
    if overflowed:
        raise RunError(
            f"tensor {job.name}: {overflowed:,} merged values do not fit {job.out_dtype}. "
            "Choose a wider out_dtype, such as float32."
        )


def narrow(bits: np.ndarray, dtype: str) -> tuple[np.ndarray, int]:
    """fp32 bit patterns cast to a safetensors dtype, nearest, ties to even; and how many finite ones overflowed."""
    from core.merge import kernels

    if dtype == "F32":
        return bits, 0
    if dtype == "BF16":
        out = np.empty(bits.size, np.uint16)
        return out, int(kernels.narrow_bf16(bits, bits.size, out))
    with np.errstate(over="ignore"):
        half = bits.view(np.float32).astype(np.float16)
    return half.view(np.uint16), int(np.isinf(half).sum())
