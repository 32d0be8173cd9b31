"""One plan merged in the three dialects of TIES, side by side: where they differ, and by how much.

Takes a ties plan whose models lie on this machine. The trim's thresholds are always exact: the models are read whole
for them where the plan trims, and for `paper` and `sum` once more for the majority sign. Merged values are compared at
every parameter of small models, at random blocks of large ones. Writes nothing.
"""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from core.merge.config import with_dialect
from core.merge.pairing import TensorJob
from core.merge.plan import DIALECTS, Plan
from core.precision.sampling import Blocks, Share, choose
from core.preview.steps import bf16
from core.preview.xray import Reader, open_reader
from core.progress import Progress, no_progress

LIMIT = 20_000_000
"""Parameters that are compared, unless told otherwise."""
PAIRS = tuple(combinations(DIALECTS, 2))
COLUMNS = ("differ", "differ_bf16", "difference2")


class Row(NamedTuple):
    """Two dialects over one tensor or all."""

    name: str
    first: str
    second: str
    differ: Share
    """Parameters whose fp32 values differ, of all."""
    differ_bf16: Share
    """The same of the values rounded to bf16."""
    norm: float
    """‖first − second‖; estimated where blocks were sampled."""
    relative: Share
    """The same over ‖first − base‖."""


@dataclass(frozen=True)
class DialectReport:
    """`total` has a row a pair of dialects, `tensors` as many for each tensor."""

    total: tuple[Row, ...]
    tensors: tuple[Row, ...]
    norms: dict[str, float]
    """‖merged − base‖ of each dialect."""
    elements: int
    looked: int
    exact: bool
    seed: int
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The JSON of the `dialects` command."""
        found = asdict(self)
        for key in ("total", "tensors"):
            found[key] = [
                one._asdict() | {name: asdict(getattr(one, name)) for name in ("differ", "differ_bf16", "relative")}
                for one in getattr(self, key)
            ]
        return found


def compare_dialects(
    plan: Plan, *, limit: int = LIMIT, seed: int = 0, progress: Progress = no_progress
) -> DialectReport:
    """Compare mergekit, paper and sum on a ties plan, at about `limit` parameters at most, chosen by `seed`.

    Raises PlanError for a plan that is no streaming ties, CheckpointError for models that cannot be merged.
    """
    plans = [with_dialect(replace(plan, dialect="mergekit"), one) for one in DIALECTS]
    with ExitStack() as stack:
        readers = [stack.enter_context(open_reader(one)) for one in plans]
        jobs = [one for one in readers[0].jobs if one.duplicate_of is None]
        names = [one.name for one in jobs]
        blocks = choose(names, [one.elements for one in jobs], limit=limit, seed=seed)
        counts = _count(readers, jobs, blocks, progress)
    total = tuple(_row("all tensors", at, blocks, counts, None) for at in range(len(PAIRS)))
    tensors = tuple(
        _row(name, at, blocks, counts, tensor) for tensor, name in enumerate(names) for at in range(len(PAIRS))
    )
    norms: dict[str, float] = {
        name: math.sqrt(blocks.total(counts["moved2"][:, at])) for at, name in enumerate(DIALECTS)
    }
    warnings = tuple(dict.fromkeys(one for found in plans for one in found.warnings))
    return DialectReport(
        total, tensors, norms, sum(one.elements for one in jobs), int(blocks.size.sum()), blocks.exact, seed, warnings
    )


def _count(
    readers: Sequence[Reader], jobs: Sequence[TensorJob], blocks: Blocks, progress: Progress
) -> dict[str, np.ndarray]:
    """Figures of every block: float64, blocks first."""
    pairs, moved = np.zeros((blocks.tensor.size, len(PAIRS), len(COLUMNS))), np.zeros((blocks.tensor.size, 3))
    # `sum` trims and elects as `paper` does: what that found of whole models need not be found again.
    readers[2].share_whole(readers[1])
    for number, (at, start, n) in enumerate(
        zip(blocks.tensor.tolist(), blocks.start.tolist(), blocks.size.tolist(), strict=True)
    ):
        steps = [one.steps(jobs[at], start, n) for one in readers]
        merged = {name: one.merged for name, one in zip(DIALECTS, steps, strict=True)}
        rounded = {name: bf16(one) for name, one in merged.items()}
        for place, (one, two) in enumerate(PAIRS):
            apart = merged[one].astype(np.float64) - merged[two]
            pairs[number, place] = (
                np.count_nonzero(merged[one] != merged[two]), np.count_nonzero(rounded[one] != rounded[two]),
                float(apart @ apart),
            )  # fmt: skip
        for place, name in enumerate(DIALECTS):
            change = merged[name].astype(np.float64) - steps[0].base
            moved[number, place] = float(change @ change)
        progress("comparing", number + 1, blocks.tensor.size, "blocks")
    return {"pairs": pairs, "moved2": moved}


def _row(name: str, at: int, blocks: Blocks, counts: dict[str, np.ndarray], tensor: int | None) -> Row:
    first, second = PAIRS[at]
    here = np.ones(blocks.tensor.size) if tensor is None else (blocks.tensor == tensor).astype(np.float64)
    differ, differ_bf16, apart2 = (here * counts["pairs"][:, at, column] for column in range(len(COLUMNS)))
    size, moved2 = here * blocks.size, here * counts["moved2"][:, DIALECTS.index(first)]
    return Row(
        name, first, second, blocks.share(differ, size), blocks.share(differ_bf16, size),
        math.sqrt(blocks.total(apart2)), _root(blocks.share(apart2, moved2)),
    )  # fmt: skip


def _root(one: Share) -> Share:
    return Share(*(part if math.isnan(part) else math.sqrt(max(part, 0.0)) for part in (one.value, one.low, one.high)))
