"""`compare`: is the second model better than the first, on the same tasks.

Takes two files of scored samples; the statistics are in `core.stats`.
"""

from pathlib import Path
from typing import Annotated

import typer

from core.cli.options import JsonOption, join
from core.cli.output import cell, emit
from core.errors import InputError
from core.stats.noise import NoiseBand

EXAMPLE = "Example: python -m core compare best_single.dev.jsonl merged.dev.jsonl --json"


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("compare", epilog=EXAMPLE)(compare)


def compare(
    a: Annotated[Path, typer.Argument(metavar="A.jsonl", help="Samples of the first model: task and score a line.")],
    b: Annotated[Path, typer.Argument(metavar="B.jsonl", help="Samples of the second model, on the same tasks.")],
    *,
    checkpoint_a: Annotated[str | None, typer.Option(help="Which model of A, where it holds several.")] = None,
    checkpoint_b: Annotated[str | None, typer.Option(help="Which model of B, where it holds several.")] = None,
    bank: Annotated[Path | None, typer.Option(help="A bank whose repeated evaluations give the noise.")] = None,
    split: Annotated[str, typer.Option(help="Which split of that bank the tasks are.")] = "dev",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap interval.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Compare two models task by task: difference B − A, its interval and test, and a verdict on B.

    Tasks that share a scenario are counted as one cluster. With --bank, a difference inside the bank's
    run-to-run noise is unresolved, as it is in a job.
    """
    from core.stats import compare_files

    noise = _noise(bank, split) if bank is not None else None
    found = compare_files(a, b, checkpoint_a=checkpoint_a, checkpoint_b=checkpoint_b, seed=seed, noise=noise)
    if noise is not None and noise.tasks != found.n:
        raise InputError(
            f"the files score {found.n} tasks, split '{split}' of the bank has {noise.tasks}. "
            "Name the split they are of with --split."
        )
    if as_json:
        emit(found.as_dict())
        return
    print(found.sentence)
    print(f"mean A              {cell(found.mean_a)}")
    print(f"mean B              {cell(found.mean_b)}")
    print(
        f"difference          {found.difference:+.4f}  95 % from {found.interval[0]:+.4f} to {found.interval[1]:+.4f}"
    )
    print(f"p                   {cell(found.p_value)}  {found.test}")
    print(f"minimum detectable  {cell(found.minimum_detectable)}")
    print(f"gained              {len(found.gained)}: {join(found.gained)}")
    print(f"lost                {len(found.lost)}: {join(found.lost)}")
    print(f"verdict             {found.verdict}")


def _noise(folder: Path, split: str) -> NoiseBand:
    """The noise of a bank's split; an InputError where the bank has no such split or no replicates."""
    from core.bank import load_bank, split_noise

    bank = load_bank(folder)
    if split not in bank.splits:
        raise InputError(f"{bank.name}: expected one of the splits {', '.join(bank.splits)}, found '{split}'.")
    found = split_noise(bank.splits[split])
    if found is None:
        raise InputError(
            f"{bank.name}: split '{split}' names no `replicates` and has one sample a task, so its run-to-run noise is "
            "unknown."
        )
    return found
