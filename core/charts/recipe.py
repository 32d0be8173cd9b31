"""Figures of a recipe's weights: as they are, and for every τ.

Takes relevances and weights; gives figures and tables. Knows nothing about banks.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from core.charts.theme import DASHES, categories, figure_template, ink, rule
from core.recipe.weights import effective_members, softmax_weights

MAX_LABELS = 8
"""Lines that are named in the τ chart; the rest are named when pointed at."""
MAX_ROWS = 30
"""Bars of weights that are drawn."""
TAUS = np.geomspace(0.001, 1.0, 121)


def weight_bars(weights: Mapping[str, float], *, dark: bool) -> go.Figure:
    """The merge weight of each pick, in pick order; at most MAX_ROWS of them."""
    colours = ink(dark)
    names = list(weights)[:MAX_ROWS]
    values = np.array([weights[name] for name in names])
    figure = go.Figure(
        go.Bar(
            x=values,
            y=[f"{place}.  {name}" for place, name in enumerate(names, start=1)],
            orientation="h",
            marker={"color": colours.gain},
            text=[weight_text(value) for value in values],
            textposition="outside",
            textfont={"color": colours.text},
            cliponaxis=False,
            hovertemplate="%{y}: weight %{x:.5f}<extra></extra>",
        )
    )
    figure.update_layout(
        template=figure_template(dark),
        height=26 * len(names) + 46,
        margin={"l": 8, "r": 40, "t": 4, "b": 8},
        bargap=0.3,
        xaxis={
            "range": [0, max(values.max() * 1.02, 0.01)],
            "title": {"text": _weights_title(len(weights))},
            "fixedrange": True,
        },
        yaxis={"autorange": "reversed", "fixedrange": True, "tickfont": {"color": colours.text}, "type": "category"},
    )
    return figure


def _weights_title(picks: int) -> str:
    return "weight, sum 1" if picks <= MAX_ROWS else f"weight, sum 1; the first {MAX_ROWS} of {picks}"


def weight_table(weights: Mapping[str, float], relevance: Mapping[str, float]) -> pd.DataFrame:
    """Every pick with its q and weight, in pick order."""
    return pd.DataFrame(
        {
            "order": range(1, len(weights) + 1),
            "checkpoint": list(weights),
            "q": [round(relevance[name], 6) for name in weights],
            "weight": [round(one, 6) for one in weights.values()],
        }
    )


def weight_text(value: float) -> str:
    """A weight to three places, or its order of magnitude where that would read 0."""
    return f"{value:.3f}" if value >= 0.0005 else f"{value:.0e}"


def weights_against_tau(relevance: Mapping[str, float], tau: float, *, dark: bool) -> go.Figure:
    """Each pick's weight for every τ, with a rule at the present τ and the effective members below.

    `relevance` maps each pick to its q, in pick order. Picks of equal q share a line.
    """
    colours = ink(dark)
    names = list(relevance)
    q = np.array([relevance[name] for name in names])
    curves = np.array([softmax_weights(q, one) for one in TAUS])
    figure = go.Figure(layout=_tau_layout(len(names), dark))
    for at, (value, group) in enumerate(_by_value(relevance).items()):
        column = names.index(group[0])
        colour = categories(dark)[at % len(categories(dark))]
        label = ", ".join(group)
        figure.add_trace(_tau_line(curves[:, column], label, value, colour, DASHES[at % len(DASHES)]))
    now = softmax_weights(q, tau)
    groups = _by_value(relevance)
    present = [float(now[names.index(group[0])]) for group in groups.values()]
    _label_ends(figure, _end_labels(groups, present), weights_when_flat(groups), dark)
    members = [effective_members(one) for one in curves]
    figure.add_trace(
        go.Scatter(
            x=TAUS,
            y=members,
            yaxis="y2",
            mode="lines",
            line={"color": colours.text, "width": 2},
            hovertemplate="τ %{x:.3g}: %{y:.2f} effective members<extra></extra>",
        )
    )
    rule(figure, min(max(tau, TAUS[0]), TAUS[-1]), f"τ {tau:g}", colours)
    return figure


def _by_value(relevance: Mapping[str, float]) -> dict[float, list[str]]:
    """Picks grouped by q, the highest first: equal q have equal weights at every τ."""
    groups: dict[float, list[str]] = {}
    for name, value in sorted(relevance.items(), key=lambda item: -item[1]):
        groups.setdefault(round(value, 12), []).append(name)
    return groups


def _tau_line(weights: np.ndarray, label: str, value: float, colour: str, dash: str) -> go.Scatter:
    return go.Scatter(
        x=TAUS,
        y=weights,
        mode="lines",
        name=label,
        line={"color": colour, "width": 2.5, "dash": dash},
        hovertemplate=f"{label} (q {value:.3f})<br>τ " + "%{x:.3g}: weight %{y:.4f}<extra></extra>",
    )


def _label_ends(figure: go.Figure, labels: Sequence[str], ends: Sequence[float], dark: bool) -> None:
    """Write the labels at the lines' right ends, moved apart where ends meet."""
    step = min(0.13, 1.0 / max(len(labels), 1))
    span = step * (len(labels) - 1)
    top = min(max(max(ends) + span / 2, span), 1.0)
    for at, label in enumerate(labels):
        figure.add_annotation(
            x=1,
            xref="paper",
            xanchor="left",
            xshift=6,
            y=top - at * step,
            text=label,
            showarrow=False,
            align="left",
            font={"size": 12, "color": categories(dark)[at % len(categories(dark))]},
        )
    figure.update_layout(margin={"r": 16 + 7 * max(map(len, labels))})


