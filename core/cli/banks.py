"""`bank show`, `select` and `plan`: look at a pool, choose from it, and write the merge down.

Reads banks and prints; merges nothing. `bank discover` and `bank make` are in `new_bank.py`.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from core.bank import bank_summary, load_bank
from core.cli import new_bank
from core.cli.options import BankArgument, JsonOption, join, with_knobs
from core.cli.output import emit, note, table
from core.errors import RunError
from core.files import write_atomically
from core.recipe import Recipe, compile_plan, select

PICKING = ("lam", "k", "tau", "weighting", "similarity", "split", "pin", "ban")
group = typer.Typer(help="Look at a bank, or make one.", invoke_without_command=True, rich_markup_mode=None)


@group.callback()
def no_command(context: typer.Context) -> None:
    """Look at a bank: its base, checkpoints, scores."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    new_bank.add_to(group)
    app.add_typer(group, name="bank")
    app.command("select", epilog="Example: python -m core select data/s3_card --lambda 0.7 --k 5 --tau 0.02")(choose)
    app.command("plan", epilog="Example: python -m core plan data/rl_only --lambda 0.7 --k 5 > config.yml")(plan)


@group.command("show", epilog="Example: python -m core bank show data/rl_only --json")
def show(bank: BankArgument, as_json: JsonOption = False) -> None:
    """Show a bank: base, checkpoints with dtype and size, splits, and what is odd about it."""
    summary = bank_summary(load_bank(bank))
    if as_json:
        emit(summary)
        return
    print(f"{summary['title']} ({summary['name']}, {summary['kind']})\n")
    models = [("base", summary["base"]), *(("", one) for one in summary["checkpoints"])]
    rows = [[one["id"], role, one["step"], one["dtype"], one["parameters"], one["path"]] for role, one in models]
    print(table(rows, ["checkpoint", "role", "step", "dtype", "parameters", "folder"]))
    print()
    rows = [[name, one["tasks"], one["samples"]] for name, one in summary["splits"].items()]
    print(table(rows, ["split", "tasks", "samples"]))
    for warning in summary["warnings"]:
        note(f"warning: {warning}")


@with_knobs(*PICKING)
def choose(bank: BankArgument, recipe: Recipe, as_json: JsonOption = False) -> None:
    """Pick checkpoints by MMR and weight them; says why each was picked. Ranges of the scores are [0, 1]."""
    found = select(load_bank(bank), recipe).as_dict()
    if as_json:
        emit(found)
        return
    print(table([_pick_row(one, found["weights"]) for one in found["picks"]], PICK_HEAD))
    print(f"\neffective members  {found['effective_members']:.3f} of {len(found['picks'])}")
    for warning in found["warnings"]:
        note(f"warning: {warning}")


PICK_HEAD = ["pick", "checkpoint", "weight", "relevance", "max similarity", "score", "margin", "ties"]


def _pick_row(one: dict[str, Any], weights: dict[str, float]) -> list[Any]:
    kept = [one[name] for name in ("relevance", "max_similarity", "score", "margin")]
    return [one["order"], one["checkpoint"], weights[one["checkpoint"]], *kept, join(one["ties"])]


@with_knobs()
def plan(
    bank: BankArgument,
    recipe: Recipe,
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file instead of stdout.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the mergekit config of a recipe's picks: what `merge`, or mergekit itself, runs."""
    loaded = load_bank(bank)
    selection = select(loaded, recipe)
    text = compile_plan(loaded, recipe, selection)
    for warning in selection.warnings:
        note(f"warning: {warning}")
    if out is not None:
        try:
            write_atomically(out, text)
        except OSError as problem:
            raise RunError(f"{out}: cannot be written ({problem.strerror}).") from None
        note(f"wrote {out}")
    if as_json:
        emit({"plan": text, "weights": dict(selection.weights), "out": str(out) if out else None})
    elif out is None:
        print(text, end="")
