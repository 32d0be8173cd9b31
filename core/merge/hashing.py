"""Hashes the input files in the background while the merge computes.

Takes paths; gives SHA-256s. Knows nothing about tensors.
"""

import hashlib
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from core.errors import Cancelled, CheckpointError
from core.merge.writer import WrittenFile

PIECE = 4 << 20


class BackgroundHashes:
    """Starts hashing when made; `results` waits. `with` stops it early when the merge fails."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="hash")
        self._futures: dict[Path, Future[WrittenFile]] = {
            path: self._pool.submit(self._hash, path) for path in dict.fromkeys(files)
        }

    def __enter__(self) -> "BackgroundHashes":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def result(self, path: Path) -> WrittenFile:
        """Name, size and SHA-256 of one of the files; raises CheckpointError when it cannot be read."""
        return self._futures[path].result()

    def _hash(self, path: Path) -> WrittenFile:
        digest, size, piece = hashlib.sha256(), 0, bytearray(PIECE)
        try:
            with path.open("rb", buffering=0) as file:
                while count := file.readinto(piece):
                    digest.update(memoryview(piece)[:count])
                    size += count
                    if self._stop.is_set():
                        raise Cancelled("hashing was stopped")
        except OSError as problem:
            raise CheckpointError(f"{path}: cannot be read ({problem.strerror}).") from None
        return WrittenFile(path.name, size, digest.hexdigest())
