"""Sentences about a previewed merge, in plain words with the present numbers.

Takes previews, comparisons and reaches; gives plain text. Computes no merge.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core.charts.whatif import NOT_KNOWN, Estimate, range_text, value_text
from core.charts.words import counted, listed
from core.words import file_size, percent

if TYPE_CHECKING:
    from core.preview.compare import Comparison
    from core.preview.knobs_matter import Reach
    from core.preview.result import Preview

Figures = Mapping[str, Estimate]
INERT = 0.0
CLOSE = 0.02
"""A member whose share of the merged change is so little above its weight decides what its weight says."""
MUCH_ALONE = 0.05
"""From this part of a member's share on, what it changed alone is a reason to name."""
METRICS = (
    ("changed", "Changed", "Parameters whose value the merge would change at all."),
    ("solo", "One member alone", "Parameters that exactly one member still changes after the trim."),
    ("unanimous", "Several, agreed", "Parameters that several members change, all in the same direction."),
    ("contested", "Several, contested", "Parameters that members change in different directions: the sign is elected."),
    (
        "rounding_loss",
        "Lost in bf16",
        "Of the changed parameters, those that a bfloat16 file would round back to the base.",
    ),
    ("merged_norm", "Length of the change", "‖merged − base‖: the square root of the sum of all squared changes."),
)
"""Figure, name on screen, explanation."""


def headline(found: "Preview") -> str:
    """How much would change and how much of it is disputed."""
    total = found.total
    return (
        f"This merge would change {_about(total['changed'])} of the parameters; its members disagree on "
        f"{_about(total['contested'])}"
    )


def _about(one: Estimate) -> str:
    """A figure in a headline: `17.8 %`, `about 17.8 %`, or `at most 1.0 %` where none was seen."""
    if one.low == one.high:
        return value_text(one)
    if one.estimate == 0:
        return f"at most {percent(one.high)}"
    return f"about {value_text(one)}"


def basis(found: "Preview", models: int) -> str:
    """What the figures rest on, and that nothing is read again."""
    design = found.design
    if found.exact:
        how = f"every one of the {int(design.elements.sum()):,} parameters of {counted(models, 'model')} was read"
        kind = "so the figures are exact"
    else:
        share = percent(float(design.sizes.sum() / design.elements.sum()), 2)
        how = f"{share} of the parameters of {counted(models, 'model')} were read, at random"
        kind = "so the figures are estimates, and ranges are 95 % intervals"
    return (
        f"Previewed, nothing is merged: {how} ({file_size(found.bytes_read)}), {kind}. A knob works on what was read; "
        "nothing is read again."
    )


def interval_of(one: Estimate, shown_as_percent: bool = True) -> str | None:
    """`11.9 to 12.8 %`, or None where the figure is exact or unknown."""
    if math.isnan(one.estimate) or one.low == one.high:
        return None
    return range_text(one, shown_as_percent).partition("(")[2].rstrip(")")


def members_alt(names: Sequence[str], weights: Sequence[float], shares: Sequence[Estimate]) -> str:
    """Weight and share of each member in one sentence."""
    said = "; ".join(
        f"{name} weight {weight:.3f}, {value_text(share)} of the merged change"
        for name, weight, share in list(zip(names, weights, shares, strict=True))[:20]
    )
    return f"Weight against influence: {said}."


def outweighed(names: Sequence[str], weights: Sequence[float], members: Sequence[Figures], normalize: bool) -> str:
    """Who decides more than its weight says, and why; who decides most otherwise."""
    if not any(one["share"].estimate > 0 for one in members):
        return "No member changes anything that was read, so nobody decides."
    gaps = [
        one["share"].estimate - weight if not math.isnan(one["share"].estimate) else -1.0
        for one, weight in zip(members, weights, strict=True)
    ]
    at = gaps.index(max(gaps))
    if len(names) == 1:
        return f"{names[0]} is the only member: it decides everything."
    one = members[at]
    if gaps[at] <= CLOSE:
        return (
            f"Each member has about the part of the merged change that its weight says; the largest gap is that of "
            f"{names[at]}, {percent(weights[at])} of the weight and {range_text(one['share'])} of the change."
        )
    said = (
        f"{names[at]} has {percent(weights[at])} of the weight and {range_text(one['share'])} of the merged change, "
        f"{range_text(one['solo_share'])} of that where it changed a parameter alone."
    )
    if normalize and one["solo_share"].estimate >= MUCH_ALONE:
        said += " A change that one member alone made is kept whole, whatever its weight."
    else:
        said += " Its own changes are larger, or agree with the elected sign more often."
    return said


