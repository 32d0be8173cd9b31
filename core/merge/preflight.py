"""Says what a merge needs and what stands in its way, before anything is written.

Takes a plan and the place of the result; reads headers, configs and tokenizers, and all weights only where a
scan for NaN is asked for. Gives one typed result that the shell and the pages print. Estimates no time: that
rests on earlier runs, which this package does not know (`core.preview.cost`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.errors import InputError, MergescopeError
from core.merge.blocks import MEMORY, PROCESS_BYTES, SUB_BLOCK, block_elements, in_flight_of, thread_count
from core.merge.checkpoint import DTYPE_NAMES, CheckpointFile, open_checkpoint
from core.merge.companions import tokenizer_warnings
from core.merge.folder import COMPANION_BYTES, check_place, free_bytes
from core.merge.header import FLOATS
from core.merge.pairing import Pairing, TensorJob, pair
from core.merge.plan import Plan
from core.merge.ranks import layout_problems
from core.merge.scan import Scan, scan_weights
from core.progress import Progress, no_progress


@dataclass(frozen=True)
class ModelFigures:
    """One model, from its headers and config.json."""

    role: str
    """`base`, `reference` (a linear merge without base), or `member 1` and so on."""
    folder: str
    form: str
    """How its weights are kept, such as `one file` or `4 shards`."""
    parameters: int
    """Floating-point elements over all tensors."""
    dtypes: Mapping[str, int]
    """Parameters of each dtype (torch's name), most first."""
    tied: bool
    """Whether config.json ties lm_head to the embedding."""
    vocabulary: int | None
    """Rows of the token embedding; None where no single embedding is found."""
    files: int
    bytes: int


@dataclass(frozen=True)
class Preflight:
    """What can be said of a merge before anything is written."""

    engine: str
    method: str
    problems: tuple[str, ...]
    """Each would stop the merge; empty when it can run."""
    warnings: tuple[str, ...]
    models: tuple[ModelFigures, ...]
    """Those that could be opened, the base first."""
    out_dtype: str
    tensors: int
    elements: int
    """Of the merged model."""
    bytes_to_read: int
    disk_needed: int
    """Bytes of the merged weights and of the files beside them."""
    disk_free: int
    memory_expected: int | None
    """Bytes; None where mergekit runs, which says nothing of it."""
    scan: Scan | None = None
    """None unless the weights were read."""

    @property
    def ok(self) -> bool:
        """True when nothing stands in the way."""
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self) | {"ok": self.ok}


def preflight(
    plan: Plan,
    out: Path | None = None,
    *,
    overwrite: bool = False,
    scan: bool = False,
    memory: int = MEMORY,
    progress: Progress = no_progress,
) -> Preflight:
    """Check a plan against its models, its place and the disk; raises nothing that is their fault.

    `out` is where the result would go (the working directory when not given); `memory` is a budget in bytes.
    With `scan` every weight is read once, and NaN and infinity are problems too; only then is `progress` called,
    and may raise `Cancelled`.
    """
    opened, problems = _open_all(plan)
    found = _paired(plan, opened) if opened and not problems else None
    problems += found.problems if found else []
    problems += _place_problems(plan, out, overwrite)
    jobs = found.jobs if found else []
    problems += _scan_problems(scanned := scan_weights(list(opened.values()), progress) if scan else None)
    needed, free = _disk_needed(plan, jobs, opened), free_bytes(out or Path.cwd())
    problems += [f"the merged model needs {needed:,} bytes, the disk has {free:,} free."] if needed > free else []
    expected = _memory(plan, jobs, memory, problems)
    reference = found.reference if found else next(iter(opened.values()), None)
    return Preflight(
        engine=plan.engine,
        method=plan.method,
        problems=tuple(problems),
        warnings=tuple(_warnings(plan, found, opened)),
        models=_figures(plan, opened),
        out_dtype=plan.out_dtype,
        tensors=len(jobs) or (len(reference.tensors) if reference else 0),
        elements=sum(job.elements for job in jobs) or (reference.parameters if reference else 0),
        bytes_to_read=sum(one.nbytes for one in opened.values()),
        disk_needed=needed,
        disk_free=free,
        memory_expected=expected,
        scan=scanned,
    )


def _memory(plan: Plan, jobs: Sequence[TensorJob], budget: int, problems: list[str]) -> int | None:
    """Bytes expected; adds to the problems what is wrong with the budget."""
    try:
        return expected_memory(plan, jobs, budget) if plan.engine == "streaming" else None
    except InputError as problem:
        problems.append(str(problem))
        return None


