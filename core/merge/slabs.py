"""Slabs of rank files, and the Hugging Face tensors that they are joined to.

Takes positions in files; gives a joined tensor's bytes in order and in pieces, so that memory does not grow with
the model. Knows nothing about names or how a tensor was split.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from core.merge.blocks import Files, spans
from core.merge.header import ITEM_SIZES, TensorInfo
from core.merge.pairing import TensorJob

PIECE_BYTES = 8 << 20


class Slab(NamedTuple):
    """Elements of one rank's tensor that lie together: a matrix of `rows` × `width`, from element `start`."""

    info: TensorInfo
    start: int
    rows: int
    width: int


@dataclass(frozen=True)
class Joined(TensorJob):
    """One Hugging Face tensor, made of slabs."""

    slabs: tuple[Slab, ...] = ()
    """One below the other, or with `across` side by side, the ranks in order."""
    across: bool = False

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


class Replica(NamedTuple):
    """What several ranks hold, and must hold alike."""

    name: str
    """In Hugging Face's naming."""
    copies: tuple[Slab, ...]


@dataclass(eq=False)
class Joining:
    """A whole conversion, before anything is read."""

    tensors: list[Joined] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    left_out: list[TensorInfo] = field(default_factory=list)
    """vLLM's own scales of its attention cache, which no Hugging Face folder has."""
    warnings: list[str] = field(default_factory=list)


def pieces(tensor: Joined, files: Files, limit: int = PIECE_BYTES) -> Iterator[np.ndarray]:
    """A joined tensor's bytes in order, uint8, at most `limit` at a time (or one row, where that is longer)."""
    size = ITEM_SIZES[tensor.out_dtype]
    if not tensor.across:
        for slab in tensor.slabs:
            for start, n in spans(slab.rows * slab.width * size, limit):
                data = np.empty(n, np.uint8)
                files.read(slab.info.file, slab.info.offset + slab.start * size + start, data.data)
                yield data
        return
    width = sum(slab.width for slab in tensor.slabs) * size
    for first, count in spans(tensor.slabs[0].rows, max(1, limit // max(1, width))):
        rows = np.empty((count, width), np.uint8)
        at = 0
        for slab in tensor.slabs:
            rows[:, at : at + slab.width * size] = _rows(slab, files, first, count, size)
            at += slab.width * size
        yield rows.reshape(-1)


def _rows(slab: Slab, files: Files, first: int, count: int, size: int) -> np.ndarray:
    """uint8 (count, width × item size): some rows of a slab."""
    data = np.empty((count, slab.width * size), np.uint8)
    files.read(slab.info.file, slab.info.offset + (slab.start + first * slab.width) * size, data.data.cast("B"))
    return data
