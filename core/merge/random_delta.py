"""A model as far from the base as a merge is, in a random direction: the baseline that no config can say.

Takes the base, the merge and a seed; gives a complete float32 model folder with a provenance.json, or an error and
no trace. Every tensor is read and written in chunks, each with noise of its own, so memory does not grow with the
model and the bytes do not depend on threads.
"""

import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import core
from core.errors import CheckpointError, InputError
from core.merge.blocks import Files, in_order, spans, thread_count
from core.merge.companions import PROVENANCE_FILE, copy_companions
from core.merge.folder import COMPANION_BYTES, check_place, check_space, working_folder
from core.merge.hashing import BackgroundHashes
from core.merge.header import ITEM_SIZES, TensorInfo
from core.merge.pairing import Pairing, TensorJob, pair, refuse_problems
from core.merge.plan import Member, Plan
from core.merge.result import SHARD_SIZE
from core.merge.writer import ShardWriter, WrittenFile, write_text
from core.progress import Progress, no_progress

ENGINE = "random_delta"
FORMULA = "base + ‖merged − base‖ · z / ‖z‖ for each tensor, z standard normal"
CHUNK = 1 << 20
"""Elements that share one stream of noise; another number would give another model."""


class Chunk(NamedTuple):
    """Elements `start` … `start + n` of a tensor, the `number`-th such piece."""

    number: int
    start: int
    n: int


@dataclass(frozen=True)
class RandomDeltaResult:
    """What was written; `as_dict` is the JSON of the `random-delta` command."""

    out: str
    seed: int
    tensors: int
    elements: int
    moved: int
    """Tensors that the merge changed, and that were moved as far."""
    norm: float
    """‖merged − base‖ over all tensors, a tied copy counted once."""
    seconds: float
    bytes_written: int
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain dict for JSON."""
        return asdict(self) | {"warnings": list(self.warnings)}


def random_delta(
    base: Path,
    merged: Path,
    out: Path,
    seed: int,
    *,
    shard_size: float = SHARD_SIZE,
    progress: Progress = no_progress,
) -> RandomDeltaResult:
    """Write base + noise whose norm is, tensor by tensor, that of merged − base; float32 arithmetic and file.

    Noise is numpy's Philox, its key the seed and the tensor's name and its counter the chunk, so one seed gives one
    model (for one version of numpy, which provenance.json names). A tensor that the merge left alone stays as it
    is. `seed` is from 0 to below 2⁶⁴, `shard_size` in bytes. Raises CheckpointError where the two models do not fit
    or hold NaN or infinity, InputError when `out` is taken, RunError when the disk is full.
    """
    started, base, merged, out = time.perf_counter(), Path(base), Path(merged), Path(out)
    check_place(out, [base, merged], overwrite=False)
    found = _paired(base, merged, seed)
    models = [found.reference, *found.members]
    check_space(out, sum(one.nbytes for one in found.jobs) + COMPANION_BYTES)
    paths = [path for one in models for path in one.files]
    with Files() as files, BackgroundHashes(paths) as hashes, working_folder(out, overwrite=False) as work:
        for path in paths:
            files.open(path)
        _check_equal(found, files)
        written, norms = _write(work, found.jobs, files, seed, shard_size=shard_size, progress=progress)
        written += copy_companions(work, found.reference, found.members, "float32")
        progress("hashing", 0, 1, "inputs")
        inputs = {one.folder: [hashes.result(path) for path in one.files] for one in models}
        settings = {"seed": seed, "shard_size": shard_size}
        text = _provenance(found, inputs, written, settings)
        written.append(write_text(work / PROVENANCE_FILE, text))
        progress("publishing", 0, 1, "folder")
    own = [norm for job, norm in zip(found.jobs, norms, strict=True) if job.duplicate_of is None]
    return RandomDeltaResult(
        str(out), seed, len(found.jobs), sum(one.elements for one in found.jobs), sum(one > 0 for one in norms),
        math.sqrt(math.fsum(one * one for one in own)), time.perf_counter() - started,
        sum(one.nbytes for one in written), tuple(found.warnings),
    )  # fmt: skip


def _paired(base: Path, merged: Path, seed: int) -> Pairing:
    """The tensors of both, matched as for a merge of the one into the other; refuses a seed that is none."""
    if not 0 <= seed < 1 << 64:
        raise InputError(f"seed: expected a whole number from 0 to below 2^64, found {seed}.")
    plan = Plan("task_arithmetic", base, (Member(merged, 1.0),), False, 1.0, "float32", "float32", "streaming", "")
    found = pair(plan)
    refuse_problems(found)
    if found.reference.ranks:
        raise CheckpointError(
            f"{base}: is a sharded state. Convert base and merge first: python -m core convert FOLDER OUT."
        )
    return found


def _check_equal(found: Pairing, files: Files) -> None:
    for one in found.equal:
        for start, n in spans(one.first.nbytes, CHUNK):
            if not np.array_equal(_bytes(files, one.first, start, n), _bytes(files, one.second, start, n)):
                raise CheckpointError(one.problem)


def _write(
    work: Path, jobs: Sequence[TensorJob], files: Files, seed: int, *, shard_size: float, progress: Progress
) -> tuple[list[WrittenFile], list[float]]:
    """The weight files, and each tensor's norm of merged − base."""
    total, done, norms = sum(one.nbytes for one in jobs), 0, []
    threads = thread_count()
    writer = ShardWriter(work, jobs, shard_size, {"format": "pt"})
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="noise") as pool:
            for job in jobs:
                norm, factor = _scale(job, files, seed, pool, threads)
                norms.append(norm)
                for piece in in_order(pool, _pieces(job, files, seed, factor), threads + 2):
                    writer.write(piece)
                    done += piece.nbytes
                    progress("moving", done, total, "bytes")
                writer.job_done()
        return writer.finish(), norms
    finally:
        writer.abandon()


