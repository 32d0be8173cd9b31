"""Repeats a finished merge from what its provenance.json records, and compares the bytes.

Takes a merged folder; merges its inputs again beside it and gives, for each weight file, whether the bytes are the
same, and the first tensor that is not. Changes nothing in the folder.
"""

import hashlib
import importlib.metadata
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from core.errors import CheckpointError, InputError, RunError
from core.merge.companions import PACKAGES, PLAN_FILE, recipe_fields
from core.merge.config import MAX_BYTES, parse_plan, resolve_model
from core.merge.forms import INDEX_FILE
from core.merge.header import ITEM_SIZES, TensorInfo, read_header
from core.merge.plan import Plan
from core.merge.record import Record, read_record
from core.merge.run import run_merge
from core.merge.verify import check_files, hash_files, inputs_of
from core.progress import Progress, no_progress

PIECE = 8 << 20


@dataclass(frozen=True)
class ComparedFile:
    """One weight file of the merge and of its repetition."""

    file: str
    same: bool
    sha256: str | None
    """Of the file in the merge; None where it is not there."""
    repeated_sha256: str | None


@dataclass(frozen=True)
class Reproduction:
    """Whether a merge gives the same bytes again."""

    out: str
    kept: str | None
    """Where the repetition lies; None when it was removed."""
    files: tuple[ComparedFile, ...]
    difference: str
    """The first file and tensor that differ, in words; empty when none does."""
    other_versions: tuple[str, ...]
    """Packages whose version is not the one that was recorded, `numpy 2.3.0 then, 2.4.0 now`."""
    seconds: float

    @property
    def ok(self) -> bool:
        """True when every weight file is the same, byte for byte."""
        return bool(self.files) and all(one.same for one in self.files)

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self) | {"ok": self.ok}


def reproduce(out: Path, *, keep: Path | None = None, progress: Progress = no_progress) -> Reproduction:
    """Merge again what `out` was merged from, and compare every weight file.

    The repetition goes to a hidden sibling of `out` and is removed, or to `keep`, which must be free. Raises
    InputError where provenance.json or the config is missing, malformed or changed, or an input has changed; what
    `run_merge` raises; lets `Cancelled` from `progress` pass.
    """
    started = time.perf_counter()
    out = Path(out)
    record = read_record(out)
    plan = recorded_plan(out, record)
    _refuse_changed_inputs(record, progress)
    if keep is not None and Path(keep).resolve().is_relative_to(out.resolve()):
        raise InputError(f"{keep}: lies in the merge that is repeated. Choose another place for the repetition.")
    with _place(out, keep) as again:
        run_merge(plan, again, progress=progress, shard_size=record.shard_size)
        files = _compare(out, again, record, progress)
        difference = _first_difference(out, again, files)
    kept = str(keep) if keep is not None else None
    seconds = time.perf_counter() - started
    return Reproduction(str(out), kept, tuple(files), difference, _other_versions(record.versions), seconds)


def recorded_plan(out: Path, record: Record) -> Plan:
    """The plan of a merge: its mergekit_config.yml, with the model paths and settings that were recorded.

    Raises InputError where the config is not the one that was recorded, PlanError where it is malformed.
    """
    path = out / PLAN_FILE
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: no such file. Expected the config that a merge writes beside its weights.")
        content = path.read_bytes()
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror}).") from None
    found = hashlib.sha256(content).hexdigest()
    if found != record.config_sha256:
        raise InputError(
            f"{path}: has changed since the merge (SHA-256 {found}, {record.config_sha256} was recorded). "
            "Put the config back that the merge was made from."
        )
    text = content.decode(errors="replace")
    plan = replace(parse_plan(text, out), dialect=record.dialect, vocabulary=record.vocabulary)
    if plan.engine != record.engine:
        raise InputError(
            f"{out}: was merged by the {record.engine} engine; this version would take the {plan.engine} one. "
            "Repeat it with the version that made it."
        )
    if plan.engine == "streaming":
        _refuse_other_recipe(out, recipe_fields(plan), record.recipe)
    return _with_recorded_paths(out, plan, record)


