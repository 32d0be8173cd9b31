"""The block operations of `core.merge.kernels` in torch: the same bytes and figures, on a GPU.

`resolve` says which device a merge runs on, `load_kernels` gives its block operations, `DeviceLost` says that the
device is full or gone. Importing this package is cheap: torch loads when a device is asked for.
"""

from core.merge.on_torch.device import DeviceLost, available, describe, load_kernels, resolve
from core.merge.on_torch.protocol import Kernels

__all__ = ["DeviceLost", "Kernels", "available", "describe", "load_kernels", "resolve"]
