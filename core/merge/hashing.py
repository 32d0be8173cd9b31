"""Hashes the input files: in the same read as the merge, or by reading them in the background.

Takes paths, and pieces of them as they are read; gives SHA-256s. Knows nothing about tensors.
"""

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from core.errors import Cancelled, CheckpointError
from core.merge.hash_cache import HashCache
from core.merge.writer import WrittenFile

PIECE = 4 << 20
Done = Callable[[], None]


class BackgroundHashes:
    """Starts hashing when made; `result` waits. `with` stops it early when the work fails."""

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
        stream = FileHash(path, self._stop, HashCache())
        return stream.finish()


class FileHash:
    """The SHA-256 of one file, from pieces given in order; what lies between them it reads itself.

    For one thread at a time.
    """

    def __init__(self, path: Path, stop: threading.Event, cache: HashCache) -> None:
        self._path, self._stop, self._cache = path, stop, cache
        self._known = cache.get(path)
        self._before = cache.state(path)
        self._digest = hashlib.sha256()
        self._position = 0

    @property
    def known(self) -> bool:
        """Whether the hash is known without reading."""
        return self._known is not None

    def add(self, offset: int, piece: memoryview) -> None:
        """Take bytes that were read at `offset`; raises CheckpointError, or Cancelled when stopped."""
        if self._known is not None or offset + len(piece) <= self._position:
            return
        if offset > self._position:
            self._read_to(offset)
        self._digest.update(piece[self._position - offset :])
        self._position = offset + len(piece)

    def finish(self) -> WrittenFile:
        """Read what is left; name, size and SHA-256. Raises CheckpointError, or Cancelled when stopped."""
        size = self._size()
        if self._known is not None:
            return WrittenFile(self._path.name, size, self._known)
        self._read_to(size)
        sha256 = self._digest.hexdigest()
        self._cache.put(self._path, self._before, sha256)
        return WrittenFile(self._path.name, size, sha256)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError as problem:
            raise CheckpointError(f"{self._path}: cannot be read ({problem.strerror}).") from None

    def _read_to(self, end: int) -> None:
        try:
            with self._path.open("rb", buffering=0) as file:
                file.seek(self._position)
                piece = memoryview(bytearray(min(PIECE, max(0, end - self._position))))
                while self._position < end:
                    if self._stop.is_set():
                        raise Cancelled("hashing was stopped")
                    count = file.readinto(piece[: end - self._position])
                    if not count:
                        raise CheckpointError(f"{self._path}: ended while it was read. Was it changed meanwhile?")
                    self._digest.update(piece[:count])
                    self._position += count
        except OSError as problem:
            raise CheckpointError(f"{self._path}: cannot be read ({problem.strerror}).") from None


class _Lane:
    """The pieces of one file that wait to be hashed, in order; one thread works on them at a time."""

    def __init__(self, hash_: FileHash) -> None:
        self.hash = hash_
        self.waiting: deque[tuple[int, memoryview, Done]] = deque()
        self.working = False
        self.error: Exception | None = None


class InputHashes:
    """Hashes files in threads from the pieces that the merge reads anyway. `with` stops it when the merge fails."""

    def __init__(self, files: Iterable[Path], threads: int) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        cache = HashCache()
        self._lanes = {path: _Lane(FileHash(path, self._stop, cache)) for path in dict.fromkeys(files)}
        self._pool = ThreadPoolExecutor(max(1, min(threads, len(self._lanes))), thread_name_prefix="hash")

    @property
    def known(self) -> bool:
        """Whether no file needs to be read."""
        return all(lane.hash.known for lane in self._lanes.values())

    def wants(self, path: Path) -> bool:
        """Whether pieces of this file are of use."""
        return path in self._lanes and not self._lanes[path].hash.known

    def feed(self, path: Path, offset: int, piece: memoryview, done: Done) -> None:
        """Hash a piece in its turn and call `done` when it may change; pieces of one file come in order."""
        lane = self._lanes[path]
        with self._lock:
            lane.waiting.append((offset, piece, done))
            if lane.working:
                return
            lane.working = True
        self._pool.submit(self._work, lane)

    def finish(self) -> dict[Path, WrittenFile]:
        """Every file's size and SHA-256, once what no piece covered has been read; raises CheckpointError."""
        ended = {path: self._pool.submit(self._end, lane) for path, lane in self._lanes.items()}
        return {path: future.result() for path, future in ended.items()}

    def _work(self, lane: _Lane) -> None:
        while True:
            with self._lock:
                if not lane.waiting:
                    lane.working = False
                    return
                offset, piece, done = lane.waiting.popleft()
            try:
                if lane.error is None and not self._stop.is_set():
                    lane.hash.add(offset, piece)
            except Exception as problem:
                lane.error = problem
            finally:
                done()

    def _end(self, lane: _Lane) -> WrittenFile:
        with self._lock:
            assert not lane.waiting
        if lane.error is not None:
            raise lane.error
        return lane.hash.finish()

    def __enter__(self) -> "InputHashes":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)


def combined(files: Iterable[WrittenFile]) -> str:
    """One SHA-256 for a model: its only file's own, or that of the lines `sha256sum` prints of its files by name."""
    found = sorted(files, key=lambda one: one.name)
    if len(found) == 1:
        return found[0].sha256
    return hashlib.sha256("".join(f"{one.sha256}  {one.name}\n" for one in found).encode()).hexdigest()