def _refuse_other_recipe(out: Path, mine: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
    for key in (*recorded, *mine):
        if mine.get(key) != recorded.get(key):
            raise InputError(
                f"{out}: its provenance.json records {key} {recorded.get(key)!r:.80}, its config means "
                f"{mine.get(key)!r:.80}. One of them has changed since the merge."
            )


def _with_recorded_paths(out: Path, plan: Plan, record: Record) -> Plan:
    """Models by their places in the record, since a relative path meant the folder that the config lay in then."""
    bases = [one.path for one in record.inputs if one.role == "base"]
    members = [one.path for one in record.inputs if one.role.startswith("member")]
    if len(members) != len(plan.members) or len(bases) != (1 if plan.base else 0):
        raise InputError(f"{out}: provenance.json lists other models than {PLAN_FILE}. One of them has changed.")
    places = {one.path: path for one, path in zip(plan.members, members, strict=True)}
    places |= {plan.base: bases[0]} if plan.base else {}
    text = plan.yaml_text
    if plan.engine == "mergekit":
        text = _with_paths(text, plan.folder or out, places)
    moved = tuple(replace(one, path=path) for one, path in zip(plan.members, members, strict=True))
    return replace(plan, base=bases[0] if plan.base else None, members=moved, yaml_text=text)


def _with_paths(text: str, folder: Path, places: Mapping[Path, Path]) -> str:
    """A config for mergekit with each model's recorded path in the place of its name."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(one) for key, one in value.items()}
        if isinstance(value, list):
            return [walk(one) for one in value]
        found = places.get(resolve_model(value, folder)) if isinstance(value, str) and value else None
        return str(found) if found else value

    return yaml.safe_dump(walk(yaml.safe_load(text)), sort_keys=False, allow_unicode=True)


def _refuse_changed_inputs(record: Record, progress: Progress) -> None:
    wrong = [one for one in check_files(inputs_of(record), progress) if one.status != "ok"]
    if not wrong:
        return
    one, more = wrong[0], f" ({len(wrong) - 1} more inputs have changed.)" if len(wrong) > 1 else ""
    found = f" Expected SHA-256 {one.expected_sha256}, found {one.found_sha256}." if one.found_sha256 else ""
    why = one.why if not one.found_sha256 else "has changed since the merge"
    raise InputError(
        f"{Path(one.folder) / one.file} ({one.role}): {why}.{found}{more} Repeating needs the same inputs."
    )


@contextmanager
def _place(out: Path, keep: Path | None) -> Iterator[Path]:
    """Where the repetition is written: `keep`, or a hidden sibling of `out` that is removed afterwards."""
    if keep is not None:
        yield Path(keep)
        return
    whole = out.absolute()
    try:
        work = Path(tempfile.mkdtemp(prefix=f".{whole.name}.", suffix=".repeat", dir=whole.parent))
    except OSError as problem:
        raise RunError(
            f"{whole.parent}: cannot be written ({problem.strerror}). Name another place with --keep."
        ) from None
    try:
        yield work / whole.name
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _compare(out: Path, again: Path, record: Record, progress: Progress) -> list[ComparedFile]:
    """Every weight file of either, by name; hashed as they lie on the disk."""
    repeated = read_record(again)
    names = sorted({one.name for one in (*record.outputs, *repeated.outputs) if _is_weight(one.name)})
    digests: list[dict[str, str]] = []
    for folder in (out, again):
        there = [folder / name for name in names if os.path.lexists(folder / name)]
        hashed = hash_files([(path, False) for path in there], sum(path.lstat().st_size for path in there), progress)
        digests.append({path.name: one for path, one in zip(there, hashed, strict=True)})
    pairs = [(name, digests[0].get(name), digests[1].get(name)) for name in names]
    return [ComparedFile(name, one is not None and one == two, one, two) for name, one, two in pairs]


def _is_weight(name: str) -> bool:
    return name.endswith(".safetensors") or name == INDEX_FILE


def _first_difference(out: Path, again: Path, files: list[ComparedFile]) -> str:
    one = next((one for one in files if not one.same), None)
    if one is None:
        return "" if files else f"{out}: provenance.json names no weight file."
    if one.sha256 is None:
        return f"{one.file} is not in {out}, but the repetition wrote it."
    if one.repeated_sha256 is None:
        return f"{one.file} is in {out}, but the repetition did not write it."
    if one.file == INDEX_FILE:
        return f"{one.file} differs: the tensors lie in other files."
    try:
        return f"{one.file}: {first_difference(out / one.file, again / one.file)}"
    except CheckpointError as problem:
        return str(problem)


def first_difference(one: Path, two: Path) -> str:
    """What differs first between two safetensors files, in words: tensors, a dtype or shape, a value, or metadata."""
    mine, other = read_header(one), read_header(two)
    for name in sorted(mine.tensors.keys() ^ other.tensors.keys()):
        return f"tensor {name} is in the {'merge' if name in mine.tensors else 'repetition'} only."
    for name, info in sorted(mine.tensors.items(), key=lambda pair: pair[1].offset):
        twin = other.tensors[name]
        if (info.dtype, info.shape) != (twin.dtype, twin.shape):
            return (
                f"tensor {name} is {info.dtype} {list(info.shape)}, and {twin.dtype} {list(twin.shape)} when repeated."
            )
        at = _first_unlike(info, twin)
        if at is not None:
            return f"tensor {name} differs first at element {at:,} of {info.elements:,}."
    unlike = sorted(key for key in mine.metadata | other.metadata if mine.metadata.get(key) != other.metadata.get(key))
    return f"only the header differs ({', '.join(unlike) or 'the order of the tensors'}); every tensor is the same."


def _first_unlike(one: TensorInfo, two: TensorInfo) -> int | None:
    """Flat index of the first element whose bytes differ; None where all are the same."""
    with one.file.open("rb") as first, two.file.open("rb") as second:
        first.seek(one.offset)
        second.seek(two.offset)
        for start in range(0, one.nbytes, PIECE):
            n = min(PIECE, one.nbytes - start)
            unlike = np.frombuffer(first.read(n), np.uint8) != np.frombuffer(second.read(n), np.uint8)
            if unlike.any():
                return int(start + unlike.argmax()) // ITEM_SIZES[one.dtype]
    return None


def _other_versions(recorded: Mapping[str, str]) -> tuple[str, ...]:
    found = []
    for name, then in recorded.items():
        if name == "python":
            now = platform.python_version()
        elif name in PACKAGES:
            try:
                now = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                now = "not installed"
        else:
            continue
        if now != then:
            found.append(f"{name} {then} then, {now} now")
    return tuple(found)
