"""Figures of a finished run: every model with its interval, and the tasks that were gained or lost.

Takes what `core.charts.outcome` gives; gives figures and tables. Knows nothing about files or jobs.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from core.charts.outcome import Band, Flip, Panel, Role, Standing
from core.charts.theme import GREEN, GREY, ORANGE, Ink, figure_template, ink

ROW = 25
MAX_ROWS = 30
"""Single checkpoints beyond this many share one row of light dots without intervals."""
SYMBOLS: dict[Role, str] = {
    "merge": "diamond",
    "uniform mean": "square",
    "best single": "star",
    "single": "circle",
    "base": "triangle-up",
}
SHARED_ROW = "other single checkpoints"


def _colour(role: Role, colours: Ink) -> str:
    return {
        "merge": colours.gain,
        "uniform mean": GREEN,
        "best single": ORANGE,
        "single": GREY,
        "base": colours.muted,
    }[role]


def row_label(one: Standing) -> str:
    """How a model is named beside its dot."""
    if one.role in ("merge", "uniform mean"):
        return f"<b>{one.role}</b>"
    if one.role in (one.name, "single"):
        return one.name
    return f"{one.name}, {one.role}"


def _row_of(one: Standing, crowded: bool) -> str:
    return SHARED_ROW if crowded and one.role == "single" else row_label(one)


def standings_chart(panels: Sequence[Panel], *, dark: bool) -> go.Figure:
    """Mean score and 95 % interval of every model, one panel a split on a shared scale.

    A hollow mark cannot be told from the best single checkpoint; the grey band is where repeated
    runs of one checkpoint fell. Single checkpoints are drawn light.
    """
    colours = ink(dark)
    crowded = max(len(panel.standings) for panel in panels) > MAX_ROWS
    rows = list(dict.fromkeys(_row_of(one, crowded) for panel in panels for one in panel.standings))
    figure = go.Figure(layout=_layout(panels, rows, dark=dark))
    for at, panel in enumerate(panels):
        axis = "" if at == 0 else str(at + 1)
        for one in panel.standings:
            figure.add_trace(
                _dot(one, rows.index(_row_of(one, crowded)), axis, panel, colours=colours, crowded=crowded)
            )
        if panel.band is not None:
            _add_band(figure, panel.band, axis, colours)
        _add_counts(figure, panel, axis, [_row_of(one, crowded) for one in panel.standings], rows, colours=colours)
    return figure


def _dot(one: Standing, row: int, axis: str, panel: Panel, *, colours: Ink, crowded: bool) -> go.Scatter:
    colour = _colour(one.role, colours)
    light = one.role == "single"
    hollow = one.verdict == "unresolved"
    return go.Scatter(
        x=[one.mean],
        y=[row],
        xaxis=f"x{axis}",
        yaxis="y",
        mode="markers",
        marker={
            "symbol": SYMBOLS[one.role],
            "size": 8 if light else 12,
            "color": colours.surface if hollow else colour,
            "line": {"width": 2, "color": colour},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [one.high - one.mean],
            "arrayminus": [one.mean - one.low],
            "thickness": 1 if light else 2,
            "width": 0,
            "color": colour,
        }
        if not (crowded and light)
        else None,
        hovertemplate=f"{one.name} on {panel.split}: mean {one.mean:.4f}<br>95 % interval {one.low:.4f} to "
        f"{one.high:.4f}, {panel.tasks} tasks × {panel.samples}<br>{against_best(one)}<extra></extra>",
    )


def against_best(one: Standing) -> str:
    """The verdict against the best single checkpoint, in words."""
    if one.verdict == "itself":
        return "the best single checkpoint"
    if one.verdict == "unresolved":
        return "cannot be told from the best single checkpoint"
    return f"{one.verdict} than the best single checkpoint"


def _add_counts(
    figure: go.Figure, panel: Panel, axis: str, at_row: Sequence[str], rows: Sequence[str], *, colours: Ink
) -> None:
    """The mean in tasks, printed at the right edge of a panel."""
    for one, row in zip(panel.standings, at_row, strict=True):
        if row == SHARED_ROW:
            continue
        figure.add_annotation(
            xref=f"x{axis} domain",
            x=1.0,
            xanchor="left",
            xshift=4,
            y=rows.index(row),
            text=solved(one.mean, panel),
            showarrow=False,
            font={"size": 12, "color": colours.muted if one.role == "single" else colours.text},
        )


def solved(mean: float, panel: Panel) -> str:
    """A mean in tasks: `38` where tasks have one sample, `37.6` otherwise."""
    return f"{mean * panel.tasks:.0f}" if panel.samples == 1 else f"{mean * panel.tasks:.1f}"


def _add_band(figure: go.Figure, band: Band, axis: str, colours: Ink) -> None:
    figure.add_shape(
        type="rect",
        xref=f"x{axis}",
        yref="paper",
        x0=band.low,
        x1=band.high,
        y0=0,
        y1=1,
        fillcolor=colours.band,
        line={"width": 0},
        layer="below",
    )


def _layout(panels: Sequence[Panel], rows: list[str], *, dark: bool) -> dict[str, Any]:
    colours = ink(dark)
    low = min(min(one.low for one in panel.standings) for panel in panels)
    high = max(max(one.high for one in panel.standings) for panel in panels)
    room = 0.04 * max(high - low, 0.05)
    count = len(panels)
    width = (1 - 0.1 * count) / count
    layout: dict[str, Any] = {
        "template": figure_template(dark),
        "height": ROW * len(rows) + 84,
        "margin": {"l": 8, "r": 8, "t": 30, "b": 8},
        "yaxis": {
            "tickvals": list(range(len(rows))),
            "ticktext": rows,
            "range": [len(rows) - 0.5, -0.5],
            "fixedrange": True,
            "tickfont": {"color": colours.text, "size": 12},
        },
    }
    for at, panel in enumerate(panels):
        start = at * (width + 0.1)
        layout["xaxis" if at == 0 else f"xaxis{at + 1}"] = {
            "domain": [start, start + width],
            "range": [max(low - room, -0.01), min(high + room, 1.01)],
            "tickformat": ".0%",
            "nticks": 6,
            "fixedrange": True,
            "anchor": "y",
            "title": {"text": f"{panel.split}: mean score; right: of {panel.tasks} tasks"},
        }
        layout.setdefault("annotations", []).append(_head(panel, start))
    return layout


def _head(panel: Panel, start: float) -> dict[str, Any]:
    chosen = " (the recipe was chosen here)" if panel.chosen_here else " (held out)"
    return {
        "xref": "paper",
        "yref": "paper",
        "x": start,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "text": f"<b>{panel.split}</b>{chosen}",
        "showarrow": False,
        "yshift": 4,
    }


def standings_table(panels: Sequence[Panel]) -> pd.DataFrame:
    """Every model of every panel, with its interval and its verdict against the best single."""
    return pd.DataFrame(
        [
            {
                "split": panel.split,
                "model": one.name,
                "role": one.role,
                "mean score": round(one.mean, 4),
                "95 % low": round(one.low, 4),
                "95 % high": round(one.high, 4),
                "solved": f"{solved(one.mean, panel)} of {panel.tasks}",
                "samples a task": panel.samples,
                "against best single": "" if one.verdict == "itself" else one.verdict,
            }
            for panel in panels
            for one in panel.standings
        ]
    )


def flip_bars(moved: Sequence[Flip], *, names: tuple[str, str], chosen: str | None, dark: bool) -> go.Figure:
    """Tasks that one model gained (up) or lost (down) against another, the largest change first.

    `names` are (against, this). Each bar carries its task as `customdata`, for clicks.
    """
    colours = ink(dark)
    figure = go.Figure()
    for gained, colour, pattern in ((True, colours.gain, ""), (False, colours.loss, "/")):
        part = [one for one in moved if (one.change > 0) == gained]
        figure.add_trace(
            go.Bar(
                x=[one.task for one in part],
                y=[one.change for one in part],
                name=f"{'gained' if gained else 'lost'} by the {names[1]}",
                marker={
                    "color": colour,
                    "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": colours.surface, "solidity": 0.2},
                },
                selected={"marker": {"opacity": 1}},
                unselected={"marker": {"opacity": 1}},
                customdata=[[one.task, one.before, one.after] for one in part],
                hovertemplate="%{customdata[0]}: %{customdata[1]:.3g} to %{customdata[2]:.3g}<extra></extra>",
            )
        )
    figure.update_layout(_flip_layout(moved, names, dark=dark))
    at = next((place for place, one in enumerate(moved) if one.task == chosen), None)
    if at is not None:
        line = {"color": colours.rule, "width": 3}
        figure.add_shape(type="rect", x0=at - 0.42, x1=at + 0.42, y0=0, y1=moved[at].change, line=line)
    return figure


def _flip_layout(moved: Sequence[Flip], names: tuple[str, str], *, dark: bool) -> dict[str, Any]:
    named = len(moved) <= 36
    return {
        "template": figure_template(dark),
        "height": 250 if named else 210,
        "margin": {"l": 8, "r": 8, "t": 30, "b": 8},
        "bargap": 0.25,
        "barmode": "relative",
        "showlegend": True,
        "legend": {"x": 0, "y": 1.02, "traceorder": "normal", "itemclick": False, "itemdoubleclick": False},
        "xaxis": {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [one.task for one in moved],
            "showticklabels": named,
            "tickangle": -45,
            "fixedrange": True,
            "showgrid": False,
            "title": {"text": "" if named else f"{len(moved)} tasks that differ"},
        },
        "yaxis": {
            "range": [-1.08, 1.08],
            "tickvals": [-1, -0.5, 0, 0.5, 1],
            "zeroline": True,
            "fixedrange": True,
            "title": {"text": f"score, less the {names[0]}'s"},
        },
    }


def flip_table(moved: Sequence[Flip], names: tuple[str, str]) -> pd.DataFrame:
    """The tasks of `flip_bars`, one a row."""
    return pd.DataFrame(
        {
            "task": [one.task for one in moved],
            "scenario": [one.scenario for one in moved],
            names[0]: [round(one.before, 4) for one in moved],
            names[1]: [round(one.after, 4) for one in moved],
            "change": [round(one.change, 4) for one in moved],
        }
    )
