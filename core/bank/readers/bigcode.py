"""BigCode evaluation harness results: aggregates only, recognised so that the reason can be given."""

from typing import Any

from core.bank.readers.common import FileScores, Format, ReadOptions
from core.bank.readers.sources import Source
from core.errors import BankError


def recognise(source: Source) -> bool:
    """A `config` beside tasks with `pass@k` and nothing else."""
    found = source.object
    return isinstance(found.get("config"), dict) and any(
        _is_aggregate(one) for name, one in found.items() if name != "config"
    )


def _is_aggregate(one: Any) -> bool:
    return isinstance(one, dict) and bool(one) and any(str(name).startswith("pass@") for name in one)


def read(source: Source, options: ReadOptions) -> FileScores:
    """Raises BankError, always."""
    raise BankError(
        f"{source.path}: BigCode's harness keeps pass@k over all tasks only, no score for each task, so there is no "
        "behaviour vector in it. Evaluate with EvalPlus, whose results have one, or write a table: task, score."
    )


FORMAT = Format("bigcode", "BigCode results (refused: aggregates only)", recognise, read)
