"""Figures of a previewed merge: bars with intervals, weight against influence, tensors, cosines of task vectors.

Takes estimates (anything with `estimate`, `low` and `high`) as data; gives figures and tables. Computes no merge.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from core.charts.rounding import module_columns, place_layout
from core.charts.theme import CIVIDIS, Ink, figure_template, ink


class Estimate(Protocol):
    """A number with its 95 % interval, both ends equal where it is exact."""

    @property
    def estimate(self) -> float:
        """NaN where there is nothing to estimate."""

    @property
    def low(self) -> float:
        """Lower end."""

    @property
    def high(self) -> float:
        """Upper end."""


class Exactly(NamedTuple):
    """A number that is known."""

    estimate: float
    low: float
    high: float


ZERO = Exactly(0.0, 0.0, 0.0)


class Panel(NamedTuple):
    """One column of bars."""

    title: str
    values: Sequence[Estimate]
    percent: bool = True
    top: float | None = None
    """Where the axis ends; None for the largest value."""


ROW, HEAD = 27, 46
HEAT_ROW, HEAT_HEAD, GAP, STRIP = 26, 64, 44, 60
NOT_KNOWN = "not estimable"
NOTHING_SEEN = 0.1
"""Where the axis of a panel ends at least if all its values are 0."""


def value_text(one: Estimate, percent: bool = True) -> str:
    """`12.3 %`; `<0.1 %` for what is there but small; `not estimable` for NaN."""
    if math.isnan(one.estimate):
        return NOT_KNOWN
    return _number(one.estimate, percent)


def _number(value: float, percent: bool) -> str:
    if not percent:
        return f"{value:.4f}" if 0.995 <= value < 1 else f"{value:.3g}"
    if 0 < value < 0.0005:
        return "<0.1 %"
    if value in (0, 1):
        return f"{100 * value:.0f} %"
    return f"{100 * value:.1f} %"


def range_text(one: Estimate, percent: bool = True) -> str:
    """The estimate with its interval in brackets, `12.3 % (11.9 to 12.8 %)`; exact ones without."""
    said = value_text(one, percent)
    if math.isnan(one.estimate) or one.low == one.high:
        return said
    low, high = (_number(end, percent) for end in (one.low, one.high))
    return f"{said} ({low.removesuffix(' %')} to {high})"


def panels(rows: Sequence[str], columns: Sequence[Panel], *, dark: bool) -> go.Figure:
    """A column of bars for each panel, a row for each name, with whiskers where a value is estimated."""
    colours = ink(dark)
    figure = go.Figure()
    width, gap = 1 / len(columns), 0.035
    layout: dict[str, Any] = {
        "template": figure_template(dark),
        "height": ROW * len(rows) + HEAD,
        "margin": {"l": 8, "r": 8, "t": HEAD - 8, "b": 4},
        "bargap": 0.35,
        "yaxis": {
            "autorange": "reversed", "type": "category", "fixedrange": True, "showgrid": False,
            "tickfont": {"color": colours.text},
        },
    }  # fmt: skip
    for at, one in enumerate(columns):
        axis = "x" if at == 0 else f"x{at + 1}"
        highs = [value.high if math.isfinite(value.high) else value.estimate for value in one.values]
        figure.add_trace(_bars(rows, one, axis, colours))
        figure.add_trace(_labels(rows, one, highs, axis, colours))
        top = one.top or _top(one, highs)
        layout[axis.replace("x", "xaxis")] = {
            "domain": [at * width, (at + 1) * width - (gap if at < len(columns) - 1 else 0)],
            "range": [0, top * 1.42], "visible": False, "fixedrange": True, "anchor": "y",
        }  # fmt: skip
        figure.add_annotation(
            text=one.title, x=at * width, xref="paper", xanchor="left", y=1, yref="paper", yanchor="bottom",
            yshift=2, align="left", showarrow=False, font={"size": 12, "color": colours.muted},
        )  # fmt: skip
    return figure.update_layout(layout)


def _top(one: Panel, highs: Sequence[float]) -> float:
    """The largest value that is drawn; where nothing was seen, wide enough that a small bound looks small."""
    most = max([high for high in highs if not math.isnan(high)], default=1.0)
    seen = any(value.estimate > 0 for value in one.values)
    return most if seen else max(most, NOTHING_SEEN)


def _bars(rows: Sequence[str], one: Panel, axis: str, colours: Ink) -> go.Bar:
    values = [value.estimate for value in one.values]
    spans = [(value.high - value.estimate, value.estimate - value.low) for value in one.values]
    sampled = any(value.high > value.low for value in one.values)
    said = [range_text(value, one.percent) for value in one.values]
    inside = ("" if math.isfinite(high) and math.isfinite(low) else None for high, low in spans)
    whiskers = {
        "type": "data", "symmetric": False, "color": colours.text, "thickness": 1.2, "width": 3,
        "array": [high if ok is not None else 0 for (high, _), ok in zip(spans, inside, strict=True)],
        "arrayminus": [low if math.isfinite(low) else 0 for _, low in spans],
    }  # fmt: skip
    return go.Bar(
        x=[0 if math.isnan(value) else value for value in values], y=list(rows), xaxis=axis, orientation="h",
        marker={"color": colours.gain, "opacity": 0.62}, error_x=whiskers if sampled else None,
        customdata=said,
        hovertemplate=f"%{{y}}<br>{one.title.replace('<br>', ' ')}: %{{customdata}}<extra></extra>",
    )  # fmt: skip


def _labels(rows: Sequence[str], one: Panel, ends: Sequence[float], axis: str, colours: Ink) -> go.Scatter:
    """The values in words, to the right of bars and whiskers."""
    return go.Scatter(
        x=[0 if math.isnan(end) else end for end in ends], y=list(rows), xaxis=axis, mode="text", hoverinfo="skip",
        text=["  " + value_text(value, one.percent) for value in one.values], textposition="middle right",
        textfont={"color": colours.text, "size": 12}, cliponaxis=False,
    )  # fmt: skip


def panel_table(head: str, rows: Sequence[str], columns: Sequence[Panel]) -> pd.DataFrame:
    """The numbers of `panels` with their intervals."""
    found: dict[str, Any] = {head: list(rows)}
    for one in columns:
        found[one.title.replace("<br>", " ")] = [range_text(value, one.percent) for value in one.values]
    return pd.DataFrame(found)


def influence(names: Sequence[str], weights: Sequence[float], shares: Sequence[Estimate], *, dark: bool) -> go.Figure:
    """Each member's weight (hollow diamond) against its share of the merged change (filled dot), on one axis."""
    colours = ink(dark)
    figure = go.Figure()
    _join(figure, names, weights, shares, colours)
    figure.add_trace(
        go.Scatter(
            x=list(weights), y=list(names), mode="markers", name="weight in the recipe",
            marker={"symbol": "diamond-open", "size": 12, "color": colours.loss, "line": {"width": 2}},
            hovertemplate="%{y}: weight %{x:.4f}<extra></extra>",
        )
    )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=[one.estimate for one in shares], y=list(names), mode="markers", name="share of the merged change",
            marker={"size": 11, "color": colours.gain}, customdata=[range_text(one) for one in shares],
            error_x={
                "type": "data", "symmetric": False, "array": [one.high - one.estimate for one in shares],
                "arrayminus": [one.estimate - one.low for one in shares], "color": colours.gain, "thickness": 1.5,
            },
            hovertemplate="%{y}: %{customdata} of the merged change<extra></extra>",
        )
    )  # fmt: skip
    top = max([*weights, *(one.high for one in shares if not math.isnan(one.high))], default=1.0)
    figure.update_layout(
        template=figure_template(dark), height=ROW * len(names) + 92, showlegend=True,
        margin={"l": 8, "r": 12, "t": 30, "b": 8},
        legend={"x": 0, "y": 1.01, "itemclick": False, "itemdoubleclick": False},
        xaxis={
            "range": [-0.02 * top, 1.06 * top], "tickformat": ".0%", "fixedrange": True,
            "title": {"text": "share of the whole"},
        },
        yaxis={"type": "category", "autorange": "reversed", "fixedrange": True, "tickfont": {"color": colours.text}},
    )  # fmt: skip
    return figure


