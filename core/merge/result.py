"""What a merge was asked for beside its plan, and what it gives back."""

import resource
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.merge.blocks import MEMORY
from core.merge.plan import Plan
from core.progress import Progress

SHARD_SIZE = 5e9


@dataclass(frozen=True)
class Request:
    """One call of `run_merge`."""

    plan: Plan
    out: Path
    progress: Progress
    overwrite: bool
    shard_size: float
    extra: Mapping[str, Any] | None
    started: float
    """`time.perf_counter()` at the call."""
    memory: int = MEMORY
    """Budget in bytes."""
    device: str = "cpu"
    """Where the blocks are merged: `cpu`, or torch's name of a GPU."""


@dataclass(frozen=True)
class MergeResult:
    """What a finished merge did; `as_dict` is the JSON of the `merge` command."""

    out: str
    engine: str
    tensors: int
    elements: int
    seconds: float
    bytes_read: int
    bytes_written: int
    peak_rss_bytes: int
    """Of this process, or of mergekit's where that is larger."""
    election: dict[str, Any]
    """Totals over all tensors, and per member in plan order; empty where mergekit ran."""
    resumed: int
    """Tensors that an earlier process, which was killed, had done already."""
    device: str
    rounding: dict[str, Any]
    """The total `RoundingRow` of the fp32 result against the base, without its name; empty without a base."""
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain dict for JSON."""
        return asdict(self) | {"warnings": list(self.warnings)}


def peak_rss(children: bool = False) -> int:
    """Largest resident memory so far of this process (or of its largest finished child), in bytes."""
    if not children and (mine := _high_water()):
        return mine
    who = resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss * unit


def _high_water() -> int:
    """What Linux says of this program alone: `ru_maxrss` counts what its parent held when it was started."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    found = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(found[0]) * 1024 if found else 0
