"""`merge`, `rounding` and `eval`: the work on weights, in the shell's own process.

Takes files; what they compute is in `core.merge`, `core.precision` and `core.evals`, imported when run.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli import proofs
from core.cli.merged import as_text
from core.cli.options import JsonOption, join
from core.cli.output import cell, emit, note, only_ours_on_stdout, progress_line, table
from core.errors import InputError, PlanError
from core.evals.protocol import Protocol

if TYPE_CHECKING:
    from core.merge import Plan

DEFAULT = Protocol()
MERGE_EXAMPLE = "Example: python -m core merge config.yml merged --json"
ROUNDING_EXAMPLE = "Example: python -m core rounding --base data/rl_only/base --merged merged"
EVAL_EXAMPLE = "Example: python -m core eval merged --tasks data/rl_only/tasks/dev.jsonl --out merged.dev.jsonl"
VOCABULARY_HELP = "Embeddings of unequal rows: refuse, or truncate each to the smallest (tokens beyond are lost)."
Folder = Annotated[Path, typer.Argument(metavar="OUT", help="Folder to make; a Hugging Face model folder afterwards.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("merge", epilog=MERGE_EXAMPLE)(merge)
    proofs.register(app)
    app.command("rounding", epilog=ROUNDING_EXAMPLE)(rounding)
    app.command("eval", epilog=EVAL_EXAMPLE)(evaluate)


def merge(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yml", help="Any mergekit config.")],
    out: Folder,
    *,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT when it is an earlier merge.")] = False,
    shard_size: Annotated[str, typer.Option(metavar="BYTES", help="Largest weight file, such as 5GB.")] = "5GB",
    memory: Annotated[str, typer.Option(metavar="BYTES", help="Memory to stay within, such as 1GB.")] = "",
    dialect: Annotated[str, typer.Option(help="How to do ties: mergekit, paper or sum.")] = "mergekit",
    vocabulary: Annotated[str, typer.Option(metavar="CHOICE", help=VOCABULARY_HELP)] = "refuse",
    device: Annotated[str, typer.Option(help="cpu, auto, cuda or cuda:N; the bytes are the same.")] = "cpu",
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew where one that was killed is unfinished.")] = (
        False
    ),
    check: Annotated[bool, typer.Option("--check", help="Only check that it would work; write nothing.")] = False,
    scan: Annotated[bool, typer.Option("--scan", help="With --check: also look for NaN in all weights.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Merge models as a mergekit config says; a drop-in for `mergekit-yaml CONFIG.yml OUT`.

    The same command goes on with a merge that was killed, or that filled the disk.
    """
    if scan and not check:
        raise InputError("--scan goes with --check. A merge looks for NaN and infinity by itself, as it reads.")
    size, budget = size_of(shard_size), {"memory": size_of(memory, "--memory")} if memory else {}
    with only_ours_on_stdout():
        plan = _plan(config, dialect, vocabulary)
    if check:
        _check(plan, out, as_json=as_json, overwrite=overwrite, scan=scan, **budget)
        return
    options: dict[str, Any] = {"overwrite": overwrite, "shard_size": size, "device": device, "restart": restart}
    found = _merged(plan, out, **options, **budget)
    emit(found) if as_json else print(as_text(found, plan))


def _plan(config: Path, dialect: str, vocabulary: str) -> "Plan":
    from core.merge import read_plan, with_dialect, with_vocabulary

    return with_dialect(with_vocabulary(read_plan(config), vocabulary), dialect)


def _merged(plan: "Plan", out: Path, **options: Any) -> dict[str, Any]:
    with only_ours_on_stdout():
        from core.merge import run_merge

        for warning in plan.warnings:
            note(f"warning: {warning}")
        with progress_line("merge") as progress:
            found = run_merge(plan, out, progress=progress, **options).as_dict()
    if found["resumed"]:
        note(f"{found['resumed']} of {found['tensors']} tensors were merged before, by a process that did not finish.")
    return found


def _check(plan: "Plan", out: Path, *, as_json: bool, **options: Any) -> None:
    """Say what would be read and written, and what stands in the way; raises PlanError where something does."""
    from core.cli import checking
    from core.merge import preflight

    with only_ours_on_stdout(), progress_line("check") as progress:
        found = preflight(plan, out, progress=progress, **options)
    guess = checking.expected_time(found)
    emit(checking.as_json(found, guess)) if as_json else print(checking.as_text(found, guess))
    if not found.ok:
        raise PlanError(checking.refusal(found))


