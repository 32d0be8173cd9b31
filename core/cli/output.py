"""How the shell speaks: one JSON object or a readable table on stdout, everything else on stderr.

Takes plain values; knows nothing about commands.
"""

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.progress import Progress, no_progress


def emit(value: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; numbers that JSON does not have become null."""
    print(json.dumps(finite(value), ensure_ascii=False, indent=2, allow_nan=False))


def finite(value: Any) -> Any:
    """The value with NaN and infinities replaced by None, and tuples by lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return value


def table(rows: Sequence[Sequence[Any]], head: Sequence[str]) -> str:
    """Columns aligned for reading: numbers to the right, everything else to the left."""
    texts = [[cell(one) for one in row] for row in rows]
    widths = [max(len(line[at]) for line in [list(head), *texts]) for at in range(len(head))]
    right = [bool(rows) and all(_is_number(row[at]) for row in rows) for at in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            one.rjust(width) if is_right else one.ljust(width)
            for one, width, is_right in zip(cells, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join(line(one) for one in [list(head), *texts])


def cell(value: Any) -> str:
    """One value as people read it: four decimals, `-` for none, thousands apart."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) >= 1e-3 or value == 0 else f"{value:.3g}"
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "-"
    return str(value)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def note(text: str) -> None:
    """One line on stderr."""
    print(text, file=sys.stderr)


@contextlib.contextmanager
def only_ours_on_stdout() -> Iterator[None]:
    """While it lasts, whatever libraries print goes to stderr, also from native code."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:
        kept = None
    try:
        if kept is not None:
            os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


@contextlib.contextmanager
def progress_line(name: str) -> Iterator[Progress]:
    """A progress function that keeps one line on stderr up to date; silent unless that is a terminal."""
    if not sys.stderr.isatty():
        yield no_progress
        return
    shown = [0.0]

    def progress(stage: str, done: float, total: float, unit: str) -> None:
        now = time.monotonic()
        if now - shown[0] < 0.1 and done < total:
            return
        shown[0] = now
        share = f"{100 * done / total:3.0f} %  {done:,.0f} of {total:,.0f} {unit}" if total > 0 else ""
        print(f"\r\x1b[K{name}: {stage} {share}", end="", file=sys.stderr, flush=True)

    try:
        yield progress
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
