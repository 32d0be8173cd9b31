"""Models for preview tests whose deltas are unlike within and alike in rows and columns, and their exact figures.

The exact figures are counted in numpy from whole tensors, without the code under test.
"""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from core.merge import Plan, open_checkpoint, parse_plan
from tests.unit.preview.large import header_of

SHAPES = {
    "embed.weight": (160, 96),
    "layer.0.weight": (64, 96),
    "layer.1.weight": (96, 112),
    "layer.2.weight": (128, 64),
    "norm.weight": (96,),
}


def to_bf16(values: np.ndarray) -> np.ndarray:
    """bf16 bit patterns (uint16) of fp32 values, nearest, ties to even."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """fp32 values of bf16 bit patterns."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def write_model(folder: Path, tensors: Mapping[str, np.ndarray]) -> Path:
    """A folder of one safetensors file; uint16 arrays are bf16 bit patterns."""
    names = {"f": "F32", "u": "BF16"}
    text, _ = header_of({name: (names[one.dtype.kind], one.shape) for name, one in tensors.items()})
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(text + b"".join(one.tobytes() for one in tensors.values()))
    (folder / "config.json").write_text("{}")
    return folder


def write_bank(
    root: Path, members: int, *, seed: int = 0, sparse: float = 0.6, fp32: bool = False
) -> tuple[Path, list[Path]]:
    """A base and members. Rows and columns have drifts of their own size; some rows of the embedding do not move."""
    rng = np.random.default_rng(seed)
    base = {name: rng.normal(0, 0.02, shape).astype(np.float32) for name, shape in SHAPES.items()}
    folders = []
    common = {name: rng.normal(0, 1, shape) for name, shape in SHAPES.items()}
    for member in range(-1, members):
        folder = root / ("base" if member < 0 else f"member-{member}")
        tensors: dict[str, np.ndarray] = {}
        for name, shape in SHAPES.items():
            value = base[name] if fp32 else from_bf16(to_bf16(base[name]))
            if member >= 0:
                size = rng.lognormal(0, 0.5, (shape[0],) + (1,) * (len(shape) - 1)) * rng.lognormal(0, 0.3, shape[-1:])
                drift = 3e-4 * size * (0.5 * common[name] + rng.normal(0, 1, shape))
                drift *= rng.random(shape) < sparse * rng.uniform(0.3, 1, (shape[0],) + (1,) * (len(shape) - 1))
                if name.startswith("embed"):
                    drift[rng.random(shape[0]) < 0.3] = 0
                value = (value + drift).astype(np.float32)
            tensors[name] = np.asarray(value, np.float32) if fp32 else to_bf16(value)
        folders.append(write_model(folder, tensors))
    return folders[0], folders[1:]


def config(
    base: Path,
    members: list[Path],
    weights: list[float],
    density: float = 1.0,
    *,
    method: str = "ties",
    extra: str = "",
) -> str:
    """A mergekit config."""
    lines = [f"merge_method: {method}", f"base_model: {base}", "models:"]
    for path, weight in zip(members, weights, strict=True):
        own = f"weight: {weight}" + (f", density: {density}" if method == "ties" else "")
        lines += [f"  - model: {path}", f"    parameters: {{{own}}}"]
    return "\n".join(lines) + "\ndtype: float32\n" + extra


def plan_of(*args: object, **more: object) -> Plan:
    """The plan of `config`."""
    return parse_plan(config(*args, **more), Path.cwd())  # type: ignore[arg-type]


def read(folder: Path) -> dict[str, np.ndarray]:
    """Every tensor of a folder, flat, fp32."""
    found = {}
    for name, info in open_checkpoint(folder).tensors.items():
        kind = np.uint16 if info.dtype == "BF16" else np.float32
        values = np.fromfile(info.file, kind, info.elements, offset=info.offset)
        found[name] = from_bf16(values) if info.dtype == "BF16" else values
    return found