def _join(
    figure: go.Figure, names: Sequence[str], weights: Sequence[float], shares: Sequence[Estimate], colours: Ink
) -> None:
    """A line from each weight to its share."""
    for name, weight, share in zip(names, weights, shares, strict=True):
        line = {"color": colours.axis, "width": 2}
        x = [weight, share.estimate]
        figure.add_trace(go.Scatter(x=x, y=[name, name], mode="lines", hoverinfo="skip", showlegend=False, line=line))


def cosine_heatmap(names: Sequence[str], cosines: np.ndarray, *, dark: bool) -> go.Figure:
    """Cosines of task vectors, (members, members) with 1 on the diagonal; the colours span 0 to 1."""
    colours = ink(dark)
    figure = go.Figure()
    other = np.where(np.eye(len(names), dtype=bool), np.nan, cosines)
    for letters, part in (("#FFFFFF", other < 0.5), ("#000000", other >= 0.5)):
        figure.add_trace(
            go.Heatmap(
                z=np.where(part, other, np.nan), x=list(names), y=list(names), zmin=0, zmax=1, colorscale=CIVIDIS,
                xgap=2, ygap=2, showscale=False, hoverongaps=False,
                text=[
                    [f"{one:.3f}" if here else "" for one, here in zip(line, row, strict=True)]
                    for line, row in zip(other, part, strict=True)
                ],
                texttemplate="%{text}" if len(names) <= 16 else None, textfont={"size": 12, "color": letters},
                hovertemplate="%{y} and %{x}: cosine %{z:.4f}<extra></extra>",
            )
        )  # fmt: skip
    figure.update_layout(
        template=figure_template(dark), height=ROW * len(names) + 60, margin={"l": 8, "r": 8, "t": 8, "b": 8},
        xaxis={"type": "category", "fixedrange": True, "showgrid": False, "tickfont": {"color": colours.text}},
        yaxis={
            "type": "category", "autorange": "reversed", "fixedrange": True, "showgrid": False,
            "tickfont": {"color": colours.text},
        },
    )  # fmt: skip
    return figure


