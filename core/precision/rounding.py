"""Reads two model folders and reports what casting the second to bf16 loses against the first.

Streams both, block by block; the same kernel and sums as a merge's own pass, so the figures are equal.
Does not know how the second was made.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from core.errors import CheckpointError
from core.merge.blocks import SUB_BLOCK, BufferPool, Files, block_elements, codes_of, in_order, spans, thread_count
from core.merge.checkpoint import HEAD, CheckpointFile, open_checkpoint
from core.merge.header import FLOATS, TensorInfo
from core.precision.figures import RoundingRow, RoundingSums, add_up, sums_of_blocks
from core.progress import Progress, no_progress

if TYPE_CHECKING:
    from core.merge.kernels import Figures


@dataclass(frozen=True)
class RoundingReport:
    """Figures of a merged model against its base."""

    total: RoundingRow
    tensors: list[RoundingRow]
    """By the base's tensor names, sorted."""
    skipped: tuple[str, ...] = ()
    """Tensors of the merged model without a counterpart of the same shape in the base."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON of the `rounding` command."""
        keys = ("elements", "changed", "lost", "lost_fraction", "relative_l2", "cosine")
        total = self.total.as_dict()
        return {
            "total": {key: value for key, value in total.items() if key != "name"},
            "tensors": [{"name": row.name, **{key: row.as_dict()[key] for key in keys}} for row in self.tensors],
            "skipped": list(self.skipped),
        }


class Pair(NamedTuple):
    """A tensor of the base and its counterpart."""

    base: TensorInfo
    merged: TensorInfo


class _Block(NamedTuple):
    pair: Pair
    end: int
    figures: "Figures"


def rounding_report(
    base: Path, merged: Path, progress: Progress = no_progress, *, partly: bool = False, block: int | None = None
) -> RoundingReport:
    """What bf16 rounding loses of `merged` against `base`, per tensor and in total.

    With `partly`, tensors that only one of them has, or in another shape, are skipped; else they raise
    CheckpointError. NaN always does. `block` (elements) changes speed and memory only.
    """
    one, two = open_checkpoint(base), open_checkpoint(merged)
    pairs, skipped = pairs_of(one, two)
    if skipped and not partly:
        raise CheckpointError(f"{two.folder}: tensor {skipped[0]} is not in {one.folder} with the same shape.")
    total, done = sum(pair.base.elements for pair in pairs), 0
    rows: list[RoundingRow] = []
    parts: list[RoundingSums] = []
    for pair, sums in _run(pairs, block or block_elements(2, thread_count() + 2)):
        parts.append(sums)
        rows.append(sums.row(pair.base.name))
        done += pair.base.elements
        progress("rounding", done, total, "parameters")
    return RoundingReport(add_up(parts).row("total"), rows, tuple(skipped))


def pairs_of(base: CheckpointFile, merged: CheckpointFile) -> tuple[list[Pair], list[str]]:
    """Float tensors by name; a tied lm_head is the embedding once more and is left out."""
    pairs, skipped = [], []
    for name in sorted({*base.tensors, *merged.tensors}):
        if name.endswith(HEAD) and base.tied and merged.tied and base.twin(name):
            continue
        one, two = base.tensors.get(name), merged.tensors.get(name)
        if one is None or two is None or one.shape != two.shape:
            skipped.append(name)
        elif one.dtype in FLOATS and two.dtype in FLOATS:
            pairs.append(Pair(one, two))
    return pairs, skipped


def _run(pairs: list[Pair], block: int) -> Iterator[tuple[Pair, RoundingSums]]:
    block = -(-block // SUB_BLOCK) * SUB_BLOCK
    threads = thread_count()
    buffers = BufferPool(2, block)
    with Files() as files, ThreadPoolExecutor(threads, thread_name_prefix="rounding") as pool:
        for pair in pairs:
            for info in pair:
                files.open(info.file)

        def work() -> Iterator[Callable[[], _Block]]:
            for pair in pairs:
                for start, n in spans(pair.base.elements, block) or [(0, 0)]:
                    yield partial(_round, pair, start, n, files, buffers)

        mine: list[_Block] = []
        for one in in_order(pool, work(), threads + 2):
            mine.append(one)
            if one.end == one.pair.base.elements:
                yield one.pair, _add(mine)
                mine = []


def _round(pair: Pair, start: int, n: int, files: Files, buffers: BufferPool) -> _Block:
    from core.merge import kernels

    figures = kernels.Figures.zeros(1, n)
    buffer = buffers.take()
    try:
        buffer.fill(files, pair, start, n)
        kernels.round_block(buffer.rows(codes_of(pair)), n, figures)
    finally:
        buffers.give(buffer)
    return _Block(pair, start + n, figures)


def _add(blocks: list[_Block]) -> RoundingSums:
    from core.merge.kernels import Count

    pair = blocks[0].pair
    bad, counts = (np.sum([getattr(one.figures, name) for one in blocks], axis=0) for name in ("bad", "counts"))
    for info, count in zip(pair, bad, strict=True):
        if count:
            raise CheckpointError(
                f"{info.file.parent}: tensor {info.name} has {int(count):,} values that are NaN or infinite."
            )
    return sums_of_blocks(
        pair.base.elements,
        int(counts[Count.CHANGED]),
        int(counts[Count.LOST]),
        [one.figures.sums for one in blocks],
        np.concatenate([one.figures.bins for one in blocks]),
    )
