"""Scores a bank's checkpoints with `core.evals` and keeps every sample, in long form.

Takes a folder with `base` and `checkpoint-*` and gives the files that bank.yaml names. Nothing here
chooses between checkpoints except by the dev scores at the main protocol.
"""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from core.evals import evaluate, read_tasks
from core.evals.protocol import Protocol
from core.files import jsonl_bytes, read_jsonl, write_atomically
from data.make.settings import MAIN, MORE, REPLICATE_SEEDS, STEPS
from data.make.tasks import SCENARIOS, make_split

BATCH = 32
"""The default of `python -m core eval`, so that it gives the same samples."""
LARGE_BATCH = 256
"""For several samples a task, where it is faster."""


def members(bank: Path) -> dict[str, Path]:
    """Checkpoint id to folder, the base last."""
    return {**{str(step): bank / f"checkpoint-{step}" for step in STEPS}, "base": bank / "base"}


def write_tasks(bank: Path) -> None:
    """Write tasks/dev.jsonl and tasks/test.jsonl."""
    for split in SCENARIOS:
        write_atomically(bank / "tasks" / f"{split}.jsonl", jsonl_bytes(make_split(split)))


def score_models(models: Mapping[str, Path], tasks_file: Path, protocols: Sequence[Protocol], out: Path) -> None:
    """Evaluate every model under every protocol and write all rows, model by model, to one JSONL file."""
    tasks, rows, began = read_tasks(tasks_file), [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models.items():
            for protocol in protocols:
                path = Path(folder) / "samples.jsonl"
                done = evaluate(
                    model,
                    tasks,
                    protocol,
                    out=path,
                    checkpoint=name,
                    batch_size=BATCH if protocol.samples == 1 else LARGE_BATCH,
                    device="cpu",
                )
                rows += [row for _, row in read_jsonl(path)]
                print(
                    f"{out.parent.parent.name} {out.name}: {name} seed {protocol.seed} "
                    f"{done.mean * len(tasks):.1f}/{len(tasks)} ({time.perf_counter() - began:.0f} s)",
                    flush=True,
                )
    write_atomically(out, jsonl_bytes(rows))


def totals(path: Path) -> dict[str, float]:
    """Checkpoint id to the sum over tasks of its mean score, in tasks."""
    sums: dict[str, dict[str, list[float]]] = {}
    for _, row in read_jsonl(path):
        sums.setdefault(row["checkpoint"], {}).setdefault(row["task"], []).append(row["score"])
    return {name: sum(sum(v) / len(v) for v in tasks.values()) for name, tasks in sums.items()}


def best_single(bank: Path) -> str:
    """The checkpoint with the highest dev score at the main protocol; the earliest of equals."""
    scores = totals(bank / "scores" / "dev.t05n1.jsonl")
    return max((str(step) for step in STEPS), key=lambda name: scores[name])


def score_bank(bank: Path) -> None:
    """Write the task files, then six score files: both splits at T=0.5 n=1 and T=0.9 n=8, and the replicates."""
    write_tasks(bank)
    models = members(bank)
    for split in SCENARIOS:
        score_models(models, bank / "tasks" / f"{split}.jsonl", [MAIN], bank / "scores" / f"{split}.t05n1.jsonl")
    best = best_single(bank)
    repeats = [replace(MAIN, seed=seed) for seed in REPLICATE_SEEDS]
    for split in SCENARIOS:
        tasks, scores = bank / "tasks" / f"{split}.jsonl", bank / "scores"
        score_models({best: models[best]}, tasks, repeats, scores / f"{split}.replicates.jsonl")
        score_models(models, tasks, [MORE], scores / f"{split}.t09n8.jsonl")
