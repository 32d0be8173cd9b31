"""The explicit merge: what a mergekit config asks for, parsed and checked.

`config.py` makes a `Plan` from YAML; the engines take it. Knows nothing about recipes or banks.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Dialect = Literal["mergekit", "paper", "sum"]
DIALECTS: tuple[Dialect, ...] = ("mergekit", "paper", "sum")
Vocabulary = Literal["refuse", "truncate"]
"""What to do with embeddings of unequal rows: refuse the merge, or cut every model to the smallest."""
VOCABULARIES = ("refuse", "truncate")
AUTO = "auto"
"""`out_dtype` where the config names none: each tensor as its inputs (the wider, where they differ)."""


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
    """In the config's order, the base left out (`linear` counts it). For mergekit the numbers say nothing."""
    normalize: bool
    scale: float
    dtype: str
    """Arithmetic dtype; the streaming engine always computes in float32."""
    out_dtype: str
    """Dtype of the merged file: torch's name, or AUTO."""
    engine: Literal["streaming", "mergekit"]
    yaml_text: str
    """The config exactly as it was given."""
    warnings: tuple[str, ...] = ()
    reason: str = ""
    """Why mergekit itself must run it; empty for the streaming engine."""
    folder: Path | None = None
    """Where the config lies: relative model paths are looked up there first."""
    dialect: Dialect = "mergekit"
    vocabulary: Vocabulary = "refuse"

    @property
    def folders(self) -> tuple[Path, ...]:
        """Every model that is read: the base, if there is one, then the members."""
        return (*([self.base] if self.base else []), *(one.path for one in self.members))
