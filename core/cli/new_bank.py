"""`bank discover` and `bank make`: what a folder holds, and a new bank from it under explicit choices.

Takes paths; what is found, matched and written is decided in `core.bank`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.options import JsonOption, join
from core.cli.output import emit, note, table
from core.cli.scores import DuplicatesOption, FilterOption, FormatOption, MetricOption, OutsideOption

if TYPE_CHECKING:
    from core.bank import Bank, Split
    from core.bank.discover import Discovery
    from core.bank.draft import Member
    from core.bank.match import Match
    from core.bank.readers import ReadOptions, ScoreSet
    from core.bank.repeats import Matched

DISCOVER_EXAMPLE = "Example: python -m core bank discover runs/grpo --json"
MAKE_EXAMPLE = "Example: python -m core bank make runs/grpo banks/grpo --base base --on-missing intersect"
FolderArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="A folder with checkpoints, score files, or both.")
]
ScoresOption = Annotated[
    list[Path] | None,
    typer.Option("--scores", metavar="PATH", help="Only these score files or folders; may be repeated."),
]
MatchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--match",
        metavar="CHECKPOINT=NAME",
        help="The checkpoint that NAME in the score files means; =NAME leaves it out, +=NAME keeps it without weights.",
    ),
]
BaseOption = Annotated[
    str | None, typer.Option(metavar="ID", help="The base, as `discover` names it; else what looks most like one.")
]
ScoresOnlyOption = Annotated[
    bool, typer.Option("--scores-only", help="Keep scores that match no checkpoint, as checkpoints without weights.")
]
TasksFileOption = Annotated[
    Path | None, typer.Option("--tasks", metavar="FILE", help="JSONL of the tasks, with their prompts.")
]
MissingOption = Annotated[
    str | None,
    typer.Option("--on-missing", metavar="HOW", help="Scores that some lack: intersect, mask or impute:VALUE."),
]
PromptsOption = Annotated[
    str | None,
    typer.Option(metavar="HOW", help="Tasks asked differently: same leaves those answers out, any compares them."),
]


def add_to(group: typer.Typer) -> None:
    """Add the commands of this module to `bank`."""
    group.command("discover", epilog=DISCOVER_EXAMPLE)(discover)
    group.command("make", epilog=MAKE_EXAMPLE)(make)


def discover(
    folder: FolderArgument,
    *,
    scores: ScoresOption = None,
    format_name: FormatOption = None,
    filter_name: FilterOption = None,
    metric: MetricOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a folder holds: checkpoints, what looks like their base, score files, and how they match."""
    from core.errors import BankError

    found = _search(folder)
    warnings = list(found.warnings)
    matches: list[Match] = []
    problems: list[dict[str, Any]] = []
    if found.scores or scores:
        try:
            read = _read(found, scores, _options(format_name, filter_name, metric))
            matches, problems = _judged(read, found)
            warnings += read.warnings
        except BankError as problem:
            warnings.append(str(problem))
    if as_json:
        matched = [one.__dict__ for one in matches]
        emit(found.as_dict() | {"matches": matched, "problems": problems, "warnings": warnings})
        return
    _print(found, matches, problems)
    for warning in warnings:
        note(f"warning: {warning}")


