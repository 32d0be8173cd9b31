"""The weights of a merge: from the first tensor that is not on the disk yet to the last shard, with a journal.

Takes an engine and a working folder; gives the finished shards, every tensor's figures and the hashed inputs.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.merge.companions import shard_metadata
from core.merge.engine import StreamingEngine
from core.merge.figures import TensorFigures
from core.merge.hashing import InputHashes, combined
from core.merge.journal import Journal
from core.merge.pairing import Pairing, TensorJob
from core.merge.report import load_parquet
from core.merge.result import Request
from core.merge.writer import ShardWriter, WrittenFile

Inputs = dict[Path, list[WrittenFile]]
"""The files of each model's folder, hashed."""


@dataclass(frozen=True, eq=False)
class Merged:
    """What the engine made."""

    figures: list[TensorFigures]
    """Of every merged tensor, tied copies left out."""
    files: list[WrittenFile]
    inputs: Inputs
    resumed: int
    """Tensors that were on the disk already."""


def merge_weights(
    work: Path, engine: StreamingEngine, request: Request, journal: Journal, hashes: InputHashes
) -> Merged:
    """Merge what the journal does not have, and write it; raises as `StreamingEngine.run` and `ShardWriter`."""
    found = engine.pairing
    metadata = _metadata(request, found, _inputs(found, hashes)) if hashes.known else shard_metadata(request.plan)
    progress = _Journalled(journal, found.jobs)
    writer = ShardWriter(work, found.jobs, request.shard_size, metadata, on_synced=progress.synced)
    total = sum(job.elements for job in found.jobs)
    try:
        resumed = progress.go_on(writer)
        done = sum(job.elements for job in found.jobs[:resumed])

        def on_elements(count: int) -> None:
            nonlocal done
            done += count
            request.progress("merging", done, total, "parameters")

        engine.prepare(request.progress)
        engine.hashes = hashes
        for _, figures in engine.run(writer.write, on_elements, resumed):
            if not progress.figures:
                threading.Thread(target=load_parquet, name="parquet", daemon=True).start()
            progress.figures.append(figures)
            writer.job_done()
        request.progress("hashing", 0, 1, "files")
        inputs = _inputs(found, hashes)
        files = writer.finish(_metadata(request, found, inputs))
    finally:
        writer.abandon()
    return Merged([one for one in progress.figures if one], files, inputs, resumed)


def _inputs(found: Pairing, hashes: InputHashes) -> Inputs:
    files = hashes.finish()
    return {one.folder: [files[path] for path in one.files] for one in (found.reference, *found.members)}


def _metadata(request: Request, found: Pairing, inputs: Inputs) -> dict[str, str]:
    models = [*([found.reference] if request.plan.base else []), *found.members]
    return shard_metadata(request.plan, [combined(inputs[one.folder]) for one in models])


class _Journalled:
    """Every tensor's figures in order, and how far the journal has them."""

    def __init__(self, journal: Journal, jobs: Sequence[TensorJob]) -> None:
        self.figures: list[TensorFigures | None] = []
        self._journal, self._jobs, self._written = journal, jobs, 0

    def go_on(self, writer: ShardWriter) -> int:
        """Take up what an earlier process finished; gives the number of its tensors."""
        before = self._journal.read()
        ready = writer.resume(len(before)) if before else 0
        self.figures = [
            TensorFigures.from_dict(job, one.figures) if one.figures else None
            for job, one in zip(self._jobs, before[:ready], strict=False)
        ]
        self._written = ready
        if ready < len(before):
            self._journal.begin()
            self._written = 0
            self.synced(ready)
        return ready

    def synced(self, jobs: int) -> None:
        """The first `jobs` are safely on the disk."""
        lines = [(self._jobs[at].name, self.figures[at]) for at in range(self._written, jobs)]
        if lines:
            self._journal.append(lines)
            self._written = jobs
