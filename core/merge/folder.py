"""The output folder: made beside its place under another name, synced, and renamed when complete.

Takes the final path; gives a working folder that vanishes on any error or cancellation. Knows nothing
about what is written.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from core.errors import DiskError, InputError, RunError
from core.merge.companions import PLAN_FILE
from core.merge.journal import identity_in
from core.merge.writer import full_disk

COMPANION_BYTES = 64 << 20
"""Room asked for beside the weights: tokenizer, report, card."""


def free_bytes(path: Path) -> int:
    """Bytes free on the disk of a path that need not exist yet."""
    place = Path(path).absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def check_place(out: Path, inputs: Sequence[Path], *, overwrite: bool) -> None:
    """Raise InputError when `out` is taken, or would replace or lie in the way of a model that is read."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise InputError(f"{out}: exists and is not a folder. Choose another place for the merged model.")
    real = out.resolve()
    if real == Path.cwd() or real in Path.cwd().parents:
        raise InputError(f"{out}: is the working directory or above it. Name a folder of its own for the merged model.")
    for one in inputs:
        if real == one.resolve() or real in one.resolve().parents:
            raise InputError(f"{out}: holds {one}, which the merge reads. Choose another place for the merged model.")
    if out.exists() and any(out.iterdir()):
        _refuse_taken(out, overwrite)


def _refuse_taken(out: Path, overwrite: bool) -> None:
    """Only an earlier merge may be replaced, and only when asked: nothing else can be made again."""
    if not overwrite:
        raise InputError(f"{out}: exists and is not empty. Choose another place, or ask to overwrite it.")
    if not (out / PLAN_FILE).is_file():
        raise InputError(
            f"{out}: holds no earlier merge (no {PLAN_FILE}), so it is not overwritten. "
            "Empty it, or choose another place."
        )


def check_space(out: Path, needed: int) -> None:
    """Raise RunError when the disk of `out` has less than `needed` bytes free."""
    free = free_bytes(out)
    if needed > free:
        raise RunError(
            f"{out}: the merged model needs {needed:,} bytes, the disk has {free:,} free. "
            "Free some space or choose another place."
        )


@contextmanager
def working_folder(out: Path, *, overwrite: bool, resume: str | None = None) -> Iterator[Path]:
    """A hidden sibling of `out` to write in; it becomes `out` when the block ends well, else it is removed.

    One process at a time: a second is refused with an InputError. With `resume`, the identity of a merge (see
    `journal.py`), a folder that an earlier process left for the same one is gone on with, and kept for a next one
    when the disk is full. With `overwrite` the old folder is removed after the new one has taken its place.
    Raises RunError.
    """
    out = out.absolute()
    work = out.parent / f".{out.name}.partial"
    with _only_writer(out):
        try:
            _restore(out)
            _clear(work, resume)
            work.mkdir(exist_ok=True)
        except OSError as problem:
            raise full_disk(problem, out.parent) from None
        try:
            yield work
            _publish(work, out, overwrite)
        except OSError as problem:
            shutil.rmtree(work, ignore_errors=True)
            raise full_disk(problem, out) from None
        except DiskError as problem:
            if resume is None:
                shutil.rmtree(work, ignore_errors=True)
                raise
            raise DiskError(
                f"{problem} What is merged so far is kept in {work}: the same command goes on with it; remove that "
                "folder to give it up."
            ) from None
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise


def _clear(work: Path, resume: str | None) -> None:
    """Remove what an earlier process left, unless it is the same merge."""
    if work.is_symlink() or (work.exists() and not work.is_dir()):
        work.unlink()
    elif work.exists() and (resume is None or identity_in(work) != resume):
        shutil.rmtree(work)


def left_behind(out: Path, resume: str) -> int:
    """Bytes that an earlier process already wrote of the same merge."""
    work = out.absolute().parent / f".{out.name}.partial"
    if identity_in(work) != resume:
        return 0
    return sum(path.stat().st_size for path in work.glob("*.safetensors"))


@contextmanager
def _only_writer(out: Path) -> Iterator[None]:
    """Hold the lock beside `out` for as long as the block; raises InputError when another process has it."""
    path = out.parent / f".{out.name}.lock"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        handle = _locked(path)
    except BlockingIOError:
        raise InputError(
            f"{out}: another process is writing a model there. Wait for it, or choose another place."
        ) from None
    except OSError as problem:
        raise full_disk(problem, out.parent) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _locked(path: Path) -> int:
    """An open handle with an exclusive lock on the file that is at `path` now; the kernel frees it with the process."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.fstat(handle).st_ino == path.stat().st_ino:
                return handle
        except OSError:
            os.close(handle)
            raise
        os.close(handle)


def put_back(out: Path) -> None:
    """Undo what a process did that died between the two renames of an overwrite; does nothing while one runs."""
    out = out.absolute()
    if _old(out).is_dir():
        with suppress(InputError), _only_writer(out):
            _restore(out)


def _restore(out: Path) -> None:
    old = _old(out)
    if not old.is_dir():
        return
    if out.exists() and any(out.iterdir()):
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.replace(out)


def _old(out: Path) -> Path:
    return out.parent / f".{out.name}.old"


def _publish(work: Path, out: Path, overwrite: bool) -> None:
    mask = os.umask(0)
    os.umask(mask)
    work.chmod(0o777 & ~mask)
    sync_folder(work)
    old = None
    if overwrite and out.exists() and any(out.iterdir()):
        old = _old(out)
        out.replace(old)
    try:
        work.replace(out)
    except OSError:
        if old:
            old.replace(out)
        raise RunError(f"{out}: something else took this place during the merge. Nothing was kept.") from None
    sync_folder(out.parent)
    if old:
        shutil.rmtree(old, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
