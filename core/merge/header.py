"""Reads and checks the header of one safetensors file: what tensors it holds, and where.

Takes a path, reads only the header, gives `TensorInfo`s; a file whose header does not add up, or that is
shorter than its header says, is refused. Knows nothing about shards or models.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from core.errors import CheckpointError

ITEM_SIZES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
    "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1, "C64": 8,
}  # fmt: skip
"""Bytes of one element of each safetensors dtype that we can place in a file."""
FLOATS = ("F64", "F32", "F16", "BF16")
"""Dtypes that can be merged."""
COPIED = ("I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL")
"""Dtypes that are copied from the base when every member agrees."""

MAX_HEADER_BYTES = 100_000_000


@dataclass(frozen=True)
class TensorInfo:
    """Where one tensor lies."""

    name: str
    dtype: str
    """safetensors' name, such as BF16."""
    shape: tuple[int, ...]
    file: Path
    offset: int
    """First byte, counted from the start of the file."""
    nbytes: int

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Header:
    """What one safetensors file says of itself."""

    tensors: dict[str, TensorInfo]
    metadata: dict[str, str]
    file_bytes: int


def read_header(path: Path) -> Header:
    """Parse and check the header of a safetensors file.

    Raises CheckpointError, naming the file, for one that cannot be read, whose header is not valid, whose
    tensors overlap or leave gaps, or that is shorter or longer than the header says.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            prefix = file.read(8)
            length = int.from_bytes(prefix, "little")
            if len(prefix) < 8 or length > min(size - 8, MAX_HEADER_BYTES):
                raise CheckpointError(
                    f"{path}: is not a complete safetensors file (its header would be {length:,} bytes long, "
                    f"the file has {size:,}). Copy or download it again."
                )
            text = file.read(length)
    except OSError as problem:
        raise CheckpointError(f"{path}: cannot be read ({problem.strerror}).") from None
    entries = _parse(text, path)
    metadata = entries.pop("__metadata__", {}) or {}
    start = 8 + length
    tensors = {name: _tensor(name, entry, path, start) for name, entry in entries.items()}
    _check_layout(tensors, path, start, size)
    return Header(tensors, metadata if isinstance(metadata, dict) else {}, size)


def _parse(text: bytes, path: Path) -> dict[str, Any]:
    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a name appears twice")
        return found

    try:
        entries = json.loads(text, object_pairs_hook=no_duplicates)
    except (ValueError, RecursionError) as problem:
        raise CheckpointError(f"{path}: its safetensors header is not valid JSON ({problem}).") from None
    if not isinstance(entries, dict):
        raise CheckpointError(f"{path}: its safetensors header is not a JSON object.")
    return entries


def _tensor(name: str, entry: Any, path: Path, start: int) -> TensorInfo:
    where = f"{path}: tensor {name}"
    if not name.isprintable():
        raise CheckpointError(f"{path}: its header holds a tensor name that is not printable: {name!a}.")
    if not isinstance(entry, dict):
        raise CheckpointError(f"{where}: expected dtype, shape and data_offsets in the header.")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in ITEM_SIZES:
        raise CheckpointError(f"{where}: dtype {dtype!r} is not one that can be read here.")
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        raise CheckpointError(f"{where}: shape or data_offsets in the header are not whole numbers.")
    nbytes = math.prod(shape) * ITEM_SIZES[dtype]
    if offsets[1] - offsets[0] != nbytes:
        raise CheckpointError(
            f"{where}: shape {shape} of {dtype} needs {nbytes:,} bytes, its offsets span {offsets[1] - offsets[0]:,}."
        )
    return TensorInfo(name, dtype, tuple(shape), path, start + offsets[0], nbytes)


def _naturals(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(one) is int and 0 <= one < 1 << 62 for one in value)


def _check_layout(tensors: dict[str, TensorInfo], path: Path, start: int, size: int) -> None:
    end = start
    for one in sorted(tensors.values(), key=lambda tensor: (tensor.offset, tensor.nbytes)):
        if one.offset != end:
            raise CheckpointError(f"{path}: tensor {one.name} overlaps another or leaves a gap before it.")
        end += one.nbytes
    if end > size:
        raise CheckpointError(
            f"{path}: is truncated: its header promises {end:,} bytes, the file has {size:,}. "
            "Copy or download it again."
        )
    if end < size:
        raise CheckpointError(
            f"{path}: has {size - end:,} bytes after its last tensor. Expected {end:,} bytes; found {size:,}."
        )
