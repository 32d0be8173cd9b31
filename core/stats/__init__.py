"""Whether a difference is real: means, intervals, paired tests, noise and power. scipy loads when it is used."""

from core.stats.compare import Comparison, Verdict, compare, compare_files
from core.stats.differences import PairedDifference, paired_difference
from core.stats.family import Family, Holm, Member, compare_family, holm, judge_family
from core.stats.intervals import Interval, difference_interval, mean_interval, wilson_interval
from core.stats.noise import NoiseBand, evaluations_to_tell, noise_band, runs_to_know_noise, sample_noise
from core.stats.optimism import Optimism, choice_warning, selection_optimism
from core.stats.paired import detectable_by_mcnemar, mcnemar, mcnemar_power, sign_flip
from core.stats.passk import Completion, GroupScore, group_scores, mean_at_n, pass_at_k, scenario_completion
from core.stats.power import Settling, Spread, power_by_mean, settling, spread_of, tasks_for_mcnemar
from core.stats.protocols import protocol_differences
from core.stats.samples import Samples, read_samples

__all__ = [
    "Comparison",
    "Completion",
    "Family",
    "GroupScore",
    "Holm",
    "Interval",
    "Member",
    "NoiseBand",
    "Optimism",
    "PairedDifference",
    "Samples",
    "Settling",
    "Spread",
    "Verdict",
    "choice_warning",
    "compare",
    "compare_family",
    "compare_files",
    "detectable_by_mcnemar",
    "difference_interval",
    "evaluations_to_tell",
    "group_scores",
    "holm",
    "judge_family",
    "mcnemar",
    "mcnemar_power",
    "mean_at_n",
    "mean_interval",
    "noise_band",
    "paired_difference",
    "pass_at_k",
    "power_by_mean",
    "protocol_differences",
    "read_samples",
    "runs_to_know_noise",
    "sample_noise",
    "scenario_completion",
    "selection_optimism",
    "settling",
    "sign_flip",
    "spread_of",
    "tasks_for_mcnemar",
    "wilson_interval",
]
