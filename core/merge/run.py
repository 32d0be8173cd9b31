"""Runs a plan from start to finish: checks, merges, writes, reports; one result whichever engine ran.

Takes a plan and an output path; gives a `MergeResult` and a complete folder, or an error and nothing at the path.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.merge.blocks import MEMORY, thread_count
from core.merge.checkpoint import DTYPE_NAMES
from core.merge.companions import (
    CARD_FILE,
    PLAN_FILE,
    PROVENANCE_FILE,
    copy_companions,
    model_card,
    provenance,
    tokenizer_warnings,
)
from core.merge.engine import StreamingEngine
from core.merge.figures import TensorFigures, total_election
from core.merge.folder import COMPANION_BYTES, check_place, check_space, left_behind, put_back, working_folder
from core.merge.hashing import InputHashes
from core.merge.journal import Journal, identity_of
from core.merge.pairing import Pairing, TensorJob, pair, refuse_problems
from core.merge.plan import Plan
from core.merge.report import REPORT_FILE, report_bytes, rows_of
from core.merge.result import SHARD_SIZE, MergeResult, Request, peak_rss
from core.merge.weights import Merged, merge_weights
from core.merge.writer import WrittenFile, write_text
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
    memory: int = MEMORY,
    device: str = "cpu",
    restart: bool = False,
) -> MergeResult:
    """Merge, and write a complete model folder at `out`, whole or not at all.

    `shard_size` and the budget `memory` in bytes; `device` is `auto`, `cpu`, `cuda` or `cuda:N`; `extra_metadata`
    goes into provenance.json as it is. What a
    process that was killed, or met a full disk, has done of the same merge is gone on with, unless `restart`.
    Raises InputError when `out` is taken or the models do not fit, DiskError when the disk is full, RunError when
    an engine fails; lets `Cancelled` from `progress` pass. Nothing is at `out` in any of these cases.
    """
    out = Path(out)
    put_back(out)
    check_place(out, plan.folders, overwrite=overwrite)
    request = Request(plan, out, progress, overwrite, shard_size, extra_metadata, time.perf_counter(), memory, device)
    if plan.engine == "mergekit":
        from core.merge.with_mergekit import run_with_mergekit

        return run_with_mergekit(request)
    progress("checking", 0, 1, "models")
    found = pair(plan)
    refuse_problems(found)
    return _stream(request, found, restart)


def _stream(request: Request, found: Pairing, restart: bool) -> MergeResult:
    models = list(dict.fromkeys([found.reference, *found.members]))
    request.progress("preparing (compiles once a machine)", 0, 1, "kernels")
    with (
        StreamingEngine(request.plan, found, memory=request.memory, device=request.device) as engine,
        InputHashes((path for one in models for path in one.files), thread_count()) as hashes,
    ):
        engine.check_equal()
        identity = identity_of(request.plan, found.jobs, request.shard_size)
        resume = "restarted" if restart else identity
        needed = sum(job.nbytes for job in found.jobs) + COMPANION_BYTES - left_behind(request.out, resume)
        check_space(request.out, needed)
        with working_folder(request.out, overwrite=request.overwrite, resume=resume) as work:
            journal = Journal(work, identity)
            merged = merge_weights(work, engine, request, journal, hashes)
            request = replace(request, device=engine.kernels.device)
            more = [*engine.warnings, *engine.kernels.warnings]
            warnings = _all_warnings(request.plan, found, merged.figures, more)
            written = _write_companions(work, request, found, merged, warnings)
            request.progress("publishing", 0, 1, "folder")
            journal.remove()
        bytes_read = engine.files.bytes_read
    return MergeResult(
        str(request.out), "streaming", len(found.jobs), sum(job.elements for job in found.jobs),
        time.perf_counter() - request.started, bytes_read, sum(one.nbytes for one in written), peak_rss(),
        total_election(merged.figures), merged.resumed, request.device, total_rounding(merged.figures), tuple(warnings),
    )  # fmt: skip


def _write_companions(
    work: Path, request: Request, found: Pairing, merged: Merged, warnings: Sequence[str]
) -> list[WrittenFile]:
    """Config, tokenizer, report, plan, card and provenance; gives every file of the folder."""
    plan = request.plan
    dtype = _dominant([job for job in found.jobs if not job.copied])
    written = [*merged.files, *copy_companions(work, found.reference, found.members, dtype)]
    written += write_reports(work, plan, rows_of(merged.figures))
    card = model_card(plan, request.out.name, total_rounding(merged.figures), warnings)
    written.append(write_text(work / CARD_FILE, card))
    models = list(dict.fromkeys([found.reference, *found.members]))
    text = provenance(
        plan, found.reference.folder, inputs=merged.inputs, outputs=written, warnings=warnings, extra=request.extra,
        dtypes={"inputs": {str(one.folder): one.dtype for one in models}, "arithmetic": "float32", "out": dtype},
        settings=settings_of(request), device=request.device,
    )  # fmt: skip
    return [*written, write_text(work / PROVENANCE_FILE, text)]


def settings_of(request: Request) -> dict[str, Any]:
    """What decides the files beside the plan's text."""
    plan = request.plan
    return {"shard_size": request.shard_size, "dialect": plan.dialect, "vocabulary": plan.vocabulary}


def _all_warnings(plan: Plan, found: Pairing, figures: Sequence[TensorFigures], engine: Sequence[str]) -> list[str]:
    first = [*plan.warnings, *found.warnings, *tokenizer_warnings(found.reference, found.members)]
    return [*first, *dict.fromkeys([*engine, *_divisor_warning(figures)])]


def total_rounding(figures: Sequence[TensorFigures]) -> dict[str, Any]:
    """The total `RoundingRow`, without its name."""
    rounding = add_up(one.rounding for one in figures).row("total").as_dict()
    rounding.pop("name")
    return rounding


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
