"""Scorers: was this completion right, and in a few words why.

Takes a task's target, a completion and the scorer's options; gives a score in [0, 1] and a reason.
Knows nothing about models or files. An option is written `{"name": "numeric", "tolerance": 0.01}`.
"""

import difflib
import math
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import regex

MAX_PATTERN = 2_000
"""Characters a regex target may have."""
MAX_SEARCHED = 200_000
"""Characters of a completion that a scorer looks at; a longer one is cut there, and the reason says so."""
REGEX_SECONDS = 2.0
"""A search that takes longer is a pattern that backtracks without end."""
MAX_DIGITS = 1_000
"""Characters of a number, and size of its exponent, beyond which it is not read."""

_NUMBER = regex.compile(
    r"(?:(?<![\w.)\]])[-+−])?"  # a sign, unless it stands between two operands
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
    r"(?:[eE][-+]?[0-9]+)?"
)


class Score(NamedTuple):
    """One verdict of a scorer."""

    score: float
    """In [0, 1]."""
    reason: str
    """Short, for the screen: what was compared with what."""


@dataclass(frozen=True)
class Scorer:
    """One way to score; add a new one to `SCORERS`."""

    name: str
    judge: Callable[[str, str, Mapping[str, Any]], Score]
    """`judge(target, completion, options)`; may raise ValueError where no verdict can be reached."""
    check: Callable[[str, Mapping[str, Any]], None]
    """`check(target, options)` raises ValueError for a target it could never judge; run when tasks are read."""
    options: Mapping[str, tuple[type, ...]] = field(default_factory=dict)


def _short(text: str) -> str:
    return reprlib.repr(text)


def _exact(target: str, completion: str, options: Mapping[str, Any]) -> Score:
    found, wanted = completion.strip(), target.strip()
    if options.get("ignore_case"):
        found, wanted = found.casefold(), wanted.casefold()
    if found == wanted:
        return Score(1.0, "equal to the target")
    return Score(0.0, f"expected {_short(wanted)}, found {_short(found)}" if found else "the completion is empty")


def _number_of(text: str) -> Fraction | None:
    """The exact value of one number as written, or None where it is none or out of all proportion."""
    plain = text.replace(",", "").replace("−", "-")
    exponent = plain.lower().partition("e")[2]
    if len(plain) > MAX_DIGITS or (exponent and abs(int(exponent)) > MAX_DIGITS):
        return None
    try:
        return Fraction(plain)
    except ValueError:
        return None


def _written_numbers(text: str) -> list[str]:
    return _NUMBER.findall(text)


def _numeric(target: str, completion: str, options: Mapping[str, Any]) -> Score:
    numbers = _written_numbers(completion[:MAX_SEARCHED])
    if not numbers:
        return Score(0.0, "no number in the completion")
    written = numbers[0 if options.get("take") == "first" else -1]
    found, wanted = _number_of(written), _number_of(target.strip())
    assert wanted is not None
    if found is None:
        return Score(0.0, f"number too long to read: {_short(written)}")
    allowed = max(
        Fraction(options.get("tolerance", 0)), Fraction(options.get("relative_tolerance", 0)) * abs(wanted), Fraction(0)
    )
    if abs(found - wanted) <= allowed:
        return Score(
            1.0, f"{_short(written)} equals the target" if not allowed else f"{_short(written)} is within tolerance"
        )
    return Score(0.0, f"expected {_short(target.strip())}, found {_short(written)}")


def _check_numeric(target: str, options: Mapping[str, Any]) -> None:
    if _written_numbers(target) != [target.strip()] or _number_of(target.strip()) is None:
        raise ValueError(f"the numeric scorer needs a number as target, found {_short(target)}")
    for name in ("tolerance", "relative_tolerance"):
        if not (math.isfinite(options.get(name, 0)) and options.get(name, 0) >= 0):
            raise ValueError(f"option '{name}' must be a finite number from 0, found {options[name]}")
    if options.get("take", "last") not in ("first", "last"):
        raise ValueError(f"option 'take' must be 'first' or 'last', found {_short(options['take'])}")


def _compiled(pattern: str, options: Mapping[str, Any]) -> Any:
    return regex.compile(pattern, regex.IGNORECASE if options.get("ignore_case") else 0)


def _regex(target: str, completion: str, options: Mapping[str, Any]) -> Score:
    try:
        found = _compiled(target, options).search(completion[:MAX_SEARCHED], timeout=REGEX_SECONDS)
    except TimeoutError:
        raise ValueError(
            f"pattern {_short(target)} did not finish in {REGEX_SECONDS:g} s on a completion of {len(completion)} "
            f"characters: it backtracks without end. Rewrite it without nested repeats"
        ) from None
    if found:
        return Score(1.0, f"matches at character {found.start()}: {_short(found.group())}")
    cut = f" in its first {MAX_SEARCHED:,} characters" if len(completion) > MAX_SEARCHED else ""
    return Score(0.0, f"no match{cut}: {_short(completion)}" if completion else "the completion is empty")


def _check_regex(target: str, options: Mapping[str, Any]) -> None:
    if not target:
        raise ValueError("the regex scorer needs a pattern as target, found an empty text, which matches everything")
    if len(target) > MAX_PATTERN:
        raise ValueError(f"the pattern has {len(target):,} characters, at most {MAX_PATTERN:,} are taken")
    try:
        _compiled(target, options)
    except (regex.error, RecursionError, OverflowError, ValueError) as problem:
        raise ValueError(f"the target {_short(target)} is not a regular expression ({problem})") from None


SCORERS: Mapping[str, Scorer] = {
    one.name: one
    for one in (
        Scorer("exact", _exact, lambda target, options: None, {"ignore_case": (bool,)}),
        Scorer(
            "numeric",
            _numeric,
            _check_numeric,
            {"tolerance": (int, float), "relative_tolerance": (int, float), "take": (str,)},
        ),
        Scorer("regex", _regex, _check_regex, {"ignore_case": (bool,)}),
    )
}
"""`exact`: equal after stripping outer white space. `numeric`: the last number of the completion (or
the `first`) equals the target, within an absolute or relative tolerance (0). `regex`: the target is a
pattern that must be found anywhere in the completion."""


def scorer_of(spec: Any) -> tuple[Scorer, Mapping[str, Any]]:
    """The scorer and options that a task's `scorer` names.

    `spec` is a name, or an object with `name` and options. Raises ValueError saying what is wrong.
    """
    if isinstance(spec, str):
        spec = {"name": spec}
    if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
        raise ValueError(f"scorer must be a name or an object with a 'name', found {reprlib.repr(spec)}")
    name, options = spec["name"], {key: value for key, value in spec.items() if key != "name"}
    if name not in SCORERS:
        near = difflib.get_close_matches(name, SCORERS, n=1)
        hint = f" Is '{near[0]}' meant?" if near else ""
        raise ValueError(f"unknown scorer {_short(name)}. Expected one of {', '.join(SCORERS)}.{hint}")
    scorer = SCORERS[name]
    for key, value in options.items():
        if key not in scorer.options:
            known = ", ".join(scorer.options)
            raise ValueError(f"scorer '{name}' has no option {_short(str(key))}. Expected one of {known}")
        kinds = scorer.options[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise ValueError(f"option '{key}' of scorer '{name}' must be {expected}, found {reprlib.repr(value)}")
    return scorer, options
