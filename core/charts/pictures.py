"""Small pictures as SVG in a data address: the name of the tool, and a recipe's weights as bars.

Takes plain values; gives text that goes where an image's address goes. Knows nothing about screens.
"""

import base64
from collections.abc import Sequence

from core.charts.theme import ink

MAX_BARS = 12
HEIGHT, BAR, SPACE = 14, 4, 2


def svg_address(svg: str) -> str:
    """The picture itself as an address."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def weights_picture(weights: Sequence[float], colour: str) -> str:
    """Bars for the weights in pick order, the largest at full height; at most MAX_BARS of them."""
    shown = list(weights)[:MAX_BARS]
    top = max(shown, default=0.0) or 1.0
    heights = [max(round(HEIGHT * one / top, 1), 1.0) for one in shown]
    bars = "".join(
        f'<rect x="{at * (BAR + SPACE)}" y="{HEIGHT - height:g}" width="{BAR}" height="{height:g}" fill="{colour}"/>'
        for at, height in enumerate(heights)
    )
    width = max(len(shown) * (BAR + SPACE) - SPACE, BAR)
    return svg_address(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" '
        f'viewBox="0 0 {width} {HEIGHT}">{bars}</svg>'
    )


def wordmark(dark: bool) -> str:
    """The name as a picture: several lines that become one."""
    colours = ink(dark)
    return svg_address(
        '<svg xmlns="http://www.w3.org/2000/svg" width="152" height="28" viewBox="0 0 152 28" role="img">'
        f'<g fill="none" stroke="{colours.gain}" stroke-width="2.6" stroke-linecap="round">'
        '<path d="M3 5 C12 5 12 14 24 14"/><path d="M3 14 H24"/><path d="M3 23 C12 23 12 14 24 14"/></g>'
        f'<circle cx="25" cy="14" r="3.4" fill="{colours.gain}"/>'
        '<text x="36" y="19.5" font-family="Source Sans Pro, Segoe UI, Helvetica, Arial, sans-serif" font-size="18" '
        f'font-weight="600" fill="{colours.text}">Mergescope</text></svg>'
    )
