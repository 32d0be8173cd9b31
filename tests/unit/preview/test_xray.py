"""One parameter followed by hand, and every parameter against what the engine wrote.

Run: .venv/bin/python -m pytest tests/unit/preview/test_xray.py
"""

from pathlib import Path

import numpy as np
import pytest

from core.errors import InputError
from core.merge import parse_plan, run_merge, with_dialect
from core.preview.xray import look, open_reader, xray
from tests.unit.merge.models import from_bf16, load, ties_config, to_bf16, write_model

SHAPES = {"a.weight": (30, 7), "b.weight": (11,), "c.weight": (1,)}


@pytest.fixture
def pool(tmp_path: Path) -> tuple[Path, list[Path]]:
    """Coarse drifts, so that magnitudes tie and votes cancel; members in bf16, fp16 and fp32."""
    rng = np.random.default_rng(5)
    start = {name: to_bf16(rng.standard_normal(shape) * 0.5) for name, shape in SHAPES.items()}
    folders = [write_model(tmp_path / "base", start, {})]
    for at, cast in enumerate((to_bf16, np.float16, np.float32)):
        moved = {}
        for name, one in start.items():
            step = (np.round(rng.standard_normal(one.shape)) / 64).astype(np.float32)
            moved[name] = cast(from_bf16(one) + step)
        folders.append(write_model(tmp_path / f"m{at}", moved, {}))
    return folders[0], folders[1:]


PLANS = [
    ("ties", [0.5, 0.3, 0.2], 1.0, "parameters: {lambda: 0.75}\n", "mergekit"),
    ("ties", [0.5, 0.3, 0.2], 0.4, "out_dtype: bfloat16\n", "mergekit"),
    ("ties", [0.5, -0.3, 0.2], 0.3, "parameters: {normalize: false}\n", "mergekit"),
    ("ties", [0.5, -0.3, -0.1], 0.6, "out_dtype: float16\n", "mergekit"),
    ("ties", [0.5, 0.3, 0.2], 0.4, "", "paper"),
    ("ties", [0.5, 0.3, 0.2], 0.4, "parameters: {lambda: 0.3}\n", "sum"),
    ("task_arithmetic", [0.5, -0.3, 0.4], 1.0, "parameters: {normalize: true, lambda: 1.5}\n", "mergekit"),
    ("task_arithmetic", [0.5, 0.3, 0.4], 1.0, "", "mergekit"),
]


@pytest.mark.parametrize("asked", PLANS)
def test_every_parameter_is_the_engines_to_the_bit(pool, tmp_path: Path, asked: tuple) -> None:
    base, members = pool
    method, weights, density, extra, dialect = asked
    text = ties_config(base, members, weights, density=density, method=method, extra=f"dtype: float32\n{extra}")
    if method != "ties":
        text = text.replace(f", density: {density}", "")
    plan = with_dialect(parse_plan(text, tmp_path), dialect)
    run_merge(plan, tmp_path / "out")
    with open_reader(plan) as reader:
        for name, merged in load(tmp_path / "out" / "model.safetensors").items():
            flat = merged.ravel()
            for index in range(flat.size):
                found = look(reader, name, index)
                assert np.float32(found.written).tobytes() == flat[index].tobytes(), (name, index)
                for one in found.members:
                    if one.rank is not None and one.delta != 0:
                        assert one.kept == (one.rank <= one.keeps)


def test_a_linear_merge_is_the_engines_to_the_bit(pool, tmp_path: Path) -> None:
    _, members = pool
    rows = "".join(f"  - model: {one}\n    parameters: {{weight: {0.1 + at}}}\n" for at, one in enumerate(members))
    plan = parse_plan(f"merge_method: linear\nmodels:\n{rows}dtype: float32\nout_dtype: float32\n", tmp_path)
    run_merge(plan, tmp_path / "out")
    merged = load(tmp_path / "out" / "model.safetensors")["a.weight"]
    with open_reader(plan) as reader:
        for place in ((0, 0), (3, 4), (29, 6)):
            found = look(reader, "a.weight", place)
            assert np.float32(found.merged) == merged[place]
            assert found.sign is None and found.position == place


def test_one_parameter_by_hand(tmp_path: Path) -> None:
    """Base 1; members move it by +1/8, −1/4 and +1/16; weights ½, ¼, ¼; half of the two elements is kept."""
    start = np.array([1, 1], np.float32)
    base = write_model(tmp_path / "base", {"w": start}, {})
    moves = ([0.125, 0.0], [-0.25, 0.125], [0.0625, 0.0625])
    members = [
        write_model(tmp_path / f"m{at}", {"w": start + np.array(one, np.float32)}, {}) for at, one in enumerate(moves)
    ]
    text = ties_config(base, members, [0.5, 0.25, 0.25], density=0.5, extra="dtype: float32\nout_dtype: bfloat16\n")
    found = xray(parse_plan(text, tmp_path), "w", 0)
    assert [one.delta for one in found.members] == [0.125, -0.25, 0.0625]
    assert [one.rank for one in found.members] == [1, 1, 1]
    assert [one.threshold for one in found.members] == [0.125, 0.25, 0.0625]
    assert [one.weighted for one in found.members] == [0.0625, -0.0625, 0.015625]
    assert (found.total, found.sign) == (0.015625, 1)
    assert [one.agrees for one in found.members] == [True, False, True]
    assert (found.mixed, found.divisor) == (0.078125, 0.75)
    assert found.mean == float(np.float32(0.078125) / np.float32(0.75))
    assert found.merged == float(np.float32(1) + np.float32(found.mean))
    assert found.written == found.bf16 == 1.1015625
    assert not found.lost_to_bf16
    tied = xray(parse_plan(text, tmp_path), "w", 1).members[2]
    assert (tied.rank, tied.keeps, tied.kept) == (2, 1, False)  # equal |δ|: the lower index is kept


def test_what_is_not_there_is_said(pool, tmp_path: Path) -> None:
    base, members = pool
    plan = parse_plan(ties_config(base, members), tmp_path)
    with pytest.raises(InputError, match=r"no tensor 'x'. Expected one of their 3"):
        xray(plan, "x", 0)
    with pytest.raises(InputError, match="index from 0 to 209"):
        xray(plan, "a.weight", 210)
    with pytest.raises(InputError, match=r"shape \[30, 7\]"):
        xray(plan, "a.weight", [7, 30])
