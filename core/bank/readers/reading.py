"""Reads the scores under some paths: finds the files, lets each format recognise its own, puts them together.

Takes paths and options; gives a `ScoreSet`, or one BankError that says what was found instead.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from core.bank.readers import (
    appworld,
    bigcode,
    esopt,
    evalplus,
    helm,
    inspect_logs,
    lm_eval,
    opencompass,
    swe_bench,
    tables,
    verl,
)
from core.bank.readers.common import MAX_ROWS, FileScores, Format, ReadOptions, ScoreRow, printable
from core.bank.readers.score_set import ScoreSet
from core.bank.readers.sources import Source
from core.bank.readers.walk import Found, walk
from core.errors import BankError

FORMATS: tuple[Format, ...] = tuple(
    module.FORMAT
    for module in (
        appworld,
        lm_eval,
        inspect_logs,
        swe_bench,
        evalplus,
        helm,
        opencompass,
        verl,
        esopt,
        bigcode,
        tables,
    )
)
"""In the order in which they are asked; tables last, as they are the least particular."""
MOST_WARNINGS = 20


def read_scores(
    paths: Sequence[Path | str] | Path | str,
    options: ReadOptions | None = None,
    *,
    roots: Sequence[Path] | None = None,
    named: bool = True,
) -> ScoreSet:
    """Every score in these files, and in all files of these folders.

    A checkpoint is named by its file where that says a name, else by its folder or file name. `roots`, where given,
    are the only folders that may be read; links that lead out of them, or out of the folders named, are skipped.
    A file that is not understood is skipped with a warning, and with `named=False`, which says that the paths come from
    a search, so is one that is recognised and cannot be used. Raises BankError where nothing is, where a file that was
    named itself is recognised but cannot be used, and for a path that is not there.
    """
    chosen = options or ReadOptions()
    given = [Path(one) for one in ([paths] if isinstance(paths, Path | str) else paths)]
    if not given:
        raise BankError("expected at least one file or folder with scores, found none.")
    formats = _formats(chosen.format)
    found = walk(given, roots, named=named)
    reading = _Reading(formats, chosen)
    for source in found.sources:
        reading.add(source)
    files = reading.combined()
    if not any(one.rows for one in files):
        raise BankError(_nothing(given, found, reading))
    return _score_set(files, found, reading)


def _formats(name: str | None) -> tuple[Format, ...]:
    formats = tuple(one for one in FORMATS if name in (None, one.name))
    if not formats:
        raise BankError(f"unknown format '{name}'. Expected one of {', '.join(one.name for one in FORMATS)}.")
    return formats


class _Reading:
    """The files read so far, and those that were not with the reason."""

    def __init__(self, formats: Sequence[Format], options: ReadOptions) -> None:
        self.formats, self.options = formats, options
        self.files: list[FileScores] = []
        self.skipped: list[str] = []
        self._rows = 0

    def add(self, source: Source) -> None:
        try:
            if source.size == 0:
                self.skipped.append(f"{source.path}: skipped, it is empty.")
                return
            known = next((one for one in self.formats if one.recognise(source)), None)
        except BankError as problem:
            self.skipped.append(f"skipped: {problem}")
            return
        if known is None:
            self.skipped.append(f"{source.path}: skipped, {_what_it_is(source)}.")
            return
        try:
            found = known.read(source, self.options)
        except BankError as problem:
            if source.given:
                raise
            self.skipped.append(f"skipped: {problem}")
            return
        self._rows += len(found.rows)
        if self._rows > MAX_ROWS:
            raise BankError(
                f"{source.path}: more than {MAX_ROWS:,} scored samples altogether. Read fewer files at once."
            )
        self.files.append(found)

    def combined(self) -> list[FileScores]:
        """The files, those of each format put together by it."""
        found: list[FileScores] = []
        for one in self.formats:
            mine = [file for file in self.files if file.format == one.name and file.rows]
            if mine:
                found.extend(one.combine(mine, self.options))
        return found


def _what_it_is(source: Source) -> str:
    if source.is_json:
        return "it is JSON, but not scores of a known tool"
    if source.is_text:
        return "it is text, but not a table of scores"
    return "it is a binary file of no known kind"


def _nothing(given: Sequence[Path], found: Found, reading: _Reading) -> str:
    """What was found where no scores were, and what would have been understood."""
    reasons = [one.removeprefix("skipped: ") for one in (*reading.skipped, *found.warnings)]
    if len(reasons) == 1 and len(found.sources) <= 1:
        what = reasons[0]
    else:
        count = len(found.sources) + found.passed
        what = f"{', '.join(map(str, given))}: no scores found in {count:,} files. {' '.join(reasons[:3])}"
    more = f" {len(reasons) - 3:,} more were skipped too." if len(reasons) > 3 else ""
    known = "; ".join(f"{one.name}: {one.about}" for one in reading.formats)
    return f"{what.strip()}{more} Understood are {known}."


def _score_set(files: Sequence[FileScores], found: Found, reading: _Reading) -> ScoreSet:
    names = _short_names([row.checkpoint for one in files for row in one.rows])
    rows: list[ScoreRow] = []
    for one in files:
        rows.extend(
            row._replace(checkpoint=names[row.checkpoint]) if row.checkpoint in names else row for row in one.rows
        )
    figures: dict[str, dict[str, float]] = {}
    limited: dict[str, list[str]] = {}
    for one in files:
        for checkpoint, values in one.figures.items():
            figures.setdefault(names.get(checkpoint, checkpoint), {}).update(values)
        for checkpoint, sentence in one.limited.items():
            limited.setdefault(names.get(checkpoint, checkpoint), []).append(sentence)
    formats = tuple(dict.fromkeys(one.format for one in files if one.rows))
    warnings = [warning for one in files for warning in one.warnings]
    if len(formats) > 1:
        warnings.append(f"Files of several formats are read together: {', '.join(formats)}. Name one with --format.")
    warnings += _overlaps(files)
    skipped = [*found.warnings, *reading.skipped]
    warnings += skipped[:MOST_WARNINGS]
    if len(skipped) > MOST_WARNINGS:
        warnings.append(f"{len(skipped) - MOST_WARNINGS:,} more files were skipped.")
    return ScoreSet(
        rows=rows,
        formats=formats,
        files=tuple(str(one.path) for one in files if one.rows),
        warnings=tuple(dict.fromkeys(map(printable, warnings))),
        figures=figures,
        limited={checkpoint: printable("; ".join(dict.fromkeys(several))) for checkpoint, several in limited.items()},
    )


def _overlaps(files: Sequence[FileScores]) -> list[str]:
    """Says where two files score one checkpoint on the same task: repeats, or settings that must not be mixed."""
    known: dict[str, dict[str, Path]] = {}
    said: dict[tuple[Path, Path], str] = {}
    for one in files if len(files) > 1 else ():
        for row in one.rows:
            other = known.setdefault(row.checkpoint, {}).setdefault(row.task, one.path)
            if other is not one.path and (other, one.path) not in said:
                said[other, one.path] = (
                    f"{other.name} and {one.path.name} both score {row.checkpoint} on {row.task}: taken as runs of one "
                    "model. Read one of them where they were made with other settings."
                )
    return list(said.values())


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """For names that are absolute paths, the last parts, as many as tell them apart from every other name."""
    every = dict.fromkeys(names)
    paths = [one for one in every if one.startswith(("/", "./", "../", "~"))]
    others = set(every) - set(paths)
    for depth in range(1, 20):
        short = {one: "/".join(PurePosixPath(one).parts[-depth:]).strip("/") for one in paths}
        apart = set(short.values())
        if len(apart) == len(paths) and not apart & others and all(apart):
            return short
    return {}
