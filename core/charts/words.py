"""Sentences that say what a figure shows, in plain words with the present numbers.

Takes what the figures take; gives plain text (headlines, alternatives for screen readers).
"""

import math
from collections.abc import Mapping, Sequence

from core.charts.bank import Coverage, ScoreRows
from core.charts.mmr import Interval, switch_points
from core.charts.outcome import Band
from core.recipe.mmr import Step
from core.recipe.select import Selection
from core.stats.noise import evaluations_to_tell, runs_to_know_noise

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def number(count: int) -> str:
    """Small numbers in words, larger ones in digits."""
    return _NUMBERS[count] if 0 <= count < len(_NUMBERS) else f"{count:,}"


def short_number(count: int) -> str:
    """Large numbers as models are named: `0.41M`, `8.2B`; thousands and below in full."""
    for size, letter in ((1e9, "B"), (1e5, "M")):
        if count >= size:
            value = count / max(size, 1e6)
            return f"{value:.2g}{letter}" if value < 10 else f"{value:.0f}{letter}"
    return f"{count:,}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """`one checkpoint`, `eleven checkpoints`."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def listed(names: Sequence[str], limit: int = 12) -> str:
    """`200, 210 and 220`; a long list is cut and its rest counted."""
    if len(names) > limit:
        return ", ".join(names[:limit]) + f" and {len(names) - limit} more"
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1] if names else "none"


def solved(mean: float, tasks: int, samples: int) -> str:
    """A mean as people count it: `38 of 57` for one sample a task, `0.667 of 57 tasks` otherwise."""
    if samples == 1 and abs(mean * tasks - round(mean * tasks)) < 1e-9:
        return f"{round(mean * tasks)} of {tasks}"
    return f"{mean * tasks:.1f} of {tasks}"


def bank_sentence(
    rows: ScoreRows, split: str, samples: int, noise: tuple[float, int] | None, *, sampled: bool = False
) -> str:
    """What a bank's scores come to: best, worst, base and the run-to-run noise (half width in tasks, runs).

    `sampled` says that the noise was worked out from samples of one run, as many as its runs.
    """
    pool = len(rows.names) - rows.has_base
    tasks, each = rows.scores.shape[1], rows.scored
    best, worst = int(rows.means[:pool].argmax()), int(rows.means[:pool].argmin())
    ties = [rows.names[i] for i in range(pool) if abs(rows.means[i] - rows.means[best]) < 1e-12]
    said = f"The best of {counted(pool, 'checkpoint')}, {listed(ties, 4)}, {'solves' if len(ties) == 1 else 'solve'} "
    said += f"{solved(rows.means[best], each[best], samples)} {split} tasks"
    if pool > 1:
        said += f"; the weakest, {rows.names[worst]}, {solved(rows.means[worst], each[worst], samples)}"
    if rows.has_base:
        said += f"; the base {solved(rows.means[-1], each[-1], samples)}"
    if min(each) < tasks:
        missing = sum(tasks - one for one in each)
        said += f"; {missing:,} {'score is' if missing == 1 else 'scores are'} missing"
    if noise:
        basis = f"from {noise[1]} samples a task" if sampled else f"{noise[1]} runs"
        verb = "would differ" if sampled else "differ"
        said += f". Repeated runs of one checkpoint {verb} by ± {noise[0]:.1f} tasks ({basis}, 95 %)"
    return said + "."


def heatmap_alt(rows: ScoreRows, split: str, samples: int, picks: Mapping[str, int]) -> str:
    """The score heatmap in one sentence."""
    order = ", ".join(sorted(picks, key=lambda name: picks[name]))
    return (
        f"Scores of {len(rows.names)} models on {rows.scores.shape[1]} {split} tasks. "
        f"{bank_sentence(rows, split, samples, None)} Outlined picks in order: {order or 'none'}."
    )


def coverage_sentence(found: Coverage) -> str:
    """How many tasks all, some and none of the checkpoints solve."""
    total = found.by_all + found.by_some + found.by_none
    return f"Of {total} tasks, all checkpoints solve {found.by_all}, some {found.by_some}, none {found.by_none}."


def band_sentence(band: Band, tasks: int) -> str:
    """Where repeated runs of one checkpoint fell, or would fall."""
    if band.sampled:
        return (
            f"The grey band is where another run of {band.checkpoint} would fall, worked out from the {band.runs} "
            f"samples a task (95 %): {band.low * tasks:.1f} to {band.high * tasks:.1f} of {tasks} tasks. What moves a "
            "whole run, such as another machine, is not in it."
        )
    return (
        f"The grey band is where {band.runs} runs of {band.checkpoint} with different seeds fell (central 95 %): "
        f"{band.low * tasks:.1f} to {band.high * tasks:.1f} of {tasks} tasks."
    )


