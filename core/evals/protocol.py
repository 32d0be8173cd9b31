"""How a model was, or will be, evaluated: the settings without which a score means nothing.

Pure data, shared by banks (which protocol scored them) and runners (which protocol to follow).
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Protocol:
    """Sampling settings of one evaluation. Two results compare only under one protocol."""

    temperature: float = 0.5
    samples: int = 1
    """Samples per task."""
    seed: int = 0
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    max_new_tokens: int = 32

    @property
    def label(self) -> str:
        """Short name for the screen, such as `T=0.5 n=1 fp32`."""
        short = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}[self.dtype]
        return f"T={self.temperature:g} n={self.samples} {short}"

    def as_dict(self) -> dict[str, Any]:
        """Plain dict for YAML and JSON; `Protocol(**it)` gives it back."""
        return asdict(self)
