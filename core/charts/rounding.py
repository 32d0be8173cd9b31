"""Figures of one merge's report: what bf16 would round away of it.

Takes the report as a table, a row a tensor (see `core.merge`); gives figures and tables. Knows
nothing about runs or files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from core.charts.theme import CIVIDIS, Ink, figure_template, ink

BINS = 24
LOWEST = -12
"""The histogram's first bin starts at 2^-12 half-ulps, and is open below; the last is open above."""
MODULES = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
    "self_attn.q_norm",
    "self_attn.k_norm",
    "input_layernorm",
    "post_attention_layernorm",
)
"""Usual order of the columns; other modules follow as the report has them."""
ROW, GAP, HEAD, STRIP = 26, 44, 64, 60
"""Pixels: one layer, the space above the strip, the column heads, the strip with its labels."""
MIDDLE = 50
"""Per cent at which Cividis is equally far from white and from black letters."""


@dataclass(frozen=True)
class Totals:
    """A report summed over tensors."""

    tensors: int
    elements: int
    changed: int
    """Parameters that the merge moved."""
    lost: int
    """Of those, the ones that bf16 rounds back to the base's value."""

    @property
    def lost_share(self) -> float:
        """lost / changed in [0, 1]; NaN when nothing changed."""
        return self.lost / self.changed if self.changed else float("nan")

    @property
    def changed_share(self) -> float:
        """changed / elements in [0, 1]."""
        return self.changed / self.elements if self.elements else float("nan")


def totals(report: pd.DataFrame) -> Totals:
    """Sum the counts of a report over its tensors."""
    return Totals(len(report), *(int(report[one].sum()) for one in ("elements", "changed", "lost")))


