"""Whether the ranks of a sharded state agree on what each of them holds whole: norms, router gates, shared heads.

Takes an opened checkpoint; gives a row a tensor with the largest difference. Weights are read in blocks, so that
memory does not grow with the model.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from core.errors import CheckpointError
from core.merge.blocks import Files, spans
from core.merge.checkpoint import CheckpointFile
from core.merge.header import ITEM_SIZES
from core.merge.slabs import Replica
from core.merge.splits import replicas_of

BLOCK_BYTES = 4 << 20
NUMPY_TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
    "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip


class ReplicaRow(NamedTuple):
    """How far the ranks' copies of one tensor lie apart."""

    tensor: str
    """In Hugging Face's naming."""
    difference: float
    """Largest |a − b| over the elements and over any two copies; infinite where only one is NaN or infinite."""
    differing: int
    """Elements whose bytes are not the same on every rank."""
    elements: int


def replica_report(model: CheckpointFile) -> list[ReplicaRow]:
    """One row for each tensor that several ranks hold whole, the largest difference first.

    Raises CheckpointError for a Hugging Face folder, or when the files cannot be read.
    """
    return compare_replicas(replicas_of(model))


def compare_replicas(replicas: Sequence[Replica]) -> list[ReplicaRow]:
    """The rows of `replica_report` for copies that are known already; copies of one name make one row."""
    rows: dict[str, ReplicaRow] = {}
    with Files() as files:
        for replica in replicas:
            for slab in replica.copies:
                files.open(slab.info.file)
            one = _compare(replica, files)
            before = rows.get(replica.name, ReplicaRow(replica.name, 0.0, 0, 0))
            rows[replica.name] = ReplicaRow(
                replica.name,
                max(before.difference, one.difference),
                before.differing + one.differing,
                before.elements + one.elements,
            )
    return sorted(rows.values(), key=lambda row: (-row.difference, -row.differing, row.tensor))


def refuse_unequal(model: CheckpointFile, replicas: Sequence[Replica]) -> int:
    """Raise CheckpointError where copies differ in any byte, naming the worst; gives how many tensors agree."""
    rows = compare_replicas(replicas)
    unequal = [row for row in rows if row.differing]
    if unequal:
        worst = unequal[0]
        differ = f"{worst.differing:,} of {worst.elements:,} values differ, by up to {worst.difference:.6g}"
        raise CheckpointError(
            f"{model.folder}: its ranks hold different values of tensors that they should share. The worst is "
            f"{worst.tensor}: {differ}. "
            f"{len(unequal):,} of {len(rows):,} shared tensors differ. One Hugging Face folder cannot hold them all: "
            "keep the model sharded, and merge it rank by rank."
        )
    return len(rows)


def _compare(replica: Replica, files: Files) -> ReplicaRow:
    first = replica.copies[0]
    size, elements = ITEM_SIZES[first.info.dtype], first.rows * first.width
    largest, differing = 0.0, 0
    for start, n in spans(elements, BLOCK_BYTES // size):
        raw = np.empty((len(replica.copies), n * size), np.uint8)
        for row, one in zip(raw, replica.copies, strict=True):
            files.read(one.info.file, one.info.offset + (one.start + start) * size, row.data)
        if (raw == raw[0]).all():
            continue
        unlike = (raw != raw[0]).reshape(len(raw), n, size).any(axis=(0, 2))
        differing += int(unlike.sum())
        values = _values(raw, first.info.dtype)[:, unlike]
        with np.errstate(invalid="ignore", over="ignore"):
            apart = values.max(axis=0) - values.min(axis=0)
        largest = max(largest, float(np.where(np.isnan(apart), np.inf, apart).max()))
    return ReplicaRow(replica.name, largest, differing, elements)


def _values(raw: np.ndarray, dtype: str) -> np.ndarray:
    """float64 (copies, n) of raw bytes (copies, n × item size)."""
    if dtype == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype not in NUMPY_TYPES:
        raise CheckpointError(f"values of dtype {dtype} cannot be compared: quantised weights cannot be converted.")
    return raw.view(NUMPY_TYPES[dtype]).astype(np.float64)
