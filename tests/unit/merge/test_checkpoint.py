"""Opening checkpoints: good folders, broken files, and forms that cannot be read.

Run: .venv/bin/python -m pytest tests/unit/merge/test_checkpoint.py
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import CheckpointError
from core.merge import checkpoint_summary, open_checkpoint
from tests.unit.merge.models import CONFIG, random_tensors, save, write_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model", random_tensors(0))


def shard(model: Path) -> None:
    """Split a one-file model in two shards and an index."""
    tensors = random_tensors(0)
    names = list(tensors)
    (model / "model.safetensors").unlink()
    weight_map = {}
    for number, part in enumerate((names[:9], names[9:]), start=1):
        file = f"model-{number:05d}-of-00002.safetensors"
        save(model / file, {name: tensors[name] for name in part})
        weight_map |= dict.fromkeys(part, file)
    (model / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def rewrite_header(path: Path, change: Any) -> None:
    """Change a file's header object in place, keeping its data."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def test_a_single_file(model: Path) -> None:
    found = open_checkpoint(model)
    assert len(found.tensors) == 24
    info = found.tensors["model.layers.1.mlp.up_proj.weight"]
    assert (info.dtype, info.shape, info.nbytes) == ("BF16", (24, 16), 768)
    data = info.file.read_bytes()[info.offset : info.offset + info.nbytes]
    assert data == random_tensors(0)["model.layers.1.mlp.up_proj.weight"].tobytes()
    assert found.tied
    assert found.embedding == "model.embed_tokens.weight"
    assert checkpoint_summary(model) == ("bfloat16", sum(one.size for one in random_tensors(0).values()))


def test_shards_hold_the_same_tensors(model: Path) -> None:
    before = {name: (one.dtype, one.shape) for name, one in open_checkpoint(model).tensors.items()}
    shard(model)
    found = open_checkpoint(model)
    assert {name: (one.dtype, one.shape) for name, one in found.tensors.items()} == before
    assert len(found.files) == 2


def test_mixed_dtypes_are_named_most_first(tmp_path: Path) -> None:
    tensors = {"a": np.zeros(10, np.uint16), "b": np.zeros(3, np.float32), "steps": np.zeros(2, np.int64)}
    assert checkpoint_summary(write_model(tmp_path / "m", tensors)) == ("bfloat16, float32", 13)


def test_a_missing_shard(model: Path) -> None:
    shard(model)
    (model / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"shard model-00002-of-00002\.safetensors is missing"):
        open_checkpoint(model)


def test_a_tensor_that_its_shard_does_not_hold(model: Path) -> None:
    shard(model)
    path = model / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["ghost"] = "model-00001-of-00002.safetensors"
    path.write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="ghost is not in it"):
        open_checkpoint(model)


def test_an_index_may_not_point_outside_its_folder(model: Path) -> None:
    shard(model)
    path = model / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"a": "../model.safetensors"}}))
    with pytest.raises(CheckpointError, match="of this folder"):
        open_checkpoint(model)


def test_a_stale_index_beside_a_whole_file_is_ignored_with_a_warning(model: Path) -> None:
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
    found = open_checkpoint(model)
    assert len(found.tensors) == 24
    assert "ignored" in found.warnings[0]


@pytest.mark.parametrize("keep", [0, 5, 8, 200, -1])
def test_a_truncated_file(model: Path, keep: int) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"truncated|not a complete safetensors file"):
        open_checkpoint(model)


def test_bytes_after_the_last_tensor(model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes() + b"1234")
    with pytest.raises(CheckpointError, match="4 bytes after its last tensor"):
        open_checkpoint(model)


NORM = "model.norm.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header[NORM].update(shape=[17]), "needs 34 bytes"),
        (lambda header: header[NORM].update(shape=[-16]), "whole numbers"),
        (lambda header: header[NORM].update(shape=[True]), "whole numbers"),
        (lambda header: header[NORM].update(dtype="F4"), "dtype 'F4'"),
        (lambda header: header[NORM].update(data_offsets=[0, 32]), "overlaps"),
        (lambda header: header[NORM].update(data_offsets=[1 << 40, (1 << 40) + 32]), "gap|truncated"),
        (lambda header: header.update({NORM: 3}), "expected dtype, shape"),
        (lambda header: header.pop(NORM), "gap"),
    ],
)
def test_a_header_that_does_not_add_up(model: Path, change: Any, message: str) -> None:
    rewrite_header(model / "model.safetensors", change)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(model)


def test_a_header_with_a_name_twice_or_no_json(tmp_path: Path) -> None:
    for number, text in enumerate((b'{"a":1,"a":2}', b"{nonsense}", b"[1]", b'{"\\ud800":1}')):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
        with pytest.raises(CheckpointError, match="header"):
            open_checkpoint(folder)


FORMS = [
    (["pytorch_model_fsdp_0/__0_0.distcp"], "accelerate merge-weights"),
    (["actor/model_world_size_8_rank_0.pt"], "verl.model_merger merge --backend fsdp"),
    (["actor/dist_ckpt/x"], "--backend megatron"),
    (["latest", "global_step200/mp_rank_00_model_states.pt"], "zero_to_fp32.py"),
    (["iter_0000200/x.distcp"], "convert_torch_dist_to_hf.py"),
    (["adapter_config.json", "adapter_model.safetensors"], "merge_and_unload"),
    (["model-rank-0-part-0.safetensors", "model.safetensors.index.json"], "not a complete safetensors file"),
    (["model-rank-x-part-0.safetensors"], "holds no weights"),
    (["pytorch_model.bin"], "weights_only=True"),
    (["model.pth"], "weights_only=True"),
    (["model.gguf"], "Quantised"),
    (["config.json"], "holds no weights"),
]


@pytest.mark.parametrize(("files", "advice"), FORMS, ids=[files[0] for files, _ in FORMS])
def test_other_forms_are_recognised_and_answered_with_their_conversion(
    tmp_path: Path, files: list[str], advice: str
) -> None:
    for name in files:
        (tmp_path / "c" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "c" / name).write_text("{}")
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path / "c")
    assert advice in str(caught.value)
    assert str(tmp_path / "c") in str(caught.value)


def test_optimizer_files_beside_weights_do_not_matter(model: Path) -> None:
    for name in ("optimizer.pt", "scheduler.pt", "training_args.bin", "latest"):
        (model / name).write_text("x")
    assert open_checkpoint(model).parameters


def test_quantised_weights_are_refused(tmp_path: Path) -> None:
    config = CONFIG | {"quantization_config": {"quant_method": "gptq"}}
    with pytest.raises(CheckpointError, match=r"quantised weights \(gptq\)"):
        open_checkpoint(write_model(tmp_path / "q", random_tensors(0), config))


def test_a_folder_that_is_not_there_or_is_a_file(model: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        open_checkpoint(tmp_path / "gone")
    with pytest.raises(CheckpointError, match="is a file"):
        open_checkpoint(model / "model.safetensors")
