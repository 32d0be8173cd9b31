"""Models for preview tests whose deltas are unlike within and alike in rows and columns, and their exact figures.

The exact figures are counted in numpy from whole tensors, without the code under test.
"""

from itertools import combinations
from pathlib import Path

import numpy as np

from core.merge import Plan, parse_plan
from tests.unit.merge.models import from_bf16, save, to_bf16

SHAPES = {
    "embed.weight": (160, 96),
    "layer.0.weight": (64, 96),
    "layer.1.weight": (96, 112),
    "layer.2.weight": (128, 64),
    "norm.weight": (96,),
}


def write_bank(
    root: Path, members: int, *, seed: int = 0, sparse: float = 0.6, fp32: bool = False
) -> tuple[Path, list[Path]]:
    """A base and members. Rows and columns have drifts of their own size; some rows of the embedding do not move."""
    rng = np.random.default_rng(seed)
    base = {name: rng.normal(0, 0.02, shape).astype(np.float32) for name, shape in SHAPES.items()}
    store = np.float32 if fp32 else to_bf16
    folders = []
    common = {name: rng.normal(0, 1, shape) for name, shape in SHAPES.items()}
    for member in range(-1, members):
        folder = root / ("base" if member < 0 else f"member-{member}")
        folder.mkdir(parents=True)
        tensors = {}
        for name, shape in SHAPES.items():
            value = base[name] if fp32 else from_bf16(to_bf16(base[name]))
            if member >= 0:
                size = rng.lognormal(0, 0.5, (shape[0],) + (1,) * (len(shape) - 1)) * rng.lognormal(0, 0.3, shape[-1:])
                drift = 3e-4 * size * (0.5 * common[name] + rng.normal(0, 1, shape))
                drift *= rng.random(shape) < sparse * rng.uniform(0.3, 1, (shape[0],) + (1,) * (len(shape) - 1))
                if name.startswith("embed"):
                    drift[rng.random(shape[0]) < 0.3] = 0
                value = (value + drift).astype(np.float32)
            tensors[name] = store(value)
        save(folder / "model.safetensors", tensors)
        (folder / "config.json").write_text("{}")
        folders.append(folder)
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
    from tests.unit.merge.models import load

    return {name: one.reshape(-1) for name, one in load(folder / "model.safetensors").items()}


class Truth:
    """Sums over whole tensors from which every figure follows, by plain numpy."""

    def __init__(self, base: Path, members: list[Path], plan: Plan) -> None:
        start, others = read(base), [read(one) for one in members]
        self.names = sorted(SHAPES)
        self.sums = {name: _sums(start[name], [one[name] for one in others], plan) for name in self.names}

    def figures(self, name: str | None = None) -> dict[str, np.ndarray]:
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
        found["solo_share"] = total["alone"] / total["part"].sum()
        gram = total["gram"]
        with np.errstate(invalid="ignore"):
            pairs = list(combinations(range(len(gram)), 2))
            found["cosines"] = np.array([gram[i, j] / np.sqrt(gram[i, i] * gram[j, j]) for i, j in pairs])
        return found


def _sums(base: np.ndarray, others: list[np.ndarray], plan: Plan) -> dict[str, np.ndarray]:
    from tests.unit.merge.reference import keep_largest

    f32 = np.float32
    weights = np.array([one.weight for one in plan.members], f32)
    delta = np.stack([one - base for one in others])
    n = base.size
    kept = delta.copy()
    for i, one in enumerate(plan.members):
        if one.density < 1:
            kept[i] = keep_largest(delta[i], max(1, int(one.density * n)))
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
