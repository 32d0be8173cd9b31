"""What a narrower file would keep of a change: against its scale, by format, by way of rounding, by place and size.

Takes a base and a model folder; reads all of small models and random blocks of large ones. Gives shares of the changed
parameters, with intervals where they are estimated. Writes nothing, and does not know how the model was made.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from core.errors import CheckpointError
from core.merge.blocks import Files
from core.merge.checkpoint import open_checkpoint
from core.merge.report import place_of
from core.merge.values import read_values
from core.precision.formats import FORMATS, Format, nearest, stochastic, ulp_of
from core.precision.rounding import Pair, pairs_of
from core.precision.sampling import Blocks, Share, choose
from core.progress import Progress, no_progress

SCALES = (0.0625, 0.125, 0.25, 0.375, 0.45, 0.5, 0.55, 0.625, 0.75, 1.0, 1.5, 2.0, 4.0)
LIMIT = 2_000_000
"""Elements that are looked at, unless told otherwise."""
SIZES = tuple(range(-6, 5))
"""|δ| in ulps of the base is sorted by these powers of two; the first and last bins are open."""


class Curve(NamedTuple):
    """The share of changed parameters that survive in a format, at each of the scales."""

    format: str
    survival: tuple[Share, ...]


class Rounded(NamedTuple):
    """What a file of a format does to the change at scale 1."""

    format: str
    rounding: str
    """`nearest` or `stochastic`."""
    lost: Share
    """Changed parameters that come out as the base does."""
    bias: Share
    """Mean error in the direction of the change, in mean |δ|: −1 where all is lost, 0 without bias."""
    relative_l2: float
    """Length of the rounding error over that of the change."""
    bytes: int
    """Of the model's weights in such a file."""


class Group(NamedTuple):
    """A layer, a module or a size of change, in bf16 at scale 1."""

    name: str
    changed: int
    """Estimated where blocks were sampled."""
    lost: Share


@dataclass(frozen=True)
class LensReport:
    """Everything of one pass."""

    base: str
    model: str
    scales: tuple[float, ...]
    curves: tuple[Curve, ...]
    files: tuple[Rounded, ...]
    layers: tuple[Group, ...]
    modules: tuple[Group, ...]
    sizes: tuple[Group, ...]
    """By |δ| in ulps of the base."""
    elements: int
    looked: int
    changed: int
    exact: bool
    seed: int
    skipped: tuple[str, ...]
    """Tensors without a counterpart of the same shape."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON of the `lens` command."""
        found = asdict(self)
        for key in ("layers", "modules", "sizes"):
            found[key] = [one._asdict() | {"lost": asdict(one.lost)} for one in getattr(self, key)]
        found["files"] = [one._asdict() | {"lost": asdict(one.lost), "bias": asdict(one.bias)} for one in self.files]
        found["curves"] = [
            {"format": one.format, "survival": [asdict(share) for share in one.survival]} for one in self.curves
        ]
        return found


def lens(
    base: Path,
    model: Path,
    *,
    scales: Sequence[float] = SCALES,
    limit: int = LIMIT,
    seed: int = 0,
    progress: Progress = no_progress,
) -> LensReport:
    """Look at δ = model − base through every format; at most about `limit` elements, chosen by `seed`.

    A scale s stands for base + s·δ, in fp32. Raises CheckpointError for folders that cannot be read, share no
    tensor, or hold NaN or infinity.
    """
    one, two = open_checkpoint(base), open_checkpoint(model)
    pairs, skipped = pairs_of(one, two)
    if not pairs:
        raise CheckpointError(f"{two.folder}: shares no floating-point tensor of the same shape with {one.folder}.")
    names = [pair.base.name for pair in pairs]
    blocks = choose(names, [pair.base.elements for pair in pairs], limit=limit, seed=seed)
    counts = _count(pairs, blocks, tuple(scales), seed, progress)
    elements = sum(pair.base.elements for pair in pairs)
    places = [place_of(name) for name in names]
    layers = [f"layer {layer}" if layer >= 0 else "outside the layers" for layer, _ in places]
    modules = [module if layer >= 0 else "outside the layers" for layer, module in places]
    return LensReport(
        str(one.folder), str(two.folder), tuple(scales), _curves(blocks, counts), _files(blocks, counts, elements),
        _groups(blocks, counts, layers), _groups(blocks, counts, modules), _sizes(blocks, counts), elements,
        int(blocks.size.sum()), round(blocks.total(counts["changed"])), blocks.exact, seed, tuple(skipped),
    )  # fmt: skip


def _count(
    pairs: Sequence[Pair], blocks: Blocks, scales: tuple[float, ...], seed: int, progress: Progress
) -> dict[str, np.ndarray]:
    """Figures of every block: float64, blocks first."""
    rows: list[dict[str, np.ndarray]] = []
    with Files() as files:
        for number, (at, start, n) in enumerate(
            zip(blocks.tensor.tolist(), blocks.start.tolist(), blocks.size.tolist(), strict=True)
        ):
            pair = pairs[at]
            b, m = (read_values(files, info, start, n) for info in pair)
            for info, values in zip(pair, (b, m), strict=True):
                if not np.isfinite(values).all():
                    raise CheckpointError(f"{info.file.parent}: tensor {info.name} has NaN or infinite values.")
            moved = b != m
            rows.append(_figures(b[moved], m[moved], scales, np.random.default_rng([seed, at, start])))
            progress("looking", number + 1, blocks.tensor.size, "blocks")
    return {key: np.array([one[key] for one in rows], np.float64) for key in rows[0]}


