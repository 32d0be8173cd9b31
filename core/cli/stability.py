"""`stability`: how often each checkpoint is picked when tasks or runs had been others, and what the picks cover.

Reads a bank and prints; merges nothing.
"""

from typing import Annotated, Any

import typer

from core.bank import load_bank, split_noise
from core.cli.banks import PICKING
from core.cli.options import BankArgument, JsonOption, with_knobs
from core.cli.output import emit, table
from core.errors import InputError
from core.recipe import Recipe, select
from core.recipe.coverage import pick_coverage
from core.recipe.stability import over_runs, over_tasks

EXAMPLE = "Example: python -m core stability data/rl_only --lambda 0.7 --k 5 --json"


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("stability", epilog=EXAMPLE)(stability)


@with_knobs(*PICKING)
def stability(
    bank: BankArgument,
    recipe: Recipe,
    resamples: Annotated[int | None, typer.Option(help="Draws; 400 unless the pool is large.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same draws.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Say how often each checkpoint is picked if the tasks, or the runs where noise is known, are drawn again."""
    if seed < 0:
        raise InputError(f"--seed: expected a whole number from 0, found {seed}.")
    loaded = load_bank(bank)
    chosen, split = select(loaded, recipe), loaded.splits[recipe.split]
    noise = split_noise(split)
    by_tasks = over_tasks(loaded, recipe, resamples=resamples, seed=seed)
    by_runs = None
    if noise is not None or split.samples > 1:
        by_runs = over_runs(loaded, recipe, noise.flip_rate if noise else 0.0, resamples=resamples, seed=seed)
    names, picked = [one.id for one in loaded.checkpoints], [one.checkpoint for one in chosen.picks]
    covered = pick_coverage(split.scores, tuple(loaded.index_of(one) for one in picked))
    found: dict[str, Any] = {
        "resamples": by_tasks.resamples,
        "drawn": by_tasks.groups,
        "same_picks_other_tasks": by_tasks.same,
        "same_picks_other_runs": by_runs.same if by_runs else None,
        "checkpoints": [
            {
                "checkpoint": name,
                "picked": name in picked,
                "other_tasks": float(by_tasks.frequency[at]),
                "other_runs": float(by_runs.frequency[at]) if by_runs else None,
                "adds_tasks": len(covered.picks[picked.index(name)].adds) if name in picked else None,
            }
            for at, name in enumerate(names)
        ],
        "covered": {"tasks": covered.tasks, "any": covered.by_any, "all": covered.by_all, "pool": covered.by_pool},
    }
    emit(found) if as_json else print(_text(found))


def _text(found: dict[str, Any]) -> str:
    rows = [list(one.values()) for one in found["checkpoints"]]
    runs = found["same_picks_other_runs"]
    covered = found["covered"]
    return (
        table(rows, ["checkpoint", "picked", "other tasks", "other runs", "adds tasks"])
        + f"\n\nsame picks  {found['same_picks_other_tasks']:.3f} of {found['resamples']} draws of other tasks"
        + (f", {runs:.3f} of other runs" if runs is not None else "")
        + f"\ncovered     {covered['any']} of {covered['tasks']} tasks by any pick, {covered['all']} by all, "
        f"{covered['pool']} by the pool"
    )
