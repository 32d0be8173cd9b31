"""vLLM sharded states: one set of files a rank, with the tensors as that rank holds them in memory.

Takes a folder; gives every rank's tensors under `rank-0/NAME` (or `pp-0-tp-1/NAME`), so that the same tensor of
the same rank is found by name in every model. Reads headers only; knows nothing about how a tensor was split.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import CheckpointError
from core.merge.forms import INDEX_FILE, RANK, RANK_FILE, SINGLE_FILE
from core.merge.header import TensorInfo, read_header

if TYPE_CHECKING:
    from core.merge.checkpoint import CheckpointFile
    from core.merge.plan import Plan

KEY = re.compile(rf"(?P<rank>{RANK})/(?P<stored>.+)", re.DOTALL)
VOCABULARY = ("embed_tokens.weight", "lm_head.weight")


@dataclass(frozen=True)
class RankLayout:
    """How many ranks share a model, and how their files are named."""

    pipeline: int
    """Pipeline stages; each has layers of its own."""
    tensor: int
    """Tensor-parallel ranks a stage; each has a slice of every layer."""
    staged: bool = False
    """True for files named `model-pp-…-tp-…`, False for `model-rank-…`."""

    def rank(self, stage: int, slot: int) -> str:
        """Name of one rank, which begins its keys: `rank-1`, or `pp-0-tp-1`."""
        return f"pp-{stage}-tp-{slot}" if self.staged else f"rank-{slot}"

    @property
    def stages(self) -> list[list[str]]:
        """The ranks' names, a list a pipeline stage."""
        return [[self.rank(stage, slot) for slot in range(self.tensor)] for stage in range(self.pipeline)]

    def __str__(self) -> str:
        stages = f", PP {self.pipeline}" if self.staged else ""
        return f"a vLLM sharded state at TP {self.tensor}{stages}"


@dataclass(frozen=True, eq=False)
class RankFiles:
    """What the rank files of a folder hold."""

    layout: RankLayout
    tensors: dict[str, TensorInfo]
    """By key; each tensor's `name` is its key too."""
    files: tuple[Path, ...]
    """Rank by rank, part by part."""
    warnings: tuple[str, ...]


def split_key(name: str) -> tuple[str, str]:
    """(rank, name in the file) of a key: `rank-0/lm_head.weight`; the rank is empty for a plain name."""
    match = KEY.fullmatch(name)
    return (match["rank"], match["stored"]) if match else ("", name)


def rank_order(name: str) -> tuple[int, ...]:
    """Sorts keys rank by rank, in the order of the numbers; the same for all plain names."""
    return tuple(int(one) for one in re.findall(r"\d+", split_key(name)[0]))


def rank_of(info: TensorInfo) -> str:
    """The rank that a tensor was read from; empty where it does not come from a rank file."""
    match = RANK_FILE.fullmatch(info.file.name)
    return match["rank"] if match and split_key(info.name)[0] == match["rank"] else ""


def part_name(rank: str, part: int) -> str:
    """File name of one part of a rank."""
    return f"model-{rank}-part-{part}.safetensors"


def read_ranks(folder: Path, config: Mapping[str, Any]) -> RankFiles:
    """Read the headers of every rank file of a folder.

    Raises CheckpointError for a rank or part that is missing, a tensor in two parts of one rank, ranks of one
    stage that hold different tensors, and fewer ranks than the sizes of config.json ask for.
    """
    parts: dict[str, dict[int, Path]] = {}
    for path in sorted(folder.glob("model-*-part-*.safetensors")):
        if match := RANK_FILE.fullmatch(path.name):
            parts.setdefault(match["rank"], {})[int(match["part"])] = path
    layout = _layout(folder, parts)
    tensors: dict[str, TensorInfo] = {}
    files: list[Path] = []
    for stage in layout.stages:
        held = [_read_rank(folder, rank, parts[rank]) for rank in stage]
        _refuse_unlike(folder, stage, held)
        for rank, one in zip(stage, held, strict=True):
            tensors |= {info.name: info for info in one.values()}
            files += [parts[rank][part] for part in sorted(parts[rank])]
    _refuse_too_few(folder, layout, tensors, config)
    stale = [name for name in (INDEX_FILE, SINGLE_FILE) if (folder / name).exists()]
    warnings = tuple(
        f"{folder / name}: ignored, since the folder holds rank files (vLLM sharded state)." for name in stale
    )
    return RankFiles(layout, tensors, tuple(files), warnings)


def _layout(folder: Path, parts: Mapping[str, Mapping[int, Path]]) -> RankLayout:
    staged = [rank for rank in parts if rank.startswith("pp-")]
    if staged and len(staged) < len(parts):
        plain = next(rank for rank in parts if rank not in staged)
        raise CheckpointError(
            f"{folder}: holds rank files of two layouts ({part_name(plain, 0)} and {part_name(staged[0], 0)}). "
            "Keep the files of one checkpoint in one folder."
        )
    numbers = [rank_order(f"{rank}/x") for rank in parts]
    stages = 1 + max(one[0] for one in numbers) if staged else 1
    layout = RankLayout(stages, 1 + max(one[-1] for one in numbers), bool(staged))
    expected = layout.pipeline * layout.tensor
    if expected > len(parts):
        places = ((stage, slot) for stage in range(layout.pipeline) for slot in range(layout.tensor))
        missing = next(rank for rank in (layout.rank(*place) for place in places) if rank not in parts)
        raise CheckpointError(
            f"{folder}: {missing} is missing: the file names speak of {expected:,} ranks, {len(parts):,} are there. "
            "Copy or download its files again."
        )
    return layout


