"""`lens` and `sidecar`: what a narrower file would lose of a merge, and a bf16 copy that loses nothing.

Takes model folders; what they compute is in `core.precision`, imported when run.
"""

from pathlib import Path
from typing import Annotated

import typer

from core.cli.models import Folder, figures
from core.cli.options import JsonOption
from core.cli.output import emit, only_ours_on_stdout, progress_line

WRITE_EXAMPLE = "Example: python -m core sidecar write merged merged-bf16"
RESTORE_EXAMPLE = "Example: python -m core sidecar restore merged-bf16 merged-fp32"

sidecar = typer.Typer(
    name="sidecar", help="A bf16 copy of an fp32 model with the residual that makes it exact again.",
    no_args_is_help=True, rich_markup_mode=None,
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    sidecar.command("write", epilog=WRITE_EXAMPLE)(write)
    sidecar.command("restore", epilog=RESTORE_EXAMPLE)(restore)
    app.add_typer(sidecar)


def write(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder with float32 tensors.")],
    out: Folder,
    *,
    as_json: JsonOption = False,
) -> None:
    """Write a bf16 copy and residual.safetensors beside it; both are read back and compared before they are kept."""
    _run("write", model, out, as_json)


def restore(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that `sidecar write` made.")],
    out: Folder,
    *,
    as_json: JsonOption = False,
) -> None:
    """Make the float32 model again, checked by the SHA-256 of every tensor."""
    _run("restore", model, out, as_json)


def _run(what: str, model: Path, out: Path, as_json: bool) -> None:
    with only_ours_on_stdout():
        from core.precision.sidecar import restore as to_wide
        from core.precision.sidecar import write as to_narrow

        with progress_line("sidecar") as progress:
            found = (to_narrow if what == "write" else to_wide)(model, out, progress)
    emit(found.as_dict()) if as_json else print(figures(found.as_dict()))
