"""The keys of `bank.yaml` as Markdown tables, made from the schema, so that `docs/bank.md` cannot fall behind it.

Takes the models of `schema.py`; gives text. Reads no files.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core.bank.schema import (
    AlignmentFile,
    BankFile,
    CheckpointFile,
    FactFile,
    MoreScoresFile,
    ProblemFile,
    ProtocolFile,
    SplitFile,
)

SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The file", BankFile),
    ("`base`, and each of `checkpoints`", CheckpointFile),
    ("Each of `splits`", SplitFile),
    ("`protocol`", ProtocolFile),
    ("Each of `more_scores`", MoreScoresFile),
    ("`alignment`", AlignmentFile),
    ("Each of `problems`", ProblemFile),
    ("Each of `facts`", FactFile),
)
PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): ""}


def schema_markdown() -> str:
    """One table a part of the file: key, type, default, what it says."""
    return "\n\n".join(f"### {title}\n\n{_table(model)}" for title, model in SECTIONS)


def _table(model: type[BaseModel]) -> str:
    lines = ["| key | takes | unless given | what it says |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        lines.append(f"| `{name}` | {_takes(field)} | {_default(field)} | {field.description} |")
    return "\n".join(lines)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True)
    if value in (None, "", (), {}):
        return "nothing"
    return f"`{value}`"


def _takes(field: FieldInfo) -> str:
    return _type(field.annotation) + _from(field.metadata)


def _from(limits: Sequence[Any]) -> str:
    least = next((one.ge for one in limits if getattr(one, "ge", None) is not None), None)
    return f" from {least}" if least is not None else ""


def _type(found: Any) -> str:
    if found in PLAIN:
        return PLAIN[found]
    origin, parts = get_origin(found), get_args(found)
    if origin is Annotated:
        inner = next((_from(one.metadata) for one in parts[1:] if isinstance(one, FieldInfo)), "")
        return _type(parts[0]) + (inner or _from(parts[1:]))
    if origin is tuple:
        return f"list of {_type(parts[0])}s"
    if origin is dict:
        return f"mapping of names to {_type(parts[1])}s"
    if origin is Literal:
        return " or ".join(f"`{one}`" for one in parts)
    if isinstance(found, type) and issubclass(found, BaseModel):
        return "mapping"
    return " or ".join(one for one in map(_type, parts) if one)
