"""The run-to-run noise that a bank knows of: what its repeated evaluations, or its samples, say about a difference.

Takes a split and the protocol of a comparison; gives a `NoiseBand`. Knows nothing about verdicts.
"""

from pathlib import Path

import numpy as np

from core.bank.load import replicate_scores
from core.bank.model import Split
from core.bank.scores import iterate_scores
from core.evals.protocol import Protocol
from core.stats.noise import NoiseBand, noise_band, sample_noise

LARGE = 256 << 20
"""Bytes of a score file above which its samples are not read again for their noise."""


def split_noise(split: Split, protocol: Protocol | None = None) -> NoiseBand | None:
    """The noise band of a split, or None where nothing was repeated that applies.

    Repeated evaluations count first, else the samples of the split's own scores, where a task has several. Both are
    under the split's own protocol. They apply to `protocol` (None: the split's own) when temperature, dtype and length
    agree; a different number of samples is allowed for by `NoiseBand.difference_half_width`. Raises BankError for a
    malformed file of replicates.
    """
    if protocol is not None and not _alike(split.protocol, protocol):
        return None
    found = replicate_scores(split)
    if found is not None:
        return noise_band(found.scores, samples=found.samples)
    if split.samples < 2 or split.scores_path.stat().st_size > LARGE:
        return None
    return sample_noise(read_samples(split.scores_path, split))


def read_samples(path: Path, split: Split) -> np.ndarray:
    """The single scores of a split: float64, shape (models, tasks, samples), NaN for tasks that a model lacks.

    Models are in the order of the file, the base among them where it has scores.
    """
    task_at = {task: index for index, task in enumerate(split.tasks)}
    cells: dict[str, dict[int, list[float]]] = {}
    for row in iterate_scores(path):
        cells.setdefault(row.checkpoint or "", {}).setdefault(task_at[row.task], []).append(row.score)
    found = np.full((len(cells), len(split.tasks), split.samples), np.nan)
    for model, tasks in enumerate(cells.values()):
        for task, scores in tasks.items():
            found[model, task] = scores
    return found


def _alike(own: Protocol | None, other: Protocol) -> bool:
    return own is not None and (own.temperature, own.dtype, own.max_new_tokens) == (
        other.temperature,
        other.dtype,
        other.max_new_tokens,
    )
