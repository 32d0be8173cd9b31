"""The recipe map over λ and K, how often each checkpoint is picked, and the tasks that each pick adds.

Takes what `core.recipe` computes; gives figures and tables. Knows nothing about merging.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from core.charts.theme import CIVIDIS, Ink, figure_template, ink
from core.recipe.coverage import Coverage
from core.recipe.map import Region, region_at
from core.recipe.stability import Stability

ROW = 26


def map_figure(regions: Sequence[Region], lam: float, k: int, *, dark: bool) -> go.Figure:
    """K down, λ across; a cell is one picked set, coloured by its mean score, its edges the exact switch points."""
    colours = ink(dark)
    figure = go.Figure()
    low = min(one.mean_q for one in regions)
    high = max(one.mean_q for one in regions)
    rows = list(dict.fromkeys(one.k for one in regions))
    figure.add_trace(_cells(regions, low, high, colours))
    here = region_at(tuple(regions), lam, k)
    layout: dict[str, Any] = {
        "template": figure_template(dark),
        "height": ROW * len(rows) + 84,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "bargap": 0.12,
        "barmode": "overlay",
        "xaxis": {
            "range": [0, 1], "fixedrange": True, "showgrid": False,
            "title": {"text": "λ: 0 is diversity alone, 1 is score alone"},
        },
        "yaxis": {
            "range": [max(rows) + 0.5, min(rows) - 0.5], "tickvals": rows, "ticktext": [f"K {one}" for one in rows],
            "fixedrange": True, "showgrid": False, "tickfont": {"color": colours.text},
        },
    }  # fmt: skip
    if here is not None:
        layout["shapes"] = [
            {"type": "rect", "x0": here.low, "x1": here.high, "y0": k - 0.46, "y1": k + 0.46,
             "line": {"color": colours.loss, "width": 3}},
            {"type": "line", "x0": lam, "x1": lam, "y0": k - 0.46, "y1": k + 0.46,
             "line": {"color": colours.loss, "width": 3, "dash": "dot"}},
        ]  # fmt: skip
    return figure.update_layout(layout)


def _cells(regions: Sequence[Region], low: float, high: float, colours: Ink) -> go.Bar:
    span = (high - low) or 1.0
    return go.Bar(
        x=[one.high - one.low for one in regions], base=[one.low for one in regions],
        y=[one.k for one in regions], orientation="h",
        marker={
            "color": [one.mean_q for one in regions], "colorscale": CIVIDIS, "cmin": low, "cmax": low + span,
            "line": {"color": colours.surface, "width": 1.5},
            "colorbar": {
                "title": {"text": "mean score", "side": "top", "font": {"color": colours.muted, "size": 12}},
                "thickness": 10, "outlinewidth": 0, "len": 150, "lenmode": "pixels",
                "y": 1, "yanchor": "top", "ypad": 0,
                "tickformat": ".2f", "nticks": 4, "tickfont": {"color": colours.muted, "size": 12},
            },
        },
        text=[_fitting(one) for one in regions], textposition="inside", insidetextanchor="middle", textangle=0,
        textfont={"size": 11, "color": ["#FFFFFF" if one.mean_q < low + span / 2 else "#000000" for one in regions]},
        customdata=[[" ".join(one.picks), one.low, one.high] for one in regions],
        hovertemplate="K %{y}: %{customdata[0]}<br>λ from %{customdata[1]:.4f} to %{customdata[2]:.4f}<br>"
        "mean score %{marker.color:.4f}<extra></extra>",
    )  # fmt: skip


def _fitting(one: Region) -> str:
    """The picks where they fit into the cell, as wide as it is."""
    text = " ".join(one.picks)
    return text if len(text) * 0.0085 < one.high - one.low else ""


def map_table(regions: Sequence[Region]) -> pd.DataFrame:
    """Every cell with its exact bounds."""
    return pd.DataFrame(
        {
            "K": [one.k for one in regions],
            "λ from": [one.low for one in regions],
            "λ to": [one.high for one in regions],
            "picks": [" ".join(one.picks) for one in regions],
            "mean score": [round(one.mean_q, 6) for one in regions],
        }
    )


def stability_bars(
    names: Sequence[str], picked: Sequence[str], by_tasks: Stability, by_runs: Stability | None, *,
    shown: Sequence[str], dark: bool,
) -> go.Figure:  # fmt: skip
    """How often each checkpoint of `shown` is picked, in bank order; present picks are named in bold."""
    colours = ink(dark)
    places = [at for at, name in enumerate(names) if name in shown or name in picked]
    labels = [f"<b>{names[at]}</b>" if names[at] in picked else names[at] for at in places]
    figure = go.Figure()
    looks = [("other tasks of the same kind", by_tasks, colours.gain, "")]
    if by_runs is not None:
        looks.append(("the same tasks, run once more", by_runs, colours.loss, "/"))
    for name, one, colour, pattern in looks:
        figure.add_trace(
            go.Bar(
                x=100 * one.frequency[places], y=labels, orientation="h", name=name,
                marker={
                    "color": colour,
                    "pattern": {
                        "shape": pattern, "fillmode": "overlay", "fgcolor": colours.surface, "size": 6, "solidity": 0.2,
                    },
                },
                hovertemplate="%{y}: picked in %{x:.0f} % of the draws, " + name + "<extra></extra>",
            )
        )  # fmt: skip
    figure.update_layout(
        template=figure_template(dark), height=(ROW if by_runs is None else 34) * len(labels) + 84,
        margin={"l": 8, "r": 12, "t": 30, "b": 8}, barmode="group", bargap=0.25, showlegend=True,
        legend={"x": 0, "y": 1.01, "traceorder": "normal", "itemclick": False, "itemdoubleclick": False},
        xaxis={"range": [0, 101], "fixedrange": True, "title": {"text": "% of the draws in which it is picked"}},
        yaxis={"type": "category", "autorange": "reversed", "fixedrange": True, "tickfont": {"color": colours.text}},
    )  # fmt: skip
    return figure


def stability_table(
    names: Sequence[str], picked: Sequence[str], by_tasks: Stability, by_runs: Stability | None
) -> pd.DataFrame:
    """The frequencies in per cent."""
    found = {
        "checkpoint": list(names),
        "picked now": ["yes" if name in picked else "no" for name in names],
        "other tasks, % of draws": (100 * by_tasks.frequency).round(1),
    }
    if by_runs is not None:
        found["run once more, % of draws"] = (100 * by_runs.frequency).round(1)
    return pd.DataFrame(found)


def coverage_steps(names: Sequence[str], found: Coverage, *, dark: bool) -> go.Figure:
    """Tasks that each pick solves: those an earlier pick solves too, and those it adds."""
    colours = ink(dark)
    adds = [len(one.adds) for one in found.picks]
    again = [len(one.solves) - added for one, added in zip(found.picks, adds, strict=True)]
    labels = [f"{place}.  {name}" for place, name in enumerate(names, start=1)]
    figure = go.Figure()
    for name, values, colour in (
        ("an earlier pick solves it too", again, colours.missing),
        ("added", adds, colours.gain),
    ):
        figure.add_trace(
            go.Bar(
                x=values, y=labels, orientation="h", name=name, marker={"color": colour},
                text=[(f"+{one}" if name == "added" else str(one)) if one else "" for one in values],
                textposition="inside" if name != "added" else "outside", textfont={"color": colours.text},
                insidetextanchor="middle", textangle=0, cliponaxis=False,
                hovertemplate="%{y}: %{x} tasks, " + name + "<extra></extra>",
            )
        )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=[found.by_pool, found.by_pool], y=[labels[0], labels[-1]], mode="lines+markers",
            name=f"the whole pool: {found.by_pool}", line={"color": colours.rule, "width": 2, "dash": "dot"},
            marker={"symbol": "line-ns", "size": 10, "line": {"width": 2, "color": colours.rule}}, hoverinfo="skip",
        )
    )  # fmt: skip
    figure.update_layout(
        template=figure_template(dark), height=ROW * len(labels) + 92, margin={"l": 8, "r": 8, "t": 34, "b": 8},
        barmode="stack", bargap=0.25, showlegend=True,
        legend={"x": 0, "y": 1.01, "traceorder": "normal", "itemclick": False, "itemdoubleclick": False},
        xaxis={
            "range": [0, max(found.by_pool, 1) * 1.08], "fixedrange": True,
            "title": {"text": f"tasks, of {found.tasks}"},
        },
        yaxis={"type": "category", "autorange": "reversed", "fixedrange": True, "tickfont": {"color": colours.text}},
    )  # fmt: skip
    return figure


def coverage_table(names: Sequence[str], tasks: Sequence[str], found: Coverage) -> pd.DataFrame:
    """Which pick adds which task."""
    return pd.DataFrame(
        {
            "pick": list(names),
            "solves": [len(one.solves) for one in found.picks],
            "adds": [len(one.adds) for one in found.picks],
            "added tasks": [", ".join(tasks[at] for at in one.adds) for one in found.picks],
            "solved by no other pick": [", ".join(tasks[at] for at in one.alone) for one in found.picks],
        }
    )
