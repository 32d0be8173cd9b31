"""`scores read` and `scores align`: score files of other tools, as they are and made comparable.

Takes paths; what they hold and how it fits is decided in `core.bank.readers` and `core.bank.align`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.options import JsonOption, join
from core.cli.output import cell, emit, note, table
from core.errors import InputError

if TYPE_CHECKING:
    from core.bank.align import Aligned
    from core.bank.readers import ScoreSet

READ_EXAMPLE = "Example: python -m core scores read evals --filter strict-match --json"
ALIGN_EXAMPLE = "Example: python -m core scores align evals --tasks intersect --json"
PathsArgument = Annotated[
    list[Path], typer.Argument(metavar="PATH…", help="Files with scores, or folders that are searched for them.")
]
FormatOption = Annotated[str | None, typer.Option("--format", metavar="F", help="Only this format's files.")]
FilterOption = Annotated[
    str | None, typer.Option("--filter", metavar="NAME", help="lm-evaluation-harness: the filter.")
]
MetricOption = Annotated[
    str | None, typer.Option("--metric", metavar="M", help="Which score, where a file has several.")
]
SoftOption = Annotated[bool, typer.Option("--soft", help="AppWorld: the share of a task's tests that passed.")]
ErrorsOption = Annotated[
    bool, typer.Option("--mask-errors", help="SWE-bench: runs that failed are unscored instead of 0.")
]
TasksOption = Annotated[
    str | None, typer.Option(metavar="HOW", help="Tasks that not all have scored: intersect, mask or impute:VALUE.")
]
DuplicatesOption = Annotated[str | None, typer.Option(metavar="HOW", help="Samples scored twice: first or mean.")]
OutsideOption = Annotated[
    str | None, typer.Option(metavar="HOW", help="Scores outside [0, 1]: clamp, or mask as unscored.")
]
PromptsOption = Annotated[
    str, typer.Option(metavar="HOW", help="Tasks asked differently: same leaves them out, any compares them.")
]

group = typer.Typer(
    help="Score files of other tools: what they hold, and whether they can be compared.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(group, name="scores")


@group.callback()
def no_command(context: typer.Context) -> None:
    """Print the help when no command was named."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@group.command("read", epilog=READ_EXAMPLE)
def read(
    paths: PathsArgument,
    *,
    format_name: FormatOption = None,
    filter_name: FilterOption = None,
    metric: MetricOption = None,
    soft: SoftOption = False,
    mask_errors: ErrorsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read score files, each recognised by its content: a mean for every checkpoint and task.

    In JSON, `scores` is {checkpoint: {task: mean score, or null where there is none}}, `samples` the most that a
    task has, and `figures` what a format reports beyond a mean.
    """
    from core.bank.align import find_problems

    scores = _scores(paths, format=format_name, filter=filter_name, metric=metric, soft=soft, mask_errors=mask_errors)
    warnings = [*scores.warnings, *(one.sentence for one in find_problems(scores))]
    if as_json:
        figures = {name: dict(values) for name, values in scores.figures.items()}
        emit(_described(scores) | {"scores": scores.table(), "figures": figures, "warnings": warnings})
        return
    print(f"{scores.format}: {len(scores.checkpoints)} checkpoints, {len(scores.tasks):,} tasks")
    means = scores.table()
    print(
        table([_row(who, means[who], scores) for who in means], ["checkpoint", "tasks", "unscored", "samples", "mean"])
    )
    for who, values in scores.figures.items():
        print(f"{who}: {join([f'{name} {cell(value)}' for name, value in values.items()])}")
    _warn(warnings)


@group.command("align", epilog=ALIGN_EXAMPLE)
def align(
    paths: PathsArgument,
    *,
    tasks: TasksOption = None,
    duplicates: DuplicatesOption = None,
    outside: OutsideOption = None,
    prompts: PromptsOption = "same",
    format_name: FormatOption = None,
    filter_name: FilterOption = None,
    metric: MetricOption = None,
    soft: SoftOption = False,
    mask_errors: ErrorsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what does not fit between checkpoints' scores; with --tasks, also the scores once it is settled."""
    from core.bank.align import align as settle
    from core.bank.align import find_problems

    scores = _scores(paths, format=format_name, filter=filter_name, metric=metric, soft=soft, mask_errors=mask_errors)
    if tasks is None and (duplicates, outside) != (None, None):
        raise InputError("--duplicates and --outside settle something only together with --tasks.")
    problems = find_problems(scores)
    settled = settle(scores, tasks, duplicates=duplicates, outside=outside, prompts=prompts) if tasks else None
    if as_json:
        described = _described(scores) | {"problems": [one.as_dict() for one in problems]}
        emit(described | {"warnings": list(scores.warnings)} | (_settled(settled) if settled is not None else {}))
        return
    print(table([[one.kind, one.checkpoint, len(one.tasks), one.sentence] for one in problems], PROBLEM_HEAD))
    if settled is not None:
        print(f"\nkept     {len(settled.tasks):,} of {len(scores.tasks):,} tasks; dropped: {join(settled.dropped[:8])}")
        print(f"choices  {join([f'{name} {value}' for name, value in settled.choices.items()])}")
    _warn(scores.warnings)


PROBLEM_HEAD = ["problem", "checkpoint", "tasks", "what"]


def _scores(paths: list[Path], **options: Any) -> "ScoreSet":
    from core.bank.readers import ReadOptions, read_scores

    return read_scores(paths, ReadOptions(**options))


def _settled(found: "Aligned") -> dict[str, Any]:
    rows = zip(found.checkpoints, found.scores.tolist(), strict=True)
    return {
        "tasks": list(found.tasks),
        "dropped": list(found.dropped),
        "scores": {who: dict(zip(found.tasks, row, strict=True)) for who, row in rows},
        "choices": found.choices,
    }


def _described(scores: "ScoreSet") -> dict[str, Any]:
    return {
        "format": scores.format,
        "checkpoints": list(scores.checkpoints),
        "tasks": list(scores.tasks),
        "samples": scores.samples,
    }


def _row(checkpoint: str, means: dict[str, float | None], scores: "ScoreSet") -> list[Any]:
    scored = [one for one in means.values() if one is not None]
    mean = sum(scored) / len(scored) if scored else None
    mine = scores.cells[checkpoint]
    most = max(map(len, mine.values()))
    return [checkpoint, len(mine), sum(means[task] is None for task in mine), most, mean]


def _warn(warnings: Any) -> None:
    for warning in warnings:
        note(f"warning: {warning}")
