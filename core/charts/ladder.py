"""The ladder's chart, table and words: a recipe's merge against every baseline, as one family.

Takes the result of a `ladder` job, plain JSON values; gives figures, tables and sentences. Reads no files.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd
import plotly.graph_objects as go

from core.charts.theme import GREY, figure_template, ink
from core.stats.sentence import number, p_text

ROW, HEAD, FOOT = 26, 12, 52
GROUPS = {"null": "baseline", "ablation": "ablation"}
SYMBOLS = {"null": "circle", "ablation": "square"}


class Rival(NamedTuple):
    """One rung against the recipe's merge; differences are merge − rung, in tasks."""

    name: str
    title: str
    group: str
    why: str
    tasks: float
    """Solved by the rung: its mean times the number of tasks."""
    difference: float
    low: float
    high: float
    p_value: float
    p_adjusted: float
    verdict: str


def rivals(result: Mapping[str, Any], split: str) -> list[Rival]:
    """The rungs on a split, the strongest first; those that repeat another are left out."""
    rungs = {one["name"]: one for one in result["rungs"]}
    found = []
    for one in result["families"][split]["members"]:
        rung, own = rungs[one["rival"]], one["comparison"]
        n = own["n"]
        low, high = own["interval"]
        found.append(
            Rival(
                rung["name"], title_of(rung), rung["group"], rung["why"], n * result["means"][split][rung["name"]],
                n * own["difference"], n * low, n * high, one["p_value"], one["p_adjusted"], one["verdict"],
            )
        )  # fmt: skip
    return sorted(found, key=lambda one: (one.difference, one.name))


def title_of(rung: Mapping[str, Any]) -> str:
    """A rung's title, with its seed where it was drawn by chance, and its checkpoint where it is one."""
    if rung["seed"] is not None:
        return f"{rung['title']}, seed {rung['seed']}"
    return f"{rung['title']}, {rung['model']}" if rung["model"] and rung["name"] != "base" else str(rung["title"])


def headline(result: Mapping[str, Any], split: str) -> str:
    """How many of the family hold, in one sentence."""
    members = result["families"][split]["members"]
    counts = {name: sum(one["verdict"] == name for one in members) for name in ("better", "worse", "unresolved")}
    n = members[0]["comparison"]["n"]
    solved = number(n * result["means"][split]["recipe"])
    return (
        f"On {split} the merge solves {solved} of {n} tasks: better than {counts['better']} of {len(members)} rivals, "
        f"worse than {counts['worse']}, and not told from {counts['unresolved']}."
    )


def sentence(one: Rival) -> str:
    """One rival in words."""
    moved = f"{number(abs(one.difference))} {'more' if one.difference > 0 else 'fewer'} tasks than"
    told = "as many tasks as" if abs(one.difference) < 1e-9 else moved
    return (
        f"The merge solves {told} {one.title} (95 % interval {signed(one.low)} to {signed(one.high)} on its own, p "
        f"{p_text(one.p_value)}; among all, p {p_text(one.p_adjusted)}): {one.verdict}."
    )


def signed(tasks: float) -> str:
    """A difference in tasks, with its sign: `+3`, `−2.5`, `0`."""
    return f"{'+' if tasks > 0 else '−' if tasks < 0 else ''}{number(abs(tasks))}"


def noise_of(result: Mapping[str, Any], split: str) -> float | None:
    """Half-width in tasks of what two runs of one model differ by, where the bank knows it."""
    first = result["families"][split]["members"][0]["comparison"]
    return None if first["noise_half_width"] is None else float(first["noise_half_width"] * first["n"])


def ladder_chart(found: list[Rival], noise: float | None = None, *, dark: bool) -> go.Figure:
    """Merge − rung in tasks with 95 % intervals; hollow and grey where it cannot be told from nothing.

    The band is `noise`: what two runs of one model differ by.
    """
    colours = ink(dark)
    rows = [one.title for one in found]
    low, high = min(-1.0, *(one.low for one in found)), max(1.0, *(one.high for one in found))
    room = 0.06 * (high - low)
    figure = go.Figure(
        layout={
            "template": figure_template(dark),
            "height": HEAD + FOOT + ROW * len(rows),
            "margin": {"l": 8, "r": 8, "t": HEAD, "b": FOOT},
            "xaxis": {
                "range": [low - room, high + room], "fixedrange": True,
                "title": {"text": "merge − rival, tasks (95 %)"},
            },
            "yaxis": {
                "range": [len(rows) - 0.5, -0.5], "fixedrange": True, "tickvals": list(range(len(rows))),
                "ticktext": rows, "tickfont": {"color": colours.text},
            },
        }
    )  # fmt: skip
    if noise:
        figure.add_shape(
            type="rect", x0=-noise, x1=noise, yref="paper", y0=0, y1=1, fillcolor=colours.band, line={"width": 0},
            layer="below",
        )  # fmt: skip
    figure.add_shape(type="line", x0=0, x1=0, yref="paper", y0=0, y1=1, line={"color": colours.rule, "width": 1})
    figure.add_traces([_mark(one, at, dark=dark) for at, one in enumerate(found)])
    return figure


def _mark(one: Rival, at: int, *, dark: bool) -> go.Scatter:
    colours, unresolved = ink(dark), one.verdict == "unresolved"
    colour = GREY if unresolved else colours.gain if one.verdict == "better" else colours.loss
    return go.Scatter(
        x=[one.difference], y=[at], mode="markers", customdata=[[one.name]],
        marker={
            "symbol": SYMBOLS[one.group], "size": 11, "color": colours.surface if unresolved else colour,
            "line": {"width": 2, "color": colour},
        },
        error_x={
            "type": "data", "symmetric": False, "array": [one.high - one.difference],
            "arrayminus": [one.difference - one.low], "thickness": 2, "width": 0, "color": colour,
        },
        hovertemplate=f"{sentence(one)}<br>{one.why}<extra></extra>",
    )  # fmt: skip


def ladder_table(found: list[Rival]) -> pd.DataFrame:
    """A row a rival."""
    return pd.DataFrame(
        [
            [
                one.title, GROUPS[one.group], round(one.tasks, 1), round(one.difference, 1),
                f"{signed(one.low)} to {signed(one.high)}", p_text(one.p_value).removeprefix("= "),
                p_text(one.p_adjusted).removeprefix("= "), one.verdict, one.why,
            ]
            for one in found
        ],
        columns=[
            "rival", "kind", "tasks solved", "merge − rival", "95 % interval", "p", "p adjusted (Holm)", "verdict",
            "what it asks",
        ],
    )  # fmt: skip


def alt(result: Mapping[str, Any], split: str, found: list[Rival]) -> str:
    """The chart in words."""
    return f"{headline(result, split)} Strongest rival: {sentence(found[0])}" if found else headline(result, split)
