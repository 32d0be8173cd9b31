"""The one place that knows colours: Okabe-Ito for categories, Cividis for amounts, light and dark.

Gives inks and a plotly template; every figure of the package is built on `figure_template`.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import plotly.graph_objects as go

FONT = '"Source Sans", "Source Sans Pro", "Segoe UI", Helvetica, Arial, sans-serif'
CIVIDIS = "Cividis"

BLUE = "#0072B2"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
ORANGE = "#E69F00"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#8A919C"


@dataclass(frozen=True)
class Ink:
    """The colours of one appearance; text colours pass 4.5:1 on `surface`."""

    text: str
    muted: str
    grid: str
    axis: str
    surface: str
    missing: str
    """Fill of a cell without a score."""
    rule: str
    """Line at the present setting of a knob, and outline of what is picked."""
    gain: str
    """Okabe-Ito blue or sky: what counts for a candidate, and gained tasks."""
    loss: str
    """Okabe-Ito vermillion or orange: what counts against a candidate, and lost tasks."""
    band: str
    """Translucent fill of a noise band."""


LIGHT = Ink(
    text="#1B2430",
    muted="#586272",
    grid="#E6E9EE",
    axis="#B9C0CB",
    surface="#FFFFFF",
    missing="#C9CED6",
    rule="#1B2430",
    gain=BLUE,
    loss=VERMILLION,
    band="rgba(88, 98, 114, 0.14)",
)
DARK = Ink(
    text="#E7EAF0",
    muted="#A4AEBD",
    grid="#2A313C",
    axis="#4B5563",
    surface="#14181F",
    missing="#59626F",
    rule="#F4F6FA",
    gain=SKY,
    loss="#F28E4B",
    band="rgba(164, 174, 189, 0.18)",
)


def ink(dark: bool) -> Ink:
    """The colours of the dark or the light appearance."""
    return DARK if dark else LIGHT


def categories(dark: bool) -> tuple[str, ...]:
    """Eight Okabe-Ito colours, in an order whose neighbours differ in lightness as well as in hue."""
    if dark:
        return (SKY, ORANGE, GREEN, PURPLE, YELLOW, "#3D9BD4", "#F28E4B", "#C5CBD5")
    return (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, "#B8860B", "#1B2430")


DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Line styles to go with `categories`, so that colour never carries meaning alone."""


@cache
def figure_template(dark: bool) -> go.layout.Template:
    """Fonts, grid, margins and hover of every figure, on a transparent ground."""
    colours = ink(dark)
    axis: dict[str, Any] = {
        "gridcolor": colours.grid,
        "linecolor": colours.axis,
        "zerolinecolor": colours.axis,
        "zeroline": False,
        "ticks": "",
        "automargin": True,
        "ticklabelstandoff": 4,
        "tickfont": {"color": colours.muted, "size": 12},
        "title": {"font": {"color": colours.muted, "size": 12}, "standoff": 6},
    }
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 13, "color": colours.text},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "colorway": list(categories(dark)),
            "xaxis": axis,
            "yaxis": axis,
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "hoverlabel": {
                "bgcolor": colours.surface,
                "bordercolor": colours.axis,
                "font": {"family": FONT, "size": 13, "color": colours.text},
                "align": "left",
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": colours.muted, "activecolor": colours.text},
            "hovermode": "closest",
            "dragmode": False,
            "showlegend": False,
            "legend": {"font": {"color": colours.text, "size": 12}, "orientation": "h", "y": 1.0, "yanchor": "bottom"},
            "coloraxis": {"colorscale": CIVIDIS},
            "uniformtext": {"minsize": 9, "mode": "show"},
        }
    )


def rule(figure: go.Figure, x: float, text: str, colours: Ink) -> None:
    """A line at the present setting of a knob, named at its top."""
    figure.add_shape(
        type="line", x0=x, x1=x, yref="paper", y0=0, y1=1, line={"color": colours.rule, "width": 2, "dash": "dot"}
    )
    log = figure.layout.xaxis.type == "log"
    at = math.log10(x) if log else x
    low, high = figure.layout.xaxis.range
    anchor = "left" if at < low + 0.06 * (high - low) else "right" if at > high - 0.06 * (high - low) else "center"
    figure.add_annotation(
        x=at, y=1, yref="paper", yanchor="bottom", xanchor=anchor, text=text, showarrow=False, font={"size": 12}
    )