def _end_labels(groups: Mapping[float, list[str]], weights: Sequence[float]) -> list[str]:
    """Name and present weight of each line, the heaviest first, at most MAX_LABELS of them."""
    named = [
        f"{group[0] if len(group) == 1 else ', '.join(group) if len(group) == 2 else f'{len(group)} picks'}  "
        f"{weight_text(weight)}"
        for group, weight in zip(groups.values(), weights, strict=True)
    ]
    return named[:MAX_LABELS]


def weights_when_flat(groups: Mapping[float, list[str]]) -> list[float]:
    """Where the lines end on the right: the weights at the largest τ that is drawn."""
    q = np.array([value for value, group in groups.items() for _ in group])
    return [float(one) for one in softmax_weights(q, float(TAUS[-1]))]


def _tau_layout(picks: int, dark: bool) -> dict[str, Any]:
    return {
        "template": figure_template(dark),
        "height": 310,
        "margin": {"l": 8, "r": 84, "t": 20, "b": 8},
        "xaxis": {
            "type": "log",
            "range": [math.log10(TAUS[0]), math.log10(TAUS[-1])],
            "tickvals": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1],
            "title": {"text": "τ, in units of the score (log)"},
            "fixedrange": True,
            "anchor": "y2",
        },
        "yaxis": {
            "domain": [0.36, 1],
            "range": [-0.03, 1.03],
            "title": {"text": "weight"},
            "fixedrange": True,
            "nticks": 5,
        },
        "yaxis2": {
            "domain": [0, 0.26],
            "range": [0.8, picks + 0.3],
            "title": {"text": "effective"},
            "fixedrange": True,
            "nticks": 4,
        },
    }


def tau_table(relevance: Mapping[str, float]) -> pd.DataFrame:
    """Weights and effective members at a few values of τ."""
    taus = [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    rows = [softmax_weights(np.array(list(relevance.values())), one) for one in taus]
    frame = pd.DataFrame(np.round(rows, 5), columns=list(relevance))
    frame.insert(0, "τ", taus)
    frame["effective members"] = [round(effective_members(one), 3) for one in rows]
    return frame
