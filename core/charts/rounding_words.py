"""Sentences about what bf16 would round away of a merge, with the measured numbers.

Takes the merge report as a table, a row a tensor; gives plain text.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from core.charts.election import VOTES
from core.charts.rounding import percent_lost, totals


@dataclass(frozen=True)
class Summary:
    """A whole report in a few numbers."""

    tensors: int
    elements: int
    changed: int
    lost: int
    relative_l2: float
    """‖bf16(m) − m‖ / ‖m − b‖ over all tensors; NaN when nothing changed."""
    cosine: float
    """Cosine of m − b and bf16(m) − bf16(b) over all tensors; NaN when one of them is zero."""


def summary(report: pd.DataFrame, total: Mapping[str, Any] | None = None) -> Summary:
    """A report summed over tensors; `total` has the figures of all tensors as the merge recorded them.

    Without it the relative error is put together from the tensors' norms, and the cosine is unknown.
    """
    found = totals(report)
    counts = (found.tensors, found.elements, found.changed, found.lost)
    if total is not None and found.changed:
        return Summary(*counts, float(total["relative_l2"]), float(total["cosine"]))
    norm = report["merged_norm"].to_numpy(dtype=np.float64)
    error = norm * np.nan_to_num(report["relative_l2"].to_numpy(dtype=np.float64))
    whole = float(np.sqrt(np.sum(norm**2)))
    relative = float(np.sqrt(np.sum(error**2))) / whole if whole else float("nan")
    return Summary(*counts, relative, float("nan"))


def percent(share: float) -> str:
    """A share as per cent: `83 %`; one decimal near 0 and 100, where it matters."""
    if math.isnan(share):
        return "none"
    value = 100 * share
    return f"{value:.0f} %" if 1 <= value <= 99 or value in (0, 100) else f"{value:.2f} %"


def cosine_text(value: float) -> str:
    """Two digits, or four where two would read 1.00 for less than 1."""
    return f"{value:.4f}" if 0.995 <= value < 0.99995 else f"{value:.2f}"


def headline(found: Summary, what: str = "merge", *, done: bool = False) -> str:
    """The one number first; `done` where the file was written in bf16, so that it has happened."""
    if not found.changed:
        return f"This {what} changed no parameter of the base"
    share = percent(found.lost / found.changed) if found.lost else "none"
    said = f"bf16 {'rounded' if done else 'would round'} away {share} of this {what}'s changed parameters"
    if found.lost == found.changed:
        return f"{said}; nothing of the change {'is' if done else 'would be'} left"
    if math.isnan(found.cosine):
        return said
    return f"{said}; the direction survives at cosine {cosine_text(found.cosine)}"


WHY_SO_LITTLE = (
    "Why so little: the members are bf16 files, so each of their changes is at least about a step of bf16, and with "
    "*normalize* on the merge is a weighted mean of the changes that agree, which is no smaller than the smallest of "
    "them. What divides a change makes it vulnerable: a scale below 1, *normalize* off, the uniform mean, or members "
    "kept in float32."
)
"""Said where a normalized TIES merge of bf16 members loses next to nothing."""


def basis(found: Summary) -> str:
    """What the number was measured on."""
    return (
        f"Measured: the float32 result of the merge against its base, all {found.elements:,} parameters of "
        f"{found.tensors:,} tensors; {found.changed:,} changed, of which {found.lost:,} would be lost."
    )


def what_would_save(counts: Sequence[int] | np.ndarray) -> str:
    """How much less would be lost if every change were larger; estimated from the sizes of the changes.

    `counts` are the bins of `ulp_histogram`: twice the change moves every parameter up one bin.
    """
    values = np.asarray(counts, dtype=np.float64)
    twice, four = (100 * values[: 12 - up].sum() / max(values.sum(), 1.0) for up in (1, 2))
    return (
        "What would save it: a file in float32 loses nothing. In bf16 a larger scale would lose less: about "
        f"{twice:.0f} % at twice the scale and {four:.0f} % at four times (estimated from the sizes below), at the "
        "price of a larger change."
    )


def metrics(found: Summary) -> list[tuple[str, str, str]]:
    """Name, value and explanation of each figure under the headline."""
    if not found.changed:
        return []
    return [
        (
            "Lost in bf16",
            percent(found.lost / found.changed),
            "Changed parameters whose bf16 value is that of the base: for them the merge would not have happened.",
        ),
        (
            "Cosine",
            "unknown" if math.isnan(found.cosine) else cosine_text(found.cosine),
            "Of the merge's change and what is left of it after rounding: 1 is the same direction, 0 none of it.",
        ),
        (
            "Relative error",
            f"{found.relative_l2:.3f}",
            "Length of the rounding error over the length of the merge's change: ‖bf16(m) − m‖ / ‖m − b‖. Above 1 "
            "the error is larger than what the merge did.",
        ),
        (
            "Changed by the merge",
            percent(found.changed / found.elements),
            "Parameters whose float32 value differs from the base's. Small models have small weights, so their "
            "updates are denser than those of a model of billions of parameters, where 5 to 30 % change.",
        ),
    ]


def heatmap_alt(report: pd.DataFrame) -> str:
    """Where the loss is largest and smallest."""
    lost = percent_lost(report)
    if np.isnan(lost).all():
        return "No tensor changed, so bf16 would lose nothing."
    high, low = int(np.nanargmax(lost)), int(np.nanargmin(lost))
    names = report["name"].tolist()
    return (
        f"Per cent of changed parameters that bf16 would lose, {len(report)} tensors: from {lost[low]:.0f} "
        f"({names[low]}) to {lost[high]:.0f} ({names[high]})."
    )


def tensor_sentence(name: str, rows: pd.DataFrame) -> str:
    """One tensor, or all of them: how many changed, how many would be lost."""
    found = totals(rows)
    if not found.changed:
        return f"None of the {found.elements:,} parameters changed."
    said = (
        f"Of {found.elements:,} parameters {found.changed:,} changed ({percent(found.changed_share)}); bf16 would "
        f"lose {found.lost:,} of those ({percent(found.lost_share)})."
    )
    if len(rows) == 1:
        row = rows.iloc[0]
        said += f" Shape {row['shape']}"
        if not math.isnan(float(row["cosine"])):
            said += f", cosine {cosine_text(float(row['cosine']))}, relative error {float(row['relative_l2']):.3f}"
        said += "."
    return said


def histogram_alt(name: str, rows: pd.DataFrame, counts: Sequence[int] | np.ndarray) -> str:
    """The histogram in one sentence."""
    values = np.asarray(counts, dtype=np.float64)
    below = 100 * values[:12].sum() / max(values.sum(), 1.0)
    return f"Sizes of the changes of {name} in half-ulps: {below:.1f} % lie below ½ ulp. {tensor_sentence(name, rows)}"


def election_sentence(shares: pd.DataFrame) -> str:
    """How the members voted over all parameters."""
    none, solo, agreed, contested = (float(shares.iloc[0][one]) for one in VOTES)
    return (
        f"Of all parameters, {none:.1f} % were changed by no member, {solo:.1f} % by one member only, "
        f"{agreed:.1f} % by several that agreed on the sign and {contested:.1f} % by several that did not."
    )