def make(
    folder: FolderArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The new folder of the bank.")],
    *,
    base: BaseOption = None,
    scores: ScoresOption = None,
    match: MatchOption = None,
    scores_only: ScoresOnlyOption = False,
    on_missing: MissingOption = None,
    duplicates: DuplicatesOption = None,
    outside: OutsideOption = None,
    prompts: PromptsOption = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The bank's name; else that of OUT.")] = None,
    split: Annotated[str, typer.Option(metavar="NAME", help="What the task set is called.")] = "dev",
    tasks_file: TasksFileOption = None,
    format_name: FormatOption = None,
    filter_name: FilterOption = None,
    metric: MetricOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a new bank from a folder. What does not fit between its scores needs a choice; none is made for you."""
    from core.bank.choices import Choices
    from core.bank.draft import Draft, write_bank

    found = _search(folder)
    read = _read(found, scores, _options(format_name, filter_name, metric))
    matched = _matched(read, found, match or [], scores_only=scores_only)
    pool, start = _pool(found, matched, base)
    choices = Choices(on_missing, duplicates, outside, prompts)
    tasks = tasks_file or _task_file(found, matched.scores.tasks)
    draft = Draft(name or out.resolve().name, start, pool, matched, choices, split=split, tasks_file=tasks)
    made = write_bank(draft, out)
    _report(made, made.splits[split], [*found.warnings, *read.warnings, *matched.notes], as_json=as_json)


def _report(made: "Bank", split: "Split", said: list[str], *, as_json: bool) -> None:
    from core.bank.summary import bank_summary

    aligned = split.alignment.sentence if split.alignment else None
    if as_json:
        summary = bank_summary(made)
        emit(summary | {"warnings": [*said, *summary["warnings"]], "out": str(made.root), "alignment": aligned})
        return
    print(f"wrote    {made.root}")
    print(f"holds    {len(made.checkpoints)} checkpoints, base {made.base.id}, {len(split.tasks):,} {split.name} tasks")
    print(f"aligned  {aligned}")
    for warning in [*said, *made.warnings]:
        note(f"warning: {warning}")


def _matched(read: "ScoreSet", found: "Discovery", changes: list[str], *, scores_only: bool) -> "Matched":
    from core.bank.match import SCORES_ONLY, as_mapping, edited, match_scores
    from core.bank.repeats import matched_scores

    mapping = as_mapping(match_scores(read.checkpoints, found.targets))
    if scores_only or not found.checkpoints:
        mapping = {one: chosen or SCORES_ONLY for one, chosen in mapping.items()}
    return matched_scores(read, edited(mapping, changes, found.targets), found.targets)


def _pool(found: "Discovery", matched: "Matched", base: str | None) -> tuple[tuple["Member", ...], "Member"]:
    """The pool and the base: the one named, else the likeliest found, else scores that call themselves that."""
    from core.bank.discover import BASE_NAMES
    from core.bank.draft import Member, pool_of

    if base is None:
        named = (one for one in matched.scores.checkpoints if one.lower() in BASE_NAMES)
        base = found.bases[0].id if found.bases else next(named, "")
    return pool_of(matched, [Member(one.id, one.step, one.path) for one in found.checkpoints], base)


def _search(folder: Path) -> "Discovery":
    from core.bank.discover import discover as search

    return search(folder)


def _options(format_name: str | None, filter_name: str | None, metric: str | None) -> "ReadOptions":
    from core.bank.readers import ReadOptions

    return ReadOptions(format=format_name, filter=filter_name, metric=metric)


def _read(found: "Discovery", named: list[Path] | None, options: "ReadOptions") -> "ScoreSet":
    from core.bank.readers import read_scores
    from core.errors import BankError

    if named:
        return read_scores(named, options)
    if not found.scores:
        raise BankError(f"{found.root}: no score files were found. Name them with --scores PATH.")
    return read_scores([one.path for one in found.scores], options, roots=[found.root], named=False)


def _judged(read: "ScoreSet", found: "Discovery") -> tuple[list["Match"], list[dict[str, Any]]]:
    from core.bank.align import find_problems
    from core.bank.match import SCORES_ONLY, as_mapping, match_scores
    from core.bank.repeats import matched_scores

    matches = match_scores(read.checkpoints, found.targets)
    mapping = {one: chosen or SCORES_ONLY for one, chosen in as_mapping(matches).items()}
    settled = matched_scores(read, mapping, found.targets)
    return matches, [one.as_dict() for one in find_problems(settled.scores)]


def _task_file(found: "Discovery", scored: tuple[str, ...]) -> Path | None:
    """The one task file that was found and has every scored task."""
    from core.bank.scores import read_task_index
    from core.errors import BankError

    fitting = []
    for path in found.tasks:
        try:
            if set(scored) <= set(read_task_index(path)[0]):
                fitting.append(path)
        except BankError as problem:
            note(f"warning: passed over: {problem}")
    return fitting[0] if len(fitting) == 1 else None


def _print(found: "Discovery", matches: list["Match"], problems: list[dict[str, Any]]) -> None:
    guess = {one.id: f"base? {one.reason}" for one in found.bases[:1]}
    rows = [
        [one.id, one.step, one.dtype, one.parameters, one.folder, guess.get(one.id, "")] for one in found.checkpoints
    ]
    print(f"{found.root}: {len(found.checkpoints)} checkpoints, {len(found.scores)} score files\n")
    print(table(rows, ["checkpoint", "step", "dtype", "parameters", "folder", ""]))
    for each in found.unreadable:
        print(f"cannot be merged: {each.problem}")
    formats = [one.format for one in found.scores]
    counted = [f"{formats.count(one)} {one}" for one in dict.fromkeys(formats)]
    print(f"\nscore files  {join(counted)}")
    print(f"task files   {join([one.relative_to(found.root) for one in found.tasks])}")
    if found.banks:
        print(f"banks        {join(found.banks)}")
    if matches:
        print("\n" + table([[one.scores, one.checkpoint, one.reason] for one in matches], MATCH_HEAD))
    if problems:
        print("\n" + table([[one["kind"], one["sentence"]] for one in problems], ["problem", "what"]))


MATCH_HEAD = ["scores", "checkpoint", "why"]
