"""Checks a merged folder against its provenance.json: every file's size and SHA-256, and files that are too many.

Takes a folder; gives one line a file. Reads files and changes none. Names come from a file that may come from
anywhere: outputs are read in the folder itself and never through a link.
"""

import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from core.errors import InputError
from core.merge.blocks import thread_count
from core.merge.forms import INDEX_FILE
from core.merge.record import Record, RecordedFile, read_record
from core.progress import Progress, no_progress

PIECE = 4 << 20
POLL_SECONDS = 0.1
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
"""Endings of files that other tools would load as weights."""

Status = Literal["ok", "changed", "missing", "extra"]


@dataclass(frozen=True)
class CheckedFile:
    """One file, as it was recorded and as it is."""

    role: str
    """`output`, or the role of the model it belongs to: `base`, `member 1` and so on."""
    folder: str
    file: str
    status: Status
    why: str = ""
    """What is wrong, in words; empty when nothing is."""
    bytes: int | None = None
    """Its size now; None where it is missing."""
    expected_sha256: str | None = None
    found_sha256: str | None = None
    """None where it was not read, since it is missing or its size is wrong already."""


@dataclass(frozen=True)
class Verification:
    """Every file of a merge, checked."""

    out: str
    files: tuple[CheckedFile, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """True when every file is as it was recorded, and none is too many."""
        return all(one.status == "ok" for one in self.files)

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self) | {"ok": self.ok}


@dataclass(frozen=True)
class Wanted:
    """One file to check."""

    role: str
    folder: Path
    file: RecordedFile
    follow: bool
    """Whether it may be a link; models in a download cache are."""


def verify(out: Path, *, inputs: bool = False, progress: Progress = no_progress) -> Verification:
    """Check every file that `out`'s provenance.json names, and with `inputs` those of the models that went in.

    Raises InputError where there is no provenance.json or it is malformed; lets `Cancelled` from `progress` pass.
    """
    started = time.perf_counter()
    out = Path(out)
    record = read_record(out)
    wanted = [Wanted("output", out, one, follow=False) for one in record.outputs]
    if inputs:
        wanted += inputs_of(record)
    files = check_files(wanted, progress)
    outputs = sum(one.role == "output" for one in files)
    files[outputs:outputs] = _extra(out, record)
    return Verification(str(out), tuple(files), time.perf_counter() - started)


def inputs_of(record: Record) -> list[Wanted]:
    """The weight files of every model of a merge; a model that plays two roles is listed once."""
    seen: set[Path] = set()
    wanted = []
    for model in record.inputs:
        if model.path not in seen:
            wanted += [Wanted(model.role, model.path, one, follow=True) for one in model.files]
        seen.add(model.path)
    return wanted


def check_files(wanted: Sequence[Wanted], progress: Progress = no_progress) -> list[CheckedFile]:
    """Check files in threads, in the order given; a file of the wrong size is not read."""
    found: dict[Wanted, CheckedFile] = {}
    to_hash: dict[Wanted, int] = {}
    for one in dict.fromkeys(wanted):
        size = _size(one.folder / one.file.name, one.follow)
        if isinstance(size, int) and size == one.file.nbytes:
            to_hash[one] = size
        else:
            found[one] = _not_as_recorded(one, size)
    digests = hash_files([(one.folder / one.file.name, one.follow) for one in to_hash], sum(to_hash.values()), progress)
    for (one, size), digest in zip(to_hash.items(), digests, strict=True):
        same = digest == one.file.sha256
        why = "" if same else f"its SHA-256 is {digest[:16]}…, {one.file.sha256[:16]}… was recorded"
        status: Status = "ok" if same else "changed"
        found[one] = CheckedFile(
            one.role, str(one.folder), one.file.name, status, why, size, one.file.sha256, digest
        )  # fmt: skip
    return [found[one] for one in wanted]


def _size(path: Path, follow: bool) -> int | str:
    """Bytes of a regular file, or in words why it is none; empty where there is nothing."""
    try:
        status = path.stat() if follow else path.lstat()
    except FileNotFoundError:
        return ""
    except OSError as problem:
        return f"cannot be read ({problem.strerror})"
    if stat.S_ISLNK(status.st_mode):
        return "is a link, which is not followed"
    return status.st_size if stat.S_ISREG(status.st_mode) else "is no regular file"


def _not_as_recorded(one: Wanted, size: int | str) -> CheckedFile:
    expected = one.file.sha256
    if isinstance(size, int):
        why = f"has {size:,} bytes, {one.file.nbytes:,} were recorded"
        return CheckedFile(one.role, str(one.folder), one.file.name, "changed", why, size, expected)
    status: Status = "changed" if size else "missing"
    return CheckedFile(one.role, str(one.folder), one.file.name, status, size or "is not there", None, expected)


def _extra(out: Path, record: Record) -> list[CheckedFile]:
    """Weight files that the merge did not write, which a loader may read all the same."""
    known = {one.name for one in record.outputs}
    endings = (*WEIGHTS, INDEX_FILE) if record.engine == "streaming" else WEIGHTS
    names = sorted(path.name for path in out.iterdir() if path.name.endswith(endings) and path.name not in known)
    return [CheckedFile("output", str(out), name, "extra", "was not written by this merge") for name in names]


def hash_files(paths: Iterable[tuple[Path, bool]], total: int, progress: Progress = no_progress) -> list[str]:
    """SHA-256 of files, each with whether it may be a link, in threads; `total` is their bytes, for the progress.

    Raises InputError for a file that cannot be read or is no regular file.
    """
    stop, lock, done = threading.Event(), threading.Lock(), [0]

    def on_bytes(count: int) -> bool:
        with lock:
            done[0] += count
        return stop.is_set()

    pool = ThreadPoolExecutor(thread_count(), thread_name_prefix="verify")
    try:
        futures = [pool.submit(_hash, path, follow, on_bytes) for path, follow in paths]
        waiting: Iterable[Any] = futures
        while waiting:
            waiting = wait(waiting, POLL_SECONDS, FIRST_EXCEPTION).not_done
            progress("hashing", min(done[0], total), total, "bytes")
            if any(one.done() and one.exception() for one in futures):
                break
        return [one.result() for one in futures]
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _hash(path: Path, follow: bool, on_bytes: Any) -> str:
    digest, piece = hashlib.sha256(), bytearray(PIECE)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        with os.fdopen(os.open(path, flags), "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{path}: is no regular file.")
            while count := file.readinto(piece):
                digest.update(memoryview(piece)[:count])
                if on_bytes(count):
                    break
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror}).") from None
    return digest.hexdigest()
