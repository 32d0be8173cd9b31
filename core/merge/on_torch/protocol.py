"""What the engine and the trim ask of block operations, whichever device does them.

The module `core.merge.kernels` and a `TorchKernels` both answer to it, with equal results.
"""

# ruff: noqa: PLR0917 -- compiled kernels take no keyword-only arguments

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from core.merge.kernels import Figures, Rows, Rule


class Kernels(Protocol):
    """Block operations on raw tensor bytes in host memory; the module's docstrings say what each one does."""

    def merge_block(
        self,
        rows: "Rows",
        n: int,
        rule: "Rule",
        thresholds: np.ndarray,
        cutoffs: np.ndarray,
        out: np.ndarray,
        figures: "Figures",
        /,
    ) -> None:
        """Merge a block into `out` and add to its figures."""

    def count_window(
        self,
        rows: "Rows",
        n: int,
        wanted: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        counts: np.ndarray,
        found: np.ndarray,
        /,
    ) -> None:
        """Count |δ| around two magnitudes and collect those between."""

    def count_high(self, rows: "Rows", n: int, counts: np.ndarray, /) -> None:
        """Histogram of the upper 16 magnitude bits."""

    def count_low(self, rows: "Rows", n: int, high: np.ndarray, counts: np.ndarray, /) -> None:
        """Histogram of the lower 15, where the upper ones are given."""

    def find_tie(self, rows: "Rows", n: int, member: int, threshold: np.uint32, wanted: int, /) -> tuple[int, int]:
        """Where the wanted-th element at a magnitude lies."""
        ...

    def sample_magnitudes(self, rows: "Rows", stride: int, found: np.ndarray, /) -> None:
        """Every stride-th |δ|."""

    def narrow_bf16(self, bits: np.ndarray, n: int, out: np.ndarray, /) -> int:
        """fp32 bit patterns to bf16; how many became infinite."""
        ...
