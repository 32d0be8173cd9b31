"""Writes safetensors shards in one sequential pass, hashing as it goes.

Takes the jobs in order, then their bytes in the same order; gives the files with their SHA-256. The bytes
depend on names, shapes, dtypes, values and metadata only. Knows nothing about merging.
"""

import errno
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.errors import RunError
from core.merge.forms import INDEX_FILE
from core.merge.pairing import TensorJob
from core.merge.shards import plan_shards


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
        return RunError(
            f"{folder}: {what}. Nothing was kept; free some space or choose another place, and start again."
        )
    return RunError(f"{folder}: cannot be written ({problem.strerror}). Nothing was kept.")


class ShardWriter:
    """Give it every job's bytes in order, then `finish`. Raises RunError when the disk is full or fails."""

    def __init__(self, folder: Path, jobs: Sequence[TensorJob], shard_size: float, metadata: dict[str, str]) -> None:
        self._folder = folder
        self._shards = plan_shards(jobs, shard_size, metadata)
        self._index = -1
        self._handle = -1
        self._left = 0
        self._digest = hashlib.sha256()
        self._written: list[WrittenFile] = []

    @property
    def nbytes(self) -> int:
        """Bytes of all shards together."""
        return sum(len(shard.header) + shard.data_bytes for shard in self._shards)

    def write(self, data: np.ndarray) -> None:
        """Append bytes; a piece never spans two shards since it belongs to one tensor."""
        if data.size == 0:
            return
        view = data.data.cast("B")
        while self._left == 0 and len(view):
            self._next()
        self._put(view)
        self._left -= len(view)

    def finish(self) -> list[WrittenFile]:
        """Sync and close the last shard and write the index; gives every file written."""
        while self._index < len(self._shards) - 1:
            self._next()
        self._close()
        if len(self._shards) > 1 and self._shards[0].indexed:
            self._write_index()
        return self._written

    def abandon(self) -> None:
        """Close without syncing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _next(self) -> None:
        self._close()
        self._index += 1
        shard = self._shards[self._index]
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._handle = os.open(self._folder / self._shards[self._index].name, flags, 0o666)
        except OSError as problem:
            raise full_disk(problem, self._folder) from None
        self._digest = hashlib.sha256()
        self._left = shard.data_bytes
        self._put(memoryview(shard.header))

    def _put(self, view: memoryview) -> None:
        done = 0
        try:
            while done < len(view):
                done += os.write(self._handle, view[done:])
        except OSError as problem:
            raise full_disk(problem, self._folder) from None
        self._digest.update(view)

    def _close(self) -> None:
        if self._handle < 0:
            return
        if self._left:
            raise RunError(f"{self._folder / self._shards[self._index].name}: {self._left} bytes were never written.")
        shard = self._shards[self._index]
        try:
            os.fsync(self._handle)
        except OSError as problem:
            raise full_disk(problem, self._folder) from None
        self.abandon()
        size = len(shard.header) + shard.data_bytes
        self._written.append(WrittenFile(shard.name, size, self._digest.hexdigest()))

    def _write_index(self) -> None:
        weight_map = {job.name: shard.name for shard in self._shards for job in shard.jobs}
        total = sum(shard.data_bytes for shard in self._shards)
        text = json.dumps({"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}, indent=2)
        self._written.append(write_text(self._folder / INDEX_FILE, text + "\n"))


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
