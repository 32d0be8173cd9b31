"""Runs mergekit itself, in a process of its own, for every method and option that we do not stream.

Takes a request; gives the same folder, report and result as the streaming engine, with rounding figures
computed from the finished files and no election figures. Never lets mergekit run code from a model.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from core.errors import CheckpointError, RunError
from core.merge.checkpoint import CheckpointFile, open_checkpoint
from core.merge.companions import CARD_FILE, PROVENANCE_FILE, model_card, provenance, tokenizer_source
from core.merge.config import resolve_model
from core.merge.folder import COMPANION_BYTES, check_space, working_folder
from core.merge.hashing import BackgroundHashes
from core.merge.pairing import open_models
from core.merge.plan import Plan
from core.merge.ranks import layout_problems
from core.merge.report import row_of
from core.merge.result import MergeResult, Request, peak_rss
from core.merge.run import settings_of, write_reports
from core.merge.writer import write_text

POLL_SECONDS = 0.2
SEED = 0
"""For the methods that draw at random, so that a config gives the same bytes each time."""
ERROR_LINE = re.compile(r"^\w[\w.]*(?:Error|Exception)\b.*|^RuntimeError.*")


def run_with_mergekit(request: Request) -> MergeResult:
    """Merge with `mergekit-yaml`; raises CheckpointError for models that cannot be read or a result
    that is not finite, RunError when mergekit fails."""
    plan, out = request.plan, request.out
    request.progress("checking", 0, 1, "models")
    models = _local_models(plan)
    reference = models.get(plan.base) if plan.base else next(iter(models.values()), None)
    expected = max((one.parameters * 4 for one in models.values()), default=0)
    check_space(out, expected + COMPANION_BYTES)
    warnings = [*plan.warnings, f"run by mergekit itself ({plan.reason}): no election figures."]
    files = [path for one in models.values() for path in one.files]
    with (
        BackgroundHashes(files) as hashes,
        working_folder(out, overwrite=request.overwrite) as work,
    ):
        _run(request, work, expected)
        merged = open_checkpoint(work)
        rows, rounding, more = _figures(request, reference, merged)
        warnings += more
        if tokenizer_source([merged]) is None:
            warnings.append("mergekit wrote no tokenizer.")
        write_text(work / CARD_FILE, model_card(plan, out.name, rounding, warnings))
        with BackgroundHashes(merged.files) as outputs:
            written = [*(outputs.result(path) for path in merged.files), *write_reports(work, plan, rows)]
        inputs = {folder: [hashes.result(path) for path in one.files] for folder, one in models.items()}
        dtypes = {"inputs": {str(folder): one.dtype for folder, one in models.items()}, "arithmetic": plan.dtype}
        text = provenance(
            plan, plan.base, inputs=inputs, outputs=written, dtypes=dtypes | {"out": merged.dtype}, warnings=warnings,
            extra=request.extra, settings=settings_of(request),
        )  # fmt: skip
        written.append(write_text(work / PROVENANCE_FILE, text))
        request.progress("publishing", 0, 1, "folder")
    return MergeResult(
        str(out), "mergekit", len(merged.tensors), merged.parameters, time.perf_counter() - request.started,
        sum(one.nbytes for one in models.values()), sum(one.nbytes for one in written),
        max(peak_rss(), peak_rss(children=True)), {}, 0, "cpu", rounding, tuple(warnings),
    )  # fmt: skip


def _local_models(plan: Plan) -> dict[Path, CheckpointFile]:
    """Every model of the config, opened; mergekit would find a missing one late, or read a pickle."""
    models = open_models(plan)
    if problems := layout_problems(plan, models):
        raise CheckpointError(problems[0])
    return models


def _run(request: Request, work: Path, expected: int) -> None:
    plan = request.plan
    with tempfile.TemporaryDirectory(prefix="mergescope-") as place:
        config = Path(place) / "config.yml"
        config.write_text(_absolute(plan), encoding="utf-8")
        log = Path(place) / "log"
        command = [sys.executable, "-m", "mergekit.scripts.run_yaml", str(config), str(work), "--quiet"]
        command += [
            "--random-seed",
            str(SEED),
            "--out-shard-size",
            str(int(request.shard_size)),
            "--lora-merge-cache",
            place,
        ]
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
            )
        with _ended(process):
            while process.poll() is None:
                done = sum(path.stat().st_size for path in work.glob("*.safetensors"))
                request.progress("merging with mergekit", min(done, expected), expected, "bytes")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
        if process.returncode:
            raise RunError(f"mergekit failed ({process.returncode}): {_reason(log)}")


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop mergekit when the block ends before it does."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _reason(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    named = [line for line in lines if ERROR_LINE.match(line)]
    return (named or lines or ["it said nothing"])[-1][:500]


def _absolute(plan: Plan) -> str:
    """The config with model paths as this process resolves them, since mergekit knows its working directory only."""
    folder = plan.folder or Path.cwd()

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: _path(key, one) if isinstance(one, str) else walk(one) for key, one in value.items()}
        return [walk(one) for one in value] if isinstance(value, list) else value

    def _path(key: Any, text: str) -> str:
        found = resolve_model(text, folder)
        names = ("model", "base_model", "tokenizer_source", "source")
        return str(found) if key in names and found.is_absolute() and found.is_dir() else text

    return yaml.safe_dump(walk(yaml.safe_load(plan.yaml_text)), sort_keys=False, allow_unicode=True)


def _figures(
    request: Request, reference: CheckpointFile | None, merged: CheckpointFile
) -> tuple[list[dict[str, Any]], dict[str, Any], list[str]]:
    """Report rows and total against the base, and what could not be compared."""
    from core.precision import rounding_report

    if reference is None:
        return [], {}, []
    report = rounding_report(reference.folder, merged.folder, request.progress, partly=True)
    if not report.tensors:
        return [], {}, ["no rounding figures: the result shares no tensor of the same shape with the base."]
    rows = [row_of(row, merged.tensors[row.name].shape) for row in report.tensors]
    total = report.total.as_dict()
    total.pop("name")
    if not report.skipped:
        return rows, total, []
    first, count = report.skipped[0], len(report.skipped)
    return rows, total, [f"{count} tensors have no counterpart of the same shape in the base ({first})."]
