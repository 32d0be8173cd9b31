"""Several comparisons judged together: Holm's correction, and one verdict in words for the whole family.

Takes comparisons of one model with its rivals; gives adjusted p-values and a sentence. Runs no test itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from core.errors import InputError
from core.stats.compare import Comparison, Scores, Verdict, compare
from core.stats.noise import NoiseBand
from core.stats.paired import ALPHA
from core.stats.protocols import Settings, protocol_differences, refuse_different
from core.stats.sentence import number, p_text, points


class Holm(NamedTuple):
    """A family of p-values, corrected; both in the order given."""

    adjusted: tuple[float, ...]
    significant: tuple[bool, ...]


def holm(p_values: Sequence[float], alpha: float = ALPHA) -> Holm:
    """Adjusted p-values that keep the chance of any false finding at `alpha`, whatever the tests' dependence.

    The i-th smallest of m is multiplied by m − i + 1, and none is below one before it, nor above 1 (Holm 1979, "A
    Simple Sequentially Rejective Multiple Test Procedure"). Raises InputError for a p-value outside [0, 1].
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"Holm's correction needs p-values in [0, 1], found {list(p_values)!r:.80}.")
    order = np.argsort(p, kind="stable")
    raised = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    adjusted = np.empty_like(p)
    adjusted[order] = raised
    return Holm(tuple(adjusted.tolist()), tuple((adjusted <= alpha).tolist()))


@dataclass(frozen=True)
class Member:
    """One comparison of the family."""

    rival: str
    comparison: Comparison
    """On its own: its interval and p-values are not corrected."""
    p_value: float
    """What Holm was given: the larger of the test's p and the one over scenarios."""
    p_adjusted: float
    verdict: Verdict
    """Better or worse only where it is so on its own and the adjusted p is at most 5 %."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "comparison": self.comparison.as_dict()}


@dataclass(frozen=True)
class Family:
    """One model against several, judged together."""

    model: str
    members: tuple[Member, ...]
    """In the order given."""
    sentence: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "model": self.model,
            "members": [one.as_dict() for one in self.members],
            "sentence": self.sentence,
        }


def judge_family(comparisons: Mapping[str, Comparison], model: str = "the merge") -> Family:
    """Correct comparisons of `model` (always the second of the two) with rivals, by name, and say what holds.

    Raises InputError for an empty family.
    """
    if not comparisons:
        raise InputError("there is nothing to compare: a family needs at least one comparison.")
    p = [max(one.p_value, one.p_value_by_cluster or 0.0) for one in comparisons.values()]
    corrected = holm(p)
    members = tuple(
        Member(rival, one, own, adjusted, one.verdict if significant else "unresolved")
        for (rival, one), own, adjusted, significant in zip(
            comparisons.items(), p, corrected.adjusted, corrected.significant, strict=True
        )
    )
    return Family(model, members, _sentence(model, members))


def compare_family(
    scores: Mapping[str, Scores],
    model: str,
    *,
    clusters: Mapping[str, str] | None = None,
    seed: int = 0,
    noise: NoiseBand | None = None,
    protocols: Mapping[str, Settings] | None = None,
    across_protocols: bool = False,
) -> Family:
    """Compare `scores[model]` with every other model's and judge them together; see `compare`.

    `protocols` are each model's settings. Where one is not the model's own the comparison is refused with a
    TaskError, or with `across_protocols` made, and the verdict says so.
    """
    if model not in scores:
        raise InputError(f"'{model}' is not among the models compared: {', '.join(scores)}.")
    rivals = [one for one in scores if one != model]
    if protocols is not None and not across_protocols:
        for one in rivals:
            refuse_different(protocol_differences(protocols.get(one), protocols.get(model)), (one, model))
    found = {
        one: compare(
            scores[one],
            scores[model],
            clusters=clusters,
            seed=seed,
            noise=noise,
            names=(one, model),
            protocols=None if protocols is None else (protocols.get(one), protocols.get(model)),
            across_protocols=True,
        )
        for one in rivals
    }
    return judge_family(found, model)


def _sentence(model: str, members: Sequence[Member]) -> str:
    """What, by how much, how sure, and what would settle what is open."""
    count = len(members)
    parts = []
    for verdict, word in (("better", "better than"), ("worse", "worse than"), ("unresolved", "not told from")):
        those = [one for one in members if one.verdict == verdict]
        if those:
            parts.append(f"{word} {_listed([_shown(one) for one in those])}")
    tasks = {one.comparison.n for one in members}
    on = f"Over {next(iter(tasks))} tasks" if len(tasks) == 1 else "Over their tasks"
    how = "" if count == 1 else f" (p adjusted by Holm for {count} comparisons at once; intervals are each on its own)"
    said = [f"{on}, {model} is {'; '.join(parts)}{how}."]
    lost = [one.rival for one in members if one.comparison.verdict != one.verdict]
    if lost:
        said.append(f"On its own each would hold against {_listed(lost)}, but among {count} it may be chance.")
    across = {one.rival: one.comparison.protocol_differences for one in members if one.comparison.protocol_differences}
    if across:
        shown = "; ".join(f"{name}: {', '.join(differ)}" for name, differ in across.items())
        said.append(f"Not evaluated under one protocol, which may be what differs ({shown}).")
    return " ".join([*said, *_open([one for one in members if one.verdict == "unresolved"])])


def _shown(one: Member) -> str:
    found = one.comparison
    low, high = found.interval
    gain = f"{points(found.difference)} pp, {number(found.difference * found.n)} tasks"
    return f"{one.rival} ({gain}, 95 % interval {points(low)} to {points(high)}, p {p_text(one.p_adjusted)})"


def _open(members: Sequence[Member]) -> list[str]:
    """What would settle each comparison that is open, or what could have been found at all."""
    said = []
    for one in members:
        settled = one.comparison.settled_by
        if settled is not None:
            said.append(f"Against {one.rival}: {settled.sentence[0].lower()}{settled.sentence[1:]}")
        else:
            least = points(one.comparison.minimum_detectable, signed=False)
            said.append(f"Against {one.rival}: a difference of {least} pp would be found with 80 % power.")
    return said


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
