"""Which tensor goes into which weight file, and each file's safetensors header.

Takes the jobs in the order they are written; gives shards: Hugging Face's, or of a sharded state the parts of
each rank, whose tensors lose the rank from their names. Writes nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from core.merge.forms import SINGLE_FILE
from core.merge.pairing import TensorJob
from core.merge.ranks import part_name, rank_of, split_key


@dataclass(frozen=True)
class Shard:
    """One weight file to be written."""

    name: str
    jobs: list[TensorJob]
    header: bytes
    indexed: bool = True
    """False for a part of a rank: vLLM finds those by name, and reads no index."""

    @property
    def data_bytes(self) -> int:
        """Bytes of its tensors."""
        return sum(job.nbytes for job in self.jobs)


def plan_shards(jobs: Sequence[TensorJob], shard_size: float, metadata: dict[str, str]) -> list[Shard]:
    """Jobs grouped in order so that no shard passes `shard_size` bytes, save with a single larger tensor.

    Jobs of a sharded state come rank by rank; each rank begins a new file.
    """
    groups: list[list[TensorJob]] = [[]]
    size = 0
    for job in jobs:
        if groups[-1] and (size + job.nbytes > shard_size or _rank(job) != _rank(groups[-1][-1])):
            groups.append([])
            size = 0
        groups[-1].append(job)
        size += job.nbytes
    ranks = [_rank(group[0]) if group else "" for group in groups]
    names = _part_names(ranks) if any(ranks) else shard_names(len(groups))
    return [
        Shard(name, group, _header(group, metadata), indexed=not rank)
        for name, group, rank in zip(names, groups, ranks, strict=True)
    ]


def _rank(job: TensorJob) -> str:
    """The rank whose files the job belongs to; empty for a Hugging Face folder."""
    rank = split_key(job.name)[0]
    return rank if job.inputs and rank == rank_of(job.inputs[0]) else ""


def _stored_name(job: TensorJob) -> str:
    return job.name.removeprefix(f"{_rank(job)}/") if _rank(job) else job.name


def _header(jobs: Sequence[TensorJob], metadata: dict[str, str]) -> bytes:
    entries: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for job in jobs:
        place = [end, end + job.nbytes]
        entries[_stored_name(job)] = {"dtype": job.out_dtype, "shape": list(job.shape), "data_offsets": place}
        end += job.nbytes
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _part_names(ranks: Sequence[str]) -> list[str]:
    """vLLM's names of the parts, numbered from 0 in each rank."""
    return [part_name(rank, ranks[:at].count(rank)) for at, rank in enumerate(ranks)]


def shard_names(count: int) -> list[str]:
    """Hugging Face's names of `count` shards."""
    if count == 1:
        return [SINGLE_FILE]
    return [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
