"""`ladder` and `random-delta`: the baselines a merge must beat, as configs, and the one that no config can say.

What the rungs are is decided in `core.recipe.ladder`; the random delta is made by `core.merge.random_delta`.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.bank import load_bank
from core.cli.options import BankArgument, JsonOption, join, with_knobs
from core.cli.output import emit, note, only_ours_on_stdout, progress_line, table
from core.errors import InputError, RunError
from core.files import write_atomically
from core.recipe import Recipe, recipe_to_dict

if TYPE_CHECKING:
    from core.bank import Bank
    from core.recipe.ladder import Rung

LADDER_EXAMPLE = "Example: python -m core ladder data/rl_only --lambda 0.7 --k 5 --out runs/ladder"
DELTA_EXAMPLE = "Example: python -m core random-delta --base data/rl_only/base --merged merged random --seed 0"
LADDER_FILE = "ladder.json"
MOST_DRAWS = 1000
Folder = Annotated[Path, typer.Argument(metavar="OUT", help="Folder to make; a Hugging Face model folder afterwards.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("ladder", epilog=LADDER_EXAMPLE)(ladder)
    app.command("random-delta", epilog=DELTA_EXAMPLE)(random_delta)


@with_knobs()
def ladder(
    bank: BankArgument,
    recipe: Recipe,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for the configs.")] = Path("ladder"),
    draws: Annotated[int, typer.Option(metavar="N", help="Random choices of K, with the seeds 0 to N − 1.")] = 5,
    deltas: Annotated[int, typer.Option(metavar="N", help="Random deltas, with the seeds 0 to N − 1.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Write the null baselines and ablations of a recipe: a mergekit config each, and ladder.json about all."""
    from core.recipe.ladder import ladder as rungs_of

    for name, count in (("--draws", draws), ("--deltas", deltas)):
        if not 0 <= count <= MOST_DRAWS:
            raise InputError(f"{name}: expected a number from 0 to {MOST_DRAWS}, found {count}.")
    loaded = load_bank(bank)
    rungs = rungs_of(loaded, recipe, seeds=range(draws), delta_seeds=range(deltas))
    found = _write(out, loaded, recipe, rungs)
    if not loaded.has_weights:
        note("warning: the bank names no folder for some models: replace their ids in the configs.")
    if as_json:
        emit(found)
        return
    rows = [[one["name"], one["group"], one["do"], one["title"]] for one in found["rungs"]]
    print(table(rows, ["rung", "group", "do", "what"]))
    note(f"wrote {out}")


def _write(out: Path, bank: "Bank", recipe: Recipe, rungs: list["Rung"]) -> dict[str, Any]:
    """The configs and `ladder.json` in a folder; gives what that file says."""
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise InputError(f"{out}: exists and is not an empty folder. Name another with --out, or remove it.")
    told = [_told(out, bank, one) for one in rungs]
    found = {"bank": str(bank.root.absolute()), "recipe": recipe_to_dict(recipe), "rungs": told}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for rung, about in zip(rungs, told, strict=True):
            if rung.config is not None and about["file"] is not None:
                write_atomically(out / about["file"], rung.config)
        write_atomically(out / LADDER_FILE, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    except OSError as problem:
        raise RunError(f"{out}: cannot be written ({problem.strerror}).") from None
    return found


def _told(out: Path, bank: "Bank", rung: "Rung") -> dict[str, Any]:
    """A rung as JSON, with its file, the folder of its model, and what is to be done."""
    folders = {one.id: str(one.path) for one in (bank.base, *bank.checkpoints) if one.path is not None}
    file = f"{rung.name}.yml" if rung.kind in ("merge", "greedy_soup") and rung.same_as is None else None
    base = folders.get(bank.base.id, bank.base.id)
    do = {
        "model": f"evaluate {rung.model}",
        "merge": f"merge {file}",
        "random_delta": f"random-delta --base {base} --merged MERGE --seed {rung.seed}",
        "greedy_soup": f"add in turn: {join(rung.members)}",
    }[rung.kind]
    about = {name: value for name, value in rung.as_dict().items() if name != "config"}
    path = folders.get(rung.model) if rung.model is not None else None
    return about | {"file": file, "path": path, "do": f"as {rung.same_as}" if rung.same_as else do}


def random_delta(
    out: Folder,
    *,
    base: Annotated[Path, typer.Option(metavar="FOLDER", help="The base's model folder.")],
    merged: Annotated[Path, typer.Option(metavar="FOLDER", help="The merged model's folder.")],
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same bytes.")] = 0,
    shard_size: Annotated[str, typer.Option(metavar="BYTES", help="Largest weight file, such as 5GB.")] = "5GB",
    as_json: JsonOption = False,
) -> None:
    """Write the base moved as far as a merge moved it, tensor by tensor, in a random direction."""
    from core.cli.models import figures, size_of

    size = size_of(shard_size)
    with only_ours_on_stdout():
        from core.merge.random_delta import random_delta as make

        with progress_line("random delta") as progress:
            found = make(base, merged, out, seed, shard_size=size, progress=progress).as_dict()
    emit(found) if as_json else print(figures(found))
