"""Whether a difference is real: means, intervals, paired tests, noise and power. Pure numerics."""

from core.stats.samples import Samples, read_samples

__all__ = ["Samples", "read_samples"]
