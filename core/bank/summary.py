"""What a bank holds, in one plain dict: the `bank show` of the shell.

Takes a loaded bank, reads only the headers of its checkpoints, and gives JSON values; does not
judge scores beyond the warnings that the bank already carries.
"""

from typing import Any

from core.bank.model import Bank, Checkpoint
from core.errors import MergescopeError


def bank_summary(bank: Bank) -> dict[str, Any]:
    """Name, base, checkpoints with dtype and parameter count, splits with sizes, warnings.

    `dtype` and `parameters` are null where there are no weights, or where they cannot be read: the
    reason is then among the warnings.
    """
    warnings = list(bank.warnings)
    return {
        "name": bank.name,
        "title": bank.title,
        "kind": bank.kind,
        "base": _checkpoint(bank.base, warnings),
        "checkpoints": [_checkpoint(one, warnings) for one in bank.checkpoints],
        "splits": {name: {"tasks": len(one.tasks), "samples": one.samples} for name, one in bank.splits.items()},
        "warnings": warnings,
    }


def _checkpoint(one: Checkpoint, warnings: list[str]) -> dict[str, Any]:
    dtype: str | None = None
    parameters: int | None = None
    if one.path is not None and one.path.is_dir():
        # Imported here so that reading a bank does not bring in the merge layer.
        from core.merge import checkpoint_summary

        try:
            dtype, parameters = checkpoint_summary(one.path)
        except MergescopeError as problem:
            warnings.append(f"{one.id}: {problem}")
    return {
        "id": one.id,
        "step": one.step,
        "path": str(one.path) if one.path else None,
        "dtype": dtype,
        "parameters": parameters,
    }
