"""Whether two results were made under one protocol, and in words where they were not.

Takes protocols as plain mappings, so that it holds for any runner's; knows nothing about evaluating.
"""

from collections.abc import Mapping
from typing import Any

from core.errors import TaskError

Settings = Mapping[str, Any]
SAYS_NOTHING = ("name", "seed")
"""A protocol's name, and the seed, which repeats of one protocol differ in."""


def protocol_differences(a: Settings | None, b: Settings | None) -> tuple[str, ...]:
    """What differs, such as `temperature 0.5 against 0.9`; empty where nothing does.

    A protocol that is not known (None) is not known to be the same: that is said too, unless neither is known.
    """
    if a is None and b is None:
        return ()
    if a is None or b is None:
        return ("the protocol of one is not known",)
    names = [name for name in dict.fromkeys([*a, *b]) if name not in SAYS_NOTHING]
    return tuple(
        f"{name.replace('_', ' ')} {_said(a, name)} against {_said(b, name)}"
        for name in names
        if name not in a or name not in b or a[name] != b[name]
    )


def refuse_different(found: tuple[str, ...], names: tuple[str, str]) -> None:
    """Raise TaskError where two protocols differ."""
    if found:
        raise TaskError(
            f"{names[0]} and {names[1]} were not evaluated under one protocol: {', '.join(found)}. Evaluate both under "
            "one; or ask for the comparison across protocols, and the verdict says so."
        )


def _said(settings: Settings, name: str) -> str:
    value = settings.get(name)
    if name not in settings or value is None:
        return "nothing"
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
