"""The preflight: everything that stands in the way is listed, and what the merge will take, from headers alone.

Run: .venv/bin/python -m pytest tests/unit/merge/test_preflight.py
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import Cancelled
from core.merge import Preflight, open_checkpoint, parse_plan, preflight, run_merge
from core.merge.differences import meaning
from core.merge.scan import PIECE, count_non_finite, scan_weights
from tests.unit.merge.models import CONFIG, random_tensors, save, ties_config, to_bf16, write_model, write_pool
from tests.unit.merge.sharded import split, write_ranks

Pool = tuple[Path, list[Path]]


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    return write_pool(tmp_path / "models", 2)


def checked(pool: Pool, out: Path, **options: Any) -> Preflight:
    return preflight(parse_plan(ties_config(*pool), out.parent), out, **options)


def change(folder: Path, **tensors: np.ndarray | None) -> None:
    """Write a model's weights again with some tensors (`__` for dots) replaced, added, or left out."""
    kept = random_tensors(1)
    for spelled, one in tensors.items():
        name = spelled.replace("__", ".")
        kept.pop(name, None)
        if one is not None:
            kept[name] = one
    save(folder / "model.safetensors", kept)


def write_config(folder: Path, **settings: Any) -> None:
    (folder / "config.json").write_text(json.dumps(CONFIG | settings))


def test_each_model_is_described_from_its_headers(pool: Pool, tmp_path: Path) -> None:
    found = checked(pool, tmp_path / "out")
    assert found.ok and (found.engine, found.method, found.out_dtype) == ("streaming", "ties", "float32")
    assert [one.role for one in found.models] == ["base", "member 1", "member 2"]
    one = found.models[1]
    assert (one.folder, one.form, one.files) == (str(pool[1][0]), "one file", 1)
    assert (one.parameters, one.bytes, dict(one.dtypes)) == (4592, 2 * 4592, {"bfloat16": 4592})
    assert (one.tied, one.vocabulary) == (True, 40)
    assert (found.tensors, found.elements, found.bytes_to_read) == (24, 4592, 3 * 2 * 4592)
    assert found.disk_needed == 4 * 4592 + (64 << 20)
    assert not (tmp_path / "out").exists()
    assert json.loads(json.dumps(found.as_dict()))["models"][2]["dtypes"] == {"bfloat16": 4592}


def test_every_problem_is_listed_of_every_member(pool: Pool, tmp_path: Path) -> None:
    change(pool[1][0], model__norm__weight=np.zeros(8, np.uint16), more__weight=np.zeros(3, np.uint16))
    change(pool[1][1], model__norm__weight=None)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    said = checked(pool, tmp_path / "out").problems
    parts = (
        "model.norm.weight: shape [8]",
        "member-1: tensor model.norm.weight is missing",
        "member-0: tensor more.weight is not in",
        "is not empty",
    )
    assert len(said) == len(parts)
    for part in parts:
        assert sum(part in one for one in said) == 1, said


def test_a_tensor_that_fits_one_member_only_names_each_other_one(tmp_path: Path) -> None:
    base, members = write_pool(tmp_path / "models", 3)
    for folder in members[1:]:
        change(folder, model__norm__weight=np.zeros(8, np.uint16))
    said = checked((base, members), tmp_path / "out").problems
    assert [("member-1" in one, "member-2" in one) for one in said] == [(True, False), (False, True)]


def test_models_that_cannot_be_opened_are_all_named_and_the_others_described(pool: Pool, tmp_path: Path) -> None:
    (pool[0] / "model.safetensors").unlink()
    (pool[1][1] / "model.safetensors").write_bytes(b"short")
    found = checked(pool, tmp_path / "out")
    assert len(found.problems) == 2
    assert "holds no weights" in found.problems[0] and "not a complete safetensors" in found.problems[1]
    assert [one.role for one in found.models] == ["member 1"]
    assert found.bytes_to_read == 2 * 4592


def test_experts_named_in_two_ways_are_one_problem(pool: Pool, tmp_path: Path) -> None:
    expert = "model__layers__0__mlp__experts__{}__weight"
    parts = ("gate_proj", "up_proj", "down_proj")
    single = {expert.format(f"{n}__{part}"): np.zeros((4, 4), np.uint16) for n in range(50) for part in parts}
    fused = {"model__layers__0__mlp__experts__gate_up_proj": np.zeros((50, 8, 4), np.uint16)}
    change(pool[0], **single)
    change(pool[1][0], **single)
    change(pool[1][1], **fused)
    said = checked(pool, tmp_path / "out").problems
    assert len(said) == 1
    assert "member-1: names its experts `experts.gate_up_proj`" in said[0] and "`experts.0.gate_proj`" in said[0]


def test_mixed_dtypes_are_said(tmp_path: Path) -> None:
    start = random_tensors(0, "fp32")
    base = write_model(tmp_path / "base", start)
    member = write_model(tmp_path / "member", random_tensors(1, "fp32", base=start))
    save(member / "model.safetensors", {name: to_bf16(one) for name, one in start.items()})
    found = checked((base, [member]), tmp_path / "out")
    assert found.ok
    assert any("float32: base; bfloat16: member" in one for one in found.warnings)


