"""Figures of a bank: who solves what, how well each does on average, and what the pool covers.

Takes score matrices and plain values; gives figures, tables and counts. Knows nothing about files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from core.charts.outcome import Band
from core.charts.theme import CIVIDIS, Ink, figure_template, ink

MAX_CLICKABLE = 6000
"""Above this many cells the heatmap is a plain picture: single cells are no longer a target."""
ROW, DENSE_ROW, DENSE = 25, 12, 40
"""Pixels a checkpoint, and what is left of them in banks of more than DENSE."""
GAP = 0.45
"""Rows left empty between the pool and its base."""


@dataclass(frozen=True)
class Coverage:
    """How many tasks the pool solves together; a task counts as solved by a mean score of 0.5 or more."""

    by_all: int
    by_some: int
    by_none: int
    tasks_by_solvers: tuple[int, ...]
    """Element i: tasks that exactly i checkpoints solve; length checkpoints + 1."""


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """What the heatmap shows: rows of scores with their names and the intervals of their means."""

    names: tuple[str, ...]
    scores: np.ndarray
    """float, shape (rows, tasks), in [0, 1]; NaN where there is none."""
    means: np.ndarray
    """float, shape (rows,)."""
    low: np.ndarray
    """float, shape (rows,): lower end of each mean's 95 % interval."""
    high: np.ndarray
    """float, shape (rows,): upper end of it."""
    has_base: bool
    """True when the last row is the base."""

    @property
    def scored(self) -> list[int]:
        """Tasks behind each row's mean."""
        return [int(one) for one in np.isfinite(self.scores).sum(axis=1)]


def score_rows(
    names: Sequence[str],
    scores: np.ndarray,
    base: tuple[str, np.ndarray | None],
    intervals: Sequence[tuple[float, float]],
) -> ScoreRows:
    """Put the pool and, where it has scores, its base into rows; `intervals` are those of the means, in row order."""
    name, extra = base
    every = scores if extra is None else np.vstack([scores, extra])
    return ScoreRows(
        names=(*names, name) if extra is not None else tuple(names),
        scores=every,
        means=np.nanmean(every, axis=1),
        low=np.array([low for low, _ in intervals]),
        high=np.array([high for _, high in intervals]),
        has_base=extra is not None,
    )


def coverage(scores: np.ndarray) -> Coverage:
    """Count tasks by how many checkpoints solve them; `scores` has shape (checkpoints, tasks)."""
    solvers = (scores >= 0.5).sum(axis=0)
    counts = np.bincount(solvers, minlength=len(scores) + 1)
    return Coverage(
        by_all=int(counts[-1]),
        by_some=int(counts[1:-1].sum()),
        by_none=int(counts[0]),
        tasks_by_solvers=tuple(int(one) for one in counts),
    )


def task_order(scores: np.ndarray) -> np.ndarray:
    """Positions of the tasks, the most often solved first, ties as given; shape (tasks,)."""
    return np.argsort(-np.nan_to_num(np.nanmean(scores, axis=0)), kind="stable")


def score_heatmap(
    rows: ScoreRows,
    tasks: Sequence[str],
    picks: Mapping[str, int],
    *,
    dark: bool,
    samples: int,
    band: Band | None = None,
    marked_task: str | None = None,
) -> go.Figure:
    """Checkpoints down, tasks across, the picks outlined with their ordinal, and each mean beside it.

    `picks` maps a checkpoint to its place in pick order. Points carry `customdata`
    `["cell", name, task]` in the heatmap and `["row", name]` beside it; see `clicked`.
    """
    colours = ink(dark)
    order = task_order(rows.scores[: len(rows.scores) - rows.has_base])
    scores = rows.scores[:, order]
    names = [tasks[index] for index in order]
    y = row_positions(len(rows.names), rows.has_base)
    figure = go.Figure(layout=_layout(rows, y, samples, dark))
    figure.add_traces(_cells(scores, rows.has_base, samples, colours))
    if scores.size <= MAX_CLICKABLE:
        figure.add_trace(_targets(rows, scores, names, y))
    figure.add_trace(_means(rows, y, picks, colours))
    picked = [(row, picks[name]) for row, name in enumerate(rows.names) if name in picks]
    figure.add_trace(_badges(y, picked, len(tasks), colours))
    shapes = [_outline(y[row], len(tasks), colours) for row, _ in picked]
    if marked_task in names:
        shapes.append(_column(names.index(str(marked_task)), y, colours))
    if band:
        shapes.append(_band(band, y, colours))
        _name_band(figure, band, colours)
    figure.update_layout(shapes=shapes)
    _name_tasks(figure, len(tasks), colours)
    return figure


def _name_tasks(figure: go.Figure, tasks: int, colours: Ink) -> None:
    figure.add_annotation(
        x=tasks - 0.5,
        y=0,
        yref="paper",
        yshift=-4,
        xanchor="right",
        yanchor="top",
        text=f"{tasks} tasks, most often solved on the left",
        showarrow=False,
        font={"color": colours.muted, "size": 12},
    )


