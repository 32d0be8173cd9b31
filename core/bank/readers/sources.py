"""One file that may hold scores: its first bytes, its JSON, its rows, each read once and within limits.

Takes a path and the root it was found under; gives bytes and JSON values, or one BankError. Knows no format.
"""

import json
import math
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from core.errors import BankError
from core.files import is_inside, read_jsonl

HEAD_BYTES = 65_536
MAX_JSON_BYTES = 64_000_000
"""Largest file that is read as one JSON value: parsed, it may take twenty times its size."""
MAX_SIDE_BYTES = 16_000_000
"""Largest file that is read beside the one with scores, such as a list of tasks."""


class Source:
    """A file, looked at as little as possible.

    `path` is absolute with its links as written; `roots` are the folders that may be read, links followed.
    """

    def __init__(self, path: Path, roots: tuple[Path, ...], *, given: bool = False, confined: bool = False) -> None:
        self.path = path
        self.roots = roots
        self.confined = confined
        """True where the caller limited what may be read, so that nothing above the roots is looked for."""
        self.given = given
        """True where the user named this very file, so that what is wrong with it is an error."""

    @cached_property
    def size(self) -> int:
        """Bytes; BankError where it cannot be read."""
        try:
            return self.path.stat().st_size
        except OSError as problem:
            raise BankError(f"{self.path}: cannot be read ({problem.strerror}).") from None

    @cached_property
    def head(self) -> bytes:
        """The first 64 kB."""
        try:
            with self.path.open("rb") as file:
                return file.read(HEAD_BYTES)
        except OSError as problem:
            raise BankError(f"{self.path}: cannot be read ({problem.strerror}).") from None

    @cached_property
    def is_json(self) -> bool:
        """True where it begins as a JSON object or list does."""
        return self.head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")

    @cached_property
    def is_text(self) -> bool:
        """True where its first bytes are UTF-8 without control characters; the last character may be cut."""
        try:
            text = self.head.decode()
        except UnicodeDecodeError as problem:
            if len(self.head) < HEAD_BYTES or problem.start < len(self.head) - 4:
                return False
            text = self.head[: problem.start].decode()
        return bool(text.strip()) and not any(ord(one) < 32 and one not in "\t\n\r\f" for one in text)

    @cached_property
    def first_row(self) -> dict[str, Any] | None:
        """The first line as a JSON object, where the file is JSONL; else None."""
        if not self.is_json:
            return None
        try:
            return next(read_jsonl(self.path, error=BankError))[1]
        except (BankError, StopIteration):
            return None

    @cached_property
    def json(self) -> Any:
        """The whole file as one JSON value; BankError where it is too large or is not one.

        None where the file is JSONL with more than one line.
        """
        if not self.is_json or self._is_jsonl:
            return None
        return read_json(self.path, MAX_JSON_BYTES)

    @cached_property
    def _is_jsonl(self) -> bool:
        """A whole object on the first line, and another line after it."""
        if self.first_row is None:
            return False
        lines = read_jsonl(self.path, error=BankError)
        next(lines)
        try:
            return next(lines, None) is not None
        except BankError:
            return True

    @property
    def object(self) -> dict[str, Any]:
        """The JSON object that the file is, or an empty one."""
        return self.json if isinstance(self.json, dict) else {}

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """`(place, object)` for each line of a JSONL file, in bounded memory."""
        for line, row in read_jsonl(self.path, error=BankError):
            yield f"{self.path}:{line}", row

    def beside(self, path: Path) -> bool:
        """True for a small file that may be read along with this one."""
        return path.is_file() and is_inside(path, self.roots) and path.stat().st_size <= MAX_SIDE_BYTES


def read_json(path: Path, most: int) -> Any:
    """A file as one JSON value. Raises BankError where it is larger than `most` bytes or is no JSON."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as problem:
        raise BankError(f"{path}: cannot be read ({problem.strerror}).") from None
    if len(data) > most:
        raise BankError(
            f"{path}: is larger than the {most / 1e6:.0f} MB that are read as one JSON value. "
            "Write one object a line (JSONL), which is read in bounded memory, or split the file."
        )
    return parse_json(data, str(path))


def parse_json(data: bytes, where: str) -> Any:
    """Bytes as one JSON value; BankError, naming the place, where they are not."""
    if not data.strip():
        raise BankError(f"{where}: is empty.")
    try:
        return json.loads(data.removeprefix(b"\xef\xbb\xbf"), parse_int=_whole)
    except (ValueError, RecursionError) as problem:
        raise BankError(f"{where}: is not JSON ({str(problem)[:120]}).") from None


def _whole(text: str) -> float:
    """A whole number; thousands of digits, which cost minutes to convert, become infinite."""
    return int(text) if len(text) < 40 else math.inf
