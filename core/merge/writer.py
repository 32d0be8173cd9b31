"""Writes safetensors shards in one sequential pass: hashing as it goes, syncing in the background.

Takes the jobs in order, then their bytes in the same order; gives the files with their SHA-256. The bytes
depend on names, shapes, dtypes, values and metadata only. Knows nothing about merging.
"""

import errno
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.errors import DiskError, RunError
from core.merge.forms import INDEX_FILE
from core.merge.pairing import TensorJob
from core.merge.shards import Shard, plan_shards

SYNC_BYTES = 64 << 20
"""Written between two syncs, so that the disk works meanwhile and little is lost in a crash."""
PIECE = 4 << 20


@dataclass(frozen=True)
class WrittenFile:
    """A finished file."""

    name: str
    nbytes: int
    sha256: str


def full_disk(problem: OSError, folder: Path) -> RunError:
    """The one message for a write that failed."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        what = "the disk is full" if problem.errno != errno.EFBIG else "a file grew past the allowed size"
        return DiskError(f"{folder}: {what}. Free some space or choose another place.")
    return RunError(f"{folder}: cannot be written ({problem.strerror}). Nothing was kept.")


class ShardWriter:
    """Give it every job's bytes in order, then `finish`. Raises RunError when the disk is full or fails."""

    def __init__(
        self,
        folder: Path,
        jobs: Sequence[TensorJob],
        shard_size: float,
        metadata: Mapping[str, str],
        *,
        on_synced: Callable[[int], None] | None = None,
    ) -> None:
        """`on_synced` is called, in another thread, with how many jobs are whole and safely on the disk."""
        self._folder, self._jobs, self._shard_size = folder, list(jobs), shard_size
        self._shards = plan_shards(jobs, shard_size, dict(metadata))
        self._index, self._handle, self._left = -1, -1, 0
        self._digest: hashlib._Hash | None = None
        self._hashes: dict[int, str] = {}
        self._syncer = ThreadPoolExecutor(1, thread_name_prefix="sync")
        self._syncs: list[Future[None]] = []
        self._on_synced = on_synced
        self._unsynced = self._written_jobs = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all shards together."""
        return sum(len(shard.header) + shard.data_bytes for shard in self._shards)

    def resume(self, jobs: int) -> int:
        """Go on after the first `jobs`, which an earlier process wrote; gives how many of them are really there."""
        ready = left = 0
        for index, shard in enumerate(self._shards):
            here = min(len(shard.jobs), jobs - ready)
            size = len(shard.header) + sum(job.nbytes for job in shard.jobs[:here])
            path = self._folder / shard.name
            if here == 0 or not path.is_file() or path.stat().st_size < size:
                break
            ready += here
            self._index, left = index, len(shard.header) + shard.data_bytes - size
            if left or ready == jobs:
                break
        for shard in self._shards[self._index + 1 :]:
            (self._folder / shard.name).unlink(missing_ok=True)
        for shard in self._shards[: self._index + 1]:
            with (self._folder / shard.name).open("r+b") as file:
                file.write(shard.header)
        if self._index >= 0:
            self._open(os.O_RDWR)
            self._left = left
            end = len(self._shards[self._index].header) + self._shards[self._index].data_bytes - left
            os.ftruncate(self._handle, end)
            os.lseek(self._handle, end, os.SEEK_SET)
        self._written_jobs = ready
        return ready

    def write(self, data: np.ndarray) -> None:
        """Append bytes; a piece never spans two shards since it belongs to one tensor."""
        if data.size == 0:
            return
        view = data.data.cast("B")
        while self._left == 0 and len(view):
            self._next()
        self._put(view)
        self._left -= len(view)

    def job_done(self) -> None:
        """The bytes given so far end a job."""
        self._written_jobs += 1
        if self._unsynced >= SYNC_BYTES:
            self._sync()

    def finish(self, metadata: Mapping[str, str] | None = None) -> list[WrittenFile]:
        """Sync everything and write the index; gives every file written.

        `metadata` replaces what was given at first, value by value of the same length.
        """
        while self._index < len(self._shards) - 1:
            self._next()
        self._close()
        if metadata is not None:
            self._replace_headers(dict(metadata))
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            written = list(pool.map(self._hashed, range(len(self._shards))))
        for one in self._syncs:
            one.result()
        if len(self._shards) > 1 and self._shards[0].indexed:
            written.append(self._write_index())
        return written

    def abandon(self) -> None:
        """Close without syncing, once the syncs that were begun have ended."""
        self._syncer.shutdown(wait=True, cancel_futures=True)
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _next(self) -> None:
        self._close()
        self._index += 1
        shard = self._shards[self._index]
        self._open(os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._digest = hashlib.sha256()
        self._left = shard.data_bytes
        self._put(memoryview(shard.header))

    def _open(self, flags: int) -> None:
        path = self._folder / self._shards[self._index].name
        try:
            self._handle = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as problem:
            raise full_disk(problem, self._folder) from None
        self._digest = None

    def _put(self, view: memoryview) -> None:
        done = 0
        try:
            while done < len(view):
                done += os.write(self._handle, view[done:])
        except OSError as problem:
            raise full_disk(problem, self._folder) from None
        if self._digest is not None:
            self._digest.update(view)
        self._unsynced += len(view)

    def _sync(self) -> None:
        """Sync the open shard in the background, and then say how many jobs are safe."""
        for one in [one for one in self._syncs if one.done()]:
            one.result()
            self._syncs.remove(one)
        self._syncs.append(self._syncer.submit(self._synced, os.dup(self._handle), self._written_jobs))
        self._unsynced = 0

    def _synced(self, handle: int, jobs: int) -> None:
        try:
            os.fsync(handle)
        except OSError as problem:
            raise full_disk(problem, self._folder) from None
        finally:
            os.close(handle)
        if self._on_synced:
            self._on_synced(jobs)

    def _close(self) -> None:
        if self._handle < 0:
            return
        shard = self._shards[self._index]
        if self._left:
            raise RunError(f"{self._folder / shard.name}: {self._left} bytes were never written.")
        self._sync()
        os.close(self._handle)
        self._handle = -1
        if self._digest is not None:
            self._hashes[self._index] = self._digest.hexdigest()

    def _replace_headers(self, metadata: dict[str, str]) -> None:
        planned = plan_shards(self._jobs, self._shard_size, metadata)
        for index, (old, new) in enumerate(zip(self._shards, planned, strict=True)):
            if len(old.header) != len(new.header):
                raise RunError(f"{self._folder / old.name}: its header would change in length.")
            if old.header == new.header and index in self._hashes:
                continue
            self._hashes.pop(index, None)
            handle = os.open(self._folder / old.name, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.pwrite(handle, new.header, 0)
                self._syncs.append(self._syncer.submit(self._synced, os.dup(handle), self._written_jobs))
            except OSError as problem:
                raise full_disk(problem, self._folder) from None
            finally:
                os.close(handle)

    def _hashed(self, index: int) -> WrittenFile:
        shard: Shard = self._shards[index]
        if index not in self._hashes:
            with (self._folder / shard.name).open("rb") as file:
                self._hashes[index] = hashlib.file_digest(file, "sha256").hexdigest()
        return WrittenFile(shard.name, len(shard.header) + shard.data_bytes, self._hashes[index])

    def _write_index(self) -> WrittenFile:
        weight_map = {job.name: shard.name for shard in self._shards for job in shard.jobs}
        total = sum(shard.data_bytes for shard in self._shards)
        text = json.dumps({"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}, indent=2)
        return write_text(self._folder / INDEX_FILE, text + "\n")


def write_text(path: Path, text: str | bytes) -> WrittenFile:
    """Write and sync a small file; raises RunError when the disk is full or fails."""
    data = text.encode() if isinstance(text, str) else text
    try:
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        raise full_disk(problem, path.parent) from None
    return WrittenFile(path.name, len(data), hashlib.sha256(data).hexdigest())
