"""What jobs can do: the registry of kinds, and the two simple ones, `merge` and `eval`.

A kind checks a specification when it is submitted, and later does the work in a worker. Merging and
evaluating are imported only there, so that submitting stays light.
"""

import glob
import importlib
import os
import shlex
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.jobs import specs
from core.jobs.timeline import Phase
from core.jobs.work import Work

RUNG_SCORES = "rung_scores"
"""Folder of a ladder's scores, which a run that goes on after a bad end takes over."""
EXTRA_KINDS = "MERGESCOPE_KINDS"
"""Environment variable: modules, separated like PATH, whose `KINDS` are kinds too."""


class Kind:
    """One kind of job. A specification and a result are JSON values."""

    name: str

    def check(self, spec: dict[str, Any]) -> dict[str, Any]:
        """The specification with its paths made absolute; raises InputError. Called by `Ledger.submit`."""
        raise NotImplementedError

    def device(self, spec: dict[str, Any]) -> str:
        """The device it will hold, `cpu` or `cuda:0`. Called by the worker, before it waits."""
        return "cpu"

    def run(self, spec: dict[str, Any], folder: Path, device: str, work: Work) -> dict[str, Any]:
        """Do the work; outputs go to `folder`. Called by the worker once it holds the device.

        Raises MergescopeError; lets `Cancelled` pass.
        """
        raise NotImplementedError

    def command(self, spec: dict[str, Any], folder: Path) -> str:
        """Shell commands that do the same. Called by `Ledger.submit`, with the checked specification."""
        return shell("jobs", "submit", folder / "spec.json")

    def remove_half_written(self, spec: dict[str, Any], folder: Path, *, keep: bool) -> None:
        """Remove what an ended worker left unfinished; finished files stay. Called after any bad end.

        With `keep`, unless it was cancelled, a merge that can be gone on with stays too.
        """
        remove_temporaries(folder, keep=keep)


class MergeKind(Kind):
    """`{config: YAML text, out?, where?, cwd?, overwrite?, dialect?, vocabulary?}`: one mergekit config.

    `out` is `merged` in the job's folder unless given; `where` is the file the text came from and
    `cwd` the folder it was submitted in, from which relative model paths are looked up. Result:
    `{merge: the figures of the merge, out}`.
    """

    name = "merge"

    def check(self, spec: dict[str, Any]) -> dict[str, Any]:
        """As `Kind.check`; refuses models that do not exist, and an `out` that does."""
        specs.only_fields(self.name, spec, ("config",), ("out", "where", "cwd", "overwrite", "dialect", "vocabulary"))
        cwd = specs.absolute(spec.get("cwd") or Path.cwd())
        checked = spec | {"cwd": str(cwd), "where": str(cwd / (spec.get("where") or "config.yml"))}
        check_plan(specs.text_of(self.name, spec, "config"), Path(checked["where"]), cwd)
        if spec.get("out") is not None:
            out = cwd / Path(specs.text_of(self.name, spec, "out")).expanduser()
            if out.exists() and not spec.get("overwrite") and (not out.is_dir() or any(out.iterdir())):
                raise InputError(f"{out}: already exists. Name another folder, or allow it to be overwritten.")
            checked["out"] = str(out)
        return checked

    def run(self, spec: dict[str, Any], folder: Path, device: str, work: Work) -> dict[str, Any]:
        """As `Kind.run`."""
        from core.merge import parse_plan, run_merge, with_dialect, with_vocabulary

        os.chdir(spec["cwd"])
        (folder / "config.yml").write_text(spec["config"])
        out = Path(spec.get("out") or folder / "merged")
        work.plan([Phase("merge", 10.0, "merge", main_stage="merging")])
        progress = work.phase("merge")
        plan = with_vocabulary(parse_plan(spec["config"], Path(spec["where"])), spec.get("vocabulary", "refuse"))
        plan = with_dialect(plan, spec.get("dialect", "mergekit"))
        result = run_merge(plan, out, progress=progress, overwrite=bool(spec.get("overwrite")))
        return {"merge": result.as_dict(), "out": str(out)}

    def command(self, spec: dict[str, Any], folder: Path) -> str:
        """As `Kind.command`."""
        choices = [part for name in ("dialect", "vocabulary") if spec.get(name) for part in (f"--{name}", spec[name])]
        return shell("merge", folder / "config.yml", spec.get("out") or "merged", *choices)

    def remove_half_written(self, spec: dict[str, Any], folder: Path, *, keep: bool) -> None:
        """As `Kind.remove_half_written`, beside `out` too."""
        remove_temporaries(folder, keep=keep)
        if spec.get("out"):
            remove_temporaries(Path(spec["out"]).parent, glob.escape(Path(spec["out"]).name), keep=keep)


