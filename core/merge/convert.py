"""Converts a vLLM sharded state to a Hugging Face folder, where the ranks agree on what they share.

Takes a folder and an output path; gives a complete folder with a provenance.json, or an error and no trace.
Bytes are moved, never computed: joined tensors are those that were split.
"""

import hashlib
import json
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import core
from core.errors import CheckpointError, InputError
from core.merge.blocks import Files
from core.merge.checkpoint import CheckpointFile, open_checkpoint
from core.merge.companions import CONFIG_FILE, PROVENANCE_FILE, copy_companions
from core.merge.folder import COMPANION_BYTES, check_place, check_space, working_folder
from core.merge.hashing import BackgroundHashes
from core.merge.replicas import refuse_unequal
from core.merge.result import SHARD_SIZE
from core.merge.slabs import Joined, pieces
from core.merge.splits import joining_of
from core.merge.writer import ShardWriter, WrittenFile, write_text
from core.progress import Progress, no_progress

ENGINE = "convert"


@dataclass(frozen=True)
class ConvertResult:
    """What a finished conversion did; `as_dict` is the JSON of the `convert` command."""

    out: str
    layout: str
    """What was read, with its number of ranks."""
    tensors: int
    elements: int
    replicated: int
    """Tensors that several ranks held, and held alike."""
    seconds: float
    bytes_read: int
    bytes_written: int
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain dict for JSON."""
        return asdict(self) | {"warnings": list(self.warnings)}


def convert(
    folder: Path,
    out: Path,
    *,
    overwrite: bool = False,
    shard_size: float = SHARD_SIZE,
    progress: Progress = no_progress,
) -> ConvertResult:
    """Join the ranks of a sharded state to a Hugging Face folder at `out`, whole or not at all.

    `shard_size` in bytes; `overwrite` replaces an earlier conversion. Raises CheckpointError for a folder that is
    no sharded state, whose ranks differ in what they share (the tensor and the largest difference are named), or
    that holds a tensor whose split is not known; InputError when `out` is taken; RunError when the disk is full.
    """
    started, out = time.perf_counter(), Path(out)
    source = open_checkpoint(folder)
    _check_out(out, source.folder, overwrite)
    if source.ranks and not source.config:
        raise CheckpointError(
            f"{source.folder}: has no {CONFIG_FILE}, so its fused tensors cannot be taken apart. Copy it from the "
            "model that was sharded."
        )
    joining = joining_of(source)
    progress("comparing", 0, 1, "ranks")
    replicated = refuse_unequal(source, joining.replicas)
    check_space(out, sum(one.nbytes for one in joining.tensors) + COMPANION_BYTES)
    warnings = (*source.warnings, *joining.warnings)
    with Files() as files, BackgroundHashes(source.files) as hashes, working_folder(out, overwrite=overwrite) as work:
        written = _write(work, joining.tensors, files, shard_size, progress)
        copy_companions(work, source, [], source.dtype.split(", ")[0])
        progress("hashing", 0, 1, "inputs")
        inputs = [hashes.result(path) for path in source.files]
        text = _provenance(source, shard_size, inputs, written, warnings)
        written.append(write_text(work / PROVENANCE_FILE, text))
        progress("publishing", 0, 1, "folder")
    return ConvertResult(
        str(out), str(source.ranks), len(joining.tensors), sum(one.elements for one in joining.tensors), replicated,
        time.perf_counter() - started, files.bytes_read, sum(one.nbytes for one in written), warnings,
    )  # fmt: skip


def _check_out(out: Path, source: Path, overwrite: bool) -> None:
    """As for a merge, save that what may be overwritten is an earlier conversion."""
    if not (overwrite and out.is_dir() and not out.is_symlink() and any(out.iterdir())):
        check_place(out, [source], overwrite=False)
        return
    real = out.resolve()
    if real in (source.resolve(), Path.cwd()) or real in (*source.resolve().parents, *Path.cwd().parents):
        raise InputError(f"{out}: holds what is read, or the working directory. Choose another place for the result.")
    if not _is_conversion(out):
        raise InputError(
            f"{out}: holds no earlier conversion (by its {PROVENANCE_FILE}), so it is not overwritten. Empty it, or "
            "choose another place."
        )


def _is_conversion(out: Path) -> bool:
    try:
        found = json.loads((out / PROVENANCE_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("engine") == ENGINE


def _write(
    work: Path, tensors: Sequence[Joined], files: Files, shard_size: float, progress: Progress
) -> list[WrittenFile]:
    total, done = sum(one.nbytes for one in tensors), 0
    writer = ShardWriter(work, tensors, shard_size, {"format": "pt"})
    try:
        for one in tensors:
            for info in one.inputs:
                files.open(info.file)
            for piece in pieces(one, files):
                writer.write(piece)
                done += piece.nbytes
                progress("converting", done, total, "bytes")
        return writer.finish()
    finally:
        writer.abandon()


def _provenance(
    source: CheckpointFile,
    shard_size: float,
    inputs: Sequence[WrittenFile],
    outputs: Sequence[WrittenFile],
    warnings: Sequence[str],
) -> str:
    """What went in and what came out, as JSON in the form of a merge's provenance, so that `verify` can check it."""
    value = {
        "made_by": f"mergescope {core.__version__}",
        "engine": ENGINE,
        "recipe": {"method": ENGINE},
        "config_sha256": _sha256(source.folder / CONFIG_FILE),
        "settings": {"shard_size": shard_size},
        "layout": asdict(source.ranks) if source.ranks else None,
        "dtypes": {"inputs": {str(source.folder): source.dtype}, "out": source.dtype},
        "inputs": [{"role": "sharded state", "path": str(source.folder.absolute()), "files": _listed(inputs)}],
        "outputs": _listed(outputs),
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "warnings": list(warnings),
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as problem:
        raise CheckpointError(f"{path}: cannot be read ({problem.strerror}).") from None


def _listed(files: Sequence[WrittenFile]) -> list[dict[str, Any]]:
    return [{"file": one.name, "bytes": one.nbytes, "sha256": one.sha256} for one in files]
