"""Counts that wait on the device until a slice is finished, then are added to numpy arrays all at once.

So one copy fetches them, and a slice that ran out of memory half-way has left nothing behind.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


class Tally:
    """Pairs of a place in a numpy array and what is to be added there."""

    def __init__(self) -> None:
        self._places: list[tuple[np.ndarray, int]] = []
        self._counts: list[Tensor] = []
        self._arrays: list[tuple[Callable[[np.ndarray], None], Tensor]] = []

    def add(self, array: np.ndarray, index: int, count: Tensor) -> None:
        """Add an int64 () to `array[index]`, later."""
        self._places.append((array, index))
        self._counts.append(count)

    def give(self, take: Callable[[np.ndarray], None], values: Tensor) -> None:
        """Call `take` with the values as an array, later."""
        self._arrays.append((take, values))

    def commit(self) -> None:
        """Fetch everything, then add it."""
        counts = torch.stack(self._counts).cpu().tolist() if self._counts else []
        arrays = [(take, values.cpu().numpy()) for take, values in self._arrays]
        for (array, index), count in zip(self._places, counts, strict=True):
            array[index] += count
        for take, values in arrays:
            take(values)
