"""OpenCompass `results/<model>/<dataset>.json` with details: whether each answer was right.

Takes a results file; gives a row a question. A file without `details` has nothing for each task.
"""

from typing import Any

from core.bank.readers.common import FileScores, Format, ReadOptions, ScoreRow, name_of, number, prefixed
from core.bank.readers.sources import Source
from core.errors import BankError

FLAGS = ("correct", "is_correct", "cascade_correct", "score")
ADVICE = "Run OpenCompass again with --dump-eval-details."


def recognise(source: Source) -> bool:
    """`details` with a flag for each answer, or an accuracy alone in a folder of results."""
    found = source.object
    if isinstance(found.get("details"), dict | list):
        return any(_flag(one) for _, one in _details(found["details"])) or "accuracy" in found
    # Numbers alone say little: where they lie must say the rest.
    return "results" in source.path.parts[:-2] and isinstance(found.get("accuracy"), int | float)


def _details(details: Any) -> list[tuple[str, Any]]:
    """Each answer with its key; `type` is no answer."""
    pairs = details.items() if isinstance(details, dict) else enumerate(details)
    return [(str(key), one) for key, one in pairs if key != "type"]


def _flag(one: Any) -> str | None:
    return next((name for name in FLAGS if isinstance(one, dict) and name in one), None)


def read(source: Source, options: ReadOptions) -> FileScores:
    """One row a question; a list of flags is several samples. Raises BankError where there are no details."""
    path = source.path
    details = source.object.get("details")
    answers = _details(details) if isinstance(details, dict | list) else []
    if not answers:
        raise BankError(f"{path}: holds OpenCompass's accuracy only, no score for each task. {ADVICE}")
    checkpoint = name_of(path.parent.name, "checkpoint", str(path))
    found = FileScores(path, FORMAT.name, [], group=path.stem)
    for key, one in answers:
        where = f"{path}: details '{key}'"
        flag = options.metric if options.metric is not None else _flag(one)
        if not isinstance(one, dict) or flag is None or flag not in one:
            raise BankError(f"{where}: expected {options.metric or ' or '.join(FLAGS[:2])}, found none. {ADVICE}")
        task, value = name_of(key, "task", where), one[flag]
        if isinstance(value, list):
            scores = [number(each, where) for each in value]
            found.rows.extend(ScoreRow(checkpoint, task, score, sample=at) for at, score in enumerate(scores))
        else:
            found.rows.append(ScoreRow(checkpoint, task, number(value, where)))
    return found


def combine(files: list[FileScores], options: ReadOptions) -> list[FileScores]:
    """Datasets in front of question numbers where there are several."""
    return prefixed(files, options)


FORMAT = Format("opencompass", "OpenCompass results with details", recognise, read, combine)
