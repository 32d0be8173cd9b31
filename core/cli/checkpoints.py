"""`convert`: a checkpoint's form changed, in the shell's own process.

Takes folders; the work is in `core.merge.convert`, imported when run.
"""

from pathlib import Path
from typing import Annotated

import typer

from core.cli.models import Folder, figures, size_of
from core.cli.options import JsonOption
from core.cli.output import emit, note, only_ours_on_stdout, progress_line

CONVERT_EXAMPLE = "Example: python -m core convert sharded hf --json"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("convert", epilog=CONVERT_EXAMPLE)(convert)


def convert(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A vLLM sharded state, with its config.json.")],
    out: Folder,
    *,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace OUT when it is an earlier conversion.")
    ] = False,
    shard_size: Annotated[
        str, typer.Option(metavar="BYTES", help="Largest weight file, in bytes or such as 5GB or 500MB.")
    ] = "5GB",
    as_json: JsonOption = False,
) -> None:
    """Join a vLLM sharded state to a Hugging Face folder, if its ranks agree on every tensor that they share."""
    size = size_of(shard_size)
    with only_ours_on_stdout():
        from core.merge.convert import convert as run

        with progress_line("convert") as progress:
            found = run(folder, out, overwrite=overwrite, shard_size=size, progress=progress)
    for warning in found.warnings:
        note(f"warning: {warning}")
    emit(found.as_dict()) if as_json else print(figures(found.as_dict()))
