"""Where a preview's bytes come from: many small ranges of tensors, asked for at once.

`LocalSource` reads files at positions; another source (byte ranges over a network) has to offer the same two
members. Knows nothing about sampling or merging.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from core.merge.blocks import Files, thread_count
from core.merge.header import TensorInfo


class Request(NamedTuple):
    """One range of one tensor."""

    info: TensorInfo
    offset: int
    """First byte, counted from the start of the tensor."""
    into: memoryview
    """Writable bytes, as many as are wanted."""


class Source(Protocol):
    """Gives bytes of tensors."""

    bytes_read: int
    """All that has been read so far."""

    def fetch(self, requests: Sequence[Request]) -> None:
        """Fill every request's buffer. Raises CheckpointError, naming the file, for one that cannot be read."""


class LocalSource:
    """Files on this machine, read at positions in threads; opened for each `fetch` and closed after it."""

    def __init__(self, threads: int | None = None) -> None:
        self.bytes_read = 0
        self._threads = threads or thread_count()

    def fetch(self, requests: Sequence[Request]) -> None:
        """See `Source`."""
        with Files() as files, ThreadPoolExecutor(self._threads, thread_name_prefix="preview") as pool:
            for path in dict.fromkeys(one.info.file for one in requests):
                files.open(path)

            def read(part: Sequence[Request]) -> None:
                for info, offset, into in part:
                    files.read(info.file, info.offset + offset, into)

            list(pool.map(read, [requests[at :: self._threads] for at in range(self._threads)]))
            self.bytes_read += files.bytes_read
