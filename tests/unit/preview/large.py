"""Checkpoints of the shape of an 8B model in several shards, as sparse files: they take no room on disk."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from core.merge.header import ITEM_SIZES

LAYERS, SHARDS = 36, 4


def shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of a model of 8.2e9 parameters."""
    h, m, kv = 4096, 12288, 1024
    found: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (151936, h),
        "lm_head.weight": (151936, h),
        "model.norm.weight": (h,),
    }
    one = {
        "input_layernorm": (h,), "post_attention_layernorm": (h,),
        "self_attn.q_norm": (128,), "self_attn.k_norm": (128,),
        "self_attn.q_proj": (h, h), "self_attn.k_proj": (kv, h), "self_attn.v_proj": (kv, h),
        "self_attn.o_proj": (h, h), "mlp.gate_proj": (m, h), "mlp.up_proj": (m, h), "mlp.down_proj": (h, m),
    }  # fmt: skip
    for layer in range(LAYERS):
        found |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in one.items()}
    return found


def write_large(root: Path, members: int) -> tuple[Path, list[Path]]:
    """A base and members of bf16 zeros."""
    folders = [root / ("base" if one < 0 else f"member-{one}") for one in range(-1, members)]
    for folder in folders:
        folder.mkdir(parents=True)
        weight_map: dict[str, str] = {}
        for shard in range(SHARDS):
            name = f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors"
            weight_map |= dict.fromkeys(_write_shard(folder / name, dict([*shapes().items()][shard::SHARDS])), name)
        index = {"metadata": {}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        (folder / "config.json").write_text("{}")
    return folders[0], folders[1:]


def _write_shard(path: Path, tensors: dict[str, tuple[int, ...]]) -> list[str]:
    text, end = header_of({name: ("BF16", shape) for name, shape in tensors.items()})
    with path.open("wb") as file:
        file.write(text)
        file.truncate(len(text) + end)
    return list(tensors)


def header_of(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> tuple[bytes, int]:
    """A safetensors header from dtypes and shapes, and the bytes of data that follow it."""
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = ITEM_SIZES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, end


def noise(base: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """bf16 bits of a member: a tenth to a third of the base's values (bf16 bits) moved by a few ulps."""
    value = (base.astype(np.uint32) << 16).view(np.float32)
    moved = value + 3e-4 * rng.standard_normal(value.shape, np.float32) * (rng.random(value.shape) < 0.3)
    return (moved.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
