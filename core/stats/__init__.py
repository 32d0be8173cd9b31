"""Whether a difference is real: means, intervals, paired tests, noise and power. scipy loads when it is used."""

from core.stats.compare import Comparison, Verdict, compare, compare_files
from core.stats.intervals import Interval, difference_interval, mean_interval, wilson_interval
from core.stats.noise import NoiseBand, evaluations_to_tell, noise_band, runs_to_know_noise, sample_noise
from core.stats.paired import detectable_by_mcnemar, mcnemar, mcnemar_power, sign_flip
from core.stats.passk import GroupScore, group_scores, mean_at_n, pass_at_k
from core.stats.samples import Samples, read_samples

__all__ = [
    "Comparison",
    "GroupScore",
    "Interval",
    "NoiseBand",
    "Samples",
    "Verdict",
    "compare",
    "compare_files",
    "detectable_by_mcnemar",
    "difference_interval",
    "evaluations_to_tell",
    "group_scores",
    "mcnemar",
    "mcnemar_power",
    "mean_at_n",
    "mean_interval",
    "noise_band",
    "pass_at_k",
    "read_samples",
    "runs_to_know_noise",
    "sample_noise",
    "sign_flip",
    "wilson_interval",
]
