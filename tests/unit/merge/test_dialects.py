"""The dialects of TIES against the paper's procedure written plainly, and what they say of themselves.

Run: .venv/bin/python -m pytest tests/unit/merge/test_dialects.py
"""

import json
from pathlib import Path

import numpy as np
import pytest

from core.errors import PlanError
from core.merge import parse_plan, run_merge, with_dialect
from tests.unit.merge import reference
from tests.unit.merge.models import from_bf16, load, ties_config, to_bf16, write_model

SHAPES = {"a.weight": (30, 7), "b.weight": (11,), "c.weight": (1,)}


def flat(tensors: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([tensors[name].ravel() for name in sorted(tensors)])


@pytest.fixture
def pool(tmp_path: Path) -> tuple[Path, list[Path], list[np.ndarray]]:
    """Coarse drifts, so that magnitudes tie, votes cancel, and one tensor moves far more than the others."""
    rng = np.random.default_rng(5)
    start = {name: to_bf16(rng.standard_normal(shape) * 0.5) for name, shape in SHAPES.items()}
    folders, vectors = [write_model(tmp_path / "base", start, {})], []
    vectors.append(flat({name: from_bf16(one) for name, one in start.items()}))
    for at in range(3):
        steps = {name: np.round(rng.standard_normal(shape)) / 64 for name, shape in SHAPES.items()}
        steps["b.weight"] *= 8
        moved = {name: to_bf16(from_bf16(one) + steps[name].astype(np.float32)) for name, one in start.items()}
        folders.append(write_model(tmp_path / f"m{at}", moved, {}))
        vectors.append(flat({name: from_bf16(one) for name, one in moved.items()}))
    return folders[0], folders[1:], vectors


@pytest.mark.parametrize("density", [1.0, 0.5, 0.2])
@pytest.mark.parametrize("dialect", ["paper", "sum"])
def test_a_dialect_is_the_papers_procedure_over_whole_vectors(pool, tmp_path: Path, dialect: str, density: float):
    base, members, vectors = pool
    extra = "parameters: {lambda: 0.75}\ndtype: float32\n"
    text = ties_config(base, members, [0.5, 0.3, 0.2], density=density, extra=extra)
    plan = with_dialect(parse_plan(text, tmp_path), dialect)
    result = run_merge(plan, tmp_path / "out")
    expected = reference.paper(vectors[0], vectors[1:], [density] * 3, mean=dialect == "paper", scale=0.75)
    assert np.array_equal(flat(load(tmp_path / "out" / "model.safetensors")), expected)
    assert any("ignores the members' weights" in one for one in result.warnings)
    found = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert found["recipe"]["dialect"] == found["settings"]["dialect"] == dialect
    assert "whole vector" in found["tie_rule"]


def test_dialects_differ(pool, tmp_path: Path) -> None:
    base, members, _ = pool
    plan = parse_plan(ties_config(base, members, [0.5, 0.3, 0.2], density=0.4), tmp_path)
    values = []
    for dialect in ("mergekit", "paper", "sum"):
        run_merge(with_dialect(plan, dialect), tmp_path / dialect)
        values.append(flat(load(tmp_path / dialect / "model.safetensors")).tobytes())
    assert len(set(values)) == 3


def test_a_dialect_is_for_ties_alone(pool, tmp_path: Path) -> None:
    base, members, _ = pool
    with pytest.raises(PlanError, match="expected mergekit, paper, sum, found 'fusion'"):
        with_dialect(parse_plan(ties_config(base, members), tmp_path), "fusion")
    linear = parse_plan(ties_config(base, members, method="task_arithmetic"), tmp_path)
    with pytest.raises(PlanError, match="a way to do ties; this plan's method is task_arithmetic"):
        with_dialect(linear, "paper")