def votes_report(
    places: Sequence[tuple[int, str]], elements: Sequence[int], tensors: Sequence[Mapping[str, Estimate]]
) -> pd.DataFrame:
    """The votes of every tensor as counts, in the columns that `core.charts.election` takes.

    `tensors` have the shares `solo`, `unanimous` and `contested`; a tensor that shows none of them has no votes.
    """
    size = np.asarray(elements, dtype=np.float64)
    solo, agreed, contested = (
        size * np.array([one[name].estimate for one in tensors]) for name in ("solo", "unanimous", "contested")
    )
    return pd.DataFrame(
        {
            "layer": [layer for layer, _ in places],
            "module": [module for _, module in places],
            "members_changed_0": np.maximum(size - solo - agreed - contested, 0),
            "members_changed_1": solo,
            "members_changed_2plus": agreed + contested,
            "contested": contested,
        }
    )


def place_rows(names: Sequence[str], places: Sequence[tuple[int, str]], values: Sequence[Estimate]) -> pd.DataFrame:
    """A row a tensor: its layer (−1 outside the layers) and module, and one figure with its interval."""
    return pd.DataFrame(
        {
            "name": list(names),
            "layer": [layer for layer, _ in places],
            "module": [module for _, module in places],
            "value": [one.estimate for one in values],
            "low": [one.low for one in values],
            "high": [one.high for one in values],
        }
    )


def place_heatmap(rows: pd.DataFrame, *, what: str, dark: bool) -> go.Figure:
    """One share of every tensor, in per cent: layers down, modules across, the rest in a strip under them."""
    colours = ink(dark)
    layers = sorted({int(one) for one in rows["layer"] if one >= 0})
    columns, rest = module_columns(rows), rows[rows["layer"] < 0]
    height = HEAT_HEAD + HEAT_ROW * len(layers) + (GAP + STRIP if len(rest) else 12)
    figure = go.Figure(layout=place_layout(layers, columns, rest, height, dark=dark))
    top = float(np.nan_to_num(rows["value"]).max(initial=0.0)) or 1.0
    inner = rows[rows["layer"] >= 0]
    if columns:
        x, y = [columns.index(one) for one in inner["module"]], [layers.index(int(one)) for one in inner["layer"]]
        _place_cells(figure, inner, x, y, shape=(len(layers), len(columns)), axes="", top=top, what=what)
    if len(rest):
        _place_cells(
            figure, rest, list(range(len(rest))), [0] * len(rest), shape=(1, len(rest)), axes="2", top=top, what=what
        )
    figure.update_layout(coloraxis={"showscale": False}, plot_bgcolor=colours.surface)
    return figure


