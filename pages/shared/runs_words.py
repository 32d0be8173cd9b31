"""What is said about runs: headline, state, result in one line, what to do after a failure.

Takes jobs of the ledger; gives plain text.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from core.charts.result_words import p_text, signed
from core.charts.words import counted, number
from core.stats.sentence import number as tasks_text

ORDER = ("running", "queued", "succeeded", "failed", "lost", "cancelled")
ADVICE = (
    (
        ("memory", "Killed", "out of"),
        "Close other programs, or set fewer samples a task, then run it again.",
    ),
    (("space", "disk"), "Free disk space (Clean up on older runs removes their files), then run it again."),
    (("No such file", "no folder", "missing", "not found"), "Put the missing file back, then run it again."),
)


def headline(jobs: Sequence[Any]) -> str:
    """How many runs, and how they stand: `Three runs: one running, two succeeded`."""
    found = Counter(one.state for one in jobs)
    parts = [f"{number(found[state])} {state}" for state in ORDER if found[state]]
    if len(jobs) == 1:
        return f"One run, {jobs[0].state}"
    return f"{counted(len(jobs), 'run').capitalize()}: {', '.join(parts)}"


def state_line(job: Any) -> str:
    """The state in one word."""
    return "cancelling" if job.cancel_requested and job.live else str(job.state)


def result_line(job: Any) -> str:
    """What came out, in one line; the stage while it is live, the reason where nothing came out."""
    if job.live:
        return str(job.stage)
    if job.state in ("failed", "lost"):
        return (job.error or "").splitlines()[0] if job.error else ""
    comparisons: Mapping[str, Any] = (job.result or {}).get("comparisons") or {}
    said = [
        f"{split} {signed(one['best_single']['difference'] * one['best_single']['n'])} of {one['best_single']['n']}, "
        f"{one['best_single']['verdict']}"
        for split, one in comparisons.items()
        if "best_single" in one
    ]
    if said:
        return "; ".join(said)
    merge = (job.result or {}).get("merge") or {}
    if merge:
        return f"{merge['tensors']:,} tensors merged in {merge['seconds']:.1f} s"
    scored = (job.result or {}).get("eval") or {}
    return f"mean score {scored['mean']:.4f} of {scored['n_tasks']} tasks" if scored else ""


def outcome_lines(job: Any) -> list[str]:
    """What came out, a sentence a split: `On dev the merge solves 31 of 57 tasks, …`."""
    comparisons: Mapping[str, Any] = (job.result or {}).get("comparisons") or {}
    return [
        f"On {split} the merge solves {tasks_text(found['mean_b'] * found['n'])} of {found['n']} tasks, the best "
        f"single checkpoint {tasks_text(found['mean_a'] * found['n'])}: {found['verdict']} "
        f"(p {p_text(found['p_value'])})."
        for split, by_rival in comparisons.items()
        for found in [by_rival.get("best_single")]
        if found
    ] or ([result_line(job)] if result_line(job) else [])


def what_to_do(job: Any) -> str:
    """What the user may do after a run that did not succeed."""
    if job.state == "cancelled":
        return "What was half-written has been removed. Run again starts it from the beginning."
    if job.state == "lost":
        return (
            "The worker's process is gone (killed, out of memory, or the machine restarted) and nothing half-written "
            "was kept. Look at the end of the log, then Run again."
        )
    text = job.error or ""
    for signs, advice in ADVICE:
        if any(sign in text for sign in signs):
            return advice
    return "The end of the log has the details. Correct what it names, then Run again."
