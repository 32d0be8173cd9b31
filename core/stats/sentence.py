"""The verdict of a comparison in plain words: what, by how much, how sure, what would settle it.

Takes the facts of a `Comparison`; gives one or two sentences.
"""

from typing import Any


def number(value: float) -> str:
    """A count of tasks: whole where it is whole, else with one decimal (two below 0.1)."""
    if abs(value - round(value)) < 1e-9:
        return f"{round(value)}"
    return f"{value:.1f}" if abs(value) >= 0.095 else f"{value:.2f}"


def points(value: float, signed: bool = True) -> str:
    """A share as percentage points without unit: `+3.5`, `-4`, `0`."""
    text = f"{100 * value:.1f}".removesuffix(".0")
    if text in ("0", "-0"):
        return "0"
    return f"+{text}" if signed and value > 0 else text


def p_text(p: float) -> str:
    """`= 0.69`, `= 0.004`, `< 0.001`."""
    if p < 0.001:
        return "< 0.001"
    # Never rounded across the level: 0.0501 must not read 0.05.
    digits = 2 if p >= 0.1 else 3
    return f"= {p:.{digits}f}"


def sentence_of(names: tuple[str, str], **facts: Any) -> str:
    """The sentence for facts named as the fields of `Comparison`."""
    first, second = names
    n, difference, verdict = facts["n"], facts["difference"], facts["verdict"]
    moved = f"{number(abs(difference) * n)} {'more' if difference > 0 else 'fewer'} of {n} tasks than {first}"
    if abs(difference) * n < 1e-9:
        moved = f"as many of {n} tasks as {first}"
    samples = facts["samples_a"], facts["samples_b"]
    if samples[0] != samples[1]:
        moved += f", as means over {number(samples[1])} against {number(samples[0])} samples"
    elif samples[0] > 1:
        moved += f", as means over {number(samples[0])} samples"
    low, high = facts["interval"]
    size = f"{points(difference)} pp, 95 % interval {points(low)} to {points(high)}"
    evidence = f"{size}, {facts['test']} p {p_text(facts['p_value'])}"
    by_cluster = facts["p_value_by_cluster"]
    if by_cluster is not None and facts["p_value"] <= 0.05 < by_cluster:
        evidence += f", over its {facts['clusters']} scenarios p {p_text(by_cluster)}"
    text = f"{second} solves {moved} ({evidence}): {verdict}."
    if facts["protocol_differences"]:
        differ = ", ".join(facts["protocol_differences"])
        text += f" The two were not evaluated under one protocol ({differ}), which may be what differs."
    elif samples[0] != samples[1]:
        text += " The two were not sampled under one protocol, which may be what differs."
    band = facts["noise_half_width"]
    if verdict != "unresolved":
        return text
    if band is not None and abs(difference) <= band:
        text += f" Two runs of one model differ by up to {points(band, False)} pp, so this is within the noise."
    needed = points(facts["minimum_detectable"], False)
    text += f" To detect a difference at 80 % power it would have to be at least {needed} pp."
    settled = facts["settled_by"]
    return text if settled is None else f"{text} {settled.sentence}"