def leave_out_sentence(name: str, found: "Comparison", member: Figures) -> str:
    """What leaves when one member leaves."""
    total = found.total
    if math.isnan(total["relative"].estimate):
        return f"Without {name} nothing would be another: this merge changes nothing that was read."
    alone = percent(member["share"].estimate * member["solo_share"].estimate, 2)
    return (
        f"Without {name} the merge would move by {range_text(total['relative'])} of its length. "
        f"{range_text(total['turned'])} of all parameters would change in the other direction and "
        f"{range_text(total['gone'])} would return to the base; {alone} of the merged change is what {name} changed "
        f"alone. A bf16 file would differ in {range_text(total['visible'])} of its numbers."
    )


def leave_out_alt(names: Sequence[str], found: Sequence["Comparison"]) -> str:
    """The leave-one-out panels in one sentence."""
    moves = [one.total["relative"].estimate for one in found]
    at = moves.index(max(moves))
    return (
        f"What leaves with each of {counted(len(names), 'member')}. The largest: without {names[at]} the merge moves "
        f"by {value_text(found[at].total['relative'])} of its length."
    )


def _moved(found: "Comparison") -> str:
    total = found.total
    cosine = "not comparable" if math.isnan(total["cosine"].estimate) else f"{total['cosine'].estimate:.3f}"
    return (
        f"the merge moves by {range_text(total['relative'])} of its length (cosine {cosine}), "
        f"{range_text(total['gone'])} of the parameters return to the base, {range_text(total['turned'])} change in "
        f"the other direction, and a bf16 file differs in {range_text(total['visible'])} of its numbers"
    )


def ablation_sentence(
    kind: str, found: "Comparison", *, kept: Sequence[str], weights: Mapping[str, float],
    members: Mapping[str, Figures], reach: "Reach", normalize: bool,
) -> str:  # fmt: skip
    """The mechanism of one ablation, with its numbers. `kept` are the checkpoints of the other merge."""
    left = [name for name in weights if name not in kept]
    moved = _moved(found)
    if math.isnan(found.total["relative"].estimate):
        return f"{listed(kept)}: {NOT_KNOWN}, since this merge changes nothing that was read."
    if kind == "two_strongest":
        if not left:
            return f"Two strongest, {listed(kept)}, at equal weight: {moved}."
        weight = sum(weights[name] for name in left)
        share = sum(members[name]["share"].estimate for name in left)
        alone = sum(members[name]["share"].estimate * members[name]["solo_share"].estimate for name in left)
        new = [name for name in kept if name not in weights]
        added = f"{listed(new)} {'is' if len(new) == 1 else 'are'} new in it. " if new else ""
        why = (
            f" What they alone changed is kept whole whatever their weight; that is {percent(alone, 2)} of the change."
            if normalize
            else ""
        )
        return (
            f"Two strongest, {listed(kept)}, at equal weight (the published ablation): this leaves out {listed(left)}, "
            f"which {'has' if len(left) == 1 else 'have'} {percent(weight)} of the weight and {percent(share)} of the "
            f"merged change.{why} {added}Then {moved}."
        )
    if kind == "uniform":
        return (
            f"The same picks at equal weight: only where picks changed a parameter by different amounts can weights "
            f"matter, {range_text(reach.figures['weights'])} of the parameters. There {moved}."
        )
    if kind == "softmax":
        return f"The same picks with weights that follow scores: {moved}."
    if kind == "best_single":
        return (
            f"One member, {listed(kept)}: nothing is elected and nothing averaged, so every parameter takes its value: "
            f"{moved}."
        )
    return f"Every checkpoint at the same weight ({len(kept)} of them): {moved}."


