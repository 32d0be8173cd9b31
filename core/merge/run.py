"""Runs a plan from start to finish: checks, merges, writes, reports; one result whichever engine ran.

Takes a plan and an output path; gives a `MergeResult` and a complete folder, or an error and no trace.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.merge.checkpoint import DTYPE_NAMES
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
from core.merge.result import SHARD_SIZE, MergeResult, Request, peak_rss
from core.merge.writer import ShardWriter, WrittenFile, write_text
from core.precision.figures import add_up
from core.progress import Progress, no_progress


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
    check_place(out, plan.folders, overwrite=overwrite)
    request = Request(plan, out, progress, overwrite, shard_size, extra_metadata, time.perf_counter())
    if plan.engine == "mergekit":
        from core.merge.with_mergekit import run_with_mergekit

        return run_with_mergekit(request)
    progress("checking", 0, 1, "models")
    found = pair(plan)
    refuse_problems(found)
    return _stream(request, found)


def _stream(request: Request, found: Pairing) -> MergeResult:
    plan, out, progress = request.plan, request.out, request.progress
    warnings = [*plan.warnings, *found.warnings, *tokenizer_warnings(found.reference, found.members)]
    models = list(dict.fromkeys([found.reference, *found.members]))
    request.progress("preparing (compiles once a machine)", 0, 1, "kernels")
    with (
        StreamingEngine(plan, found) as engine,
        BackgroundHashes(path for one in models for path in one.files) as hashes,
    ):
        engine.check_equal()
        check_space(out, sum(job.nbytes for job in found.jobs) + COMPANION_BYTES)
        with working_folder(out, overwrite=request.overwrite) as work:
            figures, written = _merge_to(work, engine, request, found.jobs)
            warnings += dict.fromkeys([*engine.warnings, *_divisor_warning(figures)])
            progress("hashing", 0, 1, "inputs")
            inputs = {one.folder: [hashes.result(path) for path in one.files] for one in models}
            rounding = add_up(one.rounding for one in figures).row("total").as_dict()
            rounding.pop("name")
            dtype = _dominant([job for job in found.jobs if not job.copied])
            copy_companions(work, found.reference, found.members, dtype)
            written += write_reports(work, plan, rows_of(figures))
            write_text(work / CARD_FILE, model_card(plan, out.name, rounding, warnings))
            dtypes = {"inputs": {str(one.folder): one.dtype for one in models}, "arithmetic": "float32", "out": dtype}
            text = provenance(
                plan, found.reference.folder, inputs=inputs, outputs=written, dtypes=dtypes, warnings=warnings,
                extra=request.extra,
            )  # fmt: skip
            written.append(write_text(work / PROVENANCE_FILE, text))
            progress("publishing", 0, 1, "folder")
        bytes_read = engine.files.bytes_read
    return MergeResult(
        str(out), "streaming", len(found.jobs), sum(job.elements for job in found.jobs),
        time.perf_counter() - request.started, bytes_read, sum(one.nbytes for one in written), peak_rss(),
        total_election(figures), rounding, tuple(warnings),
    )  # fmt: skip


def _merge_to(
    work: Path, engine: StreamingEngine, request: Request, jobs: Sequence[TensorJob]
) -> tuple[list[TensorFigures], list[WrittenFile]]:
    writer = ShardWriter(work, jobs, request.shard_size, shard_metadata(request.plan))
    total, done = sum(job.elements for job in jobs), 0

    def on_elements(count: int) -> None:
        nonlocal done
        done += count
        request.progress("merging", done, total, "parameters")

    try:
        figures = list(engine.run(writer.write, on_elements))
        request.progress("writing", 0, 1, "files")
        return figures, writer.finish()
    finally:
        writer.abandon()


def write_reports(work: Path, plan: Plan, rows: Sequence[dict[str, Any]]) -> list[WrittenFile]:
    """The report and the plan, beside the weights."""
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
