"""The output folder: made beside its place under another name, synced, and renamed when complete.

Takes the final path; gives a working folder that vanishes on any error or cancellation. Knows nothing
about what is written.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from core.errors import InputError, RunError
from core.merge.companions import PLAN_FILE
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
def working_folder(out: Path, *, overwrite: bool) -> Iterator[Path]:
    """A hidden sibling of `out` to write in; it becomes `out` when the block ends well, else it is removed.

    With `overwrite` the old folder is removed after the new one has taken its place. Raises RunError.
    """
    out = out.absolute()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".partial", dir=out.parent))
    except OSError as problem:
        raise full_disk(problem, out.parent) from None
    try:
        yield work
        _publish(work, out, overwrite)
    except OSError as problem:
        shutil.rmtree(work, ignore_errors=True)
        raise full_disk(problem, out) from None
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _publish(work: Path, out: Path, overwrite: bool) -> None:
    mask = os.umask(0)
    os.umask(mask)
    work.chmod(0o777 & ~mask)
    _sync_folder(work)
    old = None
    if overwrite and out.exists() and any(out.iterdir()):
        old = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".old", dir=out.parent))
        out.replace(old)
    try:
        work.replace(out)
    except OSError:
        if old:
            old.replace(out)
        raise RunError(f"{out}: something else took this place during the merge. Nothing was kept.") from None
    _sync_folder(out.parent)
    if old:
        shutil.rmtree(old, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
