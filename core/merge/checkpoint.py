"""Opens a checkpoint: one place that knows how a Hugging Face folder keeps its tensors; `ranks` knows vLLM's.

Takes a folder, reads headers only, and gives every tensor's dtype, shape and place. Unreadable forms are
answered with the command that converts them. Knows nothing about merging.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.errors import CheckpointError
from core.merge.forms import INDEX_FILE, SINGLE_FILE, has_rank_files, read_config, refuse_unreadable
from core.merge.header import FLOATS, TensorInfo, read_header
from core.merge.ranks import RankLayout, read_ranks, split_key

EMBEDDING, HEAD = "embed_tokens.weight", "lm_head.weight"
DTYPE_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""torch's name of each safetensors float dtype."""


@dataclass(frozen=True, eq=False)
class CheckpointFile:
    """A checkpoint whose headers have been read and checked."""

    folder: Path
    tensors: dict[str, TensorInfo]
    """By name; of a sharded state by rank and name, `rank-0/model.norm.weight`."""
    files: tuple[Path, ...]
    """The safetensors files, in the order of their names (of a sharded state, rank by rank)."""
    config: dict[str, Any] = field(default_factory=dict)
    """config.json, or {} where there is none."""
    warnings: tuple[str, ...] = ()
    ranks: RankLayout | None = None
    """Of a vLLM sharded state, how many ranks it has; None for a Hugging Face folder."""

    @property
    def parameters(self) -> int:
        """Floating-point elements over all tensors; what every rank repeats counts once a rank."""
        return sum(one.elements for one in self.tensors.values() if one.dtype in FLOATS)

    @property
    def dtype(self) -> str:
        """torch's name of the dtype of most parameters; all of them, most first, where they are mixed."""
        counts: Counter[str] = Counter()
        for one in self.tensors.values():
            if one.dtype in FLOATS:
                counts[DTYPE_NAMES[one.dtype]] += one.elements
        return ", ".join(name for name, _ in counts.most_common()) or "none"

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(one.nbytes for one in self.tensors.values())

    @property
    def tied(self) -> bool:
        """Whether config.json says that lm_head shares the embedding's weights."""
        text = self.config.get("text_config")
        return bool(self.config.get("tie_word_embeddings", isinstance(text, dict) and text.get("tie_word_embeddings")))

    @property
    def embedding(self) -> str | None:
        """Name of the token embedding, where there is exactly one tensor of the usual name."""
        names = [name for name in self.tensors if name.split(".", 1)[-1] == EMBEDDING or name == EMBEDDING]
        return names[0] if len(names) == 1 else None

    def twin(self, name: str) -> str | None:
        """The tensor that a tied `name` shares its weights with: the embedding of lm_head, lm_head of the embedding.

        None for other names, and where there is not exactly one; in a sharded state, one of the same rank.
        """
        other = EMBEDDING if name.endswith(HEAD) else HEAD if name.endswith(EMBEDDING) else None
        rank, found = split_key(name)[0], []
        for one in self.tensors if other else ():
            place, stored = split_key(one)
            if place == rank and other in (stored, stored.split(".", 1)[-1]):
                found.append(one)
        return found[0] if len(found) == 1 else None


def open_checkpoint(folder: Path) -> CheckpointFile:
    """Read the headers of a model folder, Hugging Face's or a vLLM sharded state.

    Rank files are looked for first: an index beside them is older than they are. Raises CheckpointError for a
    folder that is missing, of a form that cannot be merged (with the command that converts it), or whose index,
    shards, ranks or headers do not add up.
    """
    folder = Path(folder)
    refuse_unreadable(folder)
    config = read_config(folder)
    if has_rank_files(folder):
        found = read_ranks(folder, config)
        return CheckpointFile(folder, found.tensors, found.files, config, found.warnings, found.layout)
    single, index = folder / SINGLE_FILE, folder / INDEX_FILE
    if single.exists():
        warnings = (f"{index}: ignored, since {SINGLE_FILE} is there too.",) if index.exists() else ()
        return CheckpointFile(folder, read_header(single).tensors, (single,), config, warnings)
    weight_map = _read_index(index)
    names = sorted(set(weight_map.values()))
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise CheckpointError(
            f"{folder}: shard {missing[0]} is missing ({len(missing)} of {len(names)} shards that {INDEX_FILE} names). "
            "Copy or download it again."
        )
    headers = {name: read_header(folder / name) for name in names}
    tensors: dict[str, TensorInfo] = {}
    for name, shard in weight_map.items():
        if name not in headers[shard].tensors:
            raise CheckpointError(f"{folder / shard}: tensor {name} is not in it, though {INDEX_FILE} says so.")
        tensors[name] = headers[shard].tensors[name]
    return CheckpointFile(folder, tensors, tuple(folder / name for name in names), config, _unlisted(headers, tensors))


def _unlisted(headers: dict[str, Any], tensors: dict[str, TensorInfo]) -> tuple[str, ...]:
    extra = [name for header in headers.values() for name in header.tensors if name not in tensors]
    return (f"{len(extra)} tensors are in shards but not in {INDEX_FILE}: ignored ({extra[0]}).",) if extra else ()


def _read_index(path: Path) -> dict[str, str]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise CheckpointError(f"{path}: is not readable JSON ({problem}).") from None
    weight_map = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{path}: expected an object `weight_map` from tensor to file.")
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise CheckpointError(
                f"{path}: tensor {name}: expected a .safetensors file of this folder, found {shard!r}."
            )
    return weight_map


def checkpoint_summary(folder: Path) -> tuple[str, int]:
    """(dtype, parameters) of a model folder, from its headers; raises CheckpointError as `open_checkpoint`."""
    found = open_checkpoint(folder)
    return found.dtype, found.parameters