class EvalKind(Kind):
    """`{model, tasks, out?, protocol, checkpoint?, batch_size?, device?}`: one model on one task file.

    `out` is `samples.jsonl` in the job's folder unless given. Result: `{eval: path, n_tasks, samples,
    mean, seconds}`.
    """

    name = "eval"

    def check(self, spec: dict[str, Any]) -> dict[str, Any]:
        """As `Kind.check`; refuses a model or task file that does not exist, and a wrong protocol."""
        specs.only_fields(
            self.name, spec, ("model", "tasks", "protocol"), ("out", "checkpoint", "batch_size", "device")
        )
        checked = dict(spec)
        checked["model"] = str(specs.model_folder(specs.text_of(self.name, spec, "model")))
        checked["tasks"] = str(specs.task_file(specs.text_of(self.name, spec, "tasks")))
        checked["protocol"] = specs.protocol_from(spec["protocol"]).as_dict()
        if spec.get("out") is not None:
            checked["out"] = str(specs.new_file(specs.text_of(self.name, spec, "out")))
        specs.batch_size_of(spec)
        return checked

    def device(self, spec: dict[str, Any]) -> str:
        """As `Kind.device`."""
        return resolve_device(spec.get("device"))

    def run(self, spec: dict[str, Any], folder: Path, device: str, work: Work) -> dict[str, Any]:
        """As `Kind.run`."""
        from core.evals import evaluate, read_tasks

        model = Path(spec["model"])
        work.plan([Phase("evaluate", 10.0, "eval", main_stage="generate")])
        progress = work.phase("evaluate")
        result = evaluate(
            model,
            read_tasks(Path(spec["tasks"])),
            specs.protocol_from(spec["protocol"]),
            out=Path(spec.get("out") or folder / "samples.jsonl"),
            checkpoint=spec.get("checkpoint") or specs.checkpoint_name(model),
            batch_size=specs.batch_size_of(spec),
            device=device,
            progress=progress,
        )
        return {"eval": eval_dict(result)}

    def command(self, spec: dict[str, Any], folder: Path) -> str:
        """As `Kind.command`."""
        return eval_command(spec["model"], spec["tasks"], spec.get("out") or "samples.jsonl", spec)

    def remove_half_written(self, spec: dict[str, Any], folder: Path, *, keep: bool) -> None:
        """As `Kind.remove_half_written`, beside `out` too."""
        remove_temporaries(folder, keep=keep)
        if spec.get("out"):
            remove_temporaries(Path(spec["out"]).parent, glob.escape(Path(spec["out"]).name), keep=keep)


def kind_named(name: str) -> Kind:
    """The kind of that name; raises InputError for an unknown one."""
    kinds = all_kinds()
    if name not in kinds:
        raise InputError(f"unknown kind of job {name!r:.80}. Expected one of: {', '.join(kinds)}.")
    return kinds[name]


def all_kinds() -> dict[str, Kind]:
    """Every kind by name: ours, then those of the modules named in MERGESCOPE_KINDS."""
    from core.jobs.ladder import LadderKind
    from core.jobs.merge_eval import MergeEvalKind

    kinds: list[Kind] = [MergeKind(), EvalKind(), MergeEvalKind(), LadderKind()]
    for module in filter(None, os.environ.get(EXTRA_KINDS, "").split(os.pathsep)):
        kinds.extend(importlib.import_module(module).KINDS)
    return {one.name: one for one in kinds}


def check_plan(text: str, where: Path, cwd: Path) -> None:
    """Refuse a config that cannot be parsed, or names a model that is neither beside it nor in `cwd`."""
    from core.merge import parse_plan

    plan = parse_plan(text, where)
    for path in [*([plan.base] if plan.base else []), *(one.path for one in plan.members)]:
        specs.model_folder(cwd / path)


def resolve_device(asked: str | None) -> str:
    """The device to hold for `auto`, `cpu`, `cuda` or `cuda:N`."""
    from core.jobs.devices import best_device

    if asked in (None, "auto"):
        return best_device()
    return "cuda:0" if asked == "cuda" else str(asked)


def eval_dict(result: Any) -> dict[str, Any]:
    """The figures of an evaluation as JSON values."""
    return {
        "path": str(result.path),
        "n_tasks": result.n_tasks,
        "samples": result.samples,
        "mean": result.mean,
        "seconds": result.seconds,
    }


def eval_command(model: object, tasks: object, out: object, spec: dict[str, Any]) -> str:
    """The shell's `eval` with a specification's protocol, every setting of it written out."""
    settings = dict(spec["protocol"])
    settings |= {name: spec[name] for name in ("checkpoint", "batch_size", "device") if spec.get(name) is not None}
    options = [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", value)]
    return shell("eval", model, "--tasks", tasks, "--out", out, *options)


def shell(*words: object) -> str:
    """One command line of ours, quoted for a POSIX shell."""
    return shlex.join(["python", "-m", "core", *map(str, words)])


def remove_temporaries(folder: Path, name: str = "*", *, keep: bool = False) -> None:
    """Remove what a writer that was killed left beside `name`: `.<name>.….tmp` files and `.<name>.partial` folders.

    With `keep` a folder that has the journal of a merge stays: the next merge goes on with it.
    """
    from core.merge.journal import JOURNAL_FILE

    for path in folder.glob(f".{name}.*tmp") if folder.is_dir() else ():
        path.unlink(missing_ok=True)
    for path in folder.glob(f".{name}.partial") if folder.is_dir() else ():
        if path.is_dir() and not (keep and (path / JOURNAL_FILE).is_file()):
            shutil.rmtree(path, ignore_errors=True)


def carry_over(old: Path, new: Path) -> None:
    """Move unfinished merges, and the scores of a ladder, of one job's folder to another's, which goes on with them."""
    for path in (*old.glob(".*.partial"), *old.glob(RUNG_SCORES)) if old.is_dir() else ():
        with suppress(OSError):
            path.rename(new / path.name)
