"""Tiny vLLM sharded states for tests: a splitter of its own, written from the layout, without the code under test."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.unit.merge.models import CONFIG, save

Tensors = dict[str, np.ndarray]
MOE_CONFIG = CONFIG | {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 3, "moe_intermediate_size": 8,
    "tie_word_embeddings": False, "num_key_value_heads": 2,
}  # fmt: skip


def split(tensors: Mapping[str, np.ndarray], tp: int, config: Mapping[str, Any] = CONFIG) -> list[Tensors]:
    """Each rank's tensors as vLLM holds them: fused projections, padded vocabulary, repeated norms."""
    ranks: list[Tensors] = [{} for _ in range(tp)]
    for name, one in tensors.items():
        stem, _, kind = name.rpartition(".")
        module, _, last = stem.rpartition(".")
        if last in ("k_proj", "v_proj", "up_proj") or ".experts." in name:
            continue
        held, parts = name, [one] * tp
        if last == "q_proj":
            others = [tensors[f"{module}.{letter}_proj.{kind}"] for letter in "kv"]
            held, parts = f"{module}.qkv_proj.{kind}", fused_heads(one, *others, tp, config)
        elif last == "gate_proj":
            halves = zip(np.split(one, tp), np.split(tensors[f"{module}.up_proj.{kind}"], tp), strict=True)
            held, parts = f"{module}.gate_up_proj.{kind}", [np.concatenate(pair) for pair in halves]
        elif last in ("o_proj", "down_proj") and kind == "weight":
            parts = np.split(one, tp, axis=1)
        elif last in ("embed_tokens", "lm_head"):
            padded = np.zeros((-(-len(one) // 64) * 64, *one.shape[1:]), one.dtype)
            padded[: len(one)] = one
            parts = np.split(padded, tp)
        for rank, part in zip(ranks, parts, strict=True):
            rank[held] = part
    for rank, experts in zip(ranks, fused_experts(tensors, tp), strict=True):
        rank.update(experts)
    return [{name: np.ascontiguousarray(one) for name, one in rank.items()} for rank in ranks]


def fused_heads(q: np.ndarray, k: np.ndarray, v: np.ndarray, tp: int, config: Mapping[str, Any]) -> list[np.ndarray]:
    """[q; k; v] of each rank; with more ranks than key-value heads, neighbours hold the same k and v."""
    heads, kv_heads, width = (config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    mine, each = heads // tp * width, max(1, kv_heads // tp) * width
    found = []
    for rank in range(tp):
        first = rank * each if kv_heads >= tp else rank // (tp // kv_heads) * each
        found.append(np.concatenate([q[rank * mine :][:mine], k[first:][:each], v[first:][:each]]))
    return found


def fused_experts(tensors: Mapping[str, np.ndarray], tp: int) -> list[Tensors]:
    """w13 (experts, [gate; up], hidden) and w2 (experts, hidden, slice) of each rank."""
    ranks: list[Tensors] = [{} for _ in range(tp)]
    for module in sorted({name.split(".experts.")[0] for name in tensors if ".experts." in name}):
        count = sum(name.startswith(f"{module}.experts.") for name in tensors) // 3
        gate, up, down = (
            np.stack([tensors[f"{module}.experts.{number}.{kind}_proj.weight"] for number in range(count)])
            for kind in ("gate", "up", "down")
        )
        slices = zip(ranks, np.split(gate, tp, 1), np.split(up, tp, 1), np.split(down, tp, 2), strict=True)
        for rank, gates, ups, downs in slices:
            rank[f"{module}.experts.w13_weight"] = np.concatenate([gates, ups], axis=1)
            rank[f"{module}.experts.w2_weight"] = downs
    return ranks


def write_ranks(
    folder: Path,
    ranks: Sequence[Tensors],
    config: Mapping[str, Any] | None = CONFIG,
    *,
    parts: int = 1,
    names: Sequence[str] | None = None,
) -> Path:
    """A sharded state, each rank in so many parts; `names` are the ranks' (`rank-0` … when not given)."""
    folder.mkdir(parents=True)
    for number, tensors in enumerate(ranks):
        rank = names[number] if names else f"rank-{number}"
        listed = list(tensors.items())
        for part in range(parts):
            save(folder / f"model-{rank}-part-{part}.safetensors", dict(listed[part::parts]))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(dict(config)))
    vocabulary = {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": vocabulary}))
    return folder


def moe_tensors(seed: int) -> Tensors:
    """Weights of a Qwen3 mixture of experts, untied, two layers."""
    rng = np.random.default_rng(seed)
    c = MOE_CONFIG
    h, m, d = c["hidden_size"], c["moe_intermediate_size"], c["head_dim"]
    q, k = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (c["vocab_size"], h), "model.norm.weight": (h,)}
    shapes["lm_head.weight"] = (c["vocab_size"], h)
    for layer in range(c["num_hidden_layers"]):
        one = {
            "input_layernorm": (h,), "post_attention_layernorm": (h,),
            "self_attn.q_norm": (d,), "self_attn.k_norm": (d,),
            "self_attn.q_proj": (q, h), "self_attn.k_proj": (k, h), "self_attn.v_proj": (k, h),
            "self_attn.o_proj": (h, q), "mlp.gate": (c["num_experts"], h),
        }  # fmt: skip
        for number in range(c["num_experts"]):
            one |= {f"mlp.experts.{number}.gate_proj": (m, h), f"mlp.experts.{number}.up_proj": (m, h)}
            one |= {f"mlp.experts.{number}.down_proj": (h, m)}
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in one.items()}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
