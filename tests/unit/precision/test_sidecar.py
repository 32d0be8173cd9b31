"""bf16 and residual give the fp32 back, bit for bit, for every finite pattern; a changed file is found out.

Run: .venv/bin/python -m pytest tests/unit/precision/test_sidecar.py
"""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cli.app import run
from core.errors import CheckpointError, InputError
from core.merge import open_checkpoint
from core.precision.residual import decode, encode
from core.precision.sidecar import RESIDUAL_FILE, restore, write
from tests.unit.merge.models import load, to_bf16, write_model, write_pool

FINITE = st.integers(0, 2**32 - 1).filter(lambda one: one & 0x7F800000 != 0x7F800000)


@given(st.lists(st.one_of(FINITE, FINITE.map(lambda one: one & 0xFFFF0000 | 0x8000)), max_size=40))
def test_every_finite_pattern_comes_back(patterns: list[int]) -> None:
    bits = np.array(patterns, np.uint32)
    rounded, low, ties = encode(bits)
    assert np.array_equal(rounded, to_bf16(bits.view(np.float32)))
    assert np.array_equal(decode(rounded, low, ties), bits)


def test_every_lower_half_comes_back_at_the_edges() -> None:
    """All 65,536 lower halves at zero, an odd and an even number, the smallest normal and the largest, both signs."""
    for high in (0x0000, 0x3F80, 0x3F81, 0x007F, 0x0080, 0x7F7F, 0x8000, 0xBF81, 0xFF7F):
        bits = np.uint32(high << 16) | np.arange(65536, dtype=np.uint32)
        assert np.array_equal(decode(*encode(bits)), bits)


def test_ties_by_hand() -> None:
    """1 + ½ulp rounds down to the even 1, 1 + 1½ulp up to the even 1 + 2ulp."""
    rounded, low, ties = encode(np.array([1 + 2**-8, 1 + 3 * 2**-8, 1], np.float32).view(np.uint32))
    assert rounded.tolist() == [0x3F80, 0x3F82, 0x3F80]
    assert low.tolist() == [0x8000, 0x8000, 0]
    assert ties.tolist() == [False, True]


def test_a_model_is_written_and_restored(tmp_path: Path) -> None:
    base, _ = write_pool(tmp_path, 0, "fp32")
    done = write(base, tmp_path / "small")
    assert done.exact and done.bf16_bytes * 2 == done.fp32_bytes == 4 * done.elements
    assert done.residual_bytes < done.bf16_bytes + 20_000
    assert open_checkpoint(tmp_path / "small").dtype == "bfloat16"
    restored = restore(tmp_path / "small", tmp_path / "again")
    assert restored.exact and restored.tensors == done.tensors
    before, after = (load(one / "model.safetensors") for one in (base, tmp_path / "again"))
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name].view(np.uint32), after[name].view(np.uint32)) for name in before)


def test_a_changed_file_is_found_out(tmp_path: Path) -> None:
    base, _ = write_pool(tmp_path, 0, "fp32")
    write(base, tmp_path / "small")
    path = tmp_path / "small" / RESIDUAL_FILE
    data = bytearray(path.read_bytes())
    data[-2000] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="do not give the fp32 they were made of"):
        restore(tmp_path / "small", tmp_path / "again")
    assert not (tmp_path / "again").exists()
    path.unlink()
    with pytest.raises(CheckpointError, match="has no residual"):
        restore(tmp_path / "small", tmp_path / "again")


def test_what_has_no_residual_is_refused(tmp_path: Path) -> None:
    base, _ = write_pool(tmp_path, 0, "bf16")
    with pytest.raises(CheckpointError, match="has no float32 tensors"):
        write(base, tmp_path / "small")
    bad = write_model(tmp_path / "bad", {"w": np.array([1, np.nan], np.float32)}, {})
    with pytest.raises(CheckpointError, match="1 values that are NaN or infinite"):
        write(bad, tmp_path / "small")
    assert not (tmp_path / "small").exists()
    good = write_model(tmp_path / "good", {"w": np.array([1, 2], np.float32), "n": np.array([3])}, {})
    assert write(good, tmp_path / "small").other == 1
    with pytest.raises(InputError, match="is not empty"):
        write(good, tmp_path / "small")


def test_the_shell_writes_and_restores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, _ = write_pool(tmp_path, 0, "fp32")
    assert run(["sidecar", "write", str(base), str(tmp_path / "small"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exact"] is True
    assert run(["sidecar", "restore", str(tmp_path / "small"), str(tmp_path / "again")]) == 0
    assert "exact                 yes" in capsys.readouterr().out
    assert run(["sidecar", "restore", str(base), str(tmp_path / "third")]) == 2
    assert "has no residual.safetensors" in capsys.readouterr().err
