"""Formats against torch, rounding at random against its mean, and the lens on changes of known size.

Run: .venv/bin/python -m pytest tests/unit/precision/test_lens.py
"""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cli.app import run
from core.errors import CheckpointError
from core.precision.formats import FORMATS, nearest, stochastic, ulp_of
from core.precision.lens import lens
from core.precision.sampling import choose
from tests.unit.merge.models import write_model

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
TORCH = {"bf16": "bfloat16", "fp16": "float16", "fp8 e4m3": "float8_e4m3fn", "fp8 e5m2": "float8_e5m2"}


@pytest.mark.parametrize("name", list(TORCH))
@given(values=st.lists(st.one_of(FLOATS, st.floats(-600, 600, width=32)), max_size=30))
def test_the_nearest_is_torchs(name: str, values: list[float]) -> None:
    import torch

    array = np.array(values, np.float32)
    if name == "fp8 e4m3":  # It has no infinity, and torch's versions differ on what is too large.
        array = array[np.abs(array) <= 464]
    expected = torch.from_numpy(array).to(getattr(torch, TORCH[name])).to(torch.float64).numpy()
    assert np.array_equal(nearest(array, FORMATS[name]), expected)


@pytest.mark.parametrize("name", list(TORCH))
def test_at_random_means_a_neighbour_and_no_bias(name: str) -> None:
    form = FORMATS[name]
    values = np.full(40_000, 1.0, np.float32) + np.float32(0.3 * ulp_of(np.array([1.0]), form)[0])
    rounded = stochastic(values, form, np.random.default_rng(0))
    step = 2.0 ** (1 - form.significand)
    assert set(rounded.tolist()) == {1.0, 1.0 + step}
    assert abs((rounded - values).mean()) < 0.02 * step
    assert np.array_equal(rounded, stochastic(values, form, np.random.default_rng(0)))


def pool(root: Path, steps: list[float]) -> tuple[Path, Path]:
    """A base of ones, and a model that moves each by some bf16 ulps (2^−7)."""
    base = np.ones(len(steps), np.float32)
    moved = base + np.array(steps, np.float32) / 128
    name = "model.layers.1.mlp.up_proj.weight"
    return write_model(root / "base", {name: base}, {}), write_model(root / "model", {name: moved}, {})


def test_the_cliff_is_at_half_an_ulp(tmp_path: Path) -> None:
    base, model = pool(tmp_path, [1.0, 1.0, 4.0, 0.0])
    found = lens(base, model, scales=(0.1, 0.45, 0.55, 1.0))
    curve = {one.format: [share.value for share in one.survival] for one in found.curves}
    assert curve["bf16"] == [0.0, 1 / 3, 1.0, 1.0]  # 4 ulps survive from ⅛ on, 1 ulp from ½
    assert curve["fp16"] == [1.0] * 4
    assert (found.changed, found.exact) == (3, True)


def test_files_bias_and_groups_by_hand(tmp_path: Path) -> None:
    base, model = pool(tmp_path, [0.25, 0.25, 1.0])
    found = lens(base, model)
    rows = {(one.format, one.rounding): one for one in found.files}
    bf16 = rows["bf16", "nearest"]
    assert bf16.lost.value == 2 / 3
    assert bf16.bias.value == pytest.approx(-0.5 / 1.5)
    assert bf16.relative_l2 == pytest.approx(np.sqrt(2 / 16) / np.sqrt(2 / 16 + 1))
    assert (bf16.bytes, rows["fp32", "nearest"].lost.value) == (6, 0)
    assert [(one.name, one.changed, one.lost.value) for one in found.layers] == [("layer 1", 3, 2 / 3)]
    assert found.modules[0].name == "mlp.up_proj"
    sizes = {one.name: (one.changed, one.lost.value) for one in found.sizes if one.changed}
    assert sizes == {"2^−2 to 2^−1": (2, 1.0), "2^0 to 2^1": (1, 0.0)}


def test_a_sample_covers_what_a_full_look_finds(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    base, model = pool(tmp_path, list(rng.standard_normal(600_000) * np.repeat(rng.random(60), 10_000)))
    full = lens(base, model, scales=(0.5, 1.0))
    part = lens(base, model, scales=(0.5, 1.0), limit=200_000, seed=3)
    assert full.exact and not part.exact and part.looked < 250_000
    for whole, share in zip(full.curves[0].survival, part.curves[0].survival, strict=True):
        assert share.low < whole.value < share.high and share.high - share.low < 0.3


def test_blocks_stand_for_all() -> None:
    blocks = choose(["a", "b"], [4096 * 100 + 5, 7], limit=4096 * 10, seed=0)
    assert blocks.taken.tolist() == [10, 1] and blocks.of.tolist() == [101, 1]
    assert blocks.total(np.ones(11)) == pytest.approx(102)


def test_the_shell_says_it_and_refuses_what_does_not_match(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, model = pool(tmp_path, [0.25, 1.0])
    assert run(["lens", str(model), str(base)]) == 0
    assert "2 of 2 parameters changed; looked at every parameter." in capsys.readouterr().out
    assert run(["lens", str(model), str(base), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"][1]["lost"]["value"] == 0.5
    other = write_model(tmp_path / "other", {"x": np.ones(3, np.float32)}, {})
    with pytest.raises(CheckpointError, match="shares no floating-point tensor"):
        lens(base, other)
