"""Which tensor goes into which weight file, and each file's safetensors header.

Takes the jobs in the order they are written; gives shards. Writes nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from core.merge.forms import SINGLE_FILE
from core.merge.pairing import TensorJob


@dataclass(frozen=True)
class Shard:
    """One weight file to be written."""

    name: str
    jobs: list[TensorJob]
    header: bytes

    @property
    def data_bytes(self) -> int:
        """Bytes of its tensors."""
        return sum(job.nbytes for job in self.jobs)


def plan_shards(jobs: Sequence[TensorJob], shard_size: float, metadata: dict[str, str]) -> list[Shard]:
    """Jobs grouped in order so that no shard passes `shard_size` bytes, save with a single larger tensor."""
    groups: list[list[TensorJob]] = [[]]
    size = 0
    for job in jobs:
        if groups[-1] and size + job.nbytes > shard_size:
            groups.append([])
            size = 0
        groups[-1].append(job)
        size += job.nbytes
    names = shard_names(len(groups))
    return [Shard(name, group, _header(group, metadata)) for name, group in zip(names, groups, strict=True)]


def _header(jobs: Sequence[TensorJob], metadata: dict[str, str]) -> bytes:
    entries: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for job in jobs:
        entries[job.name] = {"dtype": job.out_dtype, "shape": list(job.shape), "data_offsets": [end, end + job.nbytes]}
        end += job.nbytes
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def shard_names(count: int) -> list[str]:
    """Hugging Face's names of `count` shards."""
    if count == 1:
        return [SINGLE_FILE]
    return [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
