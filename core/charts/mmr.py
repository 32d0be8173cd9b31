"""Figures of MMR: one step with its candidates, and the picks for every λ.

Takes traces and intervals; gives figures and tables. Knows nothing about banks or weights.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from core.charts.theme import Ink, figure_template, ink, rule
from core.recipe.mmr import Step

MAX_BARS = 14
"""Candidates shown at one step; the rest are weaker."""
Interval = tuple[float, float, tuple[str, ...]]
"""λ from, λ to, and the picks in order between them."""


def shown_candidates(step: Step) -> np.ndarray:
    """Positions into `step.candidates` in order of score, the pick first, at most MAX_BARS."""
    order = np.argsort(-step.candidates.score, kind="stable")
    pick = int(np.flatnonzero(step.candidates.index == step.index)[0])
    return np.concatenate([[pick], order[order != pick]])[:MAX_BARS].astype(int)


def step_bars(step: Step, names: Sequence[str], *, dark: bool) -> go.Figure:
    """One step of MMR: what counts for each open candidate, what against it, and the sum.

    `names` are all checkpoint ids in bank order. The pick is on top; ties are marked in words.
    """
    colours = ink(dark)
    at = shown_candidates(step)
    found = step.candidates
    labels = [_candidate_label(int(found.index[i]), step, names) for i in at]
    # A negative similarity adds to a candidate, so its bar stands on top of λ·q.
    high = float((found.relevance_term[at] + np.maximum(-found.penalty_term[at], 0)).max())
    low = float(max(found.penalty_term[at].max(), 0.0))
    figure = go.Figure(layout=_step_layout(labels, [f"{one:.4f}" for one in found.score[at]], dark, colours))
    ground = colours.surface
    figure.add_traces(
        [
            _bars(labels, found.relevance_term[at], "λ·q", colour=colours.gain, ground=ground, pattern=""),
            _bars(labels, -found.penalty_term[at], "−(1−λ)·max sim", colour=colours.loss, ground=ground, pattern="/"),
            _sums(labels, found.score[at], colours),
            # A second axis only carries the sums on the right; it needs a trace to be drawn.
            go.Scatter(x=[0], y=[0], yaxis="y2", mode="markers", opacity=0, hoverinfo="skip", showlegend=False),
        ]
    )
    figure.update_xaxes(range=[-low * 1.06 - 0.005, high * 1.06 + 0.005])
    return figure


def _sums(labels: list[str], scores: np.ndarray, colours: Ink) -> go.Scatter:
    return go.Scatter(
        x=scores,
        y=np.arange(len(labels)),
        mode="markers",
        name="sum",
        marker={"symbol": "diamond", "size": 9, "color": colours.text, "line": {"color": colours.surface, "width": 1}},
        customdata=labels,
        hovertemplate="%{customdata}: score %{x:.4f}<extra></extra>",
    )


def _candidate_label(index: int, step: Step, names: Sequence[str]) -> str:
    if index == step.index:
        return f"<b>{names[index]}</b> {'pinned' if step.pinned else 'picked'}"
    return f"{names[index]} tie" if index in step.ties else names[index]


def _bars(labels: list[str], values: np.ndarray, name: str, *, colour: str, ground: str, pattern: str) -> go.Bar:
    return go.Bar(
        x=values,
        y=np.arange(len(labels)),
        orientation="h",
        name=name,
        customdata=labels,
        marker={
            "color": colour,
            "pattern": {"shape": pattern, "fgcolor": ground, "size": 6, "solidity": 0.22, "fillmode": "overlay"},
        },
        hovertemplate="%{customdata}: " + name + " = %{x:.4f}<extra></extra>",
    )


def _step_layout(labels: list[str], sums: list[str], dark: bool, colours: Ink) -> dict[str, Any]:
    rows = {
        "range": [len(labels) - 0.4, -0.6],
        "tickvals": list(range(len(labels))),
        "tickfont": {"color": colours.text},
        "showgrid": False,
        "fixedrange": True,
    }
    return {
        "template": figure_template(dark),
        "height": 24 * len(labels) + 92,
        "margin": {"l": 8, "r": 8, "t": 30, "b": 8},
        "barmode": "relative",
        "bargap": 0.35,
        "showlegend": True,
        "legend": {
            "x": 0,
            "xref": "container",
            "y": 1.0,
            "yref": "container",
            "yanchor": "top",
            "traceorder": "normal",
            "itemclick": False,
            "itemdoubleclick": False,
        },
        "xaxis": {
            "title": {"text": "for and against, in units of the score; right: their sum"},
            "zeroline": True,
            "zerolinecolor": colours.axis,
            "fixedrange": True,
            "nticks": 6,
        },
        "yaxis": {**rows, "ticktext": labels},
        "yaxis2": {**rows, "ticktext": sums, "overlaying": "y", "side": "right"},
    }


def step_table(step: Step, names: Sequence[str]) -> pd.DataFrame:
    """Every candidate of one step, best first."""
    order = np.argsort(-step.candidates.score, kind="stable")
    found = step.candidates
    nearest = [names[int(i)] if i >= 0 else "" for i in found.most_similar[order]]
    return pd.DataFrame(
        {
            "candidate": [names[int(i)] for i in found.index[order]],
            "λ·q": np.round(found.relevance_term[order], 6),
            "max similarity": np.round(found.max_similarity[order], 6),
            "to": nearest,
            "(1−λ)·max sim": np.round(found.penalty_term[order], 6),
            "score": np.round(found.score[order], 6),
        }
    )


def picks_against_lambda(intervals: Sequence[Interval], names: Sequence[str], lam: float, *, dark: bool) -> go.Figure:
    """Which checkpoints are picked at every λ, with the place of each, and a rule at the present λ.

    `intervals` are consecutive and cover [0, 1]; `names` are all checkpoint ids in bank order.
    """
    colours = ink(dark)
    ever = {name for _, _, picks in intervals for name in picks}
    rows = [name for name in names if name in ever]
    places = max(len(picks) for _, _, picks in intervals)
    figure = go.Figure(layout=_strip_layout(rows, intervals, dark, colours))
    for place in range(1, places + 1):
        figure.add_trace(_place_bars(_runs(intervals, place), place, places, dark, colours))
    rule(figure, lam, f"λ {lam:g}", colours)
    return figure


def _runs(intervals: Sequence[Interval], place: int) -> list[tuple[float, float, str]]:
    """Stretches of λ over which one place in pick order stays with one checkpoint."""
    runs: list[tuple[float, float, str]] = []
    for low, high, picks in intervals:
        if len(picks) < place:
            continue
        name = picks[place - 1]
        if runs and runs[-1][2] == name and math.isclose(runs[-1][1], low, abs_tol=1e-12):
            runs[-1] = (runs[-1][0], high, name)
        else:
            runs.append((low, high, name))
    return runs


def _place_bars(runs: list[tuple[float, float, str]], place: int, places: int, dark: bool, colours: Ink) -> go.Bar:
    """All stretches of one place; earlier places are drawn stronger, and the place is written inside."""
    strength = 1.0 - 0.62 * (place - 1) / max(places - 1, 1)
    light_text = (strength > 0.6) != dark
    return go.Bar(
        x=[high - low for low, high, _ in runs],
        base=[low for low, _, _ in runs],
        y=[name for _, _, name in runs],
        orientation="h",
        marker={
            "color": _blend(colours.gain, colours.surface, strength),
            "line": {"color": colours.surface, "width": 1},
        },
        text=[str(place) if high - low > 0.018 else "" for low, high, _ in runs],
        textposition="inside",
        insidetextanchor="middle",
        textangle=0,
        textfont={
            "color": "#FFFFFF" if light_text else ("#14181F" if dark and strength > 0.6 else colours.text),
            "size": 11,
        },
        customdata=[[place, low, high] for low, high, _ in runs],
        hovertemplate="%{y} is pick %{customdata[0]} for λ from %{customdata[1]:.4f} to %{customdata[2]:.4f}"
        "<extra></extra>",
    )


def _blend(front: str, back: str, share: float) -> str:
    """A colour between two, `share` of it the front one."""
    mixed = (round(int(front[i : i + 2], 16) * share + int(back[i : i + 2], 16) * (1 - share)) for i in (1, 3, 5))
    return "#" + "".join(f"{one:02X}" for one in mixed)


def switch_points(intervals: Sequence[Interval]) -> list[float]:
    """Every λ strictly inside (0, 1) at which the picks or their order change."""
    return [low for low, _, _ in intervals[1:]]


def _strip_layout(rows: list[str], intervals: Sequence[Interval], dark: bool, colours: Ink) -> dict[str, Any]:
    ticks = _spaced([0.0, *switch_points(intervals), 1.0], 0.045)
    return {
        "template": figure_template(dark),
        "height": (22 if len(rows) <= 40 else 12) * len(rows) + 66,
        "margin": {"l": 8, "r": 10, "t": 20, "b": 8},
        "barmode": "overlay",
        "bargap": 0.18,
        "xaxis": {
            "range": [0, 1],
            "tickvals": ticks,
            "ticktext": [f"{one:.3f}".rstrip("0").rstrip(".") if one else "0" for one in ticks],
            "title": {"text": "λ: 0 is diversity alone, 1 is score alone; ticks are the exact switch points"},
            "fixedrange": True,
        },
        "yaxis": {
            "categoryorder": "array",
            "categoryarray": rows[::-1],
            "type": "category",
            "fixedrange": True,
            "showgrid": False,
            "tickfont": {"color": colours.text, "size": 12 if len(rows) <= 40 else 10},
        },
    }


def _spaced(values: Sequence[float], apart: float) -> list[float]:
    """The values, without those too near to an earlier one or to the last to be labelled."""
    kept: list[float] = []
    for value in values[:-1]:
        if not kept or (value - kept[-1] >= apart and values[-1] - value >= apart):
            kept.append(value)
    return [*kept, values[-1]]


def strip_table(intervals: Sequence[Interval]) -> pd.DataFrame:
    """Picks in order for each stretch of λ."""
    return pd.DataFrame(
        {
            "λ from": [low for low, _, _ in intervals],
            "λ to": [high for _, high, _ in intervals],
            "picks in order": [" ".join(picks) for _, _, picks in intervals],
        }
    )
