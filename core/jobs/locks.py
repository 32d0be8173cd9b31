"""File locks that the kernel frees when their holder dies: one a device, one a job's worker.

Takes paths; knows nothing about jobs. POSIX only, and only as good as the file system's `flock`.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType


class FileLock:
    """An exclusive lock on a file, for this process alone; what is written in it is a note for people."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def try_acquire(self, note: str = "") -> bool:
        """Take the lock if it is free, without waiting; gives whether it was."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Not inherited by programs the holder starts, so that it is free once the holder is gone.
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        self._write(note)
        return True

    def acquire(self) -> None:
        """Take the lock, waiting for as long as another process holds it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def release(self) -> None:
        """Free the lock; harmless when it is not held."""
        if self._handle is not None:
            self._write("")
            os.close(self._handle)
            self._handle = None

    def note(self) -> str:
        """What the holder wrote, or an empty string."""
        try:
            return self.path.read_text()
        except OSError:
            return ""

    def _write(self, note: str) -> None:
        # A full disk must not cost the lock: the note is only for people.
        if self._handle is not None:
            with suppress(OSError):
                os.ftruncate(self._handle, 0)
                os.pwrite(self._handle, note.encode(), 0)

    def __enter__(self) -> "FileLock":
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.release()
