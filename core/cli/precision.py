"""`lens` and `sidecar`: what a narrower file would lose of a merge, and a bf16 copy that loses nothing.

Takes model folders; what they compute is in `core.precision`, imported when run.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.cli.models import Folder, figures
from core.cli.options import JsonOption
from core.cli.output import emit, only_ours_on_stdout, progress_line, table
from core.errors import InputError

if TYPE_CHECKING:
    from core.precision.lens import LensReport
    from core.precision.sampling import Share

LENS_EXAMPLE = "Example: python -m core lens merged base --json"
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
    app.add_typer(sidecar, name="sidecar")
    app.command("lens", epilog=LENS_EXAMPLE)(lens)


def lens(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A merged model's folder, best in float32.")],
    base: Annotated[Path, typer.Argument(metavar="BASE", help="The base's folder.")],
    *,
    seed: Annotated[int, typer.Option(help="The same seed looks at the same blocks and rounds alike.")] = 0,
    limit: Annotated[int, typer.Option(metavar="N", help="Look at about so many parameters at most.")] = 2_000_000,
    as_json: JsonOption = False,
) -> None:
    """Which changes survive in bf16, fp16 and fp8, by scale, way of rounding, layer, module and size."""
    if seed < 0 or limit < 1:
        raise InputError("expected a --seed from 0 and a --limit from 1.")
    with only_ours_on_stdout():
        from core.precision.lens import lens as run

        with progress_line("lens") as progress:
            found = run(base, model, limit=limit, seed=seed, progress=progress)
    emit(found.as_dict()) if as_json else print(_text(found))


def _text(found: "LensReport") -> str:
    curves = [
        [f"{scale:g}", *(_percent(one.survival[at]) for one in found.curves)] for at, scale in enumerate(found.scales)
    ]
    files = [
        [one.format, one.rounding, _percent(one.lost), f"{one.bias.value:+.4f}", one.relative_l2, one.bytes]
        for one in found.files
    ]
    parts = [
        table(curves, ["scale", *(f"{one.format} survives, %" for one in found.curves)]),
        table(files, ["file", "rounding", "lost, %", "bias, mean |δ|", "error / change", "bytes"]),
    ]
    for name, groups in (("layer", found.layers), ("module", found.modules), ("|δ| in bf16 ulps", found.sizes)):
        rows = [[one.name, one.changed, _percent(one.lost)] for one in groups if one.changed]
        parts.append(table(rows, [name, "changed", "lost in bf16, %"]))
    kind = "every parameter" if found.exact else f"{found.looked:,} of them (seed {found.seed}, 95 % intervals)"
    parts.append(f"{found.changed:,} of {found.elements:,} parameters changed; looked at {kind}.")
    return "\n\n".join(parts)


def _percent(one: "Share") -> str:
    if one.value != one.value:
        return "-"
    value = f"{100 * one.value:.2f}"
    return value if one.low == one.high else f"{value} ({100 * one.low:.2f}–{100 * one.high:.2f})"


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
