"""`xray` and `dialects`: one parameter followed through a merge, and the dialects of TIES side by side.

Takes a mergekit config; what they compute is in `core.preview`, imported when run.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.cli.options import JsonOption
from core.cli.output import emit, note, only_ours_on_stdout, progress_line, table
from core.errors import InputError

if TYPE_CHECKING:
    from core.precision.sampling import Share
    from core.preview.dialects import DialectReport
    from core.preview.xray import Xray

XRAY_EXAMPLE = "Example: python -m core xray config.yml model.norm.weight 7; or: … xray config.yml --find contested"
DIALECTS_EXAMPLE = "Example: python -m core dialects config.yml --json"
MOST_TENSORS = 5
"""Rows of the table for people; JSON has all."""
ConfigArgument = Annotated[
    Path, typer.Argument(metavar="CONFIG.yml", help="A mergekit config: ties, task_arithmetic, linear.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("xray", epilog=XRAY_EXAMPLE)(xray)
    app.command("dialects", epilog=DIALECTS_EXAMPLE)(dialects)


def xray(
    config: ConfigArgument,
    tensor: Annotated[str | None, typer.Argument(metavar="TENSOR", help="A tensor's full name.")] = None,
    index: Annotated[
        str | None, typer.Argument(metavar="INDEX", help="Flat from 0, or one number a dimension: 3,17.")
    ] = None,
    *,
    find: Annotated[
        str | None, typer.Option(metavar="KIND", help="Look for one instead: contested, lost, weak, trimmed, solo.")
    ] = None,
    seed: Annotated[int, typer.Option(help="With --find: the same seed finds the same parameter.")] = 0,
    dialect: Annotated[str, typer.Option(help="mergekit, paper or sum.")] = "mergekit",
    as_json: JsonOption = False,
) -> None:
    """Follow one parameter of a merge through trim, vote, mean, add and round; writes nothing."""
    if (find is None) == (tensor is None) or (tensor is None) != (index is None) or seed < 0:
        raise InputError("expected a TENSOR and an INDEX, or --find KIND with a --seed from 0.")
    said = ""
    with only_ours_on_stdout():
        from core.merge import read_plan, with_dialect
        from core.preview.examples import find_example
        from core.preview.xray import xray as run

        plan = with_dialect(read_plan(config), dialect)
        place: int | list[int] = 0
        if find is not None:
            example = find_example(plan, find, seed)
            said, tensor, place = example.said, example.tensor, example.index
        elif index is not None:
            place = _place(index)
        found = run(plan, tensor, place) if tensor else None
    if as_json:
        emit({"said": said, "found": found.as_dict() if found else None})
        return
    if said:
        note(said) if found else print(said)
    if found:
        print(text_of(found))


def _place(text: str) -> int | list[int]:
    try:
        numbers = [int(one) for one in text.split(",")]
    except ValueError:
        raise InputError(f"INDEX: expected 1234 or 3,17; found {text!r}.") from None
    return numbers if "," in text else numbers[0]


def text_of(found: "Xray") -> str:
    """The members' table, then the formula of each step with its numbers in."""
    from core.preview.sentences import member_rows, place_of, steps_of

    heads, rows = member_rows(found)
    steps = [f"{name:<9}{formula}" for name, formula in steps_of(found)]
    return "\n".join([place_of(found), "", table(rows, heads), "", *steps])


def dialects(
    config: ConfigArgument,
    *,
    seed: Annotated[int, typer.Option(help="The same seed looks at the same blocks.")] = 0,
    limit: Annotated[int, typer.Option(metavar="N", help="Compare about so many parameters at most.")] = 20_000_000,
    as_json: JsonOption = False,
) -> None:
    """Compare the three dialects of TIES on one plan: where they differ, and by how much; writes nothing."""
    if seed < 0 or limit < 1:
        raise InputError("expected a --seed from 0 and a --limit from 1.")
    with only_ours_on_stdout():
        from core.merge import read_plan
        from core.preview.dialects import compare_dialects

        with progress_line("dialects") as progress:
            found = compare_dialects(read_plan(config), limit=limit, seed=seed, progress=progress)
    for warning in found.warnings:
        note(f"warning: {warning}")
    emit(found.as_dict()) if as_json else print(_dialects_text(found))


def _dialects_text(found: "DialectReport") -> str:
    heads = ["dialects", "tensor", "differ, %", "differ in bf16, %", "‖difference‖", "over ‖change of the first‖"]
    most = sorted(found.tensors, key=lambda one: -one.norm)[:MOST_TENSORS]
    rows = [
        [
            f"{one.first}, {one.second}", one.name, _share(one.differ, 100), _share(one.differ_bf16, 100), one.norm,
            _share(one.relative, 1),
        ]
        for one in (*found.total, *most)
    ]  # fmt: skip
    norms = ", ".join(f"{name} {value:.4g}" for name, value in found.norms.items())
    kind = "every parameter" if found.exact else f"{found.looked:,} parameters, 95 % intervals (seed {found.seed})"
    return f"{table(rows, heads)}\n\n‖merged − base‖: {norms}. Compared at {kind}; the trim's thresholds are exact."


def _share(one: "Share", factor: int) -> str:
    if one.value != one.value:
        return "-"
    value = f"{factor * one.value:.3f}"
    return value if one.low == one.high else f"{value} ({factor * one.low:.3f}–{factor * one.high:.3f})"