def row_positions(rows: int, has_base: bool) -> np.ndarray:
    """Height of each row's middle, growing downwards; the base stands a little apart."""
    y = np.arange(rows, dtype=float)
    if has_base:
        y[-1] += GAP
    return y


def clicked(points: Sequence[Mapping[str, Any]]) -> tuple[str | None, str | None]:
    """The checkpoint and the task of a click, either None; anything unexpected gives (None, None)."""
    for point in points:
        data = point.get("customdata")
        if isinstance(data, list | tuple) and data:
            if data[0] == "cell" and len(data) >= 3:
                return str(data[1]), str(data[2])
            if data[0] == "row" and len(data) >= 2:
                return str(data[1]), None
    return None, None


def _layout(rows: ScoreRows, y: np.ndarray, samples: int, dark: bool) -> dict[str, Any]:
    colours, tasks = ink(dark), rows.scores.shape[1]
    scored = rows.scored
    labels = [f"{round(m * n)}/{n}" if samples == 1 else f"{m:.3f}" for m, n in zip(rows.means, scored, strict=True)]
    span = [float(np.nanmin(rows.low)) - 0.02, float(np.nanmax(rows.high)) + 0.02]
    down = {"range": [y[-1] + 0.55, -0.55], "tickvals": list(y), "showgrid": False, "fixedrange": True}
    dense = len(rows.names) > DENSE
    text = {"tickfont": {"color": colours.text, "size": 10 if dense else 12}}
    return {
        "template": figure_template(dark),
        "height": int((DENSE_ROW if dense else ROW) * (y[-1] + 1.1)) + 66,
        "margin": {"l": 8, "r": 8, "t": 22, "b": 44},
        "xaxis": {
            "domain": [0, 0.73],
            "range": [-0.6, tasks * 1.05],
            "showticklabels": False,
            "showgrid": False,
            "fixedrange": True,
        },
        "yaxis": {**down, **text, "ticktext": list(rows.names)},
        "xaxis2": {
            "domain": [0.765, 1],
            "range": span,
            "nticks": 5,
            "tickformat": ".0%",
            "fixedrange": True,
            "title": {"text": "mean score, 95 % interval"},
        },
        "yaxis2": {**down, **text, "ticktext": labels, "side": "right", "anchor": "x2"},
    }


def _cells(scores: np.ndarray, has_base: bool, samples: int, colours: Ink) -> list[go.Heatmap]:
    """The scores and, where some are missing, grey cells in their place."""
    rows = len(scores)
    edges = list(np.arange(rows + 1) - 0.5)
    z, missing = scores, np.where(np.isnan(scores), 0.0, np.nan)
    if has_base:
        edges = [*edges[:-1], edges[-2] + GAP, edges[-2] + GAP + 1]
        apart = np.full((1, scores.shape[1]), np.nan)
        z, missing = (np.vstack([one[:-1], apart, one[-1:]]) for one in (z, missing))
    where = {
        "x": np.arange(scores.shape[1] + 1) - 0.5,
        "y": edges,
        "xgap": 1 if scores.shape[1] <= 200 else 0,
        "ygap": 2 if rows <= 60 else 0,
        "hoverinfo": "skip",
    }
    cells = [go.Heatmap(z=z, zmin=0, zmax=1, colorscale=CIVIDIS, colorbar=_key(samples, colours), **where)]
    if np.isnan(scores).any():
        grey = [[0, colours.missing], [1, colours.missing]]
        cells.append(go.Heatmap(z=missing, zmin=0, zmax=1, colorscale=grey, showscale=False, **where))
    return cells


def _key(samples: int, colours: Ink) -> dict[str, Any]:
    return {
        "orientation": "h",
        "len": 0.16,
        "thickness": 8,
        "x": 0.0,
        "xanchor": "left",
        "xpad": 0,
        "y": 0,
        "yanchor": "top",
        "ypad": 9,
        "outlinewidth": 0,
        "tickvals": [0.03, 0.97] if samples == 1 else [0, 0.5, 1],
        "ticktext": ["failed", "solved"] if samples == 1 else ["0", "0.5", "1"],
        "tickfont": {"color": colours.muted, "size": 11},
    }


def _targets(rows: ScoreRows, scores: np.ndarray, names: list[str], y: np.ndarray) -> go.Scatter:
    """Invisible points over the cells: a heatmap itself reports no clicks."""
    down, across = (one.ravel() for one in np.indices(scores.shape))
    said = ["no score" if np.isnan(value) else f"{value:.3g}" for value in scores.ravel()]
    return go.Scatter(
        x=across,
        y=y[down],
        mode="markers",
        marker={"size": 14, "symbol": "square", "opacity": 0},
        customdata=[["cell", rows.names[d], names[a], s] for d, a, s in zip(down, across, said, strict=True)],
        hovertemplate="%{customdata[1]} on %{customdata[2]}<br>score %{customdata[3]}<extra></extra>",
        selected={"marker": {"opacity": 0}},
        unselected={"marker": {"opacity": 0}},
    )


