"""Numbers as people say them: seconds, bytes and parameters in few digits.

Takes numbers; gives text for the shell and the pages alike.
"""


def duration(seconds: float) -> str:
    """Seconds as people say them: `0.4 s`, `8 s`, `3 min`, `2.5 h`."""
    if seconds < 1:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def file_size(count: float) -> str:
    """Bytes in powers of ten: `3.4 MB`."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5 or unit == "TB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.3g} {unit}"


def amount(count: float) -> str:
    """Parameters as people say them: `451 thousand`, `1.2 M`, `8.2 B`."""
    for divisor, unit in ((1e9, " B"), (1e6, " M"), (1e3, " thousand")):
        if count >= divisor:
            return f"{count / divisor:.3g}{unit}"
    return f"{count:,.0f}"


def percent(share: float, places: int = 1) -> str:
    """A share as people say it: `19.3 %`."""
    return f"{100 * share:.{places}f} %"
