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
from typing import Any, BinaryIO

import numpy as np

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
    "332m": Shape(768, 24, 160_000),
    "600m": Shape(1024, 30, 150_000, 16, 8, 128),
}


@dataclass(frozen=True)
class Measured:
    """One process."""

    seconds: float
    peak_bytes: int
    cpu_seconds: float = 0.0
    """Of all cores: tells a busy machine from slow code."""
    engine: float = 0.0
    """Of our process, the merge itself, as it says: without the start of the interpreter."""


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


def measure(command: Sequence[str], out: Path, *, fresh: bool = False) -> Measured:
    """Run a command to its end: wall seconds, peak memory, and for ours the engine's own seconds; removes its folder.

    `fresh` forgets the remembered hashes of the inputs before.
    """
    if fresh:
        shutil.rmtree(os.environ["MERGESCOPE_CACHE"], ignore_errors=True)
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | {"HF_HUB_OFFLINE": "1"}
    )
    assert process.stdout
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    if process.returncode or not (out / "config.json").exists():
        raise SystemExit(f"failed: {' '.join(command)}")
    shutil.rmtree(out)
    engine = json.loads(said)["seconds"] if said.startswith(b"{") else 0.0
    return Measured(seconds, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime, engine)


def measure_all(
    size: str = "166m", repeats: int = 3, folder: Path | None = None, *, mergekit: bool = True
) -> dict[str, list[Measured]]:
    """Every measurement, by name. Ours is run once before, so that compiled code is cached."""
    results: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory(prefix="merge-bench-", dir=folder) as place:
        os.environ["MERGESCOPE_CACHE"] = f"{place}/cache"
        # In a process of its own: a child is charged with the memory its parent had when it was started.
        subprocess.run([sys.executable, "-m", "bench.merge_bench", "--size", size, "--write", place], check=True)
        models = [Path(place) / name for name in MODELS]
        configs = {density: write_config(Path(place) / f"{density}.yml", models, density) for density in DENSITIES}
        out = Path(place) / "out"
        ours = [sys.executable, "-m", "core", "merge", "--json"]
        theirs = [sys.executable, "-m", "mergekit.scripts.run_yaml"]
        time.sleep(2.1)  # hashes of files that have just changed are not remembered
        measure([*ours, str(configs[0.2]), str(out)], out)
        for _ in range(repeats):
            results.setdefault("floor", []).append(floor(models, Path(place) / "floor"))
            for density, config in configs.items():
                runs = [("ours", ours, False), ("ours, inputs never hashed", ours, True)]
                for name, command, fresh in [*runs, ("mergekit", theirs, False)] if mergekit else runs:
                    measured = measure([*command, str(config), str(out)], out, fresh=fresh)
                    results.setdefault(f"{name}, density {density:g}", []).append(measured)
            for name in ("with figures", "without figures"):
                seconds = merge_only(configs[1.0], Path(place) / "only", name == "with figures")
                results.setdefault(name, []).append(Measured(seconds, 0))
    return results


def merge_only(config: Path, out: Path, figures: bool) -> float:
    """Seconds of reading, merging and writing alone, in this process, with or without all figures and the hash."""
    from core.merge import read_plan
    from core.merge.engine import StreamingEngine
    from core.merge.pairing import pair
    from core.merge.writer import ShardWriter

    plan = read_plan(config)
    found = pair(plan)
    out.mkdir()
    with StreamingEngine(plan, found, figures=figures) as engine, (out / "plain").open("wb", buffering=0) as file:
        started = time.perf_counter()
        writer = ShardWriter(out, found.jobs, 5e9, {"format": "pt"})
        for _ in engine.run(writer.write if figures else lambda data: _plainly(file, data), lambda count: None):
            pass
        if figures:
            writer.finish()
        writer.abandon()
        os.fsync(file.fileno())
        seconds = time.perf_counter() - started
    shutil.rmtree(out)
    return seconds


def _plainly(file: BinaryIO, data: np.ndarray) -> None:
    file.write(data.data)


def table(results: dict[str, list[Measured]]) -> str:
    """Medians, peaks and ratios as text."""
    medians = {name: statistics.median(one.seconds for one in rows) for name, rows in results.items()}
    engines = {name: statistics.median(one.engine for one in rows) for name, rows in results.items()}
    lines = [f"{'merge':40} {'seconds':>8} {'engine':>8} {'cpu':>8} {'peak':>8}"]
    for name, rows in results.items():
        peak, cpu = max(one.peak_bytes for one in rows), statistics.median(one.cpu_seconds for one in rows)
        engine = f"{engines[name]:8.2f}" if engines[name] else " " * 8
        lines.append(f"{name:40} {medians[name]:8.2f} {engine} " + (f"{cpu:8.2f} {peak / 1e9:5.2f} GB" if peak else ""))
    for density in DENSITIES:
        name = f"ours, density {density:g}"
        said = [f"{engines[name] / medians['floor']:.1f} floors (engine)"]
        if f"mergekit, density {density:g}" in medians:
            times = medians[f"mergekit, density {density:g}"] / medians[name]
            said.insert(0, f"{times:.1f} times as fast as mergekit")
        lines.append(f"density {density:g}: {', '.join(said)}")
    more = medians["with figures"] / medians["without figures"] - 1
    lines.append(f"all figures and the output's hash: {100 * more:+.0f} % on reading, merging and writing")
    return "\n".join(lines)


def run(size: str = "166m", repeats: int = 3, folder: Path | None = None, *, mergekit: bool = True) -> None:
    """Measure everything and print the table."""
    print(f"{size} parameters, five bf16 members and a base, {os.cpu_count()} cores")
    print(table(measure_all(size, repeats, folder, mergekit=mergekit)), flush=True)


def run_all() -> None:
    """Beside mergekit at 166M; ours alone at twice and four times the size."""
    run("166m")
    run("332m", mergekit=False)
    run("600m", mergekit=False)


def main() -> None:
    """Parse arguments, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SHAPES, default="166m")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to put the models (default: the temporary folder)")
    parser.add_argument("--alone", action="store_true", help="ours alone, without mergekit")
    parser.add_argument("--write", type=Path, help="only write the models into this folder")
    arguments = parser.parse_args()
    if arguments.write:
        write_models(arguments.write, SHAPES[arguments.size])
        return
    run(arguments.size, arguments.repeats, arguments.folder, mergekit=not arguments.alone)


if __name__ == "__main__":
    main()