def _means(rows: ScoreRows, y: np.ndarray, picks: Mapping[str, int], colours: Ink) -> go.Scatter:
    base_at = len(rows.names) - 1 if rows.has_base else -1
    colour = [colours.gain if name in picks else colours.muted for name in rows.names]
    symbol = ["circle-open" if row == base_at else "circle" for row in range(len(rows.names))]
    return go.Scatter(
        x=rows.means,
        y=y,
        xaxis="x2",
        yaxis="y2",
        mode="markers",
        marker={"size": 9, "color": colour, "symbol": symbol, "line": {"width": 1.5, "color": colour}},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": rows.high - rows.means,
            "arrayminus": rows.means - rows.low,
            "thickness": 1.4,
            "width": 0,
            "color": colours.muted,
        },
        customdata=[["row", name, low, high] for name, low, high in zip(rows.names, rows.low, rows.high, strict=True)],
        hovertemplate="%{customdata[1]}<br>mean %{x:.3f}, 95 % interval %{customdata[2]:.3f} to %{customdata[3]:.3f}"
        "<extra></extra>",
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 1}},
    )


def _badges(y: np.ndarray, picked: Sequence[tuple[int, int]], tasks: int, colours: Ink) -> go.Scatter:
    """The place in pick order beside each picked row; `picked` holds (row, place)."""
    dense = len(y) > DENSE
    return go.Scatter(
        x=[tasks * 1.028] * len(picked),
        y=[y[row] for row, _ in picked],
        mode="markers+text",
        text=[str(place) for _, place in picked],
        textfont={"color": colours.surface, "size": 9 if dense else 11},
        marker={"size": 12 if dense else 17, "color": colours.rule},
        cliponaxis=False,
        hovertemplate="pick %{text}<extra></extra>",
    )


def _outline(y: float, tasks: int, colours: Ink) -> dict[str, Any]:
    line = {"color": colours.rule, "width": 2}
    return {"type": "rect", "x0": -0.5, "x1": tasks - 0.5, "y0": y - 0.48, "y1": y + 0.48, "line": line}


def _column(at: int, y: np.ndarray, colours: Ink) -> dict[str, Any]:
    line = {"color": colours.loss, "width": 2}
    return {"type": "rect", "x0": at - 0.5, "x1": at + 0.5, "y0": -0.5, "y1": y[-1] + 0.5, "line": line}


def _band(band: Band, y: np.ndarray, colours: Ink) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": "x2",
        "yref": "y2",
        "x0": band.low,
        "x1": band.high,
        "y0": -0.55,
        "y1": y[-1] + 0.55,
        "fillcolor": colours.band,
        "line": {"width": 0},
        "layer": "below",
    }


def _name_band(figure: go.Figure, band: Band, colours: Ink) -> None:
    figure.add_annotation(
        x=(band.low + band.high) / 2,
        xref="x2",
        y=1,
        yref="paper",
        yanchor="bottom",
        text=f"noise of {band.checkpoint}",
        showarrow=False,
        font={"color": colours.muted, "size": 11},
    )


def coverage_bars(found: Coverage, *, dark: bool) -> go.Figure:
    """Tasks by the number of checkpoints that solve them, from none to all."""
    colours = ink(dark)
    counts = found.tasks_by_solvers
    x = list(range(len(counts)))
    colour = [colours.loss, *[colours.muted] * (len(counts) - 2), colours.gain]
    names = ["none", *map(str, x[1:-1]), "all"]
    figure = go.Figure(
        go.Bar(
            x=x,
            y=counts,
            marker={"color": colour[: len(counts)]},
            text=[str(one) if one and len(counts) <= 24 else "" for one in counts],
            textposition="outside",
            cliponaxis=False,
            customdata=names,
            hovertemplate="solved by %{customdata}: %{y} tasks<extra></extra>",
        )
    )
    shown = x if len(x) <= 24 else [0, *np.linspace(1, len(x) - 2, 10).astype(int).tolist(), len(x) - 1]
    figure.update_layout(
        template=figure_template(dark),
        height=190,
        margin={"l": 8, "r": 8, "t": 20, "b": 8},
        bargap=0.25,
        xaxis={
            "tickvals": shown,
            "ticktext": [names[one] for one in shown],
            "title": {"text": "solved by this many checkpoints"},
            "fixedrange": True,
        },
        yaxis={"title": {"text": "tasks"}, "nticks": 4, "fixedrange": True},
    )
    return figure


def score_table(rows: ScoreRows, picks: Mapping[str, int], samples: int) -> pd.DataFrame:
    """The means beside the heatmap, as a table."""
    return pd.DataFrame(
        {
            "checkpoint": rows.names,
            "pick": [str(picks[name]) if name in picks else "" for name in rows.names],
            "mean score": np.round(rows.means, 4),
            "solved": [f"{m * n:.4g} of {n}" for m, n in zip(rows.means, rows.scored, strict=True)],
            "95 % low": np.round(rows.low, 4),
            "95 % high": np.round(rows.high, 4),
            "samples a task": samples,
            "missing": np.isnan(rows.scores).sum(axis=1),
        }
    )
