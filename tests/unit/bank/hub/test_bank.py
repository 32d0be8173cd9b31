"""Checkpoints of a bank that live on the Hub.

Run: .venv/bin/python -m pytest tests/unit/bank/hub
"""

from typing import Any

import pytest

from core.bank import load_bank
from core.errors import BankError


def test_a_bank_names_a_pinned_checkpoint_and_says_how_to_get_it(folder: Any) -> None:
    folder.yaml["checkpoints"][0]["hub"] = f"o/n@{'a' * 40}/step-1"
    bank = load_bank(folder.write())
    assert str(bank.checkpoints[0].path).endswith(f"models--o--n/snapshots/{'a' * 40}/step-1")
    assert any(f"hub download hf://o/n@{'a' * 40}/step-1" in one for one in bank.warnings)
    folder.yaml["checkpoints"][0]["hub"] = "o/n@main"
    with pytest.raises(BankError, match="full commit"):
        load_bank(folder.write())
