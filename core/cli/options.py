"""Shell options made from the one table of knobs, so that a recipe is spelt alike everywhere.

Takes knob names; gives options for a command's signature. Checks no values: `recipe_from_dict` does.
"""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from core.recipe import Knob, Recipe

BankArgument = Annotated[Path, typer.Argument(metavar="BANK", help="A bank's folder, or its bank.yaml.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
SPELLING = {"lam": "--lambda"}
"""Knobs whose option is not simply their name."""
TYPES: dict[str, Any] = {"float": float, "int": int, "choice": str, "ids": list[str], "bool": bool}


def flag(knob: "Knob") -> str:
    """The knob's option, such as `--lambda` or `--out-dtype`."""
    return SPELLING.get(knob.name, "--" + knob.name.replace("_", "-"))


def with_knobs(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command that takes `recipe` one option for each named knob instead; all without names."""
    from core.recipe import KNOBS

    knobs = [one for one in KNOBS if not names or one.name in names]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def call(**given: Any) -> None:
            values = {one.name: given.pop(one.name) for one in knobs}
            command(recipe=_recipe(values), **given)

        own = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name != "recipe"]
        options = [_parameter(one) for one in knobs]
        flags = [one for one in own if one.default is not inspect.Parameter.empty]
        arguments = [one for one in own if one.default is inspect.Parameter.empty]
        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*arguments, *options, *flags)]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        call.__name__, call.__doc__ = command.__name__, command.__doc__
        return call

    return decorate


def _recipe(values: dict[str, Any]) -> "Recipe":
    from core.recipe import recipe_from_dict

    return recipe_from_dict({name: value for name, value in values.items() if value is not None})


def _parameter(knob: "Knob") -> inspect.Parameter:
    name = flag(knob)
    spelled = f"{name}/--no-{name.removeprefix('--')}" if knob.type == "bool" else name
    accepts = (
        "" if knob.type == "bool" else f" Accepts {knob.valid}{'; may be repeated' if knob.type == 'ids' else ''}."
    )
    metavar = {"float": "X", "int": "N", "choice": "NAME", "ids": "ID"}.get(knob.type)
    option = typer.Option(spelled, help=f"{knob.label}. {_first_sentence(knob)}{accepts}", metavar=metavar)
    default: Any = list(knob.default) if isinstance(knob.default, tuple) else knob.default
    return inspect.Parameter(
        knob.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[TYPES[knob.type], option],
    )


def _first_sentence(knob: "Knob") -> str:
    return knob.help.split(". ")[0].rstrip(".") + "."


def join(values: Sequence[object]) -> str:
    """Values in one line, or `none`."""
    return ", ".join(map(str, values)) or "none"