def rounding(
    base: Annotated[Path, typer.Option(metavar="FOLDER", help="The base's model folder.")],
    merged: Annotated[Path, typer.Option(metavar="FOLDER", help="The merged model's folder, in float32.")],
    partly: Annotated[bool, typer.Option("--partly", help="Skip tensors that only one of them has.")] = False,
    as_json: JsonOption = False,
) -> None:
    """What casting a merge to bf16 rounds away: tensor by tensor, and in total."""
    with only_ours_on_stdout():
        from core.precision import rounding_report

        with progress_line("rounding") as progress:
            found = rounding_report(base, merged, progress, partly=partly).as_dict()
        _warn_of_rounded(merged)
    if as_json:
        emit(found)
        return
    names = ["name", "elements", "changed", "lost", "lost_fraction", "relative_l2", "cosine"]
    rows = [[one.get(name) for name in names] for one in (*found["tensors"], found["total"] | {"name": "total"})]
    print(table(rows, [name.replace("_", " ") for name in names]))


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")],
    *,
    tasks: Annotated[Path, typer.Option(metavar="TASKS.jsonl", help="Tasks: id, scenario, prompt, target, scorer.")],
    out: Annotated[Path, typer.Option(metavar="SAMPLES.jsonl", help="File to write: one line a sample.")],
    temperature: Annotated[float, typer.Option(help="Sampling temperature; 0 takes the likeliest token.")] = (
        DEFAULT.temperature
    ),
    samples: Annotated[int, typer.Option(help="Samples a task.")] = DEFAULT.samples,
    seed: Annotated[int, typer.Option(help="The same seed gives the same file.")] = DEFAULT.seed,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = DEFAULT.dtype,
    max_new_tokens: Annotated[int, typer.Option(help="Longest answer, in tokens.")] = DEFAULT.max_new_tokens,
    batch_size: Annotated[int, typer.Option(help="Prompts generated together.")] = 32,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Name in the samples; the folder's name, or `merged` for a merge wherever it lies."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a model every task of a file and score its answers; one line a sample."""
    from core.jobs import specs

    settings = {"temperature": temperature, "samples": samples, "seed": seed, "dtype": dtype}
    protocol = specs.protocol_from(settings | {"max_new_tokens": max_new_tokens})
    size = specs.batch_size_of({"batch_size": batch_size})
    folder, task_path, target = specs.model_folder(model), specs.task_file(tasks), specs.new_file(out)
    name = checkpoint or specs.checkpoint_name(folder)
    found = _evaluated(folder, task_path, protocol, out=target, checkpoint=name, batch_size=size, device=device)
    result = found | {"checkpoint": name, "protocol": protocol.as_dict()}
    emit(result) if as_json else print(figures(result))


def _evaluated(folder: Path, tasks: Path, protocol: Protocol, **options: Any) -> dict[str, Any]:
    with only_ours_on_stdout():
        from core import evals
        from core.jobs.kinds import eval_dict

        with progress_line("eval") as progress:
            return eval_dict(evals.evaluate(folder, evals.read_tasks(tasks), protocol, progress=progress, **options))


def size_of(text: str, option: str = "--shard-size") -> int:
    """Bytes from `5GB`, `500MB`, `100kB` or a plain number (powers of ten, as mergekit); at least 1."""
    number, factor = text.strip().upper().removesuffix("B"), 1.0
    for letter, power in (("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)):
        if number.endswith(letter):
            number, factor = number.removesuffix(letter), power
    try:
        size = int(float(number) * factor)
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise InputError(f"{option}: expected a size such as 5GB or 500MB, found {text!r}.")
    return size


def figures(values: dict[str, Any]) -> str:
    """A line a figure; figures inside figures on one line."""
    lines = []
    for name, value in values.items():
        text = join([f"{key} {cell(one)}" for key, one in value.items()]) if isinstance(value, dict) else cell(value)
        lines.append(f"{name.replace('_', ' '):20}  {text}")
    return "\n".join(lines)


def _warn_of_rounded(merged: Path) -> None:
    """A file that is already in bf16 or fp16 has lost what it could lose, and shows none of it."""
    from core.merge import checkpoint_summary

    dtype, _ = checkpoint_summary(merged)
    if dtype != "float32":
        note(
            f"warning: {merged} is stored in {dtype}: what rounding took is gone before it can be counted here. "
            "The report of its merge (merge_report.parquet) has it."
        )
