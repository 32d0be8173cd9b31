"""One parameter of a merge, followed from the members' own values to the number that is written.

Takes a plan whose models lie on this machine, a tensor and an index; reads one element of each model, and where the
plan trims, as much as the thresholds need. Gives every step in fp32, the engine's result to the bit. Writes nothing.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from core.errors import InputError, PlanError
from core.merge.blocks import BufferPool, Files, spans, thread_count
from core.merge.device import SteadyKernels
from core.merge.dialect import WholeModels, rule_of
from core.merge.pairing import Pairing, TensorJob, pair, refuse_problems
from core.merge.plan import Plan
from core.merge.trim import Kept, ManyBlocks, keep_all, kept_count, select
from core.merge.values import read_values
from core.preview.steps import Steps, bf16, kept_of, take_steps

BLOCK = 1 << 18
ROUNDED = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


@dataclass(frozen=True)
class MemberStep:
    """One member's way through the merge of a parameter."""

    name: str
    weight: float
    """As the rule has it: the dialects `paper` and `sum` give every member 1."""
    raw: float
    """The member's own value."""
    delta: float
    """raw − base."""
    threshold: float | None
    """The smallest |δ| that is kept of the tensor (of the whole model in `paper` and `sum`); None without a trim."""
    keeps: int | None
    """How many elements of the tensor are kept; None without a trim, or where it runs over whole models."""
    rank: int | None
    """Place of |δ| in the tensor, 1 is the largest, equal ones by flat index; kept when at most `keeps`."""
    kept: bool
    weighted: float
    """weight · δ, 0 where trimmed."""
    agrees: bool
    """Whether it is part of the sum that is merged."""


@dataclass(frozen=True)
class Xray:
    """Every step of one parameter; all numbers are exact fp32 values."""

    tensor: str
    index: int
    """Flat, from 0."""
    position: tuple[int, ...]
    shape: tuple[int, ...]
    method: str
    dialect: str
    density: tuple[float, ...]
    base_name: str
    base: float
    members: tuple[MemberStep, ...]
    total: float
    """Σ weighted; its sign is elected."""
    sign: int | None
    """1 or −1; None where the method holds no election."""
    mixed: float
    divisor: float | None
    """None for no division."""
    mean: float
    scale: float
    update: float
    merged: float
    """fp32."""
    bf16: float
    base_bf16: float
    out_dtype: str
    written: float
    """What the merged file holds."""

    @property
    def lost_to_bf16(self) -> bool:
        """Whether it changes in fp32 and bf16 rounds it back to the base."""
        return self.merged != self.base and self.bf16 == self.base_bf16

    def as_dict(self) -> dict[str, Any]:
        """The JSON of the `xray` command."""
        found = asdict(self)
        return found | {
            "position": list(self.position), "shape": list(self.shape), "density": list(self.density),
            "members": list(found["members"]), "lost_to_bf16": self.lost_to_bf16,
        }  # fmt: skip


class Reader:
    """The models of a plan, opened for looking at single elements. Use `open_reader`."""

    def __init__(self, plan: Plan, found: Pairing, files: Files, pool: ThreadPoolExecutor) -> None:
        self.plan, self.files = plan, files
        self.jobs = [one for one in found.jobs if not one.copied and one.elements]
        """Tensors that are merged."""
        self._copied = {one.name for one in found.jobs if one.copied}
        self._pool = pool
        self._kernels = SteadyKernels("cpu")
        self._buffers = BufferPool(len(plan.members) + 1, BLOCK)
        self.rule = rule_of(plan)
        self.densities = [one.density for one in plan.members]
        self._whole: Kept | None = None
        self._kept: dict[str, Kept] = {}
        for job in self.jobs:
            for info in job.inputs:
                files.open(info.file)

    @property
    def whole_models(self) -> bool:
        """Whether the dialect needs a pass over whole models before anything can be said."""
        return self.plan.method == "ties" and self.plan.dialect != "mergekit"

    def job(self, tensor: str) -> TensorJob:
        """A merged tensor by its name; raises InputError that says what there is."""
        for one in self.jobs:
            if one.name == tensor:
                return one
        if tensor in self._copied:
            raise InputError(f"tensor {tensor} holds integers: it is copied from the base, so nothing is merged.")
        near = [one.name for one in self.jobs if tensor.lower() in one.name.lower()][:3]
        some = ", ".join(near or [one.name for one in self.jobs[:3]])
        raise InputError(f"the models have no tensor {tensor!r}. Expected one of their {len(self.jobs):,}, as {some}.")

    def trims(self, job: TensorJob) -> bool:
        """Whether some member's deltas of a tensor are trimmed by the tensor's own threshold."""
        if self.whole_models or self.plan.method != "ties":
            return False
        return any(kept_count(one, job.elements) < job.elements for one in self.densities)

    def kept(self, job: TensorJob) -> Kept:
        """The engine's thresholds of a tensor; found once."""
        if self.whole_models:
            return self._of_whole_models()
        if not self.trims(job):
            return keep_all(len(self.densities))
        if job.name not in self._kept:
            self._kept[job.name] = select(job.inputs, self.densities, self._blocks(job))
        return self._kept[job.name]

    def share_whole(self, other: "Reader") -> None:
        """Take over what another reader of the same models finds of them whole."""
        if self.whole_models and other.whole_models:
            self._whole = other._of_whole_models()
            self.rule = self.rule._replace(zero_plus=other.rule.zero_plus)

    def _of_whole_models(self) -> Kept:
        if self._whole is None:
            whole = WholeModels([one for one in self.jobs if one.duplicate_of is None], self._blocks)
            self._whole = whole.kept(self.densities, lambda *_: None)
            plus = whole.majority_is_plus(self._whole, lambda *_: None)
            self.rule = self.rule._replace(zero_plus=plus)
        return self._whole

    def _blocks(self, job: TensorJob) -> ManyBlocks:
        return ManyBlocks(job.inputs, self.files, self._buffers, self._pool, block=BLOCK, kernels=self._kernels)

    def steps(self, job: TensorJob, start: int, n: int) -> Steps:
        """Every step at n elements of a tensor from a flat index."""
        kept = self.kept(job)
        base, *raw = (read_values(self.files, info, start, n) for info in job.inputs)
        values = np.stack(raw)
        with np.errstate(all="ignore"):
            delta = values - base
        return take_steps(base, values, kept_of(delta, start, kept.thresholds, kept.cutoffs), self.rule)

    def ranks(self, job: TensorJob, index: int, delta: np.ndarray) -> list[int]:
        """Place of each member's |δ| at a flat index among the tensor's, 1 the largest, ties by flat index."""
        level = np.abs(delta).view(np.uint32)
        above = np.zeros(level.size, np.int64)
        for start, n in spans(job.elements, BLOCK):
            base = read_values(self.files, job.inputs[0], start, n)
            for at, info in enumerate(job.inputs[1:]):
                magnitude = np.abs(read_values(self.files, info, start, n) - base).view(np.uint32)
                above[at] += np.count_nonzero(magnitude > level[at])
                above[at] += np.count_nonzero(magnitude[: max(0, index - start)] == level[at])
        return [int(one) + 1 for one in above]


