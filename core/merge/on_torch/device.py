"""Which device a merge runs on, and the error that says it is full or gone. Loads torch only where it must."""

from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import InputError, RunError

if TYPE_CHECKING:
    from core.merge.on_torch.kernels import TorchKernels

GIB = 1 << 30
DRIVER_FILES = ("nvidia[0-9]*", "dxg")
"""In /dev, where there is an NVIDIA GPU; `dxg` is its name inside Windows' Linux."""


class DeviceLost(RunError):
    """The GPU is full, has stopped working, or computes other bits than the CPU. The CPU can finish the merge."""


def available() -> str | None:
    """What `auto` means: `cuda:0` where torch finds a GPU, else None. Loads torch only where there is a driver."""
    if not any(any(Path("/dev").glob(name)) for name in DRIVER_FILES):
        return None
    import torch

    return "cuda:0" if torch.cuda.is_available() else None


def resolve(wanted: str) -> str:
    """`cpu` or `cuda:N`, for `auto`, `cpu`, `cuda` or `cuda:N`; raises InputError where there is no such device."""
    if wanted == "auto":
        return available() or "cpu"
    kind, _, number = wanted.partition(":")
    if kind not in ("cpu", "cuda") or (":" in wanted and not number.isdecimal()) or (kind == "cpu" and number):
        raise InputError(f"device must be auto, cpu, cuda or cuda:N, found {wanted!r:.40}.")
    if kind == "cpu":
        return "cpu"
    import torch

    if not torch.backends.cuda.is_built():
        raise InputError(
            f"device {wanted} needs a torch that was built with CUDA; this one is torch {torch.__version__}. "
            "Install one, or choose --device cpu: the merged bytes are the same."
        )
    count = torch.cuda.device_count()
    if int(number or 0) >= count:
        found = "no GPU that torch can use" if count == 0 else "cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise InputError(
            f"device {wanted} is not here: this machine has {found}. "
            "Choose one of these, or --device cpu: the merged bytes are the same."
        )
    return f"cuda:{int(number or 0)}"


def describe(device: str) -> str:
    """A resolved device in words: its name and memory, as in `cuda:0, NVIDIA H200, 139 GiB (137 GiB free)`."""
    if device == "cpu":
        return "cpu"
    import torch

    try:
        name = torch.cuda.get_device_name(device)
        free, total = torch.cuda.mem_get_info(device)
    except RuntimeError as problem:
        raise DeviceLost(f"{device} cannot be opened: {first_line(problem)}") from None
    return f"{device}, {name}, {total / GIB:.0f} GiB ({free / GIB:.0f} GiB free)"


def first_line(problem: BaseException) -> str:
    """The first line of what torch says: the others are about debugging."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0].rstrip(".") + "."


def load_kernels(device: str) -> "TorchKernels":
    """Block operations on a resolved device, once it has computed a test block as the CPU does, bit for bit.

    Raises DeviceLost where it has not, or cannot be used at all.
    """
    from core.merge.on_torch.check import check
    from core.merge.on_torch.kernels import TorchKernels

    kernels = TorchKernels(device)
    check(kernels)
    return kernels