def _place_cells(
    figure: go.Figure, rows: pd.DataFrame, x: list[int], y: list[int], *,
    shape: tuple[int, int], axes: str, top: float, what: str,
) -> None:  # fmt: skip
    z, text = np.full(shape, np.nan), np.full(shape, "", dtype=object)
    said = np.full(shape, "", dtype=object)
    z[y, x] = rows["value"]
    places = 0 if top >= 0.1 else 1 if top >= 0.01 else 2
    text[y, x] = ["·" if np.isnan(one) else f"{100 * one:.{places}f}" for one in rows["value"]]
    every = rows[["name", "value", "low", "high"]].itertuples(index=False)
    said[y, x] = [f"{one[0]}: {range_text(_Row(*one))}" for one in every]
    for letters, part in (("#FFFFFF", z < top / 2), ("#000000", z >= top / 2)):
        figure.add_trace(
            go.Heatmap(
                z=np.where(part, z, np.nan), zmin=0, zmax=top, colorscale=CIVIDIS, xgap=2, ygap=2, showscale=False,
                text=np.where(part, text, ""), texttemplate="%{text}", textfont={"size": 12, "color": letters},
                customdata=said, hovertemplate=f"%{{customdata}}<br>{what}<extra></extra>", hoverongaps=False,
                xaxis=f"x{axes}", yaxis=f"y{axes}",
            )
        )  # fmt: skip


class _Row(NamedTuple):
    """A row of `place_rows`, as an Estimate with a name."""

    name: str
    estimate: float
    low: float
    high: float


def place_table(rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """Every tensor with its figure, the largest first."""
    ordered = rows.sort_values("value", ascending=False, na_position="last", kind="stable")
    return pd.DataFrame(
        {
            "tensor": ordered["name"],
            what: [range_text(_Row(*one)) for one in ordered[["name", "value", "low", "high"]].itertuples(index=False)],
            "layer": ordered["layer"].where(ordered["layer"] >= 0),
            "module": ordered["module"],
        }
    )


def tensor_table(
    names: Sequence[str], elements: Sequence[int], tensors: Sequence[Mapping[str, Estimate]]
) -> pd.DataFrame:
    """Every tensor with every figure of a preview."""
    heads = {
        "changed": "changed", "solo": "one member alone", "unanimous": "agreed", "contested": "contested",
        "zero_sum": "votes cancel", "rounding_loss": "lost in bf16, of changed", "merged_norm": "length of the change",
    }  # fmt: skip
    found: dict[str, Any] = {"tensor": list(names), "parameters": list(elements)}
    for name, head in heads.items():
        found[head] = [range_text(one[name], percent=name != "merged_norm") for one in tensors]
    return pd.DataFrame(found)


def cosine_matrix(members: int, pairs: Mapping[tuple[int, int], float]) -> np.ndarray:
    """float64 (members, members) with 1 on the diagonal from the cosines of pairs."""
    found = np.eye(members)
    for (one, two), value in pairs.items():
        found[one, two] = found[two, one] = value
    return found


def pair_table(names: Sequence[str], pairs: Mapping[tuple[int, int], Estimate]) -> pd.DataFrame:
    """Every pair with its cosine and interval."""
    return pd.DataFrame(
        {
            "checkpoint": [names[one] for one, _ in pairs],
            "and": [names[two] for _, two in pairs],
            "cosine": [range_text(value, percent=False) for value in pairs.values()],
        }
    )


def member_table(
    names: Sequence[str], weights: Sequence[float], members: Sequence[Mapping[str, Estimate]]
) -> pd.DataFrame:
    """Every member with its weight and influence."""
    heads = {
        "changed": "parameters changed",
        "share": "of the merged change",
        "solo_share": "of that, alone",
        "flips": "signs that hang on it",
    }
    found: dict[str, Any] = {"member": list(names), "weight": [f"{one:.4g}" for one in weights]}
    for name, head in heads.items():
        found[head] = [range_text(one[name]) for one in members]
    return pd.DataFrame(found)
