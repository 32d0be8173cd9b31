"""Checks what a job is asked to do, before it is written down: fields, paths, the protocol.

Takes plain dicts; raises InputError and its subclasses with one message. Starts nothing.
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from core.errors import CheckpointError, InputError, TaskError
from core.evals.protocol import Protocol

DTYPES = ("float32", "bfloat16", "float16")


def only_fields(kind: str, spec: Mapping[str, Any], required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """Raise InputError for a field that is missing or unknown."""
    missing = [name for name in required if name not in spec]
    unknown = [name for name in spec if name not in (*required, *optional)]
    if missing or unknown:
        what = f"'{missing[0]}' is missing" if missing else f"'{unknown[0]}' is unknown"
        more = f", and may have {', '.join(optional)}" if optional else ""
        raise InputError(f"specification of a {kind} job: {what}. It needs {', '.join(required)}{more}.")


def text_of(kind: str, spec: Mapping[str, Any], name: str) -> str:
    """A field that is a text with something in it."""
    value = spec[name]
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise InputError(f"specification of a {kind} job: '{name}' must be a text, found {value!r:.80}.")
    return value


def absolute(path: str | Path) -> Path:
    """The path from the root, `~` expanded; links are kept as written."""
    return Path(path).expanduser().absolute()


def model_folder(path: str | Path) -> Path:
    """An existing folder of a model; CheckpointError when there is none."""
    folder = absolute(path)
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder. Expected a model folder with config.json and safetensors.")
    return folder


def task_file(path: str | Path) -> Path:
    """An existing task file; TaskError when there is none."""
    file = absolute(path)
    if not file.is_file():
        raise TaskError(f"{file}: no such file. Expected tasks as JSONL: id, scenario, prompt, target, scorer.")
    return file


def new_file(path: str | Path) -> Path:
    """A place for an output file; InputError when a folder stands there."""
    file = absolute(path)
    if file.is_dir():
        raise InputError(f"{file}: is a folder. Expected the name of a file to write.")
    return file


def protocol_from(values: Any) -> Protocol:
    """A protocol from untrusted values; fields that are absent take their defaults.

    Raises TaskError naming the field for an unknown one, a wrong type or a value out of range.
    """
    if not isinstance(values, Mapping):
        raise TaskError(f"a protocol must be a mapping of settings to values, found {values!r:.80}.")
    names = [one.name for one in fields(Protocol)]
    for name, value in values.items():
        if name not in names:
            raise TaskError(f"unknown protocol setting {name!r:.80}. Expected some of: {', '.join(names)}.")
        problem = _wrong(name, value)
        if problem:
            raise TaskError(f"protocol: {name} must be {problem}, found {value!r:.80}.")
    protocol = Protocol(**values)
    if protocol.temperature == 0 and protocol.samples > 1:
        raise TaskError(
            f"protocol: {protocol.samples} samples at temperature 0 would all be the same. "
            "Ask for 1 sample, or a temperature above 0."
        )
    return protocol


def _wrong(name: str, value: Any) -> str | None:
    """What the setting should have been, or None when it is right."""
    if name == "dtype":
        return None if value in DTYPES else "one of " + ", ".join(DTYPES)
    number = not isinstance(value, bool) and isinstance(value, (int, float) if name == "temperature" else int)
    if name == "temperature":
        return None if number and 0 <= value < 100 else "a number from 0 to below 100"
    least = 0 if name == "seed" else 1
    return None if number and least <= value < 2**31 else f"a whole number of at least {least}"


def batch_size_of(spec: Mapping[str, Any]) -> int:
    """Prompts generated together; the default is the shell's, so that samples are the same."""
    value = spec.get("batch_size", 32)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 4096:
        raise InputError(f"batch_size must be a whole number from 1 to 4096, found {value!r:.80}.")
    return value


def checkpoint_name(model: Path) -> str:
    """What samples of a model are called where nobody said otherwise: its folder's name.

    A folder that holds a merge (it has `mergekit_config.yml`) is called `merged` wherever it lies, so
    that a merge made in the browser and one made in the shell give the same bytes when evaluated.
    """
    return "merged" if (model / "mergekit_config.yml").is_file() else model.resolve().name
