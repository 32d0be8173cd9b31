"""Reads the provenance.json of a finished merge into checked values.

Takes a merged folder; gives what it says went in and came out. The file may come from anywhere, so nothing in it
is trusted: names of files must be plain names, and whatever is malformed is refused with one message.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.merge.companions import PROVENANCE_FILE
from core.merge.plan import DIALECTS, VOCABULARIES, Dialect, Vocabulary
from core.merge.result import SHARD_SIZE

MAX_BYTES = 50_000_000
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class RecordedFile:
    """One file as it was when the merge was written."""

    name: str
    """A plain name: no folder, no `..`."""
    nbytes: int
    sha256: str


@dataclass(frozen=True)
class RecordedModel:
    """One model that went in."""

    role: str
    """`base`, `reference`, or `member 1` and so on."""
    path: Path
    files: tuple[RecordedFile, ...]


@dataclass(frozen=True)
class Record:
    """What provenance.json says of a merge."""

    engine: str
    recipe: Mapping[str, Any]
    config_sha256: str
    inputs: tuple[RecordedModel, ...]
    outputs: tuple[RecordedFile, ...]
    shard_size: float
    dialect: Dialect
    vocabulary: Vocabulary
    versions: Mapping[str, str]


def read_record(out: Path) -> Record:
    """Read a merged folder's provenance.json; raises InputError, naming the part that is missing or malformed."""
    path = Path(out) / PROVENANCE_FILE
    value = _load(path)
    try:
        return _record(value)
    except _Malformed as problem:
        raise InputError(
            f"{path}: {problem}. Expected the file that a merge writes beside its weights; it cannot be relied on."
        ) from None


class _Malformed(Exception):
    """Where provenance.json is not as a merge writes it."""


def _load(path: Path) -> Mapping[str, Any]:
    try:
        if path.is_symlink() or not path.is_file():
            raise InputError(f"{path}: no such file. Expected the folder of a merge that Mergescope wrote.")
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: is larger than {MAX_BYTES:,} bytes, so it was written by no merge.")
        value = json.loads(path.read_bytes())
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror}).") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path}: is not readable JSON. Expected the file that a merge writes.") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, found {type(value).__name__}.")
    return value


def _record(value: Mapping[str, Any]) -> Record:
    settings = value.get("settings") or {}
    _expect(isinstance(settings, dict), "settings is not an object")
    size = settings.get("shard_size", SHARD_SIZE)
    _expect(type(size) in (int, float) and size >= 1, "settings.shard_size is not a number of bytes")
    recipe, versions = value.get("recipe"), value.get("versions") or {}
    _expect(isinstance(recipe, dict), "recipe is not an object")
    _expect(isinstance(versions, dict), "versions is not an object")
    made = {"dialect": "mergekit", "vocabulary": "refuse"} | (recipe or {}) | settings
    _expect(made["dialect"] in DIALECTS, f"dialect is {made['dialect']!r:.40}")
    _expect(made["vocabulary"] in VOCABULARIES, f"vocabulary is {made['vocabulary']!r:.40}")
    inputs = value.get("inputs")
    _expect(isinstance(inputs, list) and bool(inputs), "inputs is not a list of models")
    return Record(
        engine=_text(value.get("engine"), "engine"),
        recipe=recipe or {},
        config_sha256=_sha256(value.get("config_sha256"), "config_sha256"),
        inputs=tuple(_model(one, f"inputs[{at}]") for at, one in enumerate(inputs or [])),
        outputs=_files(value.get("outputs"), "outputs"),
        shard_size=size,
        dialect=made["dialect"],
        vocabulary=made["vocabulary"],
        versions={str(name): str(one) for name, one in versions.items()},
    )


def _model(value: Any, where: str) -> RecordedModel:
    _expect(isinstance(value, dict), f"{where} is not an object")
    path = _text(value.get("path"), f"{where}.path")
    return RecordedModel(_text(value.get("role"), f"{where}.role"), Path(path), _files(value.get("files"), where))


def _files(value: Any, where: str) -> tuple[RecordedFile, ...]:
    _expect(isinstance(value, list), f"{where} has no list of files")
    return tuple(_file(one, f"{where}, file {at}") for at, one in enumerate(value, start=1))


def _file(value: Any, where: str) -> RecordedFile:
    _expect(isinstance(value, dict), f"{where} is not an object")
    name, nbytes = _text(value.get("file"), f"{where}: its name"), value.get("bytes")
    plain = name not in (".", "..") and not set(name) & set("/\\") and len(name.encode()) <= 255
    _expect(plain, f"{where}: {name!r:.80} is not a plain file name")
    _expect(type(nbytes) is int and nbytes >= 0, f"{where}: bytes is not a whole number")
    return RecordedFile(name, nbytes, _sha256(value.get("sha256"), where))


def _text(value: Any, where: str) -> str:
    _expect(isinstance(value, str) and value != "" and value.isprintable(), f"{where} is not a text")
    return str(value)


def _sha256(value: Any, where: str) -> str:
    _expect(isinstance(value, str) and SHA256.fullmatch(value) is not None, f"{where}: sha256 is not 64 hex digits")
    return str(value)


def _expect(is_so: bool, what: str) -> None:
    if not is_so:
        raise _Malformed(what)
