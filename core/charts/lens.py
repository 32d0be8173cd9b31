"""Figures of the precision lens: what survives against the scale of a merge, in which file, and what would save it.

Takes a `LensReport` and a `DialectReport`; gives a figure, tables and their text. Reads no files.
"""

from typing import TYPE_CHECKING, Any

import pandas as pd
import plotly.graph_objects as go

from core.charts.theme import DASHES, categories, figure_template, ink

if TYPE_CHECKING:
    from core.precision.lens import LensReport, Rounded
    from core.precision.sampling import Share
    from core.preview.dialects import DialectReport

SYMBOLS = ("circle", "square", "diamond", "cross")


def survival_chart(report: "LensReport", *, dark: bool) -> go.Figure:
    """Share of changed parameters that survive, a line a format, against the scale (log); the present scale ruled."""
    figure = go.Figure()
    for at, curve in enumerate(report.curves):
        colour = categories(dark)[at]
        values = [100 * one.value for one in curve.survival]
        errors = None if report.exact else {
            "type": "data", "symmetric": False, "thickness": 1, "width": 2,
            "array": [100 * (one.high - one.value) for one in curve.survival],
            "arrayminus": [100 * (one.value - one.low) for one in curve.survival],
        }  # fmt: skip
        figure.add_trace(
            go.Scatter(
                x=report.scales, y=values, mode="lines+markers", name=curve.format, error_y=errors,
                line={"color": colour, "width": 2, "dash": DASHES[at]},
                marker={"symbol": SYMBOLS[at], "size": 7, "color": colour},
                hovertemplate=f"{curve.format}, scale %{{x:g}}: %{{y:.2f}} % survive<extra></extra>",
            )
        )  # fmt: skip
    figure.update_layout(_layout(dark=dark))
    return figure


def _layout(*, dark: bool) -> dict[str, Any]:
    rule = {"color": ink(dark).rule, "width": 1.5, "dash": "dot"}
    return {
        "template": figure_template(dark),
        "height": 320,
        "margin": {"l": 8, "r": 16, "t": 34, "b": 8},
        "showlegend": True,
        "legend": {"x": 0, "y": 1.02, "itemclick": False, "itemdoubleclick": False},
        "xaxis": {
            "type": "log",
            "tickvals": [0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0],
            "ticktext": ["1/16", "1/8", "1/4", "1/2", "1", "2", "4"],
            "title": {"text": "size of the merge's change: base + scale × change (log)"},
            "fixedrange": True,
        },
        "yaxis": {"range": [0, 103], "title": {"text": "% of changed that survive"}, "fixedrange": True},
        "shapes": [{"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": rule}],
    }


def survival_table(report: "LensReport") -> pd.DataFrame:
    """The numbers of `survival_chart`: a row a scale."""
    columns = {
        f"{one.format} survives, %": [round(100 * share.value, 3) for share in one.survival] for one in report.curves
    }
    return pd.DataFrame({"scale": list(report.scales), **columns})


def survival_alt(report: "LensReport") -> str:
    """What the curves say at half, the whole and twice the scale."""
    said = []
    for curve in report.curves:
        values = dict(zip(report.scales, curve.survival, strict=True))
        at = ", ".join(f"{100 * values[one].value:.1f} % at {one:g}" for one in (0.5, 1.0, 2.0) if one in values)
        said.append(f"{curve.format} {at}")
    return f"Changed parameters that survive, by scale of the change: {'; '.join(said)}."


def cliff_sentence(report: "LensReport") -> str:
    """How steeply bf16 gives way below the present scale."""
    values = {scale: 100 * one.value for scale, one in zip(report.scales, report.curves[0].survival, strict=True)}
    if not {0.375, 0.5, 0.625, 1.0} <= values.keys():
        return survival_alt(report)
    fall = values[0.625] - values[0.375]
    cliff = f" There is a cliff near ½: between scales 0.625 and 0.375 it falls by {fall:.0f} points." * (fall >= 20)
    basis = "every parameter" if report.exact else f"{report.looked:,} parameters in random blocks, 95 % intervals"
    return (
        f"In bf16 {values[1.0]:.1f} % of the changed parameters survive at the present scale and {values[0.5]:.1f} % "
        f"at half of it.{cliff} Measured at {basis}; fp8 is a plain cast, without a scale of its own."
    )


def files_table(report: "LensReport") -> pd.DataFrame:
    """Every file the merge could be kept in: size, what is lost, bias and error; the exact ones first."""
    rows = [_file_row(one) for one in report.files]
    wide = next(one for one in report.files if one.format == "fp32")
    rows.insert(1, ("bf16 + residual file", "exact", wide.bytes / 1e6, 0.0, 0.0, 0.0))
    heads = ["file", "rounding", "MB", "lost, % of changed", "bias, mean |δ|", "error ÷ change"]
    return pd.DataFrame(rows, columns=heads)


def _file_row(one: "Rounded") -> tuple[str, str, float, float, float, float]:
    rounding = "exact" if one.format == "fp32" else one.rounding
    return one.format, rounding, one.bytes / 1e6, 100 * one.lost.value, one.bias.value, one.relative_l2


def saving_sentence(report: "LensReport") -> str:
    """What would keep the change, in the numbers of the table."""
    rows = {(one.format, one.rounding): one for one in report.files}
    near, random = rows["bf16", "nearest"], rows["bf16", "stochastic"]
    half = rows["fp16", "nearest"]
    return (
        "A float32 file keeps everything; so does bf16 with a residual file beside it, of the same size together, "
        "whose bf16 part any program loads by itself. Rounding to bf16 at random is right on average "
        f"(bias {_signed(random.bias.value)} of the mean change, {_signed(near.bias.value)} to the nearest), but its "
        f"error is {random.relative_l2:.2f} times the change instead of {near.relative_l2:.2f}. fp16 would lose "
        f"{100 * half.lost.value:.1f} % of the changed parameters, at the size of bf16."
    )


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def dialects_table(report: "DialectReport") -> pd.DataFrame:
    """Two dialects a row, over all tensors."""
    return pd.DataFrame(
        [
            (
                f"{one.first} and {one.second}", _share(one.differ), _share(one.differ_bf16), one.norm,
                one.relative.value,
            )
            for one in report.total
        ],
        columns=["dialects", "differ, %", "differ in bf16, %", "‖difference‖", "÷ ‖change of the first‖"],
    )  # fmt: skip


def _share(one: "Share") -> str:
    value = f"{100 * one.value:.2f}"
    return value if one.low == one.high else f"{value} ({100 * one.low:.2f}–{100 * one.high:.2f})"
