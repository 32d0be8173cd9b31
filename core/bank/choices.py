"""Which choice settles which kind of problem, what may be chosen, and which choices are still open.

Takes problems of `align.py`; gives groups of them with their options in plain words. Chooses nothing.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from core.bank.align import Aligned, Problem, align
from core.bank.readers.score_set import ScoreSet
from core.bank.schema import ProblemKind
from core.errors import BankError


class Option(NamedTuple):
    """One way to settle a group of problems."""

    value: str
    label: str


@dataclass(frozen=True)
class Setting:
    """One choice to make, and the kinds of problem that it settles."""

    name: str
    flag: str
    """How the shell spells it."""
    kinds: tuple[ProblemKind, ...]
    title: str
    options: tuple[Option, ...]
    """Empty where there is nothing to choose."""


SETTINGS = (
    Setting(
        "prompts",
        "--prompts",
        ("prompts",),
        "Tasks that were asked differently",
        (
            Option("same", "Leave out answers to another prompt than most checkpoints were asked"),
            Option("any", "Compare them all the same"),
        ),
    ),
    Setting(
        "duplicates",
        "--duplicates",
        ("duplicated",),
        "Samples that are scored twice",
        (Option("first", "Keep the first score"), Option("mean", "Take the mean of them")),
    ),
    Setting(
        "outside",
        "--outside",
        ("outside",),
        "Scores outside [0, 1]",
        (Option("clamp", "Move them to 0 or 1"), Option("mask", "Take them as not scored")),
    ),
    Setting(
        "tasks",
        "--on-missing",
        ("missing", "unscored", "samples", "limited"),
        "Scores that some checkpoints have and others lack",
        (
            Option("intersect", "Keep only the tasks, and as many samples, as all have"),
            Option("mask", "Keep every task and leave gaps"),
            Option("impute", "Fill the gaps with one score"),
        ),
    ),
    Setting("order", "", ("order",), "Tasks in another order", ()),
)
"""In the order in which they are asked: the last may be needed because of the ones before."""
BY_NAME = "by name"
"""What is always done about tasks in another order."""


@dataclass(frozen=True)
class Choices:
    """What was chosen; None where nothing was."""

    tasks: str | None = None
    duplicates: str | None = None
    outside: str | None = None
    prompts: str | None = None


def group_problems(problems: Sequence[Problem]) -> dict[str, list[Problem]]:
    """Problems by the name of the setting that settles them, in the order of `SETTINGS`; only groups that have any."""
    groups = {one.name: [each for each in problems if each.kind in one.kinds] for one in SETTINGS}
    return {name: found for name, found in groups.items() if found}


def open_settings(problems: Sequence[Problem], choices: Choices) -> list[Setting]:
    """Settings that must still be chosen.

    Leaving out prompts or scores makes gaps, so that what to do with those must be chosen too.
    """
    needed = set(group_problems(problems)) - {"order"}
    if ("prompts" in needed and choices.prompts == "same") or ("outside" in needed and choices.outside == "mask"):
        needed.add("tasks")
    chosen = asdict(choices)
    return [one for one in SETTINGS if one.name in needed and chosen[one.name] is None]


def settle(scores: ScoreSet, problems: Sequence[Problem], choices: Choices) -> Aligned:
    """The scores under the choices; raises BankError where one is missing, with what may be chosen."""
    unsettled = open_settings(problems, choices)
    if unsettled:
        one = unsettled[0]
        kinds = [each for each in problems if each.kind in one.kinds] or list(problems)
        more = f" ({len(kinds) - 1} more of this kind.)" if len(kinds) > 1 else ""
        options = ", ".join(each.value + (":VALUE" if each.value == "impute" else "") for each in one.options)
        raise BankError(f"{kinds[0].sentence}{more} Choose what to do: {one.flag} {options}.")
    return align(
        scores,
        choices.tasks or "intersect",
        duplicates=choices.duplicates,
        outside=choices.outside,
        prompts=choices.prompts or "same",
    )


def choice_of(kind: ProblemKind, choices: Choices) -> str:
    """What was chosen about a kind of problem, as bank.yaml keeps it."""
    if kind == "order":
        return BY_NAME
    name = next(one.name for one in SETTINGS if kind in one.kinds)
    return str(asdict(choices)[name])
