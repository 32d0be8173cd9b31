"""The transformers runner: one model folder, one task list, one protocol; one JSONL row a sample.

Takes a Hugging Face folder and gives a file that is written whole or not at all. Knows nothing about
banks or jobs; how a token is drawn is `sampling.py`.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import CheckpointError, InputError, RunError, TaskError
from core.evals.protocol import Protocol
from core.evals.sampling import Completion, generate
from core.evals.tasks import Task, score
from core.files import jsonl_bytes, write_atomically
from core.progress import Progress, no_progress

SMALL = 50_000_000
"""Parameters up to which one CPU thread is used: as fast, and the same bits on any number of cores."""


@dataclass(frozen=True)
class EvalResult:
    """What one evaluation came to."""

    path: Path
    n_tasks: int
    samples: int
    """Samples per task."""
    mean: float
    """Mean score over all samples, in [0, 1]."""
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "out": str(self.path),
            "tasks": self.n_tasks,
            "samples": self.samples,
            "mean": self.mean,
            "seconds": round(self.seconds, 3),
        }


def evaluate(
    model: Path,
    tasks: Sequence[Task],
    protocol: Protocol,
    *,
    out: Path,
    checkpoint: str,
    batch_size: int = 32,
    device: str = "auto",
    progress: Progress = no_progress,
) -> EvalResult:
    """Sample and score every task, and write `out`: rows by task in the order given, then by sample.

    Row keys: checkpoint, task, scenario, sample, score, seed, prompt, completion, scorer, finish. The same
    model, tasks, protocol and machine give the same bytes. `device` is auto (cuda where there is one), cpu
    or cuda[:n]. The file appears only when everything is done. Raises CheckpointError for a folder that
    is no such model, TaskError for tasks, scorers or a protocol that cannot be run, RunError for logits
    that are not finite, lack of memory or a disk that cannot take the file; lets `Cancelled` through.
    """
    began = time.perf_counter()
    _check(tasks, protocol, batch_size)
    asked = [(task, sample) for task in tasks for sample in range(protocol.samples)]
    completions = _answers(model, asked, protocol, batch_size=batch_size, device=device, progress=progress)
    rows = [
        _row(checkpoint, task, sample, protocol, answer)
        for (task, sample), answer in zip(asked, completions, strict=True)
    ]
    progress("score", len(rows), len(rows), "samples")
    _write(out, rows)
    mean = math.fsum(row["score"] for row in rows) / len(rows)
    return EvalResult(out, len(tasks), protocol.samples, mean, time.perf_counter() - began)


def _answers(
    folder: Path,
    asked: Sequence[tuple[Task, int]],
    protocol: Protocol,
    *,
    batch_size: int,
    device: str,
    progress: Progress,
) -> list[Completion]:
    progress("load", 0, 1, "models")
    model, tokenizer = load_model(folder, protocol.dtype, device)
    progress("load", 1, 1, "models")
    prompts, keys = [task.prompt for task, _ in asked], [(task.id, sample) for task, sample in asked]
    with _steady(model), _memory_errors(folder, batch_size):
        return generate(model, tokenizer, prompts, keys, protocol, batch_size, progress=progress)


def _write(out: Path, rows: list[dict[str, Any]]) -> None:
    try:
        write_atomically(out, jsonl_bytes(rows))
    except OSError as problem:
        raise RunError(
            f"{out}: cannot be written ({problem.strerror}). Free some space, or choose another place."
        ) from None


def _row(checkpoint: str, task: Task, sample: int, protocol: Protocol, answer: Completion) -> dict[str, Any]:
    return {
        "checkpoint": checkpoint,
        "task": task.id,
        "scenario": task.scenario,
        "sample": sample,
        "score": score(task, answer.text).score,
        "seed": protocol.seed,
        "prompt": task.prompt,
        "completion": answer.text,
        "scorer": task.scorer_name,
        "finish": answer.finish,
    }


def _check(tasks: Sequence[Task], protocol: Protocol, batch_size: int) -> None:
    if not tasks:
        raise TaskError("There are no tasks to evaluate. Expected at least one.")
    if not (math.isfinite(protocol.temperature) and protocol.temperature >= 0):
        raise TaskError(f"temperature must be a finite number from 0, found {protocol.temperature}.")
    for name, value in (
        ("samples", protocol.samples),
        ("max_new_tokens", protocol.max_new_tokens),
        ("batch_size", batch_size),
    ):
        if value < 1:
            raise TaskError(f"{name} must be a whole number from 1, found {value}.")
    if protocol.dtype not in ("float32", "bfloat16", "float16"):
        raise TaskError(f"dtype must be float32, bfloat16 or float16, found {protocol.dtype!r:.40}.")


def load_model(folder: Path, dtype: str, device: str = "auto") -> tuple[Any, Any]:
    """The causal language model of a Hugging Face folder in `dtype` on `device`, and its tokenizer.

    Nothing is fetched and no code of the folder is run. Raises CheckpointError, with what to do, where the
    folder is not a whole model in safetensors, RunError where the device is missing or full.
    """
    from core.merge import open_checkpoint

    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder}: no config.json here. Expected the folder of a Hugging Face model.")
    if open_checkpoint(folder).ranks:
        raise CheckpointError(
            f"{folder}: is a vLLM sharded state, which transformers cannot load. Convert it to a Hugging Face folder "
            "first: `python -m core convert DIR OUT`."
        )
    place = _device(device)
    tokenizer, model, missing = _from_pretrained(folder, dtype)
    _refuse_incomplete(folder, missing, tokenizer)
    with _memory_errors(folder, None):
        return model.eval().to(place), tokenizer


def _from_pretrained(folder: Path, dtype: str) -> tuple[Any, Any, list[str]]:
    """Tokenizer, model and the names of the weights that are missing, all from the folder itself."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    # It reports mismatches as a table on stderr; ours is one line.
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    refusals = (OSError, ValueError, KeyError, RuntimeError, ImportError, AttributeError, TypeError, SafetensorError)
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        model, report = AutoModelForCausalLM.from_pretrained(
            str(folder),
            dtype=getattr(torch, dtype),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    except refusals as problem:
        reason = " ".join(str(problem).split())[:300]
        raise CheckpointError(f"{folder}: cannot be loaded as a causal language model: {reason}") from None
    return tokenizer, model, sorted(report["missing_keys"])


def _refuse_incomplete(folder: Path, missing: list[str], tokenizer: Any) -> None:
    """transformers fills absent weights at random and makes an empty tokenizer; neither can be scored."""
    if missing:
        count = "1 tensor is missing" if len(missing) == 1 else f"{len(missing)} tensors are missing"
        raise CheckpointError(
            f"{folder}: {count}, {missing[0]}{'' if len(missing) == 1 else ' first'}. Expected every weight of the "
            f"model; restore the missing shard."
        )
    if len(tokenizer) <= max(1, len(tokenizer.all_special_ids)):
        raise CheckpointError(f"{folder}: no tokenizer here. Copy tokenizer.json and its config from the base model.")


def _device(wanted: str) -> str:
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = wanted.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise InputError(f"device must be auto, cpu, cuda or cuda:N, found {wanted!r:.40}.")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise InputError(
            f"device {wanted} is not here: this machine has {torch.cuda.device_count()}. Try --device cpu."
        )
    return wanted


@contextmanager
def _steady(model: Any) -> Iterator[None]:
    """Settings under which equal input gives equal bits; put back afterwards."""
    import torch

    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    # TF32 keeps 10 bits of a float32: an fp32 protocol means all of them.
    torch.set_float32_matmul_precision("highest")
    if model.num_parameters() <= SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)


@contextmanager
def _memory_errors(folder: Path, batch_size: int | None) -> Iterator[None]:
    import torch

    try:
        yield
    except (torch.OutOfMemoryError, MemoryError):
        hint = f"a batch size below {batch_size}, " if batch_size and batch_size > 1 else ""
        raise RunError(
            f"{folder}: memory ran out. Nothing was written. Try {hint}bfloat16, or another device."
        ) from None
