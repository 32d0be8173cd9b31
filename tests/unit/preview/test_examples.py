"""Examples of a kind are of that kind, and are not claimed where there are none.

Run: .venv/bin/python -m pytest tests/unit/preview/test_examples.py
"""

from pathlib import Path

import numpy as np
import pytest

from core.errors import InputError
from core.merge import parse_plan
from core.merge.plan import Plan
from core.preview.examples import KINDS, find_example
from core.preview.xray import Xray, xray
from tests.unit.merge.models import ties_config, write_model, write_pool


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    root = tmp_path_factory.mktemp("pool")
    base, members = write_pool(root, 3, "fp32")
    text = ties_config(base, members, [0.6, 0.35, 0.05], density=0.6, extra="parameters: {lambda: 0.05}\n")
    return parse_plan(text + "dtype: float32\n", root)


def is_of_kind(kind: str, found: Xray) -> bool:
    weighted = [one.weighted for one in found.members]
    votes = [one for one in weighted if one]
    if kind == "contested":
        return min(weighted) < 0 < max(weighted)
    if kind == "lost":
        return found.lost_to_bf16
    if kind == "trimmed":
        return any(one.delta and not one.kept for one in found.members)
    if kind == "solo":
        return len(votes) == 1
    without = float(np.float32(np.float32(weighted[0]) + np.float32(weighted[1])))
    return bool(weighted[2]) and (len(votes) == 1 or (1 if without >= 0 else -1) != found.sign)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_is_found_is_of_its_kind(plan: Plan, kind: str, seed: int) -> None:
    found = find_example(plan, kind, seed)
    assert found.tensor is not None, found.said
    assert is_of_kind(kind, xray(plan, found.tensor, found.index))
    assert found == find_example(plan, kind, seed)


def test_none_is_claimed_where_there_are_none(tmp_path: Path) -> None:
    start = np.ones(5, np.float32)
    base = write_model(tmp_path / "base", {"w": start}, {})
    members = [write_model(tmp_path / f"m{at}", {"w": start + 1}, {}) for at in range(2)]
    plan = parse_plan(ties_config(base, members, extra="dtype: float32\n"), tmp_path)
    for kind in ("contested", "lost", "trimmed", "solo"):
        found = find_example(plan, kind)
        assert found.tensor is None and "among 5 parameters" in found.said
    assert "No member has little weight" in find_example(plan, "weak").said
    with pytest.raises(InputError, match="expected one of contested"):
        find_example(plan, "odd")