def _read_rank(folder: Path, rank: str, parts: Mapping[int, Path]) -> dict[str, TensorInfo]:
    """A rank's tensors by the name in the file."""
    for before, after in pairwise([-1, *sorted(parts)]):
        if after != before + 1:
            raise CheckpointError(
                f"{folder}: {part_name(rank, before + 1)} is missing, though {parts[after].name} is there. "
                "Copy or download it again."
            )
    found: dict[str, TensorInfo] = {}
    for part in sorted(parts):
        for name, info in read_header(parts[part]).tensors.items():
            if name in found:
                raise CheckpointError(
                    f"{folder}: tensor {name} is in two parts of {rank}: {found[name].file.name} and "
                    f"{info.file.name}. Parts of different exports lie in one folder: make the export again."
                )
            found[name] = replace(info, name=f"{rank}/{name}")
    return found


def _refuse_unlike(folder: Path, ranks: list[str], held: list[dict[str, TensorInfo]]) -> None:
    for rank, one in zip(ranks[1:], held[1:], strict=True):
        unlike = sorted(held[0].keys() ^ one.keys())
        if unlike:
            has, lacks = (ranks[0], rank) if unlike[0] in held[0] else (rank, ranks[0])
            raise CheckpointError(
                f"{folder}: {has} holds tensor {unlike[0]}, {lacks} does not ({len(unlike):,} tensors differ). "
                "Every rank of a stage must hold the same tensors: a part is missing, or the files are of two exports."
            )


def _refuse_too_few(
    folder: Path, layout: RankLayout, tensors: Mapping[str, TensorInfo], config: Mapping[str, Any]
) -> None:
    """The last ranks can be missing without a gap in the numbers; then the slices do not add up."""
    text = config.get("text_config")
    sizes = {**config, **text} if isinstance(text, dict) else dict(config)
    heads, vocabulary = sizes.get("num_attention_heads"), sizes.get("vocab_size")
    width = sizes.get("head_dim") or _quotient(sizes.get("hidden_size"), heads)
    wanted = dict.fromkeys(VOCABULARY, (0, vocabulary))
    if type(heads) is int and type(width) is int and "v_head_dim" not in sizes:
        wanted["self_attn.o_proj.weight"] = (1, heads * width)
    for name, info in tensors.items():
        axis, size = next((one for end, one in wanted.items() if name.endswith(end)), (0, None))
        if type(size) is not int or len(info.shape) != 2:
            continue
        held = info.shape[axis] * layout.tensor
        if held < size:
            kind = ("rows", "columns")[axis]
            raise CheckpointError(
                f"{folder}: {name} has {info.shape[axis]:,} {kind} on each of {layout.tensor} ranks, {held:,} in all; "
                f"config.json asks for {size:,}. Files of more ranks are missing: copy or download them again."
            )


def _quotient(whole: Any, part: Any) -> int | None:
    return whole // part if type(whole) is int and type(part) is int and part > 0 else None


def layout_problems(plan: "Plan", models: Mapping[Path, "CheckpointFile"]) -> list[str]:
    """What forbids a merge of sharded states: models not all sharded alike, or mergekit itself having to read ranks.

    `models` are the plan's, the base first. Empty where all of them are Hugging Face folders.
    """
    opened = list(models.values())
    if all(one.ranks is None for one in opened):
        return []
    first, found = opened[0], []
    for one in opened[1:]:
        if one.ranks != first.ranks:
            found.append(
                f"{one.folder}: is {described(one)}; {first.folder} is {described(first)}. Sharded states are merged "
                "rank by rank, so every model must be sharded alike: export them with the same number of ranks, or "
                "convert each to a Hugging Face folder with `python -m core convert DIR OUT`."
            )
        else:
            found += _vocabulary_problems(first, one)
    if plan.engine == "mergekit":
        sharded = next(one for one in opened if one.ranks)
        found.append(
            f"{sharded.folder}: is {described(sharded)}, and this merge needs mergekit itself ({plan.reason}), which "
            "reads Hugging Face folders only. Convert each model first: `python -m core convert DIR OUT`."
        )
    return found


def _vocabulary_problems(first: "CheckpointFile", one: "CheckpointFile") -> list[str]:
    for name, info in one.tensors.items():
        other = first.tensors.get(name)
        if name.endswith(VOCABULARY) and other is not None and info.shape[:1] != other.shape[:1]:
            return [
                f"tensor {name}: shape {list(info.shape)} in {one.folder}, {list(other.shape)} in {first.folder}. The "
                "vocabularies of sharded states cannot be cut, since every rank holds a slice: convert the models to "
                "Hugging Face folders first, with `python -m core convert DIR OUT`."
            ]
    return []


def layout_warnings(plan: "Plan", reference: "CheckpointFile") -> list[str]:
    """What a merge rank by rank does otherwise than a merge of whole tensors: it trims every slice on its own."""
    if not reference.ranks or reference.ranks.tensor == 1 or all(one.density >= 1 for one in plan.members):
        return []
    return [
        f"the models are sharded over {reference.ranks.tensor} ranks: the largest deltas are kept in each rank's slice "
        "of a tensor, not over the whole tensor, so a trimmed merge differs a little from that of Hugging Face folders."
    ]


def described(model: "CheckpointFile") -> str:
    """What a model folder is, with its number of ranks, for messages."""
    return str(model.ranks) if model.ranks else "a Hugging Face folder"