def test_configs_are_compared_by_meaning(pool: Pool, tmp_path: Path) -> None:
    write_config(pool[0], rope_theta=1e6, torch_dtype="float32", transformers_version="4.51.0")
    write_config(pool[1][0], rope_parameters={"rope_type": "default", "rope_theta": 1e6}, transformers_version="5.0.0")
    write_config(pool[1][1], rope_parameters={"rope_type": "default", "rope_theta": 1e4}, rms_norm_eps=1e-5)
    said = [one for one in checked(pool, tmp_path / "out").warnings if "config.json" in one]
    assert len(said) == 1
    assert "member-1" in said[0] and "RoPE theta 10000.0 against 1000000.0" in said[0]


def test_an_older_rope_scaling_means_what_todays_rope_parameters_do() -> None:
    older = {"rope_theta": 5.0, "rope_scaling": {"type": "yarn", "factor": 4.0}}
    today = {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 5.0}}
    assert meaning(older) == meaning(today)
    assert meaning({"rope_theta": 5.0}) != meaning(today)


def test_different_tokenizers_are_said_before_the_merge(pool: Pool, tmp_path: Path) -> None:
    (pool[1][1] / "tokenizer.json").write_text("{}")
    assert any("member-1: its tokenizer.json differs" in one for one in checked(pool, tmp_path / "out").warnings)


def test_a_scan_finds_every_tensor_with_nan_or_infinity(pool: Pool, tmp_path: Path) -> None:
    bad = np.zeros(16, np.uint16)
    bad[[0, 3, 5]] = (0x7FC0, 0x7F80, 0xFF80)  # NaN, infinity, minus infinity
    change(pool[1][1], model__norm__weight=bad)
    assert checked(pool, tmp_path / "out").scan is None
    seen: list[tuple[str, float, float]] = []
    found = checked(pool, tmp_path / "out", scan=True, progress=lambda *call: seen.append(call[:3]))
    assert found.scan is not None
    assert [(one.folder, one.tensor, one.count, one.elements) for one in found.scan.found] == [
        (str(pool[1][1]), "model.norm.weight", 3, 16)
    ]
    assert found.problems == (f"{pool[1][1]}: tensor model.norm.weight has 3 values that are NaN or infinite, of 16.",)
    assert seen[-1] == ("scanning", 3 * 2 * 4592, 3 * 2 * 4592)


def test_a_scan_reads_tensors_larger_than_a_piece_to_the_end(tmp_path: Path) -> None:
    values = np.zeros(PIECE // 4 + 7, np.float32)
    values[[0, PIECE // 4 - 1, PIECE // 4, -1]] = np.nan
    folder = write_model(tmp_path / "big", {"w": values})
    assert [one.count for one in scan_weights([open_checkpoint(folder)]).found] == [4]


@pytest.mark.parametrize(
    ("values", "dtype", "count"),
    [
        (np.array([np.inf, -np.inf, np.nan, 65504, 0], np.float16), "F16", 3),
        (np.array([np.inf, np.nan, 3.4e38, -0.0], np.float32), "F32", 2),
        (np.array([0x7F7F, 0x7F80, 0xFFFF], np.uint16), "BF16", 2),
        (np.array([1e39, np.nan, 3.4e38, 1.0], np.float64), "F64", 2),
    ],
)
def test_values_that_fp32_cannot_hold_are_counted(values: np.ndarray, dtype: str, count: int) -> None:
    assert count_non_finite(values.view(np.uint8), dtype) == count


def test_a_scan_can_be_stopped(pool: Pool, tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        checked(pool, tmp_path / "out", scan=True, progress=stop)


def test_what_mergekit_itself_runs_is_checked_too(pool: Pool, tmp_path: Path) -> None:
    text = ties_config(*pool, method="dare_ties")
    found = preflight(parse_plan(text, tmp_path), tmp_path / "out")
    assert (found.ok, found.engine, found.memory_expected) == (True, "mergekit", None)
    (pool[1][0] / "model.safetensors").unlink()
    assert not preflight(parse_plan(text, tmp_path), tmp_path / "out").ok


def test_a_sharded_state_is_described_as_one(tmp_path: Path) -> None:
    start = random_tensors(0)
    base = write_ranks(tmp_path / "base", split(start, 2))
    member = write_ranks(tmp_path / "member", split(random_tensors(1, base=start), 2))
    found = checked((base, [member]), tmp_path / "out", scan=True)
    assert found.ok, found.problems
    assert [(one.form, one.files, one.vocabulary) for one in found.models] == [
        ("vLLM sharded state at TP 2", 2, None)
    ] * 2
    whole = write_model(tmp_path / "whole", start)
    assert not checked((base, [whole]), tmp_path / "out").ok


def test_the_disk_that_is_expected_is_what_the_merge_writes(pool: Pool, tmp_path: Path) -> None:
    found = checked(pool, tmp_path / "out")
    result = run_merge(parse_plan(ties_config(*pool), tmp_path), tmp_path / "out")
    weights = (tmp_path / "out" / "model.safetensors").stat().st_size
    assert 4 * found.elements <= weights <= result.bytes_written <= found.disk_needed
    assert result.tensors == found.tensors and result.elements == found.elements