def percent_lost(report: pd.DataFrame) -> np.ndarray:
    """100 · lost / changed for each row, float64; NaN for a tensor that did not change."""
    changed = report["changed"].to_numpy(dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(changed > 0, 100.0 * report["lost"].to_numpy(dtype=np.float64) / changed, np.nan)


def module_columns(report: pd.DataFrame) -> list[str]:
    """The module types of a report's layers, in the order they are drawn."""
    found = list(dict.fromkeys(report.loc[report["layer"] >= 0, "module"]))
    return [one for one in MODULES if one in found] + [one for one in found if one not in MODULES]


def loss_heatmap(report: pd.DataFrame, *, chosen: str | None, dark: bool) -> go.Figure:
    """Share of changed parameters that bf16 loses: layers down, modules across, the rest in a strip.

    The colours span 0 to 100 % whatever the report, so that two merges compare. `chosen` is the
    tensor to outline. Points carry the tensor's name as `customdata` for clicks.
    """
    colours = ink(dark)
    layers = sorted({int(one) for one in report["layer"] if one >= 0})
    columns = module_columns(report)
    rest = report[report["layer"] < 0]
    height = HEAD + ROW * len(layers) + (GAP + STRIP if len(rest) else 12)
    figure = go.Figure(layout=place_layout(layers, columns, rest, height, dark=dark))
    if columns:
        inner = report[report["layer"] >= 0]
        x = [columns.index(one) for one in inner["module"]]
        y = [layers.index(int(one)) for one in inner["layer"]]
        _add_cells(figure, inner, x, y, shape=(len(layers), len(columns)), axes="", chosen=chosen, colours=colours)
    if len(rest):
        _add_cells(
            figure,
            rest,
            list(range(len(rest))),
            [0] * len(rest),
            shape=(1, len(rest)),
            axes="2",
            chosen=chosen,
            colours=colours,
        )
    return figure


def _add_cells(
    figure: go.Figure,
    rows: pd.DataFrame,
    x: Sequence[int],
    y: Sequence[int],
    *,
    shape: tuple[int, int],
    axes: str,
    chosen: str | None,
    colours: Ink,
) -> None:
    """One block of cells with their numbers, invisible points over them for clicks, and the outline."""
    lost = percent_lost(rows)
    z, text = np.full(shape, np.nan), np.full(shape, "", dtype=object)
    z[list(y), list(x)] = lost
    text[list(y), list(x)] = ["·" if np.isnan(one) else f"{one:.0f}" for one in lost]
    on = {"xaxis": f"x{axes}", "yaxis": f"y{axes}"}
    unchanged = np.full(shape, np.nan)
    unchanged[list(y), list(x)] = np.where(np.isnan(lost), 0.0, np.nan)
    grey = [[0, colours.missing], [1, colours.missing]]
    figure.add_trace(_cells(unchanged, text, colours.text, colours, on, bar=False).update(colorscale=grey))
    figure.add_trace(_cells(np.where(z < MIDDLE, z, np.nan), text, "#FFFFFF", colours, on, bar=not axes))
    figure.add_trace(_cells(np.where(z >= MIDDLE, z, np.nan), text, "#000000", colours, on, bar=False))
    names = rows["name"].tolist()
    figure.add_trace(
        go.Scatter(
            x=list(x), y=list(y), mode="markers", **on,
            marker={"size": 24, "symbol": "square", "opacity": 0},
            selected={"marker": {"opacity": 0}}, unselected={"marker": {"opacity": 0}},
            customdata=[_said(row, one) for row, one in zip(rows.to_dict("records"), lost, strict=True)],
            hovertemplate="%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        )
    )  # fmt: skip
    if chosen in names:
        at = names.index(chosen)
        box = {"x0": x[at] - 0.5, "x1": x[at] + 0.5, "y0": y[at] - 0.5, "y1": y[at] + 0.5}
        line = {"color": colours.loss, "width": 3}
        figure.add_shape(type="rect", xref=f"x{axes}", yref=f"y{axes}", line=line, **box)


def _cells(z: np.ndarray, text: np.ndarray, letters: str, colours: Ink, on: dict[str, str], *, bar: bool) -> go.Heatmap:
    """Cells of one letter colour; a cell without a value is left to the other block, or stays empty."""
    return go.Heatmap(
        z=z,
        zmin=0,
        zmax=100,
        colorscale=CIVIDIS,
        xgap=2,
        ygap=2,
        hoverinfo="skip",
        text=np.where(np.isnan(z), "", text),
        texttemplate="%{text}",
        textfont={"size": 12, "color": letters},
        showscale=bar,
        colorbar=_scale_bar(colours) if bar else None,
        **on,
    )


def _said(row: dict[Any, Any], lost: float) -> list[str]:
    if np.isnan(lost):
        return [row["name"], "no parameter changed"]
    return [row["name"], f"{lost:.1f} % of {int(row['changed']):,} changed parameters lost"]


def _scale_bar(colours: Ink) -> dict[str, Any]:
    return {
        "title": {"text": "% lost", "side": "top", "font": {"color": colours.muted, "size": 12}},
        "thickness": 10,
        "outlinewidth": 0,
        "tickvals": [0, 50, 100],
        "tickfont": {"color": colours.muted, "size": 12},
        "len": 150,
        "lenmode": "pixels",
        "y": 1,
        "yanchor": "top",
        "ypad": 0,
    }


def place_layout(
    layers: list[int], columns: list[str], rest: pd.DataFrame, height: int, *, dark: bool
) -> dict[str, Any]:
    """Two blocks of cells: layers by modules, and under it the tensors that belong to no layer."""
    colours = ink(dark)
    inside = height - HEAD - 8
    top = (STRIP - 24 + GAP) / inside if len(rest) else 0.0
    plain = {"fixedrange": True, "showgrid": False, "tickfont": {"color": colours.text, "size": 12}}
    across = {**plain, "side": "top", "tickangle": 0, "tickmode": "array"}
    return {
        "template": figure_template(dark),
        "height": max(height, 230),
        "margin": {"l": 8, "r": 8, "t": HEAD, "b": 8},
        "xaxis": {
            **across, "tickvals": list(range(len(columns))), "range": [-0.5, len(columns) - 0.5],
            "ticktext": [_wrapped(one) for one in columns],
        },
        "yaxis": {
            **plain, "domain": [top, 1] if columns else [0.98, 1], "range": [len(layers) - 0.5, -0.5],
            "tickvals": list(range(len(layers))), "ticktext": [f"layer {one}" for one in layers],
        },
        "xaxis2": {
            **across, "anchor": "y2", "tickvals": list(range(len(rest))),
            "range": [-0.5, max(len(rest), len(columns), 3) - 0.5],
            "ticktext": [_short(one) for one in rest["name"]],
        },
        "yaxis2": {
            **plain, "anchor": "x2", "domain": [0, ROW / inside], "range": [0.5, -0.5], "tickvals": [0],
            "ticktext": ["other"], "visible": bool(len(rest)),
        },
    }  # fmt: skip


def _wrapped(module: str) -> str:
    """A module's own name on several short lines; the whole name is in the hover and in the table."""
    own = module.rpartition(".")[2].replace("attention", "attn").replace("layernorm", "norm")
    return own.replace("_", "<br>")


def _short(name: str) -> str:
    """A tensor's name without what all of them share."""
    return name.removesuffix(".weight").removeprefix("model.").replace("_", "<br>")


def loss_table(report: pd.DataFrame) -> pd.DataFrame:
    """Every tensor with what bf16 would do to it, the largest loss first."""
    table = pd.DataFrame(
        {
            "tensor": report["name"],
            "lost, % of changed": np.round(percent_lost(report), 2),
            "lost": report["lost"],
            "changed": report["changed"],
            "parameters": report["elements"],
            "relative L2 error": report["relative_l2"].astype(float).round(4),
            "cosine": report["cosine"].astype(float).round(4),
            "shape": report["shape"],
            "layer": [f"{one:02d}" if one >= 0 else "–" for one in report["layer"]],
            "module": report["module"],
        }
    )
    return table.sort_values("lost, % of changed", ascending=False, na_position="last", kind="stable")


def ulp_histogram(counts: Sequence[int] | np.ndarray, *, dark: bool) -> go.Figure:
    """Sizes of one tensor's changes in half-ulps of the base, with the line below which bf16 drops them.

    `counts` has 24 bins whose edges are powers of two, 2^-12 to 2^12; the first and last are open.
    """
    colours = ink(dark)
    values = np.asarray(counts, dtype=np.float64)
    share = 100 * values / max(values.sum(), 1)
    x = LOWEST + np.arange(BINS) + 0.5
    figure = go.Figure(layout=_histogram_layout(float(share.max(initial=1.0)), dark=dark))
    for name, at, colour, pattern in (
        ("below ½ ulp", x < 0, colours.loss, "/"),
        ("½ ulp and above", x > 0, colours.gain, ""),
    ):
        edges = [[_edge(k - 0.5), _edge(k + 0.5), int(n)] for k, n in zip(x[at], values[at], strict=True)]
        figure.add_trace(
            _size_bars(
                x[at], share[at], edges, name=name, colour=colour, pattern={"shape": pattern, **_overlay(colours)}
            )
        )
    below = float(share[x < 0].sum())
    for text, place, anchor in (
        (f"{below:.1f} % below ½ ulp", -0.25, "right"),
        (f"{100 - below:.1f} % above", 0.25, "left"),
    ):
        figure.add_annotation(
            x=place, y=1, yref="paper", yanchor="bottom", xanchor=anchor, text=text, showarrow=False, font={"size": 12}
        )
    return figure


def _overlay(colours: Ink) -> dict[str, Any]:
    return {"fillmode": "overlay", "fgcolor": colours.surface, "size": 6, "solidity": 0.2}


def _size_bars(
    x: np.ndarray, share: np.ndarray, edges: list[list[Any]], *, name: str, colour: str, pattern: dict[str, Any]
) -> go.Bar:
    return go.Bar(
        x=x,
        y=share,
        width=0.94,
        name=name,
        marker={"color": colour, "pattern": pattern},
        customdata=edges,
        hovertemplate="%{customdata[0]} to %{customdata[1]} half-ulps<br>%{y:.2f} %, %{customdata[2]:,} parameters"
        "<extra></extra>",
    )


def _edge(exponent: float) -> str:
    """A power of two as people write it: `1/8`, `1`, `64`."""
    power = round(exponent)
    return f"{2**power:,}" if power >= 0 else f"1/{2**-power:,}"


def _histogram_layout(highest: float, *, dark: bool) -> dict[str, Any]:
    colours = ink(dark)
    ticks = [-12, -9, -6, -3, 0, 3, 6, 9, 12]
    return {
        "template": figure_template(dark),
        "height": 270,
        "margin": {"l": 8, "r": 8, "t": 26, "b": 8},
        "bargap": 0,
        "xaxis": {
            "range": [LOWEST - 0.2, LOWEST + BINS + 0.2],
            "tickvals": ticks,
            "ticktext": [f"<{_edge(-11)}", *[_edge(one) for one in ticks[1:-1]], f">{_edge(11)}"],
            "title": {"text": "size of the change, in half-ulps of the base (log)"},
            "fixedrange": True,
            "showgrid": False,
        },
        "yaxis": {
            "title": {"text": "% of changed"},
            "range": [0, highest * 1.08],
            "fixedrange": True,
            "nticks": 5,
        },
        "shapes": [
            {
                "type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1.06,
                "line": {"color": colours.rule, "width": 2, "dash": "dot"},
            }
        ],
    }  # fmt: skip


def histogram_table(counts: Sequence[int] | np.ndarray) -> pd.DataFrame:
    """The bins of `ulp_histogram` as a table."""
    edges = [_edge(LOWEST + at) for at in range(BINS + 1)]
    total = max(int(np.sum(counts)), 1)
    return pd.DataFrame(
        {
            "from, half-ulps": ["0", *edges[1:-1]],
            "to, half-ulps": [*edges[1:-1], "and more"],
            "parameters": [int(one) for one in counts],
            "% of changed": [round(100 * int(one) / total, 3) for one in counts],
        }
    )
