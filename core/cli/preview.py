"""`preview`: what a merge would do, estimated from a sample of its models, before anything is written.

Takes a mergekit config; what it computes is in `core.preview`, imported when run.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from core.cli.models import size_of
from core.cli.options import JsonOption
from core.cli.output import cell, emit, note, only_ours_on_stdout, table
from core.errors import InputError

if TYPE_CHECKING:
    from core.merge.plan import Plan
    from core.preview.compare import Comparison
    from core.preview.knobs_matter import Reach
    from core.preview.result import Figure, Preview
    from core.preview.sample import Sample

EXAMPLE = "Example: python -m core preview config.yml --budget 64MB --json"
KNOB_WORDS = {
    "changed": "that scale can affect: a member changes it",
    "weights": "that weights can affect: members change it differently",
    "tau": "that tau can affect: so do members of unequal weight",
    "normalize": "that normalize can affect: not all members agree on it",
    "trimmed": "where the density drops a change",
}
LEFT_OUT = {
    "relative": "moves by, of its length",
    "turned": "other direction",
    "gone": "back to the base",
    "visible": "another number in bf16",
}
MOST_TENSORS, MOST_PAIRS = 5, 15
"""Rows of the tables for people; JSON has all."""


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("preview", epilog=EXAMPLE)(preview)


def preview(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.yml", help="A mergekit config: ties, task_arithmetic, linear.")
    ],
    *,
    seed: Annotated[int, typer.Option(help="The same seed reads the same blocks.")] = 0,
    budget: Annotated[str, typer.Option(metavar="BYTES", help="Read at most so much, such as 64MB.")] = "64MB",
    full: Annotated[bool, typer.Option("--full", help="In JSON, members and cosines of every tensor too.")] = False,
    knobs: Annotated[
        bool, typer.Option("--knobs", help="For ties: what each knob can affect, and what leaves with each member.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Estimate a merge from a random sample of its models, with 95 % intervals; writes nothing."""
    if seed < 0:
        raise InputError(f"--seed: expected a whole number from 0, found {seed}.")
    allowed = _bytes(budget)
    started = time.perf_counter()
    with only_ours_on_stdout():
        from core.merge import read_plan
        from core.preview.estimate import estimate_plan
        from core.preview.sample import read_sample

        plan = read_plan(config)
        sample = read_sample(plan, seed=seed, budget=allowed)
        found = estimate_plan(sample, plan)
        more = _knobs(sample, plan) if knobs else None
    seconds = time.perf_counter() - started
    for warning in dict.fromkeys((*plan.warnings, *found.warnings)):
        note(f"warning: {warning}")
    if as_json:
        emit(found.as_dict(full=full) | {"seconds": seconds} | (more.as_dict() if more else {}))
    else:
        print("\n\n".join([*([_knob_text(more, found)] if more else []), _text(found, seconds)]))


class Knobs(NamedTuple):
    """What `--knobs` adds."""

    reach: "Reach"
    left_out: "list[Comparison]"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        figures = {name: one.as_dict() for name, one in self.reach.figures.items()}
        left = [{name: one.as_dict() for name, one in each.total.items()} for each in self.left_out]
        return {"knobs": figures | {"trims_below": self.reach.trims_below.as_dict()}, "left_out": left}


def _knobs(sample: "Sample", plan: "Plan") -> Knobs:
    """Members of equal weight count as of equal score: a config does not say where its weights are from."""
    from core.preview.knobs_matter import reach
    from core.preview.leave_out import leave_one_out

    return Knobs(reach(sample, plan, alike=[one.weight for one in plan.members]), leave_one_out(sample, plan))


def _knob_text(more: Knobs, found: "Preview") -> str:
    figures = more.reach.figures
    rows = [[KNOB_WORDS[name], *one[:3]] for name, one in figures.items()]
    rows.append(
        ["most that a member changes of a tensor: a density from there on is inert", *more.reach.trims_below[:3]]
    )
    parts = [table(rows, ["share of all elements", "estimate", "low", "high"])]
    left = [
        [path.name, *(_short(each.total[name]) for name in LEFT_OUT)]
        for path, each in zip(found.members, more.left_out, strict=False)
    ]
    if left:
        parts.append(table(left, ["without", *LEFT_OUT.values()]))
    return "\n\n".join(parts)


def _bytes(text: str) -> int:
    try:
        return size_of(text)
    except InputError:
        raise InputError(f"--budget: expected a size such as 64MB, found {text!r}.") from None


def _text(found: "Preview", seconds: float) -> str:
    heads = ["of all tensors", "estimate", "low", "high"]
    parts = [table([_row(name, one) for name, one in found.total.items()], heads)]
    members = [
        [path.name, *(_short(one) for one in found.member(at).values())] for at, path in enumerate(found.members)
    ]
    parts.append(table(members, ["member", *(name.replace("_", " ") for name in found.of_members)]))
    pairs = [
        [found.members[one].name, found.members[two].name, _short(found.pair(at))]
        for at, (one, two) in enumerate(found.pairs[:MOST_PAIRS])
    ]
    if pairs:
        parts.append(table(pairs, ["task vectors", "", "cosine"]))
    if len(found.names) > 1:
        parts.append(_tensors(found))
    return "\n\n".join([*parts, _read(found, seconds)])


def _row(name: str, one: "Figure") -> list[Any]:
    return [name.replace("_", " "), one.estimate, one.low, one.high]


def _short(one: "Figure") -> str:
    """`0.3120 (0.2911–0.3336)`; exact figures without an interval."""
    if one.estimate != one.estimate:
        return "-"
    return cell(one.estimate) if one.kind == "exact" else f"{cell(one.estimate)} ({cell(one.low)}–{cell(one.high)})"


def _tensors(found: "Preview") -> str:
    """Those that bf16 takes most from, for certain: by the low end of the interval."""
    losses = [(found.tensor(at)["rounding_loss"].low, at) for at in range(len(found.names))]
    most = [at for _, at in sorted(losses, key=lambda one: -one[0])[:MOST_TENSORS]]
    shown = ("rounding_loss", "changed", "contested")
    rows = [[found.names[at], *(_short(found.tensor(at)[name]) for name in shown)] for at in most]
    return table(rows, ["tensors that lose most", *(name.replace("_", " ") for name in shown)])


def _read(found: "Preview", seconds: float) -> str:
    exact, tensors = int(found.design.exact.sum()), len(found.names)
    share = found.design.sizes.sum() / found.design.elements.sum()
    kind = "exact" if found.exact else f"95 % intervals; {exact:,} of {tensors:,} tensors were read whole and are exact"
    return (
        f"{kind}. Read {found.bytes_read:,} bytes, {100 * share:.3g} % of the elements, in "
        f"{found.design.numbers.size:,} blocks (seed {found.seed}) in {seconds:.1f} s."
    )
