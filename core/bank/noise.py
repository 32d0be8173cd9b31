"""The run-to-run noise that a bank knows of: what its repeated evaluations say about a difference.

Takes a split and the protocol of a comparison; gives a `NoiseBand`. Knows nothing about verdicts.
"""

from core.bank.load import replicate_scores
from core.bank.model import Split
from core.evals.protocol import Protocol
from core.stats.noise import NoiseBand, noise_band


def split_noise(split: Split, protocol: Protocol | None = None) -> NoiseBand | None:
    """The noise band of a split, or None where the bank has no repeated evaluations that apply.

    Replicates are taken under the split's own protocol. They apply to `protocol` (None: the split's own)
    when temperature, dtype and length agree; a different number of samples is allowed for by
    `NoiseBand.difference_half_width`. Raises BankError for a malformed file of replicates.
    """
    found = replicate_scores(split)
    if found is None or (protocol is not None and not _alike(split.protocol, protocol)):
        return None
    return noise_band(found.scores, samples=split.protocol.samples if split.protocol else 1)


def _alike(own: Protocol | None, other: Protocol) -> bool:
    return own is not None and (own.temperature, own.dtype, own.max_new_tokens) == (
        other.temperature,
        other.dtype,
        other.max_new_tokens,
    )
