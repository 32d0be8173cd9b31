"""Tiny model folders for tests, written byte by byte, without the code under test."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "tie_word_embeddings": True,
    "max_position_embeddings": 64,
}
NAMES = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.uint16): "BF16"}
NAMES |= {np.dtype(np.int64): "I64", np.dtype(np.bool_): "BOOL", np.dtype(np.float64): "F64"}


def to_bf16(values: np.ndarray) -> np.ndarray:
    """bf16 bit patterns (uint16) of fp32 values, nearest, ties to even."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """fp32 values of bf16 bit patterns."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def save(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """A safetensors file; uint16 arrays are bf16 bit patterns."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, one in tensors.items():
        header[name] = {"dtype": NAMES[one.dtype], "shape": list(one.shape), "data_offsets": [end, end + one.nbytes]}
        end += one.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(one.tobytes() for one in tensors.values()))


def load(path: Path) -> dict[str, np.ndarray]:
    """Every tensor of a safetensors file, widened to fp32 where it is a float."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    kinds = {name: dtype for dtype, name in NAMES.items()}
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin : 8 + length + end], kinds[entry["dtype"]])
        if entry["dtype"] == "BF16":
            values = from_bf16(values)
        found[name] = (values.astype(np.float32) if values.dtype.kind == "f" else values).reshape(entry["shape"])
    return found


def shapes(config: Mapping[str, Any] = CONFIG) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a Qwen3 with tied embeddings."""
    h, m, d = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, k = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    found: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], h),
        "model.norm.weight": (h,),
    }
    for layer in range(config["num_hidden_layers"]):
        one = {
            "input_layernorm": (h,), "post_attention_layernorm": (h,),
            "self_attn.q_norm": (d,), "self_attn.k_norm": (d,),
            "self_attn.q_proj": (q, h), "self_attn.k_proj": (k, h), "self_attn.v_proj": (k, h),
            "self_attn.o_proj": (h, q), "mlp.gate_proj": (m, h), "mlp.up_proj": (m, h), "mlp.down_proj": (h, m),
        }  # fmt: skip
        found |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in one.items()}
    return found


def random_tensors(
    seed: int, dtype: str = "bf16", *, base: Mapping[str, np.ndarray] | None = None, config: Mapping[str, Any] = CONFIG
) -> dict[str, np.ndarray]:
    """Weights of σ = 0.02; with `base` (what this function gave) a drift of σ = 1e-3 from it."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in shapes(config).items():
        values = rng.standard_normal(shape).astype(np.float32) * np.float32(0.02 if base is None else 1e-3)
        if base is not None:
            before = from_bf16(base[name]) if base[name].dtype == np.uint16 else base[name].astype(np.float32)
            values = before + values
        found[name] = {"bf16": to_bf16, "fp16": np.float16, "fp32": np.float32}[dtype](values)
    return found


def write_model(folder: Path, tensors: Mapping[str, np.ndarray], config: Mapping[str, Any] = CONFIG) -> Path:
    """A Hugging Face folder in one file, with a tokenizer of two words."""
    folder.mkdir(parents=True)
    save(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(dict(config)))
    vocabulary = {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": vocabulary}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return folder


def write_pool(
    root: Path, members: int, dtype: str = "bf16", *, seed: int = 0, config: Mapping[str, Any] = CONFIG
) -> tuple[Path, list[Path]]:
    """A base and so many members that drifted from it."""
    start = random_tensors(seed, dtype, config=config)
    base = write_model(root / "base", start, config)
    drifted = [random_tensors(seed + 1 + n, dtype, base=start, config=config) for n in range(members)]
    return base, [write_model(root / f"member-{n}", one, config) for n, one in enumerate(drifted)]


def ties_config(
    base: Path,
    members: Sequence[Path],
    weights: Sequence[float] | None = None,
    *,
    density: float = 1.0,
    method: str = "ties",
    extra: str = "dtype: float32\n",
) -> str:
    """A mergekit config."""
    lines = [f"merge_method: {method}", f"base_model: {base}", "models:"]
    for path, weight in zip(members, weights or [1.0] * len(members), strict=True):
        lines += [f"  - model: {path}", f"    parameters: {{weight: {weight}, density: {density}}}"]
    return "\n".join(lines) + "\n" + extra