def unknown_noise_sentence(rows: ScoreRows, samples: int) -> str:
    """What is not known without repeated evaluations, and how many would tell the two best apart."""
    pool = len(rows.names) - rows.has_base
    start = (
        "The run-to-run noise is unknown: no checkpoint was evaluated twice. "
        f"{number(runs_to_know_noise()).capitalize()} runs of one checkpoint with other seeds would give its size to "
        "within half of it"
    )
    if pool < 2:
        return f"{start}."
    first, second = (int(one) for one in (-rows.means[:pool]).argsort(kind="stable")[:2])
    tasks = min(rows.scored[first], rows.scored[second])
    means = float(rows.means[first]), float(rows.means[second])
    needed = math.ceil(evaluations_to_tell(*means, tasks) / samples)
    apart = abs(means[0] - means[1]) * tasks
    gap = f"{apart:.1f} tasks" if apart > 1e-9 else "one task"
    names = f"{rows.names[first]} and {rows.names[second]}"
    return f"{start}; at most {counted(needed, 'run')} of each would tell {names} apart, if they truly are {gap} apart."


def picks_headline(chosen: Selection) -> str:
    """Number of picks and effective members."""
    return f"{counted(len(chosen.picks), 'pick').capitalize()}, {chosen.effective_members:.2f} effective members"


def picks_sentence(chosen: Selection) -> str:
    """The picks in order, and who has the largest weight."""
    names = [one.checkpoint for one in chosen.picks]
    top = max(chosen.weights.values())
    heavy = [name for name in names if abs(chosen.weights[name] - top) < 1e-12]
    share = f"{listed(heavy, 4)} {'has' if len(heavy) == 1 else 'each have'} the largest weight, {top:.3f}"
    return f"Picked in this order: {listed(names)}. {share} (previewed from the scores; nothing is merged yet)."


def pick_changes(old: Sequence[str], new: Sequence[str]) -> str:
    """Who came in, who went, or whether only the order changed."""
    came, went = [one for one in new if one not in old], [one for one in old if one not in new]
    if came or went:
        parts = ([f"{listed(came)} in"] if came else []) + ([f"{listed(went)} out"] if went else [])
        return ", ".join(parts)
    return "same picks" if list(old) == list(new) else "same picks in another order"


def step_formula(step: Step, names: Sequence[str], lam: float) -> str:
    """The pick's score with the present numbers in the formula."""
    q = step.relevance_term / lam if lam else None
    relevance = f"{lam:g} · {q:.4f}" if q is not None else f"{lam:g} · q"
    if step.most_similar_index is None:
        return f"{relevance} = {step.score:.4f}; the first pick has no penalty, so the highest q wins"
    return (
        f"{relevance} − {1 - lam:.4g} · {step.max_similarity:.4f} "
        f"(most similar to {names[step.most_similar_index]}) = {step.score:.4f}"
    )


def step_sentence(step: Step, names: Sequence[str]) -> str:
    """Why this one: pinned, alone, tied, or ahead by how much of whom."""
    name = names[step.index]
    if step.pinned:
        return f"{name} is pinned, so it is taken whatever its score."
    if step.ties:
        tied = listed([names[other] for other in step.ties], 6)
        return f"{name} ties with {tied}; a tie goes to the earlier in the bank."
    if step.margin is None or step.runner_up is None:
        return f"{name} is the only one left."
    return f"{name} is ahead of {names[step.runner_up]} by {step.margin:.4f}."


def strip_alt(intervals: Sequence[Interval], lam: float) -> str:
    """The λ strip in one sentence."""
    now = next((picks for low, high, picks in intervals if low <= lam <= high), intervals[-1][2])
    points = switch_points(intervals)
    at = ", ".join(f"{one:.4f}" for one in points[:8]) + (" and more" if len(points) > 8 else "")
    changes = f"change at λ = {at}" if points else "never change"
    return f"Picks for every λ: they {changes}. At λ {lam:g} they are {', '.join(now)}."


def weights_alt(chosen: Selection) -> str:
    """The weight bars in one sentence."""
    weights = ", ".join(f"{name} {weight:.3f}" for name, weight in list(chosen.weights.items())[:30])
    return f"Merge weights in pick order: {weights}; {chosen.effective_members:.2f} effective members."


def tau_alt(chosen: Selection, tau: float) -> str:
    """The weights-against-τ chart in one sentence."""
    weights = ", ".join(f"{name} {weight:.3f}" for name, weight in chosen.weights.items())
    return f"Weights against τ. At τ {tau:g}: {weights}; {chosen.effective_members:.2f} effective members."
