"""What every score reader shares: the row it gives, the options it is asked with, and how values become scores.

Takes plain JSON values; gives `ScoreRow`s and `FileScores`. Opens no files and knows no format.
"""

import hashlib
import json
import math
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import BankError

MAX_ROWS = 3_000_000
"""Scored samples that one reading may hold; about 150 bytes of memory each."""


class ScoreRow(NamedTuple):
    """One scored sample of one checkpoint, whatever tool wrote it."""

    checkpoint: str
    task: str
    score: float | None
    """As the tool wrote it, which may be outside [0, 1]; None where it was not scored (NaN counts as that)."""
    scenario: str | None = None
    sample: int | None = None
    """Number of the sample, seed or epoch; None where the format knows one score a task."""
    prompt_hash: str | None = None
    """Equal for two checkpoints that were asked the same; None where the format does not say."""
    extra: Mapping[str, Any] | None = None
    """More of the row, such as `seed`, `doc_hash` or `difficulty`; never texts of a task."""


@dataclass(frozen=True)
class ReadOptions:
    """What may be chosen where a file holds more than one thing."""

    format: str | None = None
    """Only this format's reader; None lets the files say."""
    filter: str | None = None
    """lm-evaluation-harness: which answer filter; None takes the first of the file, and says so."""
    metric: str | None = None
    """Which score where a file has several: a metric, a scorer, `base` or `plus`."""
    soft: bool = False
    """AppWorld: share of a task's tests passed instead of all or nothing."""
    mask_errors: bool = False
    """SWE-bench: leave tasks whose run failed unscored instead of counting them as 0."""


@dataclass
class FileScores:
    """What one file holds."""

    path: Path
    format: str
    rows: list[ScoreRow]
    warnings: list[str] = field(default_factory=list)
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    """Summaries that the format knows beyond a mean, by checkpoint, such as scenario completion."""
    limited: dict[str, str] = field(default_factory=dict)
    """Checkpoints that were evaluated on a part of the tasks only, each with a sentence."""
    group: str = ""
    """Name of the task set within the format, where task ids are unique only within it."""
    run: str = ""
    """Which of several runs of one checkpoint the file is of: a run id, or the time in its name."""


@dataclass(frozen=True)
class Format:
    """One tool's files: how they are known, read, and put together."""

    name: str
    about: str
    """What the tool's files are called, for the message that lists every format."""
    recognise: Callable[[Any], bool]
    """From a `Source`: its content and where it lies, never an option."""
    read: Callable[[Any, ReadOptions], FileScores]
    """Raises BankError for a file that it recognised and cannot use."""
    combine: Callable[[list[FileScores], ReadOptions], list[FileScores]] = lambda files, _: files
    """Settles what only several files together show, such as two runs of one checkpoint."""


TRUTHS = {"true": 1.0, "yes": 1.0, "pass": 1.0, "false": 0.0, "no": 0.0, "fail": 0.0}
UNSCORED = ("", "nan", "none", "null", "na", "n/a", "-")


def number(value: Any, where: str) -> float | None:
    """A score as a float, or None for null, NaN or an empty cell; BankError for anything else."""
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        try:
            score = float(value)
        except OverflowError:
            score = math.inf
        return None if math.isnan(score) else score
    if isinstance(value, str):
        return text_number(value, where)
    raise BankError(f"{where}: expected a number as score, found {reprlib.repr(value)}.")


def text_number(text: str, where: str) -> float | None:
    """As `number`, from a text such as a cell of a table."""
    plain = text.strip().lower()
    if plain in UNSCORED:
        return None
    if plain in TRUTHS:
        return TRUTHS[plain]
    try:
        # Python also reads 1_000; a table that says so means something else.
        score = float(plain) if "_" not in plain else math.nan
    except ValueError:
        score = math.nan
    if math.isnan(score):
        raise BankError(f"{where}: expected a number as score, found {reprlib.repr(text)}.")
    return score


def name_of(value: Any, what: str, where: str) -> str:
    """A task's or checkpoint's name as text; whole numbers are taken too."""
    if isinstance(value, str):
        name = value.strip()
        if name and len(name) <= 500 and (name.isascii() or _is_unicode(name)):
            return sys.intern(name)
    elif isinstance(value, int) and not isinstance(value, bool):
        return sys.intern(str(value))
    elif isinstance(value, float) and value.is_integer():
        return sys.intern(str(int(value)))
    raise BankError(f"{where}: expected the name of a {what}, found {reprlib.repr(value)}.")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole(value: Any, what: str, where: str) -> int | None:
    """A whole number from 0, or None where there is none."""
    if value is None or value == "":
        return None
    try:
        found = int(value)
    except (TypeError, ValueError, OverflowError):
        found = -1
    if 0 <= found < 2**63 and not isinstance(value, bool) and float(value) == found:
        return found
    raise BankError(f"{where}: expected {what} to be a whole number from 0, found {reprlib.repr(value)}.")


def short_hash(*parts: Any) -> str:
    """Twelve hexadecimal digits of the SHA-256 of the parts; texts as they are, other values as JSON."""
    texts = [one if isinstance(one, str) else json.dumps(one, sort_keys=True, default=str) for one in parts]
    joined = "\0".join(texts).encode(errors="surrogatepass")
    return sys.intern(hashlib.sha256(joined).hexdigest()[:12])


def bounded(rows: Iterable[ScoreRow], path: Path) -> Iterator[ScoreRow]:
    """The rows, up to `MAX_ROWS`; BankError after that, so that memory is bounded whatever the file's size."""
    for count, row in enumerate(rows):
        if count >= MAX_ROWS:
            raise BankError(
                f"{path}: more than {MAX_ROWS:,} scored samples, the most that one reading takes. "
                "Split the file by checkpoint, or keep one row a task."
            )
        yield row


def printable(text: str) -> str:
    """The text with what no screen can show, such as half of a character, spelt out."""
    return text.encode(errors="backslashreplace").decode()


def listed(names: Sequence[object], most: int = 5) -> str:
    """Names in one line, and how many more there are."""
    shown = ", ".join(printable(str(one)) for one in names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def prefixed(files: list[FileScores], _: ReadOptions) -> list[FileScores]:
    """Task ids with their task set in front, where the files are of several task sets."""
    groups = sorted({one.group for one in files if one.group})
    if len(groups) < 2:
        return files
    for one in files:
        if one.group:
            one.rows = [row._replace(task=sys.intern(f"{one.group}/{row.task}")) for row in one.rows]
    files[0].warnings.append(
        f"{len(groups)} task sets are read together, so tasks are named with theirs: {listed(groups)}."
    )
    return files
