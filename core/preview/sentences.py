"""An X-ray in words: each member's row, and the formula of each step with its numbers in.

Takes an `Xray`; gives short texts and tables for the shell and the pages. Computes nothing.
"""

from core.preview.xray import MemberStep, Xray

HEADS = ("member", "value", "δ = value − base", "trim", "weight", "weight·δ", "vote")


def number(value: float) -> str:
    """Six significant digits, with a true minus."""
    return f"{value:.6g}".replace("-", "−")


def exactly(value: float) -> str:
    """All digits of an fp32 value: nine significant ones tell any two apart."""
    return f"{value:.9g}".replace("-", "−")


def place_of(found: Xray) -> str:
    """`model.norm.weight[3, 17] (flat 93) · ties, mergekit dialect`."""
    place = ", ".join(map(str, found.position))
    dialect = f", {found.dialect} dialect" if found.method == "ties" else ""
    flat = f" (flat index {found.index:,})" if len(found.position) > 1 else ""
    return f"{found.tensor}[{place}]{flat} · {found.method}{dialect}"


def trim_of(one: MemberStep) -> str:
    """What the trim did to a member's delta, and why."""
    if one.delta == 0:
        return "unchanged"
    if one.rank is not None and one.keeps is not None:
        tie = ", ties by index" if one.threshold is not None and abs(one.delta) == one.threshold else ""
        word = "kept" if one.kept else "trimmed"
        return f"{word}: rank {one.rank:,} {'≤' if one.kept else '>'} {one.keeps:,}{tie}"
    if one.threshold is not None:
        return f"{'kept' if one.kept else 'trimmed'}: |δ| {'≥' if one.kept else '<'} {number(one.threshold)}"
    return "kept" if one.kept else "trimmed"


def short_trim_of(one: MemberStep) -> str:
    """`10,098 kept`, `14,402 trimmed`, `unchanged`: `trim_of` in two words."""
    if one.delta == 0:
        return "unchanged"
    rank = f"{one.rank:,} " if one.rank is not None else ""
    return f"{rank}{'kept' if one.kept else 'trimmed'}"


def vote_of(one: MemberStep, found: Xray) -> str:
    """What became of a member's weighted delta."""
    if one.weighted == 0:
        return "no vote"
    sign = "+" if one.weighted > 0 else "−"
    return sign if found.sign is None else f"{sign} {'agrees' if one.agrees else 'outvoted'}"


def member_rows(found: Xray) -> tuple[tuple[str, ...], list[list[str]]]:
    """Heads and one row a member."""
    rows = [
        [
            one.name, exactly(one.raw), number(one.delta), trim_of(one), number(one.weight), number(one.weighted),
            vote_of(one, found),
        ]
        for one in found.members
    ]  # fmt: skip
    return HEADS, rows


def steps_of(found: Xray) -> list[tuple[str, str]]:
    """Name and formula of each step after the members' own: vote, mean, scale, add, round."""
    steps = [("base", exactly(found.base))]
    if found.sign is not None:
        steps.append(("vote", _vote(found)))
    steps.append(("mean" if found.divisor is not None else "sum", _mean(found)))
    if found.scale != 1:
        steps.append(("scale", f"{number(found.scale)} × {number(found.mean)} = {number(found.update)}"))
    if found.method == "linear":
        steps.append(("add", f"nothing: linear averages the values themselves = {exactly(found.merged)}"))
    else:
        steps.append(("add", f"{exactly(found.base)} + {_term(found.update)} = {exactly(found.merged)}"))
    steps.append(("round", _round(found)))
    return steps


def _term(value: float) -> str:
    return f"({number(value)})" if value < 0 else number(value)


def _sum(values: list[float]) -> str:
    return " + ".join(number(one) if at == 0 else _term(one) for at, one in enumerate(values))


def _vote(found: Xray) -> str:
    terms = _sum([one.weighted for one in found.members if one.weighted])
    if not terms:
        return "no member changes it"
    elected = "+" if found.sign == 1 else "−"
    tie = " (a sum of zero)" if found.total == 0 else ""
    if sum(one.weighted != 0 for one in found.members) == 1:
        return f"only {terms}, so {elected} is elected"
    return f"{terms} = {number(found.total)}, so {elected} is elected{tie}"


def _mean(found: Xray) -> str:
    if found.method == "linear":
        terms = " + ".join(f"{number(one.weight)}·{_term(one.raw)}" for one in found.members)
    else:
        terms = _sum([one.weighted for one in found.members if one.agrees]) or "0"
    if found.method == "ties" and not any(one.agrees for one in found.members):
        return "0"
    if found.divisor is None:
        return f"{terms} = {number(found.mixed)}"
    weights = f"{number(found.divisor)}"
    used = [number(one.weight) for one in found.members if one.agrees or found.method != "ties"]
    if found.method == "ties" and len(used) > 1:
        weights = f"({' + '.join(used)})"
    return f"({terms}) ÷ {weights} = {number(found.mean)}"


def _round(found: Xray) -> str:
    said = f"{exactly(found.merged)} in bf16 is {exactly(found.bf16)}"
    if found.lost_to_bf16:
        said += f", which is the base's {exactly(found.base_bf16)}: lost to bf16"
    elif found.merged == found.base:
        said += ", unchanged"
    if found.out_dtype != "bfloat16":
        said += f"; the file is {found.out_dtype} and holds {exactly(found.written)}"
    return said


def one_line(found: Xray) -> str:
    """The way of a parameter in one line, for copying."""
    members = "; ".join(f"{one.name} δ {number(one.delta)} × {number(one.weight)}" for one in found.members)
    return f"{place_of(found)}: {members}; " + "; ".join(f"{name}: {text}" for name, text in steps_of(found))
