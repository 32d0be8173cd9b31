"""Summaries of several samples a task: mean@n, pass@k, MeanK / PassK of a named group, and scenario completion.

Takes counts or arrays of scores; gives plain numbers. Knows nothing about files or models.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from core.errors import InputError


class GroupScore(NamedTuple):
    """What a group of samples comes to over all tasks."""

    k: int
    """Samples in the group."""
    mean_k: float
    """MeanK: mean of all scores of the group."""
    pass_k: float
    """PassK: mean over tasks of the group's best score."""


class Completion(NamedTuple):
    """How many scenarios a model gets through as a whole."""

    rate: float
    """Mean over scenarios of the chance that every task of it is solved."""
    scenarios: int
    whole: int
    """Scenarios whose every sample of every task is right."""


def scenario_completion(scores: Mapping[str, Sequence[float]], scenarios: Mapping[str, str]) -> Completion:
    """The share of scenarios of which every task is solved (AppWorld's scenario goal completion, Trivedi et al. 2024).

    A sample counts where its score is 1. With several samples of a task, each scenario counts as the product of its
    tasks' shares of right samples, which is the unbiased estimate of its chance where samples are independent; with
    one sample it is the plain share. Raises InputError without scores, or for a task without a scenario.
    """
    if not scores or not all(len(one) for one in scores.values()):
        raise InputError("scenario completion needs at least one score for every task.")
    missing = [task for task in scores if task not in scenarios]
    if missing:
        raise InputError(f"task '{missing[0]}' has no scenario. Expected one for each of {len(scores)} tasks.")
    chance: dict[str, float] = {}
    for task, one in scores.items():
        chance[scenarios[task]] = chance.get(scenarios[task], 1.0) * sum(value >= 1 for value in one) / len(one)
    return Completion(sum(chance.values()) / len(chance), len(chance), sum(one == 1 for one in chance.values()))


def mean_at_n(scores: Mapping[str, Sequence[float]]) -> float:
    """mean@n: mean over tasks of each task's mean over its samples. Raises InputError when there are none."""
    if not scores or not all(len(one) for one in scores.values()):
        raise InputError("mean@n needs at least one score for every task.")
    return float(np.mean([np.mean(one) for one in scores.values()]))


def pass_at_k(n: Any, c: Any, k: int) -> Any:
    """Unbiased pass@k of a task with `n` samples of which `c` are right: 1 − C(n−c, k)/C(n, k).

    Whole numbers, or arrays of them of one shape; gives a float, or float64 of that shape. Computed as
    1 − Π_{j<k} (n−c−j)/(n−j), which cannot overflow (Chen et al. 2021, "Evaluating Large Language Models
    Trained on Code", section 2.1). Raises InputError unless 1 ≤ k ≤ n and 0 ≤ c ≤ n.
    """
    total, right = np.asarray(n, dtype=np.int64), np.asarray(c, dtype=np.int64)
    if k < 1 or (total < k).any():
        raise InputError(f"pass@k needs 1 <= k <= n, found k = {k} and n = {int(total.min())}.")
    if (right < 0).any() or (right > total).any():
        raise InputError("pass@k needs 0 <= c <= n: a task has fewer than none or more right samples than samples.")
    none_right = np.ones(np.broadcast_shapes(total.shape, right.shape))
    for j in range(k):
        none_right = none_right * np.maximum(total - right - j, 0) / (total - j)
    found = 1.0 - none_right
    return float(found) if found.ndim == 0 else found


def group_scores(scores: np.ndarray, groups: Mapping[str, Sequence[int]]) -> dict[str, GroupScore]:
    """MeanK and PassK of each named group of sample indices.

    `scores` has shape (tasks, samples). Raises InputError for an empty group or an index that is not there.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or not scores.size:
        raise InputError(f"group scores need an array of (tasks, samples), found shape {scores.shape}.")
    found = {}
    for name, members in groups.items():
        if not members or min(members) < 0 or max(members) >= scores.shape[1]:
            raise InputError(
                f"group '{name}' must name samples from 0 to {scores.shape[1] - 1}, found {list(members)!r:.80}."
            )
        part = scores[:, list(members)]
        found[name] = GroupScore(len(members), float(part.mean()), float(part.max(axis=1).mean()))
    return found
