"""A model of half the size beside a file that makes it whole again: bf16 weights and their fp32 residual.

`write` takes a model folder with fp32 tensors and makes a bf16 copy with `residual.safetensors` in it; `restore` takes
that and makes the fp32 model, checked tensor by tensor against the SHA-256 that `write` noted. Either writes a whole
folder or nothing. Streams; memory does not depend on the model.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from core.errors import CheckpointError, RunError
from core.merge.blocks import Files, spans
from core.merge.checkpoint import CheckpointFile, open_checkpoint
from core.merge.companions import copy_companions
from core.merge.folder import COMPANION_BYTES, check_place, check_space, working_folder
from core.merge.header import ITEM_SIZES, Header, TensorInfo, read_header
from core.merge.pairing import TensorJob
from core.merge.result import SHARD_SIZE
from core.merge.writer import ShardWriter, full_disk
from core.precision.residual import decode, encode, not_finite
from core.progress import Progress, no_progress

RESIDUAL_FILE = "residual.safetensors"
LOW, TIES = ".low", ".ties"
"""What a tensor's two parts in the residual are called after its name."""
FORM = "mergescope-residual-1"
BLOCK = 1 << 22


@dataclass(frozen=True)
class SidecarResult:
    """What was written; `as_dict` is the JSON of the `sidecar` commands."""

    out: str
    tensors: int
    """fp32 tensors that were rounded, or restored."""
    elements: int
    """Their elements."""
    other: int
    """Tensors of other dtypes, copied as they are."""
    ties: int
    """Elements exactly between two bf16 numbers."""
    fp32_bytes: int
    """Of the fp32 tensors."""
    bf16_bytes: int
    residual_bytes: int
    """Of the residual file, header and all."""
    exact: bool
    """bf16 and residual, read back from the disk, gave every fp32 tensor bit for bit."""

    def as_dict(self) -> dict[str, Any]:
        """Plain dict for JSON."""
        return asdict(self)


@dataclass(eq=False)
class _Noted:
    """What the first pass learns of one fp32 tensor."""

    info: TensorInfo
    sha256: str
    ties: np.ndarray
    """uint8: the bits of its ties, packed."""
    count: int


class _Residual(NamedTuple):
    """A residual file that has been checked against the weights beside it."""

    header: Header
    sha256: dict[str, str]
    """Of every fp32 tensor's bytes."""
    ties: dict[str, int]
    """How many each has."""


