"""The streaming engine: one pass over all tensors that merges, counts and casts, block by block.

Takes a plan and its paired tensors; yields finished bytes in the order of the jobs, and each tensor's
figures. Writes nothing. The bytes and figures do not depend on threads or block size.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from core.errors import CheckpointError
from core.merge.blocks import (
    MEMORY,
    SUB_BLOCK,
    WAITING,
    Buffer,
    BufferPool,
    Files,
    block_elements,
    codes_of,
    in_flight_of,
    in_order,
    spans,
    thread_count,
)
from core.merge.device import SteadyKernels
from core.merge.dialect import WholeModels, rule_of
from core.merge.figures import TensorFigures, add_up_blocks
from core.merge.hashing import InputHashes
from core.merge.header import ITEM_SIZES
from core.merge.pairing import Equal, Pairing, TensorJob
from core.merge.plan import Plan
from core.merge.trim import Kept, ManyBlocks, OneBlock, keep_all, kept_count, select
from core.progress import Progress, no_progress

if TYPE_CHECKING:
    from core.merge.kernels import Figures

COPY_BYTES = 8 << 20
STEP = 1 << 18
"""Elements merged at a time where nothing is trimmed, or the threshold is known: their input stays in the caches."""


@dataclass(frozen=True, eq=False)
class _Block:
    """One finished block: its output bytes and figures."""

    job: TensorJob
    n: int
    data: np.ndarray
    last: bool
    """Whether the tensor ends with it."""
    figures: "Figures | None" = None
    """None for a copied tensor."""
    buffer: Buffer | None = None
    """Its input, until that is hashed."""


OnBytes = Callable[[np.ndarray], None]
Merged = tuple[TensorJob, TensorFigures | None]
"""A finished tensor and its figures: None for a copied tensor or a tied copy."""


class StreamingEngine:
    """Merges the tensors of a pairing. `with` closes the files; `run` may be called once."""

    def __init__(
        self,
        plan: Plan,
        pairing: Pairing,
        *,
        block: int | None = None,
        threads: int | None = None,
        memory: int = MEMORY,
        device: str = "cpu",
        figures: bool = True,
    ) -> None:
        """`block` (elements, rounded up to sub-blocks of 65,536), `threads`, `memory` (bytes, all of the process) and
        `device` (`auto`, `cpu`, `cuda` or `cuda:N`) change speed only.
        Without `figures` nothing is counted but what is not finite."""
        self._plan, self.pairing = plan, pairing
        self._threads = threads or thread_count()
        self._in_flight = self._threads + 2
        rows = len(plan.members) + 1
        size = block or block_elements(rows, in_flight_of(self._threads), memory)
        self._block = -(-size // SUB_BLOCK) * SUB_BLOCK
        self._step = min(self._block, STEP)
        self.files = Files()
        self.hashes: InputHashes | None = None
        """Where what is read goes on to; set it before `run`."""
        self._buffers = BufferPool(rows, self._block)
        self._results: SimpleQueue[np.ndarray] = SimpleQueue()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="merge")
        self._lock, self._waiting = threading.Lock(), threading.Semaphore(WAITING)
        self._densities = [one.density for one in plan.members]
        self._rule = rule_of(plan, figures=figures)
        self._kept: Kept | None = None
        """The same of every tensor, where the dialect trims whole models."""
        self.kernels = SteadyKernels(device)
        self.warnings: list[str] = []

    def __enter__(self) -> "StreamingEngine":
        for job in self.pairing.jobs:
            for info in job.inputs:
                self.files.open(info.file)
        for pair in self.pairing.equal:
            self.files.open(pair.first.file)
            self.files.open(pair.second.file)
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.files.__exit__()

    def prepare(self, progress: Progress = no_progress) -> None:
        """What the `paper` and `sum` dialects must know of whole models before the first tensor is merged."""
        if self._plan.dialect == "mergekit" or self._plan.method != "ties":
            return
        jobs = [job for job in self.pairing.jobs if not job.copied and job.duplicate_of is None and job.elements]
        whole = WholeModels(jobs, self._blocks_of)
        self._kept = whole.kept(self._densities, progress)
        self._rule = self._rule._replace(zero_plus=whole.majority_is_plus(self._kept, progress))

    def check_equal(self) -> None:
        """Check the equalities that the pairing could not, before anything is written; raises CheckpointError."""
        for pair in self.pairing.equal:
            if not self._same(pair):
                raise CheckpointError(pair.problem)
        jobs = {job.name: job for job in self.pairing.jobs}
        for index, job in enumerate(self.pairing.jobs):
            source = jobs.get(job.duplicate_of or "")
            if source is None:
                continue
            if not all(self._same(Equal(*two, "")) for two in zip(job.inputs, source.inputs, strict=True)):
                self.warnings.append(
                    f"{job.name} differs from {source.name} in some model although config.json ties them: "
                    "it is merged on its own."
                )
                self.pairing.jobs[index] = TensorJob(job.name, job.shape, job.inputs, job.out_dtype)

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

    def run(self, on_bytes: OnBytes, on_elements: Callable[[int], None], done: int = 0) -> Iterator[Merged]:
        """Merge the jobs in order from number `done`, giving each piece of output to `on_bytes`; yields as tensors end.

        The array is used again once `on_bytes` has returned.

        Raises CheckpointError for NaN or infinity in an input (tensor, model and count), RunError where the
        result does not fit its dtype.
        """
        mine: list[Figures] = []
        for block in in_order(self._pool, self._work(done), self._in_flight):
            self._hash(block)
            on_bytes(block.data)
            if block.data.dtype == np.uint32:
                self._results.put(block.data)
            on_elements(block.n)
            if block.figures is not None:
                mine.append(block.figures)
            if block.last:
                figures = add_up_blocks(block.job, mine) if mine else None
                yield block.job, None if block.job.duplicate_of else figures
                mine = []
        for _ in range(WAITING):
            self._waiting.acquire()

    def _hash(self, block: _Block) -> None:
        """Give the block's input to be hashed; its buffer is free when that is done."""
        buffer, hashes = block.buffer, self.hashes
        if buffer is None:
            return
        pieces = [one for one in buffer.pieces if hashes and hashes.wants(one[0])]
        if hashes is None or not pieces:
            self._buffers.give(buffer)
            return
        self._waiting.acquire()
        left = [len(pieces)]

        def done() -> None:
            with self._lock:
                left[0] -= 1
                last = left[0] == 0
            if last:
                self._buffers.give(buffer)
                self._waiting.release()

        for path, offset, piece in pieces:
            hashes.feed(path, offset, piece, done)

    def _work(self, done: int) -> Iterator[Callable[[], _Block]]:
        self._warn_small()
        for job in self.pairing.jobs[done:]:
            if job.copied:
                for start, n in spans(job.nbytes, COPY_BYTES) or [(0, 0)]:
                    yield partial(self._copy, job, start, n)
                continue
            trims = self._trims(job)
            if job.elements <= (self._block if trims else self._step):
                yield partial(self._whole, job)
                continue
            kept = self._kept_of_large(job)
            for start, n in spans(job.elements, self._step):
                yield partial(self._part, job, start, n, kept)

    def _warn_small(self) -> None:
        if self._kept is not None:
            return
        jobs = [job for job in self.pairing.jobs if not job.copied]
        small = [job for job in jobs if any(0 < one < 1 and int(one * job.elements) == 0 for one in self._densities)]
        if small:
            more = f" (and {len(small) - 1} more)" if len(small) > 1 else ""
            self.warnings.append(
                f"{small[0].name}{more}: density × {small[0].elements} elements is below 1: one is kept."
            )

    def _trims(self, job: TensorJob) -> bool:
        return (
            self._kept is None
            and self._plan.method == "ties"
            and any(kept_count(one, job.elements) < job.elements for one in self._densities)
        )

    def _kept_of_large(self, job: TensorJob) -> Kept:
        if not self._trims(job):
            return self._kept or keep_all(len(self._densities))
        return select(job.inputs, self._densities, self._blocks_of(job))

    def _blocks_of(self, job: TensorJob) -> ManyBlocks:
        return ManyBlocks(job.inputs, self.files, self._buffers, self._pool, block=self._step, kernels=self.kernels)

    def _copy(self, job: TensorJob, start: int, n: int) -> _Block:
        data = np.empty(n, np.uint8)
        self.files.read(job.inputs[0].file, job.inputs[0].offset + start, data.data)
        return _Block(job, n // ITEM_SIZES[job.out_dtype], data, start + n == job.nbytes)

    def _whole(self, job: TensorJob) -> _Block:
        with self._filled(job, 0, job.elements) as buffer:
            kept = self._kept or keep_all(len(self._densities))
            if self._trims(job):
                kept = select(job.inputs, self._densities, OneBlock(buffer, job.elements, self.kernels))
            return self._merge(job, buffer, 0, job.elements, kept)

    def _part(self, job: TensorJob, start: int, n: int, kept: Kept) -> _Block:
        with self._filled(job, start, n) as buffer:
            return self._merge(job, buffer, start, n, kept)

    @contextmanager
    def _filled(self, job: TensorJob, start: int, n: int) -> Iterator[Buffer]:
        """A buffer with a block's input; given back at once where the block fails."""
        buffer = self._buffers.take()
        try:
            buffer.fill(self.files, job.inputs, start, n)
            yield buffer
        except BaseException:
            self._buffers.give(buffer)
            raise

    def _merge(self, job: TensorJob, buffer: Buffer, start: int, n: int, kept: Kept) -> _Block:
        from core.merge import kernels

        figures = kernels.Figures.zeros(len(self._densities), n)
        bits = self._room(n)
        rows = buffer.rows(codes_of(job.inputs))
        self.kernels.merge_block(rows, n, self._rule, kept.thresholds, kept.cutoffs - start, bits, figures)
        data, overflowed = narrow(bits, job.out_dtype)
        if data is not bits:
            self._results.put(bits)
        figures.counts[kernels.Count.OVERFLOW] += overflowed
        return _Block(job, n, data, start + n == job.elements, figures, buffer)

    def _room(self, n: int) -> np.ndarray:
        """uint32 (n,) for a block's result, from an earlier block where one is free."""
        try:
            room = self._results.get_nowait()
        except Empty:
            return np.empty(n, np.uint32)
        whole = room if room.base is None else room.base
        return whole[:n] if whole.size >= n else np.empty(n, np.uint32)


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
