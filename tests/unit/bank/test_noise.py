"""The noise a bank knows of, against a value worked out by hand.

Run: .venv/bin/python -m pytest tests/unit/bank/test_noise.py
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.bank import load_bank, split_noise
from core.evals.protocol import Protocol

ROOT = Path(__file__).resolve().parents[3]


def test_the_bundled_noise_applies_to_its_own_temperature_only() -> None:
    split = load_bank(ROOT / "data" / "rl_only").splits["dev"]
    assert split.protocol is not None
    own = split_noise(split)
    assert own is not None and own.runs == 20 and own.tasks == 57
    again = split_noise(split, replace(split.protocol, samples=8, seed=3))
    assert again == own
    assert own.difference_half_width(8, 8) == pytest.approx(own.difference_half_width(1, 1) / 8**0.5)
    assert split_noise(split, replace(split.protocol, temperature=0.9)) is None
    assert split_noise(split, Protocol(dtype="bfloat16")) is None


def test_without_replicates_the_noise_is_unknown() -> None:
    assert split_noise(load_bank(ROOT / "data" / "s3_card").splits["dev"]) is None


def test_samples_stand_in_where_nothing_was_run_again(folder: Any) -> None:
    folder.rows = [one | {"sample": sample, "score": (sample + at) % 2} for at, one in enumerate(folder.rows) for sample in range(2)]  # fmt: skip  # noqa: E501
    folder.yaml["splits"]["dev"]["protocol"] = {"temperature": 0.7, "samples": 2}
    split = load_bank(folder.write()).splits["dev"]
    found = split_noise(split)
    assert found is not None
    # Every cell is (0, 1) or (1, 0), of variance 1/2, on four tasks; checkpoints a, b, c and the base.
    assert (found.sd_tasks, found.flip_rate, found.runs, found.models) == pytest.approx((2**0.5, 1.0, 2, 4))
    assert split_noise(split, Protocol(temperature=0.7, samples=8)) == found
    assert split_noise(split, Protocol(temperature=0.2, samples=8)) is None