class Truth:
    """Sums over whole tensors from which every figure follows, by plain numpy."""

    def __init__(self, base: Path, members: list[Path], plan: Plan) -> None:
        start, others = read(base), [read(one) for one in members]
        self.names = sorted(SHAPES)
        self.sums = {name: _sums(start[name], [one[name] for one in others], plan) for name in self.names}

    def figures(self, name: str | None = None) -> dict[str, Any]:
        """Figures of a tensor, or of all."""
        names = [name] if name else self.names
        total = {key: sum(self.sums[one][key] for one in names) for key in self.sums[names[0]]}
        found = {
            key: total[key] / total["elements"] for key in ("changed", "solo", "unanimous", "contested", "zero_sum")
        }
        found["rounding_loss"] = total["lost"] / total["changed"] if total["changed"] else np.float64(0)
        found["merged_norm"] = np.sqrt(total["squares"])
        found["member_changed"] = total["member_changed"] / total["elements"]
        found["flips"] = total["flips"] / total["elements"]
        found["share"] = total["part"] / total["part"].sum()
        found["solo_share"] = total["alone"] / np.where(total["part"] > 0, total["part"], 1)
        gram = total["gram"]
        with np.errstate(invalid="ignore"):
            pairs = list(combinations(range(len(gram)), 2))
            found["cosines"] = np.array([gram[i, j] / np.sqrt(gram[i, i] * gram[j, j]) for i, j in pairs])
        return found


def _sums(base: np.ndarray, others: list[np.ndarray], plan: Plan) -> dict[str, Any]:
    f32 = np.float32
    weights = np.array([one.weight for one in plan.members], f32)
    delta = np.stack([one - base for one in others])
    n = base.size
    kept = delta.copy()
    for i, one in enumerate(plan.members):
        if one.density < 1:
            kept[i, np.argsort(-abs(delta[i]), kind="stable")[max(1, int(one.density * n)) :]] = 0
    x = kept * weights[:, None]
    total = x.sum(axis=0, dtype=f32)
    plus, minus = (x > 0).sum(axis=0), (x < 0).sum(axis=0)
    ties = plan.method == "ties"
    agrees = ((x > 0) & (total >= 0)) | ((x < 0) & (total < 0)) if ties else np.ones_like(x, bool)
    mixed = np.where(agrees, x, 0).sum(axis=0, dtype=f32)
    if plan.normalize:
        divisor = (agrees * weights[:, None]).sum(axis=0, dtype=f32) if ties else np.full(n, weights.sum(dtype=f32))
        divisor = np.where(divisor == 0, f32(1), divisor)
    else:
        divisor = np.ones(n, f32)
    merged = base + mixed / divisor * f32(plan.scale)
    if plan.method == "linear":
        merged = (np.stack(others) * weights[:, None]).sum(axis=0, dtype=f32) / divisor
    part = np.where(agrees, abs(x), 0).astype(np.float64) / abs(divisor) * abs(plan.scale)
    voters = plus + minus
    changed = merged != base
    rounded = from_bf16(to_bf16(merged)) == from_bf16(to_bf16(base))
    without = np.stack([np.delete(x, i, axis=0).sum(axis=0, dtype=f32) for i in range(len(x))])
    flips = ((without >= 0) != (total >= 0)) & (voters - (x != 0) > 0) & (x != 0) & ties
    return {
        "elements": np.int64(n), "changed": changed.sum(), "lost": (changed & rounded).sum(),
        "solo": (voters == 1).sum(), "contested": ((plus > 0) & (minus > 0)).sum(),
        "unanimous": ((voters > 1) & ((plus == 0) | (minus == 0))).sum(),
        "zero_sum": ((voters > 0) & (total == 0)).sum(),
        "squares": ((merged.astype(np.float64) - base) ** 2).sum(),
        "member_changed": (delta != 0).sum(axis=1), "flips": flips.sum(axis=1),
        "part": part.sum(axis=1), "alone": (part * (voters == 1)).sum(axis=1),
        "gram": delta.astype(np.float64) @ delta.astype(np.float64).T,
    }  # fmt: skip
