"""Small file habits shared by every layer: JSONL in and out, all-or-nothing writes, what lies in which folder.

Takes and gives paths and plain Python values; knows nothing about what the files mean.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from core.errors import InputError

MAX_LINE_BYTES = 4_000_000


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write `content` to `path` so that a reader sees the old file or the new one, never half.

    Raises OSError as the system gives it; the temporary file is removed in that case.
    """
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_jsonl(
    path: Path, *, error: type[InputError] = InputError, holding: str = ""
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield `(line number, object)` for each non-blank line of a JSONL file.

    With `holding`, lines in which that text cannot be, as a value or part of one, are passed over unread.
    Raises `error`, naming the file and line, for a missing or empty file, a line that is not a
    JSON object, a line over 4 MB, or bytes that are not UTF-8.
    """
    try:
        file = path.open("rb")
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror}). Expected a JSONL file.") from None
    seen, wanted = False, holding.encode()
    with file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
            if len(line) > MAX_LINE_BYTES:
                raise error(
                    f"{path}:{number}: a line of more than {MAX_LINE_BYTES:,} bytes. Expected one JSON object a line."
                )
            if not line.strip():
                continue
            seen = True
            # JSON may spell any character with a backslash, and every text without one as it is.
            if wanted not in line and b"\\" not in line:
                continue
            yield number, _parse_object(line, f"{path}:{number}", error)
    if not seen:
        raise error(f"{path}: is empty. Expected one JSON object a line.")


def _parse_object(line: bytes, where: str, error: type[InputError]) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise error(f"{where}: is not JSON ({problem}). Expected one JSON object a line.") from None
    if not isinstance(value, dict):
        raise error(f"{where}: expected a JSON object, found {type(value).__name__}.")
    return value


def jsonl_bytes(rows: Iterable[dict[str, Any]]) -> bytes:
    """Encode rows as JSONL: one object a line, UTF-8, keys in the order given."""
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def is_inside(path: Path, roots: Iterable[Path]) -> bool:
    """True when `path`, with its links followed, is one of `roots` or lies below one."""
    real = path.resolve()
    return any(real == root or root in real.parents for root in (one.resolve() for one in roots))