def _figures(
    b: np.ndarray, m: np.ndarray, scales: tuple[float, ...], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Figures of the changed elements of one block: kept (formats, scales), and sums of the files (formats, 2, 4)."""
    narrow = [one for name, one in FORMATS.items() if name != "fp32"]
    delta = m.astype(np.float64) - b
    kept = np.zeros((len(narrow), len(scales)))
    sums = np.zeros((len(FORMATS), 2, 3))
    for at, form in enumerate(narrow):
        before = nearest(b, form)
        for place, scale in enumerate(scales):
            value = b + np.float32(scale) * (m - b)
            kept[at, place] = np.count_nonzero(nearest(value, form) != before)
    for at, form in enumerate(FORMATS.values()):
        for way, rounded in enumerate((nearest(m, form), stochastic(m, form, rng))):
            with np.errstate(invalid="ignore"):
                error = np.where(np.isfinite(rounded), rounded - m, np.sign(m) * form.largest - m)
            lost = np.count_nonzero(rounded == nearest(b, form))
            sums[at, way] = lost, float((np.sign(delta) * error).sum()), float((error * error).sum())
    return {
        "changed": np.asarray(b.size), "kept": kept, "sums": sums, "by_size": _by_size(b, m),
        "moved": np.asarray(np.abs(delta).sum()), "moved2": np.asarray((delta * delta).sum()),
    }  # fmt: skip


def _by_size(b: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Changed and lost elements by |δ| in bf16 ulps of the base: float64 (2, bins)."""
    form = FORMATS["bf16"]
    size = np.abs(m.astype(np.float64) - b) / ulp_of(b, form)
    bins = np.searchsorted(np.ldexp(1.0, np.array(SIZES)), size, side="right")
    lost = nearest(m, form) == nearest(b, form)
    count = len(SIZES) + 1
    return np.stack([np.bincount(bins, minlength=count), np.bincount(bins[lost], minlength=count)]).astype(float)


def _curves(blocks: Blocks, counts: dict[str, np.ndarray]) -> tuple[Curve, ...]:
    kept, changed = counts["kept"], counts["changed"]
    names = [name for name in FORMATS if name != "fp32"]
    return tuple(
        Curve(name, tuple(blocks.share(kept[:, at, place], changed) for place in range(kept.shape[2])))
        for at, name in enumerate(names)
    )


def _files(blocks: Blocks, counts: dict[str, np.ndarray], elements: int) -> tuple[Rounded, ...]:
    def row(at: int, form: Format, way: int, rounding: str) -> Rounded:
        lost, bias, error = (counts["sums"][:, at, way, which] for which in range(3))
        length = blocks.share(error, counts["moved2"]).value
        return Rounded(
            form.name, rounding, blocks.share(lost, counts["changed"]), blocks.share(bias, counts["moved"]),
            float(np.sqrt(length)), elements * form.bits // 8,
        )  # fmt: skip

    return tuple(
        row(at, form, way, rounding)
        for at, form in enumerate(FORMATS.values())
        for way, rounding in enumerate(("nearest", "stochastic"))
        if not (form.name == "fp32" and way)
    )


def _groups(blocks: Blocks, counts: dict[str, np.ndarray], names: Sequence[str]) -> tuple[Group, ...]:
    """Tensors grouped by name, in the order of the names."""
    lost = counts["sums"][:, list(FORMATS).index("bf16"), 0, 0]
    of_block = np.array(names, object)[blocks.tensor]

    def groups() -> Iterator[Group]:
        for name in sorted(set(names), key=_natural):
            here = of_block == name
            changed = np.where(here, counts["changed"], 0.0)
            yield Group(name, round(blocks.total(changed)), blocks.share(np.where(here, lost, 0.0), changed))

    return tuple(groups())


def _natural(name: str) -> tuple[bool, int, str]:
    number = name.rpartition(" ")[2]
    return name.startswith("outside"), int(number) if number.isdigit() else -1, name


def _sizes(blocks: Blocks, counts: dict[str, np.ndarray]) -> tuple[Group, ...]:
    edges = [f"2^{one}".replace("-", "−") for one in SIZES]
    names = [
        f"< {edges[0]}",
        *(f"{one} to {two}" for one, two in pairwise(edges)),
        f"≥ {edges[-1]}",
    ]
    changed, lost = counts["by_size"][:, 0], counts["by_size"][:, 1]
    return tuple(
        Group(name, round(blocks.total(changed[:, at])), blocks.share(lost[:, at], changed[:, at]))
        for at, name in enumerate(names)
    )