def knob_lines(found: "Reach", total: Figures, recipe: Any, alike: bool) -> list[tuple[str, Estimate | None, str]]:
    """A row a knob: its name, the share of parameters that it can affect (None: inert), and why."""
    figures = found.figures
    return [
        ("τ", *_tau(figures, recipe, alike)),
        ("weights", *_weights(figures, recipe)),
        ("density", *_density(found, recipe)),
        (
            "divide by agreeing weights",
            *_or_inert(
                figures["normalize"],
                "It matters where a pick changed nothing or was outvoted: the agreeing weights then do not sum to 1.",
                "Inert: all picks change the same parameters in the same direction.",
            ),
        ),
        (
            "scale",
            figures["changed"],
            "It multiplies every change, so it reaches all changed parameters and nothing else.",
        ),
        (
            "tie rule",
            *_or_inert(
                total["zero_sum"],
                "Votes that cancel to exactly zero elect +; another rule would decide these parameters otherwise.",
                "Inert: nowhere do votes cancel to exactly zero.",
            ),
        ),
    ]


def _or_inert(one: Estimate, said: str, inert: str) -> tuple[Estimate | None, str]:
    return (one, said) if one.high > INERT else (None, inert)


def _tau(figures: Figures, recipe: Any, alike: bool) -> tuple[Estimate | None, str]:
    if recipe.weighting == "uniform":
        return None, "Inert: the weights are uniform."
    if alike:
        return None, "Inert: all picks have the same score, so they have the same weight at every τ."
    return _or_inert(
        figures["tau"],
        "It matters where picks of different scores changed a parameter by different amounts; a parameter that one "
        "pick alone changed keeps that change at every τ."
        if recipe.normalize
        else "Without the division, weights scale every change that not all picks share.",
        "Inert: nowhere did picks of different scores change a parameter by different amounts.",
    )


def _weights(figures: Figures, recipe: Any) -> tuple[Estimate | None, str]:
    return _or_inert(
        figures["weights"],
        "Where picks changed a parameter by different amounts, as τ, but picks of the same score count too.",
        "Inert: nowhere do two picks change a parameter by different amounts.",
    )


def _density(found: "Reach", recipe: Any) -> tuple[Estimate | None, str]:
    edge = found.trims_below
    least = f"no pick changed more than {range_text(edge)} of any tensor"
    if recipe.density < 1:
        return _or_inert(
            found.figures["trimmed"],
            f"At density {recipe.density:g} it drops a pick's change in these parameters.",
            f"Inert: at density {recipe.density:g} nothing is trimmed, since {least}.",
        )
    if edge.high >= 0.9995:
        return None, "Inert at 1, where nothing is trimmed; any smaller value trims some tensor."
    lowest = math.ceil(100 * edge.high) / 100
    return None, f"Inert at 1, and down to {lowest:g}: {least}."


def reach_alt(lines: Sequence[tuple[str, Estimate | None, str]]) -> str:
    """The reach panel in one sentence."""
    said = ", ".join(f"{name} {'inert' if one is None else value_text(one)}" for name, one, _ in lines)
    return f"Share of parameters that each knob can affect: {said}."


def steps_alt(names: Sequence[str], found: Sequence["Comparison"]) -> str:
    """The largest and the smallest step."""
    if not names:
        return "No step of a knob fits this bank."
    moves = [one.total["relative"].estimate for one in found]
    high, low = moves.index(max(moves)), moves.index(min(moves))
    return (
        f"How far one step of each knob moves the merge: most {names[high]}, "
        f"{value_text(found[high].total['relative'])} of its length; least {names[low]}, "
        f"{value_text(found[low].total['relative'])}."
    )


def lambda_sentence(lam: float, low: float, high: float, pool: int, k: int) -> str:
    """Between which λ the picked set stays."""
    if k >= pool or (low <= 0 and high >= 1):
        return f"λ is inert: with K {k} of {pool} the same checkpoints are picked at every λ."
    return f"λ is inert from {low:.4f} to {high:.4f}, where the same checkpoints are picked; it is {lam:g} now."


def pairs_sentence(names: Sequence[str], pairs: Mapping[tuple[int, int], Estimate]) -> str:
    """The most and least alike task vectors."""
    known = {key: one for key, one in pairs.items() if not math.isnan(one.estimate)}
    if not known:
        return f"The cosines of the task vectors are {NOT_KNOWN}: a member does not differ from the base."
    low = min(known, key=lambda key: known[key].estimate)
    high = max(known, key=lambda key: known[key].estimate)
    said = f"most alike are {names[high[0]]} and {names[high[1]]}, cosine {range_text(known[high], percent=False)}"
    if low != high:
        said += f"; least alike {names[low[0]]} and {names[low[1]]}, {range_text(known[low], percent=False)}"
    return f"Of the changes against the base, {said}."
