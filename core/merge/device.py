"""The block operations of a merge on the device that was asked for, and on the CPU once that device is lost.

Takes a device's name; gives an object that answers to `Kernels`. What comes out does not depend on the device.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from core.merge.on_torch import DeviceLost, Kernels, load_kernels, resolve

if TYPE_CHECKING:
    from core.merge.kernels import Figures, Rows, Rule


class SteadyKernels:
    """Delegates to a GPU until it is lost, then for good to the CPU, where the failed call is done again."""

    def __init__(self, device: str) -> None:
        """`auto`, `cpu`, `cuda` or `cuda:N`; raises InputError where there is no such device."""
        from core.merge import kernels

        self._cpu = cast(Kernels, kernels)
        self._now: Kernels = self._cpu
        self._lock = threading.Lock()
        self.device = resolve(device)
        self.warnings: list[str] = []
        if self.device != "cpu":
            try:
                self._now = load_kernels(self.device)
            except DeviceLost as problem:
                self._give_up(problem)

    def _give_up(self, problem: DeviceLost) -> None:
        with self._lock:
            if not self.warnings:
                self.warnings.append(f"{problem} The merge goes on with the CPU; its bytes are the same.")
            self._now, self.device = self._cpu, "cpu"

    def _steady(self, name: str, *arguments: Any, fresh: tuple[np.ndarray, ...] = ()) -> Any:
        """Call a kernel; `fresh` are the arrays it adds to, which the caller gave as zeros."""
        try:
            return cast(Callable[..., Any], getattr(self._now, name))(*arguments)
        except DeviceLost as problem:
            self._give_up(problem)
            for one in fresh:
                one.fill(0)
            return cast(Callable[..., Any], getattr(self._cpu, name))(*arguments)

    def merge_block(self, rows: "Rows", n: int, rule: "Rule", *rest: Any) -> None:
        """See `Kernels`; `rest` is thresholds, cutoffs, out and figures."""
        figures: Figures = rest[3]
        self._steady("merge_block", rows, n, rule, *rest, fresh=tuple(figures))

    def count_window(self, rows: "Rows", n: int, wanted: np.ndarray, *rest: np.ndarray) -> None:
        """See `Kernels`; `rest` is low, high, counts and found."""
        self._steady("count_window", rows, n, wanted, *rest, fresh=(rest[2],))

    def count_high(self, rows: "Rows", n: int, counts: np.ndarray) -> None:
        """See `Kernels`."""
        self._steady("count_high", rows, n, counts, fresh=(counts,))

    def count_low(self, rows: "Rows", n: int, high: np.ndarray, counts: np.ndarray) -> None:
        """See `Kernels`."""
        self._steady("count_low", rows, n, high, counts, fresh=(counts,))

    def find_tie(self, rows: "Rows", n: int, member: int, *rest: Any) -> tuple[int, int]:
        """See `Kernels`; `rest` is the threshold and how many are wanted."""
        found: tuple[int, int] = self._steady("find_tie", rows, n, member, *rest)
        return found

    def sample_magnitudes(self, rows: "Rows", stride: int, found: np.ndarray) -> None:
        """See `Kernels`."""
        self._steady("sample_magnitudes", rows, stride, found)

    def narrow_bf16(self, bits: np.ndarray, n: int, out: np.ndarray) -> int:
        """See `Kernels`."""
        return int(self._steady("narrow_bf16", bits, n, out))
