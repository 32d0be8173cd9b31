"""Inspect AI logs, `.eval` (a zip of JSON, packed with Zstandard) and `.json`: a row a sample and epoch.

Takes a log; gives one scorer's value of each sample as a number. Texts of samples are hashed and dropped.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from core.bank.readers.common import (
    FileScores,
    Format,
    ReadOptions,
    ScoreRow,
    bounded,
    listed,
    name_of,
    number,
    prefixed,
    short_hash,
    whole,
)
from core.bank.readers.sources import Source, parse_json
from core.bank.readers.zips import Members
from core.errors import BankError

GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
SAMPLE = re.compile(r"samples/.+\.json")
MAX_SCORERS = 50


def recognise(source: Source) -> bool:
    """A zip named `.eval`, or JSON with `eval` and `samples`."""
    if source.head[:4] == b"PK\x03\x04":
        return source.path.suffix.lower() == ".eval" or b"_journal/" in source.head or b"header.json" in source.head
    found = source.object
    return isinstance(found.get("eval"), dict) and ("samples" in found or "status" in found)


def read(source: Source, options: ReadOptions) -> FileScores:
    """One row a sample and epoch. Raises BankError for a log without samples, or one that is no log."""
    if source.head[:4] != b"PK\x03\x04":
        samples = source.object.get("samples")
        if not isinstance(samples, list) or not samples:
            raise BankError(f"{source.path}: this Inspect log has no samples, so there is no score for each task.")
        return _scores(source, options, source.object, _placed(samples, source))
    with source.path.open("rb") as file:
        members = Members(source.path, file)
        names = [one for one in members.names if SAMPLE.fullmatch(one)]
        header = next((one for one in ("header.json", "_journal/start.json") if one in members.names), None)
        if header is None or not names:
            raise BankError(
                f"{source.path}: expected an Inspect log with header.json and samples/, found neither or one."
            )
        opened = parse_json(members.read(header), f"{source.path}: {header}")
        samples = ((f"{source.path}: {one}", parse_json(members.read(one), f"{source.path}: {one}")) for one in names)
        return _scores(source, options, opened if isinstance(opened, dict) else {}, samples)


def _placed(samples: list[Any], source: Source) -> Iterator[tuple[str, Any]]:
    for at, one in enumerate(samples, start=1):
        yield f"{source.path}: sample {at}", one


def _scores(source: Source, options: ReadOptions, header: Mapping[str, Any], samples: Any) -> FileScores:
    spec = header.get("eval")
    spec = spec if isinstance(spec, dict) else {}
    checkpoint = name_of(spec.get("model") or source.path.stem, "checkpoint", f"{source.path}: eval.model")
    task_set = spec.get("task")
    found = FileScores(
        source.path, FORMAT.name, [], group=name_of(task_set, "task set", str(source.path)) if task_set else ""
    )
    found.run = str(spec.get("created", ""))[:40]
    reading = _Reading(source, options, found, checkpoint)
    found.rows.extend(bounded((reading.row(where, one) for where, one in samples), source.path))
    reading.say_what_was_left()
    if header.get("status") not in (None, "success"):
        found.warnings.append(
            f"{source.path.name}: the run ended with status {header['status']!r:.40}; it may lack samples."
        )
    config = spec.get("config")
    limit = config.get("limit") if isinstance(config, dict) else None
    if limit is not None:
        found.limited[checkpoint] = f"{found.group or source.path.name} was run with limit {limit!r:.40}"
    return found


class _Reading:
    """The rows of one log, with the scorer that its first scored sample decides."""

    def __init__(self, source: Source, options: ReadOptions, found: FileScores, checkpoint: str) -> None:
        self._source, self._options, self._found, self._checkpoint = source, options, found, checkpoint
        self._scorer = options.metric
        self._others: dict[str, None] = {}
        self._failed = 0
        self._used = False

    def row(self, where: str, sample: Any) -> ScoreRow:
        if not isinstance(sample, dict) or "id" not in sample:
            raise BankError(f"{where}: expected a sample with an `id`.")
        return ScoreRow(
            self._checkpoint,
            name_of(sample["id"], "task", where),
            self._score(where, sample),
            sample=whole(sample.get("epoch"), "the epoch", where),
            prompt_hash=short_hash(_asked(sample["input"])) if "input" in sample else None,
        )

    def _score(self, where: str, sample: dict[str, Any]) -> float | None:
        scores = sample.get("scores")
        if not isinstance(scores, dict) or not scores:
            self._failed += sample.get("error") is not None
            return None
        values = {name: one for scorer, score in scores.items() for name, one in _values(scorer, score)}
        for name in values:
            if len(self._others) < MAX_SCORERS:
                self._others[name] = None
        if self._scorer is None:
            self._scorer = next(iter(values), None)
        if self._scorer not in values:
            return None
        self._used = True
        value = values[self._scorer]
        if isinstance(value, str) and value in GRADES:
            return GRADES[value]
        return number(value, f"{where}: score '{self._scorer}'")

    def say_what_was_left(self) -> None:
        """Warnings about other scorers and failed samples; BankError where the one asked for is nowhere."""
        name = self._source.path.name
        if self._options.metric is not None and not self._used:
            raise BankError(
                f"{self._source.path}: has no scorer '{self._options.metric}'. It has: {listed(list(self._others))}."
            )
        if len(self._others) > 1 and self._options.metric is None:
            self._found.warnings.append(
                f"{name}: scorer '{self._scorer}' is read, of {listed(list(self._others))}. Choose with --metric."
            )
        if self._failed:
            self._found.warnings.append(f"{name}: {self._failed} samples ended in an error and are unscored.")


def _values(scorer: str, score: Any) -> Iterator[tuple[str, Any]]:
    """The score's value under the scorer's name; one of several values as `scorer/name`."""
    value = score.get("value") if isinstance(score, dict) else score
    if isinstance(value, dict):
        yield from ((f"{scorer}/{name}", one) for name, one in value.items())
    else:
        yield scorer, value


def _asked(asked: Any) -> Any:
    """A sample's input without what differs from run to run, such as the ids of its messages."""
    if not isinstance(asked, list):
        return asked
    return [{key: one.get(key) for key in ("role", "content")} if isinstance(one, dict) else one for one in asked]


def combine(files: list[FileScores], options: ReadOptions) -> list[FileScores]:
    """Task sets in front of task ids where there are several."""
    return prefixed(files, options)


FORMAT = Format("inspect", "Inspect AI logs (.eval, .json)", recognise, read, combine)
