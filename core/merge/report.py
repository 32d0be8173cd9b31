"""The merge report: one row a tensor, election and rounding figures, as parquet.

Takes what the engine counted (or, after mergekit, what `core.precision` counted); gives a table. Knows
nothing about how the figures came about.
"""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import CheckpointError
from core.merge.columns import column
from core.merge.figures import ELECTION, MEMBER
from core.merge.ranks import split_key
from core.precision.figures import RoundingRow

if TYPE_CHECKING:
    import pandas as pd

    from core.merge.engine import TensorFigures

REPORT_FILE = "merge_report.parquet"
LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d+)\.")


def place_of(name: str) -> tuple[int, str]:
    """(layer, module) of a tensor name: `model.layers.3.mlp.up_proj.weight` is (3, `mlp.up_proj`).

    The layer is −1 outside the stack; the module is what follows, without `model.` and `.weight`.
    """
    name = split_key(name)[1]
    match = LAYER.search(name)
    rest = name[match.end() :] if match else name.removeprefix("model.")
    return (int(match.group(1)) if match else -1), rest.removesuffix(".weight")


def row_of(
    rounding: RoundingRow,
    shape: Sequence[int],
    counted: "TensorFigures | None" = None,
) -> dict[str, Any]:
    """One row of the report; election figures are None, and the members' empty, where mergekit ran."""
    layer, module = place_of(rounding.name)
    figures = rounding.as_dict()
    return {
        "name": figures.pop("name"),
        "layer": layer,
        "module": module,
        "shape": "×".join(str(one) for one in shape) or "scalar",
        "elements": figures.pop("elements"),
        **{one: counted.election[one] if counted else None for one in ELECTION},
        **figures,
        **{one: list(getattr(counted, one)) if counted else [] for one in MEMBER},
    }


def rows_of(figures: Sequence["TensorFigures"]) -> list[dict[str, Any]]:
    """The report's rows, sorted by layer and name."""
    rows = [row_of(one.rounding.row(one.job.name), one.job.shape, one) for one in figures]
    return sorted(rows, key=lambda row: (row["layer"], row["name"]))


def load_parquet() -> None:
    """Import what `report_bytes` needs; takes a moment, which can pass elsewhere."""
    import pyarrow.parquet  # noqa: F401


def report_bytes(rows: Sequence[dict[str, Any]]) -> bytes:
    """The report as parquet; the same rows give the same bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    counts = pa.list_(pa.int64())
    whole = ("elements", *ELECTION, "changed", "lost")
    types: dict[str, Any] = {"name": pa.string(), "layer": pa.int32(), "module": pa.string(), "shape": pa.string()}
    types |= {one: pa.int64() for one in whole}
    types |= {one: pa.float64() for one in ("lost_fraction", "relative_l2", "cosine", "merged_norm", "base_norm")}
    types |= dict.fromkeys(("histogram", "member_changed", "member_trimmed", "member_flips"), counts)
    types |= dict.fromkeys(("member_delta", "member_solo"), pa.list_(pa.float64()))
    table = pa.table({name: column([row[name] for row in rows], kind) for name, kind in types.items()})
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def read_report(out: Path) -> "pd.DataFrame":
    """The report of a merged folder, one row a tensor; raises CheckpointError when there is none."""
    import pandas as pd

    path = Path(out) / REPORT_FILE
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as problem:
        raise CheckpointError(
            f"{path}: cannot be read ({problem}). Expected the report that a merge writes beside its weights."
        ) from None
