"""`xray` and `dialects`: one parameter followed through a merge, and the dialects of TIES side by side.

Takes a mergekit config; what they compute is in `core.preview`, imported when run.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.cli.options import JsonOption
from core.cli.output import emit, note, only_ours_on_stdout, table
from core.errors import InputError

if TYPE_CHECKING:
    from core.preview.xray import Xray

XRAY_EXAMPLE = "Example: python -m core xray config.yml model.norm.weight 7; or: … xray config.yml --find contested"
ConfigArgument = Annotated[
    Path, typer.Argument(metavar="CONFIG.yml", help="A mergekit config: ties, task_arithmetic, linear.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("xray", epilog=XRAY_EXAMPLE)(xray)


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
