"""The explicit merge: what a mergekit config asks for, parsed and checked.

`read_plan` takes a mergekit YAML file and gives a `Plan`. Knows nothing about recipes or banks.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Dialect = Literal["mergekit", "paper", "sum"]


@dataclass(frozen=True)
class Member:
    """One model of the merge, with its own weight and density."""

    path: Path
    weight: float
    density: float = 1.0


@dataclass(frozen=True)
class Plan:
    """A merge that the streaming engine can run, or (`engine == "mergekit"`) hands to mergekit."""

    method: str
    """mergekit's `merge_method`."""
    base: Path | None
    members: tuple[Member, ...]
    normalize: bool
    scale: float
    dtype: str
    """Arithmetic dtype; the streaming engine always computes in float32."""
    out_dtype: str
    engine: Literal["streaming", "mergekit"]
    yaml_text: str
    """The config exactly as it was given."""
    warnings: tuple[str, ...] = ()
