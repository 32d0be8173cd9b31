"""Sentences about a finished run: the verdict, what it rests on, and why to distrust it.

Takes comparisons as `core.stats` writes them to JSON; gives plain text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from core.charts.outcome import Flip, Panel
from core.stats.sentence import number as tasks_text

Comparison = Mapping[str, Any]


def signed(value: float) -> str:
    """`+2.0`, `−3.5`, `0.0`: one decimal, with a real minus."""
    return f"{value:+.1f}".replace("-", "−") if abs(value) >= 0.05 else "0.0"


def p_text(value: float) -> str:
    """A p-value: `0.27`, `0.043`, `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"{value:.{2 if value >= 0.1 else 3}f}"


def p_said(value: float) -> str:
    """A p-value in a sentence: `p 0.27`, `p < 0.001`."""
    return f"p {p_text(value)}"


def main_split(splits: Sequence[str], chosen_on: str) -> str:
    """The split that the verdict rests on: held out where there is one."""
    return next((one for one in splits if one != chosen_on), splits[0])


def headline(split: str, found: Comparison, *, held_out: bool) -> str:
    """The verdict against the best single checkpoint, in one sentence."""
    n = found["n"]
    by = abs(found["difference"]) * n
    where = f"{n} {'held-out ' if held_out else ''}{split} tasks"
    if found["verdict"] == "unresolved":
        return f"Unresolved: on {where} the merge cannot be told from the best single checkpoint"
    return f"The merge is {found['verdict']} than the best single checkpoint, by {by:.1f} of {where}"


def evidence(found: Comparison, samples: int) -> str:
    """The numbers behind the headline."""
    n = found["n"]
    low, high = (one * n for one in found["interval"])
    scenarios = found.get("p_value_by_cluster")
    by_scenario = "" if scenarios in (None, found["p_value"]) else f", by scenario {p_said(scenarios)}"
    each = "one sample" if samples == 1 else f"{samples} samples"
    return (
        f"Measured: merge {tasks_text(found['mean_b'] * n)}, best single {tasks_text(found['mean_a'] * n)} of "
        f"{n} tasks with {each} each. Difference {signed(found['difference'] * n)} tasks, "
        f"95 % interval {signed(low)} to {signed(high)}, "
        f"{p_said(found['p_value'])} ({found['test']}){by_scenario}. A true difference of "
        f"{found['minimum_detectable'] * n:.1f} tasks would be detected with 80 % power."
    )


def distrust(chosen_on: str, comparisons: Mapping[str, Mapping[str, Comparison]]) -> str:
    """Why the score on the split that chose the recipe is too good, with the held-out one beside it."""
    said = (
        f"The recipe and the best single checkpoint were chosen on {chosen_on}, so their {chosen_on} scores are too "
        "good on average (the winner's curse)."
    )
    held = [one for one in comparisons if one != chosen_on]
    both = [one for one in (chosen_on, *held) if one in comparisons]
    differences = ", ".join(
        f"{signed(comparisons[one]['best_single']['difference'] * comparisons[one]['best_single']['n'])} of "
        f"{comparisons[one]['best_single']['n']} on {one}"
        for one in both
        if "best_single" in comparisons[one]
    )
    if not held:
        return f"{said} This run has no held-out score: evaluate on another split before believing {differences}."
    return f"{said} Against the best single: {differences}. Believe the held-out one."


def standings_alt(panels: Sequence[Panel]) -> str:
    """The dot-and-interval chart in words."""
    parts = []
    for panel in panels:
        named = [one for one in panel.standings if one.role != "single"]
        said = ", ".join(f"{one.name} {one.mean:.3f} ({one.low:.3f} to {one.high:.3f})" for one in named)
        parts.append(f"{panel.split}, {panel.tasks} tasks: {said}")
    return "Mean scores with 95 % intervals. " + "; ".join(parts) + "."


def reading_note(panels: Sequence[Panel]) -> str:
    """How to read the chart, with its own numbers."""
    bands = [panel for panel in panels if panel.band is not None]
    said = (
        "Lines are 95 % intervals. A hollow mark cannot be told from the best single checkpoint (★) by a paired test."
    )
    for panel in bands[:1]:
        band = panel.band
        assert band is not None
        fell = f"{band.runs} repeated runs of one checkpoint, {band.checkpoint}, fell"
        if band.sampled:
            fell = f"another run of {band.checkpoint} would fall, going by its {band.runs} samples a task"
        said += f" The grey band is where {fell} (95 %)."
    if not bands:
        said += (
            " No noise band: this bank has neither repeated runs nor several samples a task under this protocol, or "
            "has changed since this run."
        )
    if not any(one.role == "single" for panel in panels for one in panel.standings):
        said += (
            " The other single checkpoints are not shown: the bank has no scores of them under this protocol, or "
            "has changed since this run."
        )
    return said


def flip_sentence(moved: Sequence[Flip], tasks: int, against: str, split: str) -> str:
    """How many tasks were gained and lost."""
    gained = sum(one.change > 0 for one in moved)
    return (
        f"Of {tasks} {split} tasks the merge scores higher than the {against} on {gained}, lower on "
        f"{len(moved) - gained}, and the same on {tasks - len(moved)}."
    )


def comparison_table(comparisons: Mapping[str, Mapping[str, Comparison]], names: Mapping[str, str]) -> pd.DataFrame:
    """Every paired comparison of the merge, one a row; differences in tasks.

    The test over whole scenarios has a column where some tasks share one.
    """
    rows = []
    for split, by_rival in comparisons.items():
        for rival, found in by_rival.items():
            n = found["n"]
            low, high = (one * n for one in found["interval"])
            scenarios = found.get("p_value_by_cluster")
            rows.append(
                {
                    "split": f"{split}, {n} tasks",
                    "merge against": names.get(rival, rival),
                    "difference": signed(found["difference"] * n),
                    "95 % interval": f"{signed(low)} to {signed(high)}",
                    "p": p_text(found["p_value"]),
                    "p by scenario": "" if scenarios is None else p_text(scenarios),
                    "gained, lost": f"{len(found['gained'])}, {len(found['lost'])}",
                    "detectable": f"{found['minimum_detectable'] * n:.1f}",
                    "verdict": found["verdict"],
                }
            )
    table = pd.DataFrame(rows)
    if not (table["p by scenario"] != "").any():
        table = table.drop(columns="p by scenario")
    # Words may break in a narrow window; a number and its unit or sign may not.
    numbers = table.columns.difference(["split", "merge against"])
    table[numbers] = table[numbers].map(lambda text: text.replace(" ", "\N{NO-BREAK SPACE}"))
    return table
