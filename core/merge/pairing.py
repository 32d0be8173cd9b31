"""Pairs the tensors of base and members by name, and finds everything that forbids the merge.

Takes a plan and headers; gives one `TensorJob` a tensor, in the order they are written. Reads no weights:
equalities that need them are listed for the engine to check before it writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from core.errors import CheckpointError
from core.merge.checkpoint import HEAD, CheckpointFile, open_checkpoint
from core.merge.differences import config_differences, is_expert, naming_problem
from core.merge.header import COPIED, FLOATS, ITEM_SIZES, TensorInfo
from core.merge.plan import AUTO, Plan
from core.merge.ranks import layout_problems, layout_warnings, rank_order
from core.merge.vocabulary import CHOICE, differ_in_rows_only, truncate

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


def open_models(plan: Plan) -> dict[Path, CheckpointFile]:
    """Every model of a plan by its folder, each read once, the base first. Raises CheckpointError."""
    return {folder: open_checkpoint(folder) for folder in dict.fromkeys(plan.folders)}


def pair(plan: Plan, opened: Mapping[Path, CheckpointFile] | None = None) -> Pairing:
    """Match tensors by name; `opened` are the plan's models where they have been read already.

    Raises CheckpointError for a model that cannot be opened; what does not match is collected in `problems`.
    """
    models = dict(opened) if opened is not None else open_models(plan)
    first = plan.base or plan.members[0].path
    if unlike := layout_problems(plan, models):
        return Pairing(models[first], [models[one.path] for one in plan.members], problems=unlike)
    cut = truncate(models, first) if plan.vocabulary == "truncate" else None
    models = cut.models if cut else models
    reference, members = models[first], [models[one.path] for one in plan.members]
    found = Pairing(reference, members)
    found.warnings += [warning for one in dict.fromkeys([reference, *members]) for warning in one.warnings]
    found.warnings += layout_warnings(plan, reference)
    if cut:
        found.problems += cut.problems
        found.warnings += cut.warnings
    misnamed = _check_namings(found)
    _match(plan, found, misnamed)
    for one in dict.fromkeys(members):
        _check_extra(one, found, misnamed)
    _mark_tied(found)
    found.jobs.sort(key=lambda job: (rank_order(job.name), -ITEM_SIZES[job.out_dtype], job.name))
    found.warnings += config_differences(reference, members)
    return found


def _match(plan: Plan, found: Pairing, misnamed: bool) -> None:
    """One job for each tensor of the reference that every member has."""
    reference, members = found.reference, found.members
    for name, info in reference.tensors.items():
        if misnamed and is_expert(name):
            continue
        inputs = [_find(name, reference, one) for one in members]
        absent = dict.fromkeys(one.folder for one, tensor in zip(members, inputs, strict=True) if tensor is None)
        found.problems += [f"{one}: tensor {name} is missing; {reference.folder} has it." for one in absent]
        job = _job(plan, name, (info, *(tensor for tensor in inputs if tensor is not None)), found)
        if job and not absent:
            found.jobs.append(job)


def _check_namings(found: Pairing) -> bool:
    """Whether some model names its experts in another way; then their tensors are not compared one by one."""
    problems = [naming_problem(found.reference, one) for one in dict.fromkeys(found.members)]
    found.problems += [one for one in problems if one]
    return any(problems)


def _find(name: str, reference: CheckpointFile, model: CheckpointFile) -> TensorInfo | None:
    """A model's tensor; where lm_head or the embedding is tied and so absent, the other of the two."""
    if name in model.tensors:
        return model.tensors[name]
    twin = model.twin(name) if model.tied or reference.tied else None
    return model.tensors[twin] if twin else None


def _job(plan: Plan, name: str, inputs: tuple[TensorInfo, ...], found: Pairing) -> TensorJob | None:
    base = inputs[0]
    unlike = dict.fromkeys(one for one in inputs[1:] if one.shape != base.shape)
    found.problems += [_shape_problem(name, one, base) for one in unlike]
    if unlike:
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


def _shape_problem(name: str, one: TensorInfo, base: TensorInfo) -> str:
    problem = (
        f"tensor {name}: shape {list(one.shape)} in {one.file.parent}, {list(base.shape)} in {base.file.parent}. "
        "Every model of a merge must have the same shapes."
    )
    if differ_in_rows_only(one, base):
        problem += f" Only the size of the vocabulary differs: `{CHOICE}` would cut every model to the smallest."
    return problem


def _out_dtype(plan: Plan, dtypes: set[str]) -> str:
    if plan.out_dtype != AUTO:
        return SAFETENSORS_NAMES[plan.out_dtype]
    return dtypes.pop() if len(dtypes) == 1 and "F64" not in dtypes else "F32"


def _check_extra(model: CheckpointFile, found: Pairing, misnamed: bool) -> None:
    reference = found.reference
    for name in model.tensors:
        if name in reference.tensors or (misnamed and is_expert(name)):
            continue
        stands_in = reference.twin(name)
        if stands_in and stands_in not in model.tensors and (model.tied or reference.tied):
            continue  # `_find` gave it to the reference's twin.
        twin = model.twin(name) if reference.tied else None
        if twin and twin in reference.tensors:
            problem = (
                f"{model.folder}: {name} is not tied to {twin}, but {reference.folder} has no {name} and ties it. "
                "Merge models that agree on tying."
            )
            found.equal.append(Equal(model.tensors[name], model.tensors[twin], problem))
            continue
        found.problems.append(f"{model.folder}: tensor {name} is not in {reference.folder}.")


def _mark_tied(found: Pairing) -> None:
    """Where every model ties lm_head, its copy is merged to the same bytes and counted once."""
    models = [found.reference, *found.members]
    for index, job in enumerate(found.jobs):
        embedding = found.reference.twin(job.name)
        if embedding and job.name.endswith(HEAD) and all(one.tied for one in models):
            found.jobs[index] = replace(job, duplicate_of=embedding)


def refuse_problems(found: Pairing) -> None:
    """Raise CheckpointError with the first of the problems and how many more there are."""
    if found.problems:
        more = len(found.problems) - 1
        raise CheckpointError(found.problems[0] + (f" ({more} more; `merge --check` lists them.)" if more else ""))
