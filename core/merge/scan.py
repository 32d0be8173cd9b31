"""Looks for NaN and infinity in every weight of some models, in one streaming pass.

Takes opened models; gives each tensor that holds such values, with how many. Reads in pieces, in threads, so
that memory stays small whatever the size of the models. Needs no compiled kernel.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from core.merge.blocks import Files, in_order, spans, thread_count
from core.merge.checkpoint import CheckpointFile
from core.merge.header import FLOATS, ITEM_SIZES, TensorInfo
from core.progress import Progress, no_progress

PIECE = 4 << 20
"""Bytes read at once; a multiple of every item size."""
CACHED = 1 << 18
"""Elements looked at together, so that what is computed from them stays in the cache."""
EXPONENTS = {
    "BF16": (np.uint16, np.uint16(0x7F80)),
    "F16": (np.uint16, np.uint16(0x7C00)),
    "F32": (np.uint32, np.uint32(0x7F800000)),
}
"""Unsigned type and exponent bits of each float dtype: all of them set means NaN or infinity (IEEE 754)."""


@dataclass(frozen=True)
class NonFinite:
    """A tensor with values that are NaN or infinite."""

    folder: str
    tensor: str
    count: int
    elements: int


@dataclass(frozen=True)
class Scan:
    """What a scan of all weights found."""

    found: tuple[NonFinite, ...]
    bytes_read: int
    seconds: float


def scan_weights(models: Sequence[CheckpointFile], progress: Progress = no_progress) -> Scan:
    """Count NaN and infinite values of every floating-point tensor; models given twice are read once.

    A float64 that is too large for fp32, in which a merge computes, counts too. Raises CheckpointError for a
    file that cannot be read; lets `Cancelled` from `progress` pass.
    """
    started = time.perf_counter()
    unique = list(dict.fromkeys(models))
    total = sum(info.nbytes for one in unique for info in _floats(one))
    counts: dict[tuple[str, str], int] = {}
    done = 0
    with Files() as files, ThreadPoolExecutor(thread_count(), thread_name_prefix="scan") as pool:
        for path in dict.fromkeys(info.file for one in unique for info in _floats(one)):
            files.open(path)
        for key, nbytes, bad in in_order(pool, _work(unique, files), 2 * thread_count()):
            done += nbytes
            progress("scanning", done, total, "bytes")
            if bad:
                counts[key] = counts.get(key, 0) + bad
    found = tuple(
        NonFinite(str(one.folder), info.name, counts[str(one.folder), info.name], info.elements)
        for one in unique
        for info in _floats(one)
        if (str(one.folder), info.name) in counts
    )
    return Scan(found, done, time.perf_counter() - started)


def _floats(model: CheckpointFile) -> list[TensorInfo]:
    """Floating-point tensors, as they lie in the files."""
    floats = [one for one in model.tensors.values() if one.dtype in FLOATS]
    return sorted(floats, key=lambda one: (str(one.file), one.offset))


Counted = tuple[tuple[str, str], int, int]
"""(folder, tensor), bytes read, values that are not finite."""


def _work(models: Sequence[CheckpointFile], files: Files) -> Iterator[Callable[[], Counted]]:
    local = threading.local()

    def count(folder: str, info: TensorInfo, start: int, n: int) -> Counted:
        if not hasattr(local, "room"):
            local.room = np.empty(PIECE, np.uint8)
        data = local.room[:n]
        files.read(info.file, info.offset + start, data.data)
        return (folder, info.name), n, count_non_finite(data, info.dtype)

    for model in models:
        for info in _floats(model):
            for start, n in spans(info.nbytes, PIECE):
                yield partial(count, str(model.folder), info, start, n)


def count_non_finite(data: np.ndarray, dtype: str) -> int:
    """How many values of raw bytes (uint8, whole elements of a safetensors float dtype) are NaN or infinite in fp32."""
    step = CACHED * ITEM_SIZES[dtype]
    if dtype == "F64":
        with np.errstate(over="ignore"):
            parts = (data[at : at + step].view(np.float64).astype(np.float32) for at in range(0, data.size, step))
            return sum(int(one.size - np.count_nonzero(np.isfinite(one))) for one in parts)
    kind, exponent = EXPONENTS[dtype]
    views = (data[at : at + step].view(kind) for at in range(0, data.size, step))
    return sum(int(np.count_nonzero((one & exponent) == exponent)) for one in views)
