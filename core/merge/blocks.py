"""Reads blocks of tensors into reused buffers and runs work on them in threads, in order.

Takes `TensorInfo`s and positions; gives raw bytes as numpy arrays for the kernels. Memory depends on the
block size and the number of models, never on the size of a model. Knows nothing about merging.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from core.errors import CheckpointError, InputError
from core.merge.header import ITEM_SIZES, TensorInfo

if TYPE_CHECKING:
    from core.merge.kernels import Rows

CODES = {"BF16": 0, "F16": 1, "F32": 2, "F64": 2}
"""The kernels' code of each float dtype; F64 is cast to fp32 as it is read."""
SUB_BLOCK = 65536
PROCESS_BYTES = 330 << 20
"""Resident memory of a merging process before its first block: interpreter, numpy, compiled kernels, pyarrow."""
MEMORY = 730 << 20
"""Budget of a merge, where none is given: the process and all its block buffers together."""
WAITING = 2
"""Blocks whose result is written and whose input is still being hashed."""
LARGEST_BLOCK = 1 << 22

Result = TypeVar("Result")


def thread_count() -> int:
    """Threads that compute: the cores this process may use, at most eight."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, usable))


def in_flight_of(threads: int) -> int:
    """Blocks that are begun and not yet given back."""
    return threads + 2 + WAITING


def block_elements(rows: int, in_flight: int, memory: int = MEMORY) -> int:
    """Elements a block, a multiple of SUB_BLOCK, such that `in_flight` buffers of `rows` fit a budget in bytes.

    Raises InputError for a budget that not even the smallest blocks fit.
    """
    each = 4 * (rows + 1) * in_flight
    fitting = (memory - PROCESS_BYTES) // each // SUB_BLOCK * SUB_BLOCK
    if fitting < SUB_BLOCK and memory != MEMORY:
        least = PROCESS_BYTES + each * SUB_BLOCK
        raise InputError(
            f"--memory: {memory:,} bytes are too few to merge {rows - 1} members: at least {least:,} are needed."
        )
    return max(SUB_BLOCK, min(LARGEST_BLOCK, fitting))


def _allow_many_files() -> None:
    """Raise the soft limit of open files to the hard one: a large pool has more shards than the usual 1,024."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Files:
    """Open files, read at positions from any thread; `with` closes them."""

    def __init__(self) -> None:
        _allow_many_files()
        self._open: dict[Path, int] = {}
        self._lock = threading.Lock()
        self.bytes_read = 0
        """Protected by the lock."""

    def open(self, path: Path) -> None:
        """Open a file once. Call it before threads read; raises CheckpointError."""
        if path not in self._open:
            try:
                self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as problem:
                raise CheckpointError(f"{path}: cannot be read ({problem.strerror}).") from None

    def read(self, path: Path, offset: int, into: memoryview) -> None:
        """Fill a buffer from a position; raises CheckpointError when the file ends or fails before."""
        filled = 0
        while filled < len(into):
            try:
                count = os.preadv(self._open[path], [into[filled:]], offset + filled)
            except OSError as problem:
                raise CheckpointError(f"{path}: cannot be read ({problem.strerror}).") from None
            if count == 0:
                raise CheckpointError(f"{path}: ended while it was read. Was it changed during the merge?")
            filled += count
        with self._lock:
            self.bytes_read += len(into)

    def __enter__(self) -> "Files":
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._open.values():
            os.close(handle)
        self._open.clear()


class Buffer:
    """Room for one block of several tensors: `raw16` and `raw32` are views of the same bytes, a row a tensor."""

    def __init__(self, rows: int, block: int) -> None:
        raw = np.empty((rows, 4 * block), np.uint8)
        self.raw = raw
        self.raw16 = raw.view(np.uint16)
        self.raw32 = raw.view(np.uint32)
        self.pieces: list[tuple[Path, int, memoryview]] = []
        """The bytes it was filled with, as they are in the files; F64 rows, which are cast, are left out."""

    def rows(self, codes: np.ndarray) -> "Rows":
        """The block as the kernels take it."""
        from core.merge.kernels import HALF_TO_FLOAT, Rows

        return Rows(self.raw16, self.raw32, codes, HALF_TO_FLOAT)

    def fill(self, files: Files, tensors: Iterable[TensorInfo], start: int, n: int) -> None:
        """Read elements start … start+n of each tensor, one row each."""
        self.pieces = []
        for row, info in enumerate(tensors):
            size = ITEM_SIZES[info.dtype]
            if info.dtype == "F64":
                wide = np.empty(n, np.float64)
                files.read(info.file, info.offset + start * size, wide.data.cast("B"))
                with np.errstate(over="ignore"):
                    self.raw32[row, :n] = wide.astype(np.float32).view(np.uint32)
            else:
                piece = self.raw[row, : n * size].data
                files.read(info.file, info.offset + start * size, piece)
                self.pieces.append((info.file, info.offset + start * size, piece))


class BufferPool:
    """Buffers that threads borrow; made when first needed."""

    def __init__(self, rows: int, block: int) -> None:
        self._rows, self._block = rows, block
        self._free: SimpleQueue[Buffer] = SimpleQueue()

    def take(self) -> Buffer:
        """A free buffer, or a new one."""
        try:
            return self._free.get_nowait()
        except Empty:
            return Buffer(self._rows, self._block)

    def give(self, buffer: Buffer) -> None:
        """Return a buffer."""
        self._free.put(buffer)


def codes_of(tensors: Iterable[TensorInfo]) -> np.ndarray:
    """The kernels' dtype codes, int64, one a tensor."""
    return np.array([CODES[info.dtype] for info in tensors], np.int64)


def spans(elements: int, block: int) -> list[tuple[int, int]]:
    """(start, length) of each block of a tensor."""
    return [(start, min(block, elements - start)) for start in range(0, elements, block)]


def in_order(pool: ThreadPoolExecutor, work: Iterable[Callable[[], Result]], in_flight: int) -> Iterator[Result]:
    """Run functions in threads, at most `in_flight` begun and not yet taken; yield results in order given."""
    waiting: deque[Future[Result]] = deque()
    try:
        for one in work:
            waiting.append(pool.submit(one))
            if len(waiting) >= in_flight:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
