"""Runs a plan from start to finish: checks, merges, writes, reports; one result whichever engine ran.

Takes a plan and an output path; gives a `MergeResult` and a complete folder, or an error and no trace.
"""

import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.merge.checkpoint import DTYPE_NAMES, CheckpointFile
from core.merge.companions import (
    CARD_FILE,
    PLAN_FILE,
    PROVENANCE_FILE,
    copy_companions,
    model_card,
    provenance,
    shard_metadata,
    tokenizer_warnings,
)
from core.merge.engine import ELECTION, StreamingEngine, TensorFigures
from core.merge.folder import COMPANION_BYTES, check_place, check_space, working_folder
from core.merge.hashing import BackgroundHashes
from core.merge.pairing import Pairing, TensorJob, pair, refuse_problems
from core.merge.plan import Plan
from core.merge.report import REPORT_FILE, report_bytes, rows_of
from core.merge.writer import ShardWriter, WrittenFile, write_text
from core.precision.figures import add_up
from core.progress import Progress, no_progress

SHARD_SIZE = 5e9


@dataclass(frozen=True)
class MergeResult:
    """What a finished merge did; `as_dict` is the JSON of the `merge` command."""

    out: str
    engine: str
    tensors: int
    elements: int
    seconds: float
    bytes_read: int
    bytes_written: int
    peak_rss_bytes: int
    election: dict[str, Any]
    """Totals over all tensors, and per member in plan order; empty where mergekit ran."""
    rounding: dict[str, Any]
    """The total `RoundingRow` of the fp32 result against the base, without its name; empty without a base."""
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain dict for JSON."""
        return asdict(self) | {"warnings": list(self.warnings)}


def run_merge(
    plan: Plan,
    out: Path,
    *,
    progress: Progress = no_progress,
    overwrite: bool = False,
    shard_size: float = SHARD_SIZE,
    extra_metadata: Mapping[str, Any] | None = None,
) -> MergeResult:
    """Merge, and write a complete model folder at `out`, whole or not at all.

    `shard_size` in bytes; `extra_metadata` goes into provenance.json as it is. Raises InputError when `out`
    is taken or the models do not fit, RunError when the disk is full or an engine fails; lets `Cancelled`
    from `progress` pass. Nothing is left behind in any of these cases.
    """
    out = Path(out)
    check_place(out, [*([plan.base] if plan.base else []), *(one.path for one in plan.members)], overwrite=overwrite)
    if plan.engine == "mergekit":
        from core.merge.with_mergekit import run_with_mergekit

        return run_with_mergekit(plan, out, progress, overwrite, shard_size, extra_metadata)
    started = time.perf_counter()
    progress("checking", 0, 1, "models")
    found = pair(plan)
    refuse_problems(found)
    return _stream(plan, found, out, progress, overwrite, shard_size, extra_metadata, started)


def _stream(
    plan: Plan,
    found: Pairing,
    out: Path,
    progress: Progress,
    overwrite: bool,
    shard_size: float,
    extra: Mapping[str, Any] | None,
    started: float,
) -> MergeResult:
    warnings = [*plan.warnings, *found.warnings, *tokenizer_warnings(found.reference, found.members)]
    models = list(dict.fromkeys([found.reference, *found.members]))
    with (
        StreamingEngine(plan, found) as engine,
        BackgroundHashes(path for one in models for path in one.files) as hashes,
    ):
        engine.check_equal()
        check_space(out, sum(job.nbytes for job in found.jobs) + COMPANION_BYTES)
        with working_folder(out, overwrite=overwrite) as work:
            figures, written = _merge_to(work, engine, plan, found.jobs, shard_size, progress)
            warnings += _unique([*engine.warnings, *_divisor_warning(figures)])
            progress("hashing", 0, 1, "inputs")
            inputs = {one.folder: [hashes.result(path) for path in one.files] for one in models}
            rounding = add_up(one.rounding for one in figures).row("total").as_dict()
            rounding = {key: value for key, value in rounding.items() if key != "name"}
            dtype = _dominant([job for job in found.jobs if not job.copied])
            written += write_companions(
                work, plan, found.reference, found.members, dtype, rows_of(figures), rounding, warnings, out.name
            )
            dtypes = {"inputs": {str(one.folder): one.dtype for one in models}, "arithmetic": "float32", "out": dtype}
            text = provenance(plan, found.reference, inputs, written, dtypes, warnings, extra)
            written.append(write_text(work / PROVENANCE_FILE, text))
            progress("publishing", 0, 1, "folder")
        bytes_read = engine.files.bytes_read
    return MergeResult(
        str(out), "streaming", len(found.jobs), sum(job.elements for job in found.jobs), time.perf_counter() - started,
        bytes_read, sum(one.nbytes for one in written), peak_rss(), total_election(figures), rounding, tuple(warnings),
    )  # fmt: skip


def _merge_to(
    work: Path, engine: StreamingEngine, plan: Plan, jobs: Sequence[TensorJob], shard_size: float, progress: Progress
) -> tuple[list[TensorFigures], list[WrittenFile]]:
    writer = ShardWriter(work, jobs, shard_size, shard_metadata(plan))
    total, done = sum(job.elements for job in jobs), 0

    def on_elements(count: int) -> None:
        nonlocal done
        done += count
        progress("merging", done, total, "parameters")

    try:
        figures = list(engine.run(writer.write, on_elements))
        progress("writing", 0, 1, "files")
        return figures, writer.finish()
    finally:
        writer.abandon()


def write_companions(
    work: Path,
    plan: Plan,
    reference: CheckpointFile,
    members: Sequence[CheckpointFile],
    dtype: str,
    rows: Sequence[dict[str, Any]],
    rounding: Mapping[str, Any],
    warnings: Sequence[str],
    name: str,
) -> list[WrittenFile]:
    """Config, tokenizer, report, plan and card beside the weights; gives what provenance should list."""
    copy_companions(work, reference, members, dtype)
    write_text(work / CARD_FILE, model_card(plan, name, rounding, warnings))
    return [
        write_text(work / REPORT_FILE, report_bytes(rows)),
        write_text(work / PLAN_FILE, plan.yaml_text),
    ]


def _dominant(jobs: Sequence[TensorJob]) -> str:
    """torch's name of the dtype of most merged parameters."""
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job.out_dtype] = counts.get(job.out_dtype, 0) + job.elements
    return DTYPE_NAMES[max(counts, key=lambda name: counts[name])] if counts else "float32"


def _divisor_warning(figures: Sequence[TensorFigures]) -> list[str]:
    small = sum(one.election["small_divisor"] for one in figures)
    if not small:
        return []
    return [
        f"{small:,} parameters were divided by less than 1 % of their members' Σ|w|: weights of opposite sign nearly "
        "cancel there and the result is blown up. See the column small_divisor of the report."
    ]


def total_election(figures: Sequence[TensorFigures]) -> dict[str, Any]:
    """Election figures over all tensors; `member_changed` and `member_trimmed` are lists in plan order."""
    totals: dict[str, Any] = {name: sum(one.election[name] for one in figures) for name in ELECTION}
    for name in ("member_changed", "member_trimmed"):
        columns = zip(*(getattr(one, name) for one in figures), strict=True)
        totals[name] = [sum(column) for column in columns]
    return totals


def _unique(lines: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(lines))


def peak_rss() -> int:
    """Largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
