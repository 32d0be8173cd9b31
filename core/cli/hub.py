"""`hub list` and `hub download`: checkpoints on the Hugging Face Hub, in the shell's own process."""

from dataclasses import asdict
from typing import Annotated

import typer

from core.cli.options import JsonOption
from core.cli.output import emit, only_ours_on_stdout, progress_line, table
from core.words import file_size

LIST_EXAMPLE = "Example: python -m core hub list hf://owner/name --json"
DOWNLOAD_EXAMPLE = "Example: python -m core hub download hf://owner/name@main checkpoint-100"
Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="hf://owner/name[@revision][/subfolder].")]
ROOT = "."
"""How the repository's own folder is written."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Look at and download checkpoints on the Hugging Face Hub.", rich_markup_mode=None)
    group.command("list", epilog=LIST_EXAMPLE)(list_checkpoints)
    group.command("download", epilog=DOWNLOAD_EXAMPLE)(download)
    app.add_typer(group, name="hub")


def list_checkpoints(address: Address, as_json: JsonOption = False) -> None:
    """List a repository's checkpoints, pinned to a commit, without downloading weights."""
    from core.bank.hub import list_repository, parse_address

    with only_ours_on_stdout():
        found = list_repository(parse_address(address))
    if as_json:
        emit({**asdict(found), "address": str(found.address)})
        return
    head = ("checkpoint", "form", "parameters", "dtype", "files", "size")
    rows = [
        [one.subfolder or ROOT, one.form, one.parameters, ", ".join(one.dtypes), len(one.files), file_size(one.bytes)]
        for one in found.checkpoints
    ]
    print(f"pinned  {found.address}\n\n{table(rows, head) if rows else 'No checkpoints here.'}")
    for title, names in (("score files", found.scores), ("revisions by step", found.step_revisions)):
        if names:
            print(f"\n{title}: {', '.join(names)}")


def download(
    address: Address,
    checkpoints: Annotated[
        list[str] | None, typer.Argument(metavar="CHECKPOINT", help="As `hub list` names them; all by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Download the chosen checkpoints to the Hub's cache; after an interruption, what is missing."""
    from core.bank.hub import download as fetch
    from core.bank.hub import list_repository, parse_address

    with only_ours_on_stdout(), progress_line("hub") as progress:
        pinned = parse_address(address)
        chosen = ["" if one == ROOT else one for one in checkpoints or ()]
        if not chosen and pinned.revision and pinned.subfolder:
            chosen = [pinned.subfolder]
        elif not chosen:
            found = list_repository(pinned)
            pinned = found.address
            chosen = [one.subfolder for one in found.checkpoints if not one.form.startswith("cannot")]
        folders = fetch(pinned, chosen, progress)
    places = {name or ROOT: str(folder) for name, folder in folders.items()}
    emit({"folders": places}) if as_json else print(table(list(places.items()), ("checkpoint", "folder")))
