"""Banks made in memory, and the bundled reconstruction of the S3 recipe."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from core.bank import Bank, Checkpoint, Split, load_bank

ROOT = Path(__file__).resolve().parents[3]


def bank_of(scores: np.ndarray, weights: Path | None = None) -> Bank:
    """A bank with checkpoints c0, c1 ... of these scores, shape (checkpoints, tasks)."""
    tasks = tuple(f"t{at}" for at in range(scores.shape[1]))
    split = Split("dev", tasks, tasks, scores, 1, None, None, None, Path("scores.jsonl"))

    def path(name: str) -> Path | None:
        return weights / name if weights else None

    return Bank(
        name="made",
        root=Path(),
        title="Made",
        description="",
        kind="illustrative",
        base=Checkpoint("base", path=path("base")),
        checkpoints=tuple(Checkpoint(f"c{at}", at, path(f"c{at}")) for at in range(len(scores))),
        splits={"dev": split},
    )


@pytest.fixture
def make_bank() -> Callable[..., Bank]:
    return bank_of


@pytest.fixture(scope="session")
def s3_card() -> Bank:
    return load_bank(ROOT / "data" / "s3_card")