def write(model: Path, out: Path, progress: Progress = no_progress) -> SidecarResult:
    """Make a bf16 copy of a model at `out`, with the residual that gives its fp32 tensors back.

    Raises CheckpointError for a model without fp32 tensors or with NaN or infinity in one, InputError where `out` is
    taken, RunError when the disk is full or what was written does not give the model back.
    """
    source, out = open_checkpoint(model), Path(out)
    wide = _wide(source)
    check_place(out, [source.folder], overwrite=False)
    check_space(out, source.nbytes + source.nbytes // 8 + COMPANION_BYTES)
    with Files() as files, working_folder(out, overwrite=False) as work:
        noted = _write_rounded(work, source, files, progress)
        _write_residual(work / RESIDUAL_FILE, noted, files, progress)
        copy_companions(work, source, [], "bfloat16")
        _verify(work, progress)
        size = (work / RESIDUAL_FILE).stat().st_size
    return _result(out, source, wide, sum(one.count for one in noted), size)


def restore(folder: Path, out: Path, progress: Progress = no_progress) -> SidecarResult:
    """Make the fp32 model again of what `write` made. Raises CheckpointError for a folder that is not whole, or whose
    bf16 and residual do not belong together; InputError and RunError as `write`."""
    source, out = open_checkpoint(folder), Path(out)
    residual = _residual(source)
    check_place(out, [source.folder], overwrite=False)
    jobs = [
        TensorJob(name, info.shape, (info,), "F32" if name in residual.ties else info.dtype)
        for name, info in source.tensors.items()
    ]
    check_space(out, sum(job.nbytes for job in jobs) + COMPANION_BYTES)
    with Files() as files, working_folder(out, overwrite=False) as work:
        writer = ShardWriter(work, jobs, SHARD_SIZE, {"format": "pt"})
        try:
            for number, job in enumerate(jobs, start=1):
                made = _restored(job.inputs[0], residual, files) if job.name in residual.ties else None
                for piece in made or _raw(job.inputs[0], files):
                    writer.write(piece)
                writer.job_done()
                progress("restoring", number, len(jobs), "tensors")
            writer.finish()
        finally:
            writer.abandon()
        copy_companions(work, source, [], "float32")
    wide = [source.tensors[name] for name in residual.ties]
    size = (source.folder / RESIDUAL_FILE).stat().st_size
    return _result(out, source, wide, sum(residual.ties.values()), size)


def _wide(source: CheckpointFile) -> list[TensorInfo]:
    if source.ranks:
        raise CheckpointError(f"{source.folder}: is a sharded state. Join it first: python -m core convert.")
    wide = [one for one in source.tensors.values() if one.dtype == "F32"]
    if not wide:
        raise CheckpointError(
            f"{source.folder}: has no float32 tensors (its dtype is {source.dtype}), so bf16 takes nothing away that "
            "could be kept. Merge with out_dtype: float32 first."
        )
    return wide


def _result(
    out: Path, source: CheckpointFile, wide: Sequence[TensorInfo], ties: int, residual_bytes: int
) -> SidecarResult:
    elements = sum(one.elements for one in wide)
    other = len(source.tensors) - len(wide)
    return SidecarResult(
        str(out), len(wide), elements, other, ties, 4 * elements, 2 * elements, residual_bytes, exact=True
    )


def _write_rounded(work: Path, source: CheckpointFile, files: Files, progress: Progress) -> list[_Noted]:
    """The bf16 weights; gives what the residual's header needs."""
    jobs = [
        TensorJob(name, info.shape, (info,), "BF16" if info.dtype == "F32" else info.dtype)
        for name, info in source.tensors.items()
    ]
    noted: list[_Noted] = []
    writer = ShardWriter(work, jobs, SHARD_SIZE, {"format": "pt"})
    try:
        for number, job in enumerate(jobs, start=1):
            info = job.inputs[0]
            if info.dtype == "F32":
                noted.append(_round(info, files, writer))
            else:
                for piece in _raw(info, files):
                    writer.write(piece)
            writer.job_done()
            progress("rounding", number, len(jobs), "tensors")
        writer.finish()
    finally:
        writer.abandon()
    return noted


def _round(info: TensorInfo, files: Files, writer: ShardWriter) -> _Noted:
    digest, ties = hashlib.sha256(), [np.zeros(0, bool)]
    for piece in _raw(info, files):
        bits = piece.view(np.uint32)
        if bad := not_finite(bits):
            raise CheckpointError(
                f"{info.file.parent}: tensor {info.name} has {bad:,} values that are NaN or infinite. "
                "Expected finite weights."
            )
        digest.update(piece.data)
        rounded, _, here = encode(bits)
        writer.write(rounded)
        ties.append(here)
    found = np.concatenate(ties)
    return _Noted(info, digest.hexdigest(), np.packbits(found), found.size)


def _raw(info: TensorInfo, files: Files) -> Iterator[np.ndarray]:
    """A tensor's bytes, uint8, a block at a time."""
    files.open(info.file)
    size = ITEM_SIZES[info.dtype]
    for start, n in spans(info.elements, BLOCK):
        piece = np.empty(n * size, np.uint8)
        files.read(info.file, info.offset + start * size, piece.data)
        yield piece


def _write_residual(path: Path, noted: Sequence[_Noted], files: Files, progress: Progress) -> None:
    entries: dict[str, Any] = {
        "__metadata__": {
            "form": FORM,
            "sha256": json.dumps({one.info.name: one.sha256 for one in noted}),
            "ties": json.dumps({one.info.name: one.count for one in noted}),
        }
    }
    end = 0
    for suffix, dtype in ((LOW, "U16"), (TIES, "U8")):
        for one in noted:
            shape = list(one.info.shape) if suffix == LOW else [one.ties.size]
            size = 2 * one.info.elements if suffix == LOW else one.ties.size
            entries[one.info.name + suffix] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
            end += size
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    try:
        with path.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            _put_parts(file, noted, files, progress)
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        raise full_disk(problem, path.parent) from None


def _put_parts(file: BinaryIO, noted: Sequence[_Noted], files: Files, progress: Progress) -> None:
    for number, one in enumerate(noted, start=1):
        for piece in _raw(one.info, files):
            file.write(np.ascontiguousarray(piece.view(np.uint16)[::2]).data)
        progress("writing the residual", number, len(noted), "tensors")
    for one in noted:
        file.write(one.ties.data)


def _verify(work: Path, progress: Progress) -> None:
    """Raise RunError unless what lies in a folder gives every fp32 tensor back."""
    source = open_checkpoint(work)
    residual = _residual(source)
    with Files() as files:
        for number, name in enumerate(residual.ties, start=1):
            try:
                for _ in _restored(source.tensors[name], residual, files):
                    pass
            except CheckpointError as problem:
                raise RunError(f"{work}: what was written cannot be read back ({problem}) Nothing was kept.") from None
            progress("checking", number, len(residual.ties), "tensors")


def _residual(source: CheckpointFile) -> _Residual:
    path = source.folder / RESIDUAL_FILE
    if not path.is_file():
        raise CheckpointError(f"{source.folder}: has no {RESIDUAL_FILE}. Expected a folder that `sidecar write` made.")
    header = read_header(path)
    try:
        noted, ties = (json.loads(header.metadata[key]) for key in ("sha256", "ties"))
        fits = header.metadata["form"] == FORM and all(
            source.tensors[name].dtype == "BF16"
            and source.tensors[name].shape == header.tensors[name + LOW].shape
            and header.tensors[name + TIES].elements == -(-ties[name] // 8)
            and isinstance(noted[name], str)
            for name in ties
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        fits = False
    if not fits or not len(header.tensors) == 2 * len(noted) == 2 * len(ties):
        raise CheckpointError(f"{path}: does not fit the bf16 weights beside it. Write both again.")
    return _Residual(header, noted, ties)


def _restored(info: TensorInfo, residual: _Residual, files: Files) -> Iterator[np.ndarray]:
    """An fp32 tensor's bytes of its bf16 and residual; raises CheckpointError at its end where they are others."""
    low, packed = (residual.header.tensors[info.name + suffix] for suffix in (LOW, TIES))
    count = residual.ties[info.name]
    ties = np.concatenate([np.zeros(0, np.uint8), *_raw(packed, files)])
    up, used, digest = np.unpackbits(ties)[:count].astype(bool), 0, hashlib.sha256()
    for rounded, rest in zip(_raw(info, files), _raw(low, files), strict=True):
        lower = rest.view(np.uint16)
        here = int(np.count_nonzero(lower == 0x8000))
        if used + here > count:
            break
        piece = decode(rounded.view(np.uint16), lower, up[used : used + here]).view(np.uint8)
        used += here
        digest.update(piece.data)
        yield piece
    if used != count or digest.hexdigest() != residual.sha256[info.name]:
        raise CheckpointError(
            f"{info.file.parent}: tensor {info.name} and its residual do not give the fp32 they were made of. "
            "One of the files was changed: copy both again."
        )
