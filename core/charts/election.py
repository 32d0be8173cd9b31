"""How the members of a merge voted: parameters that none, one or several of them changed.

Takes the merge report as a table, a row a tensor; gives shares and a figure. Knows nothing about runs.
"""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from core.charts.rounding import module_columns
from core.charts.theme import BLUE, ORANGE, VERMILLION, figure_template, ink

VOTES = ("no member", "one member only", "several, agreed", "several, contested")
"""What the members of a merge may have done to a parameter."""


def election_shares(report: pd.DataFrame) -> pd.DataFrame:
    """Per cent of parameters by how the members voted: all tensors, then each module type.

    Columns are `VOTES`, the index says which tensors; every row sums to 100.
    """
    kinds = report["module"].where(report["layer"] >= 0, "other tensors")
    order = [*module_columns(report), *(["other tensors"] if (report["layer"] < 0).any() else [])]
    counts = pd.DataFrame(
        {
            VOTES[0]: report["members_changed_0"],
            VOTES[1]: report["members_changed_1"],
            VOTES[2]: report["members_changed_2plus"] - report["contested"],
            VOTES[3]: report["contested"],
        }
    ).astype(np.float64)
    rows = pd.concat([counts.sum().to_frame("all tensors").T, counts.groupby(kinds).sum().loc[order]])
    return 100 * rows.div(rows.sum(axis=1).clip(lower=1), axis=0)


def election_bars(shares: pd.DataFrame, *, dark: bool) -> go.Figure:
    """`election_shares` as stacked bars, one a row."""
    colours = ink(dark)
    labels = [f"<b>{one}</b>" if at == 0 else one.rpartition(".")[2] for at, one in enumerate(shares.index)]
    figure = go.Figure()
    overlay = {"fillmode": "overlay", "fgcolor": colours.surface, "size": 6, "solidity": 0.15}
    looks = ((colours.missing, ""), (ORANGE, "/"), (BLUE, ""), (VERMILLION, "x"))
    for vote, (colour, pattern) in zip(VOTES, looks, strict=True):
        values = shares[vote].to_numpy()
        figure.add_trace(
            go.Bar(
                x=values, y=labels, orientation="h", name=vote,
                marker={
                    "color": colour, "line": {"color": colours.surface, "width": 1},
                    "pattern": {"shape": pattern, **overlay},
                },
                hovertemplate="%{y}: " + vote + " %{x:.1f} %<extra></extra>",
            )
        )  # fmt: skip
    figure.update_layout(
        template=figure_template(dark),
        height=22 * len(labels) + 86,
        margin={"l": 8, "r": 16, "t": 34, "b": 8},
        barmode="stack",
        bargap=0.25,
        showlegend=True,
        legend={"x": 0, "y": 1.01, "traceorder": "normal", "itemclick": False, "itemdoubleclick": False},
        xaxis={
            "range": [0, 100],
            "fixedrange": True,
            "title": {"text": "% of parameters, by how many members changed them"},
        },
        yaxis={"autorange": "reversed", "type": "category", "fixedrange": True, "tickfont": {"color": colours.text}},
    )
    return figure


def election_table(shares: pd.DataFrame) -> pd.DataFrame:
    """`election_shares` with its row names as a column, rounded."""
    return shares.round(2).rename_axis("tensors").reset_index()
