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
    heads, kv_heads, width = (config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    experts: dict[str, dict[int, np.ndarray]] = {}
    for name, one in tensors.items():
        stem, _, kind = name.rpartition(".")
        module, last = stem.rpartition(".")[0], stem.rpartition(".")[2]
        if ".experts." in name:
            before, number = module.split(".experts.")
            experts.setdefault(f"{before}.experts|{last}", {})[int(number)] = one
        elif last == "q_proj":
            for rank in range(tp):
                q = one[rank * heads // tp * width : (rank + 1) * heads // tp * width]
                parts = [q]
                for other in ("k_proj", "v_proj"):
                    whole = tensors[f"{module}.{other}.{kind}"]
                    each = max(1, kv_heads // tp)
                    first = rank * each if kv_heads >= tp else rank // (tp // kv_heads)
                    parts.append(whole[first * width : (first + each) * width])
                ranks[rank][f"{module}.qkv_proj.{kind}"] = np.concatenate(parts)
        elif last == "gate_proj":
            up = tensors[f"{module}.up_proj.{kind}"]
            for rank, (a, b) in enumerate(zip(np.split(one, tp), np.split(up, tp), strict=True)):
                ranks[rank][f"{module}.gate_up_proj.{kind}"] = np.concatenate([a, b])
        elif last in ("o_proj", "down_proj") and kind == "weight":
            for rank, part in enumerate(np.split(one, tp, axis=1)):
                ranks[rank][name] = part
        elif last in ("embed_tokens", "lm_head"):
            padded = np.zeros((-(-len(one) // 64) * 64, *one.shape[1:]), one.dtype)
            padded[: len(one)] = one
            for rank, part in enumerate(np.split(padded, tp)):
                ranks[rank][name] = part
        elif last not in ("k_proj", "v_proj", "up_proj"):
            for mine in ranks:
                mine[name] = one
    for key, by_number in experts.items():
        stem, last = key.split("|")
        one = np.stack([by_number[number] for number in range(len(by_number))])
        if last == "gate_proj":
            others = experts[f"{stem}|up_proj"]
            up = np.stack([others[number] for number in range(len(others))])
            for rank, (a, b) in enumerate(zip(np.split(one, tp, 1), np.split(up, tp, 1), strict=True)):
                ranks[rank][f"{stem}.w13_weight"] = np.concatenate([a, b], axis=1)
        elif last == "down_proj":
            for rank, part in enumerate(np.split(one, tp, 2)):
                ranks[rank][f"{stem}.w2_weight"] = part
    return [{name: np.ascontiguousarray(one) for name, one in rank.items()} for rank in ranks]


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
