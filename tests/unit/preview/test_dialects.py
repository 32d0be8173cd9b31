"""The dialects side by side, against three real merges of the same plan.

Run: .venv/bin/python -m pytest tests/unit/preview/test_dialects.py
"""

import json
from pathlib import Path

import numpy as np
import pytest

from core.cli.app import run
from core.errors import PlanError
from core.merge import parse_plan, run_merge, with_dialect
from core.preview.dialects import compare_dialects
from tests.unit.merge.models import load, ties_config, to_bf16, write_model, write_pool


def test_shares_and_norms_are_those_of_three_merges(tmp_path: Path) -> None:
    base, members = write_pool(tmp_path, 3, "fp32")
    text = ties_config(base, members, [0.5, 0.3, 0.2], density=0.4)
    plan = parse_plan(text, tmp_path)
    merged = {}
    for dialect in ("mergekit", "paper", "sum"):
        run_merge(with_dialect(plan, dialect), tmp_path / dialect)
        merged[dialect] = load(tmp_path / dialect / "model.safetensors")
    start = load(base / "model.safetensors")
    found = compare_dialects(plan)
    assert found.exact and len(found.total) == 3
    assert any("ignores the members' weights" in one for one in found.warnings)
    for row in (*found.total, *found.tensors):
        names = list(start) if row.name == "all tensors" else [row.name]
        one, two, before = (
            np.concatenate([side[name].ravel() for name in names]).astype(np.float32)
            for side in (merged[row.first], merged[row.second], start)
        )
        assert row.differ.value == pytest.approx((one != two).mean())
        assert row.differ_bf16.value == pytest.approx((to_bf16(one) != to_bf16(two)).mean())
        apart, moved = (np.linalg.norm(a.astype(np.float64) - b) for a, b in ((one, two), (one, before)))
        assert row.norm == pytest.approx(apart)
        assert row.relative.value == pytest.approx(apart / moved)


def test_alike_members_leave_nothing_to_differ_but_the_sum(tmp_path: Path) -> None:
    """Two members that move one of two weights by 1: the mean is 1 in mergekit and paper, the sum 2."""
    base = write_model(tmp_path / "base", {"w": np.zeros(2, np.float32)}, {})
    moved = np.array([1, 0], np.float32)
    members = [write_model(tmp_path / f"m{at}", {"w": moved}, {}) for at in range(2)]
    found = compare_dialects(parse_plan(ties_config(base, members), tmp_path))
    rows = {(one.first, one.second): one for one in found.total}
    assert rows["mergekit", "paper"].norm == 0
    assert (rows["mergekit", "sum"].differ.value, rows["mergekit", "sum"].norm) == (0.5, 1.0)
    assert found.norms == {"mergekit": 1.0, "paper": 1.0, "sum": 2.0}


def test_a_sample_covers_what_a_full_look_finds(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    start = rng.standard_normal(400_000).astype(np.float32)
    base = write_model(tmp_path / "base", {"w": start}, {})
    drift = [rng.standard_normal(start.size).astype(np.float32) * np.float32(1e-3) for _ in range(2)]
    members = [write_model(tmp_path / f"m{at}", {"w": start + one}, {}) for at, one in enumerate(drift)]
    plan = parse_plan(ties_config(base, members, [0.6, 0.4], density=0.5), tmp_path)
    full, part = compare_dialects(plan), compare_dialects(plan, limit=150_000, seed=1)
    assert full.exact and not part.exact and part.looked < 200_000
    for whole, share in zip(full.total, part.total, strict=True):
        assert share.differ.low <= whole.differ.value <= share.differ.high
        assert share.relative.low <= whole.relative.value <= share.relative.high


def test_the_shell_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, members = write_pool(tmp_path, 2)
    path = tmp_path / "config.yml"
    path.write_text(ties_config(base, members, [0.7, 0.3]))
    assert run(["dialects", str(path)]) == 0
    assert "Compared at every parameter" in capsys.readouterr().out
    assert run(["dialects", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["total"]) == 3
    with pytest.raises(PlanError, match="this plan's method is task_arithmetic"):
        text = ties_config(base, members, method="task_arithmetic").replace(", density: 1.0", "")
        compare_dialects(parse_plan(text, tmp_path))
