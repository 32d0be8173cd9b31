"""Remembers the SHA-256 of files that have not changed since, so that large models are hashed once.

Takes paths; gives hashes. A file is the same while its real path, size, inode, mtime and ctime are. Lives in
`MERGESCOPE_CACHE`, or the user's cache folder; without a place to write to, nothing is remembered.
"""

import os
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

FILE = "hashes.sqlite"
SETTLED_SECONDS = 2.0
"""A file changed more recently than this could change again without its times telling."""
CREATE = "CREATE TABLE IF NOT EXISTS hashes (path TEXT PRIMARY KEY, state TEXT NOT NULL, sha256 TEXT NOT NULL)"


def cache_folder() -> Path:
    """Where things are kept that can be made again."""
    given = os.environ.get("MERGESCOPE_CACHE")
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(given) if given else (Path(home) if home else Path.home() / ".cache") / "mergescope"


class HashCache:
    """Looks up and stores; every failure of the store is as if it were empty."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = (folder or cache_folder()) / FILE
        self._lock = threading.Lock()

    def get(self, path: Path) -> str | None:
        """The SHA-256 of a file as it is now, where it is known."""
        state = _state(path)
        if state is None or not self._path.is_file():
            return None
        with suppress(sqlite3.Error, OSError), self._lock, closing(self._connect()) as store:
            row = store.execute("SELECT state, sha256 FROM hashes WHERE path = ?", (_key(path),)).fetchone()
            return str(row[1]) if row and row[0] == state else None
        return None

    def put(self, path: Path, before: str | None, sha256: str) -> None:
        """Remember a file's hash, if it has been as `before` (of `state`) all the while."""
        state = _state(path)
        if state is None or state != before or time.time() - path.stat().st_mtime < SETTLED_SECONDS:
            return
        with suppress(sqlite3.Error, OSError), self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as store, store:
                store.execute(CREATE)
                store.execute("INSERT OR REPLACE INTO hashes VALUES (?, ?, ?)", (_key(path), state, sha256))

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=5.0)

    @staticmethod
    def state(path: Path) -> str | None:
        """What must stay as it is for a hash to hold; None where the file cannot be looked at."""
        return _state(path)


def _key(path: Path) -> str:
    return str(path.resolve())


def _state(path: Path) -> str | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return f"{found.st_size}:{found.st_ino}:{found.st_mtime_ns}:{found.st_ctime_ns}"
