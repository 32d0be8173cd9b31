"""Pairs the tensors of base and members by name, and finds everything that forbids the merge.

Takes a plan and headers; gives one `TensorJob` a tensor, in the order they are written. Reads no weights:
equalities that need them are listed for the engine to check before it writes.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

from core.errors import CheckpointError, MergescopeError
from core.merge.checkpoint import HEAD, CheckpointFile, open_checkpoint
from core.merge.header import COPIED, FLOATS, ITEM_SIZES, TensorInfo
from core.merge.plan import AUTO, Plan

SAFETENSORS_NAMES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}


@dataclass(frozen=True)
class TensorJob:
    """One tensor to be written."""

    name: str
    shape: tuple[int, ...]
    inputs: tuple[TensorInfo, ...]
    """The base's (or for `linear` the reference's) tensor first, then each member's."""
    out_dtype: str
    """safetensors' name."""
    copied: bool = False
    """Integers and booleans: the base's bytes, when every member has the same."""
    duplicate_of: str | None = None
    """A tied copy: merged again to the same bytes, and left out of the figures."""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.inputs[0].elements

    @property
    def nbytes(self) -> int:
        """Bytes in the merged file."""
        return self.elements * ITEM_SIZES[self.out_dtype]


@dataclass(frozen=True)
class Equal:
    """Two tensors whose bytes must agree, or else `problem` is raised."""

    first: TensorInfo
    second: TensorInfo
    problem: str


@dataclass(eq=False)
class Pairing:
    """What the engine needs to begin."""

    reference: CheckpointFile
    """The base; for a `linear` merge without one, the first member."""
    members: list[CheckpointFile]
    jobs: list[TensorJob] = field(default_factory=list)
    equal: list[Equal] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def open_models(plan: Plan) -> tuple[CheckpointFile, list[CheckpointFile]]:
    """The reference (base, or a linear merge's first member) and the members; each folder is read once."""
    opened: dict[Path, CheckpointFile] = {}
    for folder in [*([plan.base] if plan.base else []), *(one.path for one in plan.members)]:
        if folder not in opened:
            opened[folder] = open_checkpoint(folder)
    members = [opened[one.path] for one in plan.members]
    return (opened[plan.base] if plan.base else members[0]), members


def pair(plan: Plan) -> Pairing:
    """Match tensors by name.

    Raises CheckpointError for a model that cannot be opened; what does not match is collected in `problems`.
    """
    reference, members = open_models(plan)
    found = Pairing(reference, members)
    found.warnings += [warning for one in dict.fromkeys([reference, *members]) for warning in one.warnings]
    for name, info in reference.tensors.items():
        inputs = [_find(name, reference, one) for one in members]
        absent = [one.folder for one, tensor in zip(members, inputs, strict=True) if tensor is None]
        if absent:
            found.problems.append(f"{absent[0]}: tensor {name} is missing; {reference.folder} has it.")
            continue
        job = _job(plan, name, (info, *(tensor for tensor in inputs if tensor is not None)), found)
        if job:
            found.jobs.append(job)
    for one in dict.fromkeys(members):
        _check_extra(one, found)
    _mark_tied(found)
    found.jobs.sort(key=lambda job: (-ITEM_SIZES[job.out_dtype], job.name))
    _compare_configs(found)
    return found


def _find(name: str, reference: CheckpointFile, model: CheckpointFile) -> TensorInfo | None:
    """A model's tensor; where its lm_head is tied and so absent, the embedding."""
    if name in model.tensors:
        return model.tensors[name]
    if name.endswith(HEAD) and (model.tied or reference.tied) and model.embedding:
        return model.tensors[model.embedding]
    return None