def expected_memory(plan: Plan, jobs: Sequence[TensorJob], budget: int = MEMORY) -> int:
    """Upper bound of the resident bytes of a streaming merge: the process, and a buffer for each block in flight.

    A buffer holds one fp32 row a model and one for the result; no row is longer than the largest tensor.
    """
    rows, in_flight = len(plan.members) + 1, in_flight_of(thread_count())
    largest = max((job.elements for job in jobs if not job.copied), default=0)
    block = min(block_elements(rows, in_flight, budget), -(-largest // SUB_BLOCK) * SUB_BLOCK)
    return PROCESS_BYTES + in_flight * (rows + 1) * 4 * block


def _open_all(plan: Plan) -> tuple[dict[Path, CheckpointFile], list[str]]:
    """Every model that can be opened, and why each other one cannot."""
    opened: dict[Path, CheckpointFile] = {}
    problems = []
    for folder in dict.fromkeys(plan.folders):
        try:
            opened[folder] = open_checkpoint(folder)
        except MergescopeError as problem:
            problems.append(str(problem))
    return opened, problems or layout_problems(plan, opened)


def _paired(plan: Plan, opened: Mapping[Path, CheckpointFile]) -> Pairing:
    """Tensors matched by name; for mergekit, which matches them itself, the models alone."""
    if plan.engine == "streaming":
        return pair(plan, opened)
    members = [opened[one.path] for one in plan.members]
    return Pairing(opened[plan.base] if plan.base else members[0], members)


def _place_problems(plan: Plan, out: Path | None, overwrite: bool) -> list[str]:
    if out is None:
        return []
    try:
        check_place(Path(out), plan.folders, overwrite=overwrite)
    except MergescopeError as problem:
        return [str(problem)]
    return []


def _disk_needed(plan: Plan, jobs: Sequence[TensorJob], opened: Mapping[Path, CheckpointFile]) -> int:
    weights = sum(job.nbytes for job in jobs)
    if plan.engine == "mergekit":
        weights = max((4 * one.parameters for one in opened.values()), default=0)
    return weights + COMPANION_BYTES if weights else 0


def _scan_problems(scanned: Scan | None) -> list[str]:
    return [
        f"{one.folder}: tensor {one.tensor} has {one.count:,} values that are NaN or infinite, of {one.elements:,}."
        for one in (scanned.found if scanned else ())
    ]


def _warnings(plan: Plan, found: Pairing | None, opened: Mapping[Path, CheckpointFile]) -> list[str]:
    lines = [*plan.warnings, *(found.warnings if found else [])]
    if found and plan.engine == "streaming":
        lines += [*dtype_warnings(found), *tokenizer_warnings(found.reference, found.members)]
    return list(dict.fromkeys(lines))


def dtype_warnings(found: Pairing) -> list[str]:
    """Warn where the models, or the tensors of one, are not all of one dtype, and what that does to the deltas."""
    models = list(dict.fromkeys([found.reference, *found.members]))
    lines = [f"{one.folder}: its tensors are of several dtypes: {one.dtype}." for one in models if "," in one.dtype]
    groups: dict[str, list[CheckpointFile]] = {}
    for one in models:
        groups.setdefault(one.dtype.split(", ")[0], []).append(one)
    if len(groups) < 2:
        return lines
    said = "; ".join(f"{dtype}: {', '.join(one.folder.name for one in group)}" for dtype, group in groups.items())
    lines.append(
        f"the models are of different dtypes ({said}). Each is read as it is; where a member was trained from a base "
        "rounded to its own dtype, that rounding is part of its delta."
    )
    return lines


def _figures(plan: Plan, opened: Mapping[Path, CheckpointFile]) -> tuple[ModelFigures, ...]:
    roles = [("base", plan.base)] if plan.base else []
    roles += [(f"member {number}", one.path) for number, one in enumerate(plan.members, start=1)]
    return tuple(figures_of(role, opened[folder]) for role, folder in roles if folder in opened)


def figures_of(role: str, model: CheckpointFile) -> ModelFigures:
    """What one model's headers say."""
    dtypes: Counter[str] = Counter()
    for one in model.tensors.values():
        if one.dtype in FLOATS:
            dtypes[DTYPE_NAMES[one.dtype]] += one.elements
    embedding = model.tensors[model.embedding] if model.embedding else None
    files = len(model.files)
    return ModelFigures(
        role, str(model.folder), _form(model), model.parameters, dict(dtypes.most_common()), model.tied,
        embedding.shape[0] if embedding and embedding.shape else None, files, model.nbytes,
    )  # fmt: skip


def _form(model: CheckpointFile) -> str:
    if model.ranks:
        return str(model.ranks).removeprefix("a ")
    return "one file" if len(model.files) == 1 else f"{len(model.files)} shards"