@contextmanager
def open_reader(plan: Plan) -> Iterator[Reader]:
    """Open a plan's models. Raises PlanError for a plan that only mergekit runs, CheckpointError for its models."""
    if plan.engine != "streaming":
        raise PlanError(
            f"this plan ({plan.reason}) is run by mergekit itself, so its steps are not known. "
            "Expected ties, task_arithmetic or linear with plain numbers."
        )
    found = pair(plan)
    refuse_problems(found)
    with Files() as files, ThreadPoolExecutor(thread_count(), thread_name_prefix="xray") as pool:
        yield Reader(plan, found, files, pool)


def xray(plan: Plan, tensor: str, index: int | Sequence[int]) -> Xray:
    """Follow one parameter of a merge; `index` is flat or one number a dimension.

    Raises InputError for an unknown tensor or an index outside it, PlanError and CheckpointError as a merge does.
    """
    with open_reader(plan) as reader:
        return look(reader, tensor, index)


def look(reader: Reader, tensor: str, index: int | Sequence[int]) -> Xray:
    """`xray` with models that are open already."""
    job = reader.job(tensor)
    flat = flat_index(job, index)
    steps = reader.steps(job, flat, 1)
    names = member_names(reader.plan)
    trims, kept = reader.trims(job), reader.kept(job)
    ranks = reader.ranks(job, flat, steps.delta[:, 0]) if trims else None
    level = kept.thresholds.view(np.float32)
    members = tuple(
        MemberStep(
            names[at], float(reader.rule.weights[at]), float(steps.raw[at, 0]), float(steps.delta[at, 0]),
            float(level[at]) if kept.thresholds[at] else None,
            kept_count(reader.densities[at], job.elements) if trims else None, ranks[at] if ranks else None,
            bool(steps.kept[at, 0]), float(steps.weighted[at, 0]), bool(steps.agrees[at, 0]),
        )
        for at in range(len(names))
    )  # fmt: skip
    return _result(reader, job, flat, steps, members)


def _result(reader: Reader, job: TensorJob, flat: int, steps: Steps, members: tuple[MemberStep, ...]) -> Xray:
    plan, rule = reader.plan, reader.rule
    merged, base = steps.merged, steps.base
    written = bf16(merged) if job.out_dtype == "BF16" else _half(merged) if job.out_dtype == "F16" else merged
    reference = plan.base or plan.members[0].path
    return Xray(
        job.name, flat, tuple(int(one) for one in np.unravel_index(flat, job.shape)) if job.shape else (), job.shape,
        plan.method, plan.dialect, tuple(reader.densities), reference.name, float(base[0]), members,
        float(steps.total[0]), int(steps.sign[0]) if plan.method == "ties" else None, float(steps.mixed[0]),
        float(steps.divisor[0]) if rule.divide_by != 0 else None, float(steps.mean[0]), float(rule.scale),
        float(steps.update[0]), float(merged[0]), float(bf16(merged)[0]), float(bf16(base)[0]),
        ROUNDED[job.out_dtype], float(written[0]),
    )  # fmt: skip


def _half(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def flat_index(job: TensorJob, index: int | Sequence[int]) -> int:
    """A flat index from itself or from one number a dimension; raises InputError outside the tensor."""
    size, shape = job.elements, job.shape
    if isinstance(index, int):
        if 0 <= index < size:
            return index
        raise InputError(f"tensor {job.name} has {size:,} elements: expected an index from 0 to {size - 1:,}.")
    place = tuple(index)
    if len(place) != len(shape) or not all(0 <= one < most for one, most in zip(place, shape, strict=True)):
        raise InputError(f"tensor {job.name} has shape {list(shape)}, counted from 0; found the index {list(place)}.")
    return int(np.ravel_multi_index(place, shape)) if shape else 0


def member_names(plan: Plan) -> list[str]:
    """A short name for each member: its folder's, with the one above where two are alike."""
    names = [one.path.name for one in plan.members]
    return [
        name if names.count(name) == 1 else f"{one.path.parent.name}/{name}"
        for name, one in zip(names, plan.members, strict=True)
    ]
