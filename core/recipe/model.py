"""A recipe: everything the user chose, as one immutable value.

Its knobs (name, type, range, default, help, unit) are described once, in `knobs.py`; widgets, the
URL, YAML and validation are made from that table. Knows nothing about banks or files.
"""

from dataclasses import dataclass
from typing import Literal

Similarity = Literal["cosine", "pearson", "jaccard", "agreement"]
Weighting = Literal["softmax", "uniform"]
Dtype = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Recipe:
    """MMR selection, softmax weights and TIES settings. The defaults are the S3 recipe."""

    lam: float = 0.7
    """MMR's λ in [0, 1]: 1 is relevance alone, 0 is diversity alone."""
    k: int = 5
    """K, how many checkpoints to pick."""
    tau: float = 0.02
    """τ > 0, the softmax temperature of the weights, in units of the score."""
    weighting: Weighting = "softmax"
    """`uniform` gives every pick the same weight and ignores τ."""
    similarity: Similarity = "cosine"
    split: str = "dev"
    pin: tuple[str, ...] = ()
    """Checkpoints that are picked first, in this order, whatever MMR says."""
    ban: tuple[str, ...] = ()
    """Checkpoints that are never picked."""
    density: float = 1.0
    """TIES: share of each member's task vector kept by magnitude, per tensor, in (0, 1]."""
    scale: float = 1.0
    """TIES: factor on the merged delta (mergekit calls it `lambda`)."""
    normalize: bool = True
    """TIES: divide by the agreeing members' weights."""
    out_dtype: Dtype = "float32"
    """Dtype of the merged file; the arithmetic is always fp32."""
