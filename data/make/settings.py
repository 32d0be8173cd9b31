"""The settings that shape a bank, and the protocols under which it is scored.

Their values are in `banks.py`; knows nothing about models.
"""

from dataclasses import dataclass
from pathlib import Path

from core.evals.protocol import Protocol

HERE = Path(__file__).resolve().parents[1]
STEPS = tuple(range(200, 301, 10))
"""RL steps whose checkpoints make the pool."""

MAIN = Protocol(temperature=0.5, samples=1, seed=0, dtype="float32", max_new_tokens=32)
MORE = Protocol(temperature=0.9, samples=8, seed=1, dtype="float32", max_new_tokens=32)
REPLICATE_SEEDS = tuple(range(100, 120))


@dataclass(frozen=True)
class Supervised:
    """One supervised phase."""

    steps: int
    peak_rate: float
    sloppy_share: float
    seed: int
    batch: int = 64


@dataclass(frozen=True)
class GrpoSettings:
    """Everything that shapes one RL run."""

    steps: int = 300
    prompts: int = 24
    """Prompts a step."""
    group: int = 8
    """Sampled answers a prompt."""
    rate: float = 5e-5
    """AdamW learning rate, constant after ten steps of warm-up."""
    temperature: float = 1.0
    max_new_tokens: int = 32
    clip: float = 0.2
    seed: int = 0


@dataclass(frozen=True)
class BankSettings:
    """How one bank is made."""

    name: str
    title: str
    description: str
    grpo: GrpoSettings
    clean: Supervised | None = None
    """A supervised phase on clean demonstrations before RL."""

    @property
    def folder(self) -> Path:
        """Where the bank is kept."""
        return HERE / self.name
