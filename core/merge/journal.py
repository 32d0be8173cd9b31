"""The journal of an unfinished merge: which tensors are safely on the disk, and what was counted over them.

Lives in the working folder and is gone when the merge is complete. Takes what the engine finished; gives back,
after a crash, the tensors that need not be merged again. A line counts only when its checksum fits and all
lines before it do.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import core
from core.merge.companions import recipe_fields
from core.merge.figures import TensorFigures
from core.merge.pairing import TensorJob
from core.merge.plan import Plan
from core.merge.writer import full_disk

JOURNAL_FILE = "journal.jsonl"
VERSION = 1
"""Raised when the same plan no longer gives the same bytes or figures."""


def identity_of(plan: Plan, jobs: Sequence[TensorJob], shard_size: float) -> str:
    """SHA-256 over everything that decides what is written: rules, inputs as they are now, layout, our version."""
    files = sorted({info.file for job in jobs for info in job.inputs})
    states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    tensors = [
        (job.name, job.shape, job.out_dtype, job.duplicate_of, [(str(one.file), one.offset) for one in job.inputs])
        for job in jobs
    ]
    value = [VERSION, core.__version__, recipe_fields(plan), plan.yaml_text, shard_size, states, tensors]
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Finished:
    """One tensor that is on the disk."""

    name: str
    figures: Mapping[str, Any] | None
    """`TensorFigures.as_dict`; None for a copied tensor or a tied copy."""


class Journal:
    """Appends to a journal; `read` gives what an earlier process wrote for the same identity."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._path = folder / JOURNAL_FILE
        self._identity = identity

    def read(self) -> list[Finished]:
        """The tensors that are done, in order, and cut off whatever follows the last whole line."""
        found: list[Finished] = []
        lines, length = _lines(self._path)
        if not lines or lines[0] != {"identity": self._identity}:
            self.begin()
            return found
        os.truncate(self._path, length)
        return [Finished(str(one["name"]), one["figures"]) for one in lines[1:]]

    def append(self, finished: Iterable[tuple[str, TensorFigures | None]]) -> None:
        """Write and sync lines; raises RunError when the disk is full or fails."""
        self._write("ab", [{"name": name, "figures": one.as_dict() if one else None} for name, one in finished])

    def remove(self) -> None:
        """The merge is complete."""
        self._path.unlink(missing_ok=True)

    def begin(self) -> None:
        """Start anew."""
        self._write("wb", [{"identity": self._identity}])

    def _write(self, mode: str, values: Sequence[Mapping[str, Any]]) -> None:
        text = b"".join(map(_line, values))
        try:
            with self._path.open(mode) as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as problem:
            raise full_disk(problem, self._path.parent) from None


def identity_in(folder: Path) -> str | None:
    """The identity of the merge that a working folder belongs to; None where no journal says so."""
    lines, _ = _lines(folder / JOURNAL_FILE)
    return lines[0].get("identity") if lines else None


def _line(value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The whole lines from the start of a journal, and how many bytes they take."""
    try:
        data = path.read_bytes()
    except OSError:
        return [], 0
    found, length = [], 0
    for line in data.splitlines(keepends=True):
        sum_, _, text = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or sum_ != b"%08x" % zlib.crc32(text):
            break
        try:
            found.append(json.loads(text))
        except ValueError:
            break
        length += len(line)
    return found, length