def _scale(job: TensorJob, files: Files, seed: int, pool: ThreadPoolExecutor, threads: int) -> tuple[float, float]:
    """‖merged − base‖ of a tensor, and what its noise is multiplied by; both 0 where nothing changed."""
    if job.copied:
        return 0.0, 0.0
    tasks = [partial(_squares, job, files, seed, one) for one in _chunks(job)]
    sums = list(in_order(pool, tasks, threads + 2))
    changed, noise = (math.fsum(one[at] for one in sums) for at in range(2))
    if not math.isfinite(changed):
        raise CheckpointError(f"{job.inputs[1].file}: tensor {job.name} less the base's holds NaN or infinity.")
    return math.sqrt(changed), math.sqrt(changed / noise) if noise else 0.0


def _squares(job: TensorJob, files: Files, seed: int, chunk: Chunk) -> tuple[float, float]:
    """Σ(merged − base)² and Σz² of one chunk, float64 sums of float32 values."""
    base, merged = (_floats(files, one, chunk.start, chunk.n) for one in job.inputs)
    with np.errstate(over="ignore", invalid="ignore"):
        changed = float(np.square(merged - base, dtype=np.float64).sum())
    return changed, float(np.square(noise_of(job, seed, chunk), dtype=np.float64).sum()) if changed else 0.0


def _pieces(job: TensorJob, files: Files, seed: int, factor: float) -> Iterator[Callable[[], np.ndarray]]:
    if job.copied:
        size = ITEM_SIZES[job.out_dtype]
        for start, n in spans(job.elements, CHUNK):
            yield partial(_bytes, files, job.inputs[0], start * size, n * size)
        return
    for chunk in _chunks(job):
        yield partial(_moved, job, files, seed, factor, chunk=chunk)


def _moved(job: TensorJob, files: Files, seed: int, factor: float, *, chunk: Chunk) -> np.ndarray:
    base = _floats(files, job.inputs[0], chunk.start, chunk.n)
    return base + np.float32(factor) * noise_of(job, seed, chunk) if factor else base


def _chunks(job: TensorJob) -> list[Chunk]:
    return [Chunk(at, *span) for at, span in enumerate(spans(job.elements, CHUNK))]


def noise_of(job: TensorJob, seed: int, chunk: Chunk) -> np.ndarray:
    """A chunk's standard normal numbers, float32. A tied copy has its twin's."""
    name = (job.duplicate_of or job.name).encode()
    key = np.array([seed, int.from_bytes(hashlib.sha256(name).digest()[:8], "little")], np.uint64)
    generator = np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, chunk.number, 0], np.uint64)))
    return generator.standard_normal(chunk.n, np.float32)


def _floats(files: Files, info: TensorInfo, start: int, n: int) -> np.ndarray:
    """Elements of a float tensor, float32."""
    size = ITEM_SIZES[info.dtype]
    raw = _bytes(files, info, start * size, n * size)
    if info.dtype == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):
        return raw.view({"F16": np.float16, "F32": np.float32, "F64": np.float64}[info.dtype]).astype(np.float32)


def _bytes(files: Files, info: TensorInfo, start: int, n: int) -> np.ndarray:
    raw = np.empty(n, np.uint8)
    files.read(info.file, info.offset + start, raw.data)
    return raw


def _provenance(
    found: Pairing, inputs: dict[Path, list[WrittenFile]], outputs: Sequence[WrittenFile], settings: dict[str, Any]
) -> str:
    """What went in and what came out, as JSON in the form of a merge's provenance, so that `verify` can check it."""
    models = [found.reference, *found.members]
    recipe = {"method": ENGINE, "seed": settings["seed"], "formula": FORMULA, "chunk": CHUNK}
    value = {
        "made_by": f"mergescope {core.__version__}",
        "engine": ENGINE,
        "recipe": recipe,
        "config_sha256": hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest(),
        "settings": settings,
        "dtypes": {"inputs": {str(one.folder): one.dtype for one in models}, "out": "float32"},
        "inputs": [
            {"role": role, "path": str(one.folder.absolute()), "files": _listed(inputs[one.folder])}
            for role, one in zip(("base", "merge"), models, strict=True)
        ],
        "outputs": _listed(outputs),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "warnings": list(found.warnings),
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _listed(files: Sequence[WrittenFile]) -> list[dict[str, Any]]:
    return [{"file": one.name, "bytes": one.nbytes, "sha256": one.sha256} for one in files]