def _job(plan: Plan, name: str, inputs: tuple[TensorInfo, ...], found: Pairing) -> TensorJob | None:
    base = inputs[0]
    for one in inputs[1:]:
        if one.shape != base.shape:
            found.problems.append(
                f"tensor {name}: shape {list(one.shape)} in {one.file.parent}, {list(base.shape)} in "
                f"{base.file.parent}. "
                "Every model of a merge must have the same shapes."
            )
            return None
    dtypes = {one.dtype for one in inputs}
    if dtypes <= set(FLOATS):
        return TensorJob(name, base.shape, inputs, _out_dtype(plan, dtypes))
    if len(dtypes) == 1 and base.dtype in COPIED:
        for one in inputs[1:]:
            problem = f"tensor {name} ({base.dtype}, copied from the base) differs in {one.file.parent}."
            found.equal.append(Equal(base, one, f"{problem} Integers cannot be merged: make the models agree on it."))
        return TensorJob(name, base.shape, inputs[:1], base.dtype, copied=True)
    found.problems.append(
        f"tensor {name}: dtypes {', '.join(sorted(dtypes))}. Only {', '.join(FLOATS)} can be merged; 8-bit and other "
        "quantised weights cannot: use the original checkpoint."
    )
    return None


def _out_dtype(plan: Plan, dtypes: set[str]) -> str:
    if plan.out_dtype != AUTO:
        return SAFETENSORS_NAMES[plan.out_dtype]
    return dtypes.pop() if len(dtypes) == 1 and "F64" not in dtypes else "F32"


def _check_extra(model: CheckpointFile, found: Pairing) -> None:
    reference = found.reference
    for name in model.tensors:
        if name in reference.tensors:
            continue
        embedding = model.embedding
        if name.endswith(HEAD) and reference.tied and embedding:
            problem = (
                f"{model.folder}: {name} is not tied to {embedding}, but {reference.folder} has no {name} and ties it. "
                "Merge models that agree on tying."
            )
            found.equal.append(Equal(model.tensors[name], model.tensors[embedding], problem))
            continue
        found.problems.append(f"{model.folder}: tensor {name} is not in {reference.folder}.")


def _mark_tied(found: Pairing) -> None:
    """Where every model ties lm_head, its copy is merged to the same bytes and counted once."""
    models = [found.reference, *found.members]
    embedding = found.reference.embedding
    for index, job in enumerate(found.jobs):
        if embedding and job.name.endswith(HEAD) and all(one.tied for one in models):
            found.jobs[index] = replace(job, duplicate_of=embedding)


def _compare_configs(found: Pairing) -> None:
    kinds = {str(one.config.get("model_type")) for one in (found.reference, *found.members)}
    if len(kinds) > 1:
        found.warnings.append(f"the models are of different types: {', '.join(sorted(kinds))}.")


def refuse_problems(found: Pairing) -> None:
    """Raise CheckpointError with the first of the problems and how many more there are."""
    if found.problems:
        more = len(found.problems) - 1
        raise CheckpointError(found.problems[0] + (f" ({more} more problems of this kind.)" if more else ""))


@dataclass(frozen=True)
class Preflight:
    """What can be said of a merge before anything is written, from headers alone."""

    problems: tuple[str, ...]
    """Each would stop the merge; empty when it can run."""
    warnings: tuple[str, ...]
    disk_needed: int
    """Bytes of the merged weights and of the files beside them."""
    disk_free: int
    tensors: int
    elements: int


def preflight(plan: Plan, out: Path | None = None, *, overwrite: bool = False) -> Preflight:
    """Check a plan against its models' headers, its place and the disk; raises nothing that is their fault.

    `out` is where the result would go (the working directory when not given).
    """
    from core.merge.folder import COMPANION_BYTES, check_place, free_bytes

    free = free_bytes(out or Path.cwd())
    try:
        found = pair(plan) if plan.engine == "streaming" else Pairing(*open_models(plan))
    except MergescopeError as problem:
        return Preflight((str(problem),), plan.warnings, 0, free, 0, 0)
    problems = list(found.problems)
    if out is not None:
        try:
            check_place(Path(out), plan.folders, overwrite=overwrite)
        except MergescopeError as problem:
            problems.append(str(problem))
    elements = sum(job.elements for job in found.jobs) or found.reference.parameters
    needed = (sum(job.nbytes for job in found.jobs) or found.reference.nbytes) + COMPANION_BYTES
    if needed > free:
        problems.append(f"the merged model needs {needed:,} bytes, the disk has {free:,} free.")
    tensors = len(found.jobs) or len(found.reference.tensors)
    return Preflight(tuple(problems), (*plan.warnings, *found.warnings), needed, free, tensors, elements)
