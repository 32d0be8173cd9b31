"""Times our merge against mergekit-yaml, as whole processes in turn, beside a raw read-and-write floor.

Takes a size and a number of repeats; writes synthetic Qwen3-shaped models (five bf16 members and a base)
in a temporary folder, prints medians and ratios, and removes everything. Run: python -m bench.merge_bench
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODELS = ("base", *(f"checkpoint-{number}" for number in range(1, 6)))
WEIGHTS = (0.45647, 0.45647, 0.07901, 0.00568, 0.00236)
DENSITIES = (1.0, 0.2)


@dataclass(frozen=True)
class Shape:
    """A Qwen3 of some size, with tied embeddings."""

    hidden: int
    layers: int
    vocabulary: int
    heads: int = 12
    kv_heads: int = 4
    head_dim: int = 64

    @property
    def intermediate(self) -> int:
        """Width of the MLP."""
        return 4 * self.hidden

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor."""
        h, m, q, k = self.hidden, self.intermediate, self.heads * self.head_dim, self.kv_heads * self.head_dim
        found: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocabulary, h),
            "model.norm.weight": (h,),
        }
        for layer in range(self.layers):
            shapes = {
                "self_attn.q_proj": (q, h), "self_attn.k_proj": (k, h), "self_attn.v_proj": (k, h),
                "self_attn.o_proj": (h, q), "self_attn.q_norm": (self.head_dim,), "self_attn.k_norm": (self.head_dim,),
                "mlp.gate_proj": (m, h), "mlp.up_proj": (m, h), "mlp.down_proj": (h, m),
                "input_layernorm": (h,), "post_attention_layernorm": (h,),
            }  # fmt: skip
            found |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in shapes.items()}
        return found

    def config(self) -> dict[str, Any]:
        """The config.json of transformers."""
        return {
            "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "dtype": "bfloat16",
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden, "intermediate_size": self.intermediate, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
            "tie_word_embeddings": True, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
        }  # fmt: skip


SHAPES = {
    "tiny": Shape(96, 4, 2000, 4, 2, 24),
    "166m": Shape(768, 12, 80_000),
    "600m": Shape(1024, 30, 150_000, 16, 8, 128),
}


@dataclass(frozen=True)
class Measured:
    """One process."""

    seconds: float
    peak_bytes: int
    cpu_seconds: float = 0.0
    """Of all cores: tells a busy machine from slow code."""


def write_models(folder: Path, shape: Shape) -> None:
    """Write the base and its members: σ = 0.02, each member drifted by σ = 1e-4, all bf16."""
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(0)
    base = {name: (torch.randn(size, generator=generator) * 0.02).bfloat16() for name, size in shape.tensors().items()}
    for path in [folder / name for name in MODELS]:
        path.mkdir()
        tensors = base
        if path.name != "base":
            tensors = {
                name: (one.float() + torch.randn(one.shape, generator=generator) * 1e-4).bfloat16()
                for name, one in base.items()
            }
        save_file(tensors, path / "model.safetensors", {"format": "pt"})
        (path / "config.json").write_text(json.dumps(shape.config()))
        _write_tokenizer(path)


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models

    Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]")).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


def write_config(path: Path, models: Sequence[Path], density: float) -> Path:
    """A ties config with fp32 arithmetic and output."""
    lines = ["merge_method: ties", f"base_model: {models[0]}", "models:"]
    for model, weight in zip(models[1:], WEIGHTS, strict=True):
        lines += [f"  - model: {model}", "    parameters:", f"      weight: {weight}", f"      density: {density}"]
    path.write_text("\n".join([*lines, "dtype: float32"]) + "\n")
    return path


def floor(models: Sequence[Path], out: Path) -> Measured:
    """Read every input and write as many bytes as an fp32 output has, synced."""
    started = time.perf_counter()
    piece = bytearray(8 << 20)
    for model in models:
        with (model / "model.safetensors").open("rb", buffering=0) as file:
            while file.readinto(piece):
                pass
    left = 2 * (models[0] / "model.safetensors").stat().st_size
    with out.open("wb", buffering=0) as file:
        while left > 0:
            left -= file.write(memoryview(piece)[: min(left, len(piece))])
        os.fsync(file.fileno())
    out.unlink()
    return Measured(time.perf_counter() - started, 0)


def measure(command: Sequence[str], out: Path) -> Measured:
    """Run a command to its end: wall seconds and peak memory; its output folder is removed."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"HF_HUB_OFFLINE": "1"}
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    if process.returncode or not (out / "model.safetensors").exists():
        raise SystemExit(f"failed: {' '.join(command)}")
    shutil.rmtree(out)
    return Measured(seconds, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime)


def measure_all(size: str = "166m", repeats: int = 3, folder: Path | None = None) -> dict[str, list[Measured]]:
    """Every measurement, by name. Ours is run once before, so that compiled code is cached."""
    results: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory(prefix="merge-bench-", dir=folder) as place:
        # In a process of its own: a child is charged with the memory its parent had when it was started.
        subprocess.run([sys.executable, "-m", "bench.merge_bench", "--size", size, "--write", place], check=True)
        models = [Path(place) / name for name in MODELS]
        configs = {density: write_config(Path(place) / f"{density}.yml", models, density) for density in DENSITIES}
        out = Path(place) / "out"
        ours = [sys.executable, "-m", "core", "merge"]
        theirs = [sys.executable, "-m", "mergekit.scripts.run_yaml"]
        measure([*ours, str(configs[0.2]), str(out)], out)
        for _ in range(repeats):
            results.setdefault("floor", []).append(floor(models, Path(place) / "floor"))
            for density, config in configs.items():
                for name, command in (("ours", ours), ("mergekit", theirs)):
                    measured = measure([*command, str(config), str(out)], out)
                    results.setdefault(f"{name}, density {density:g}", []).append(measured)
    return results


def table(results: dict[str, list[Measured]]) -> str:
    """Medians, peaks and ratios as text."""
    medians = {name: statistics.median(one.seconds for one in rows) for name, rows in results.items()}
    lines = [f"{'merge':28} {'seconds':>8} {'cpu':>8} {'peak':>8}"]
    for name, rows in results.items():
        peak, cpu = max(one.peak_bytes for one in rows), statistics.median(one.cpu_seconds for one in rows)
        more = f"{cpu:8.2f} {peak / 1e9:5.2f} GB" if peak else ""
        lines.append(f"{name:28} {medians[name]:8.2f} {more}")
    for density in DENSITIES:
        mine, other = medians[f"ours, density {density:g}"], medians[f"mergekit, density {density:g}"]
        lines.append(
            f"density {density:g}: {other / mine:.1f} times as fast as mergekit, {mine / medians['floor']:.1f} floors"
        )
    return "\n".join(lines)


def run(size: str = "166m", repeats: int = 3, folder: Path | None = None) -> None:
    """Measure everything and print the table."""
    print(table(measure_all(size, repeats, folder)))


def main() -> None:
    """Parse arguments, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SHAPES, default="166m")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to put the models (default: the temporary folder)")
    parser.add_argument("--write", type=Path, help="only write the models into this folder")
    arguments = parser.parse_args()
    if arguments.write:
        write_models(arguments.write, SHAPES[arguments.size])
        return
    run(arguments.size, arguments.repeats, arguments.folder)


if __name__ == "__main__":
    main()
