"""The noise band that the Bank and Results pages draw: from repeated runs, else worked out from samples.

Takes a bank and one of its splits; gives a `Band` and its half width. Knows nothing about charts.
"""

import numpy as np

from core.bank import Bank, replicate_scores, split_noise
from core.charts.outcome import Band
from core.stats import noise_band


def noise_of(bank: Bank, split: str) -> tuple[Band, float] | None:
    """Where repeated runs of one checkpoint fell, or would, and half the width of that in tasks; None if unknown.

    Without repeated runs the band lies around the best checkpoint, as wide as its samples a task make it.
    """
    one = bank.splits[split]
    found = replicate_scores(one)
    if found is not None:
        band = noise_band(found.scores)
        return Band(band.low, band.high, found.checkpoint, band.runs), band.half_width_tasks
    known = split_noise(one)
    if known is None:
        return None
    means = np.nanmean(one.scores, axis=1)
    best, half = int(means.argmax()), known.half_width_tasks / one.samples**0.5
    low, high = (float(means[best]) + way * half / known.tasks for way in (-1, 1))
    return Band(max(low, 0.0), min(high, 1.0), bank.checkpoints[best].id, known.runs, sampled=True), half
