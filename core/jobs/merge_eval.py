"""The main job: merge a recipe's picks, evaluate the merge beside its rivals, and compare them.

Takes a bank, a recipe and its plan; everything it writes is in the job's folder, and its result is
the figures and paths. Rivals are the base, the best single checkpoint and, when asked for, the plain
mean of the whole pool.
"""

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.bank import Bank, Split, load_bank, split_noise
from core.errors import BankError, InputError
from core.evals.protocol import Protocol
from core.files import jsonl_bytes, read_jsonl, write_atomically
from core.jobs import specs
from core.jobs.kinds import Kind, check_plan, eval_command, remove_temporaries, resolve_device, shell
from core.jobs.timeline import Phase
from core.jobs.work import Work
from core.preview.cost import BATCH, FLOPS, MERGED_PER_SECOND, STEP_SECONDS
from core.recipe import recipe_from_dict, relevances, uniform_mean_plan, validate
from core.recipe.model import Recipe

log = logging.getLogger("mergescope")
RIVALS = {"best_single": "best single", "base": "base", "uniform": "uniform mean"}

LOAD, LOAD_SECONDS = "load torch and transformers", 5.0
"""A phase of its own, since the first evaluation would otherwise seem slow and spoil the time left."""


class MergeEvalKind(Kind):
    """`{bank, recipe, plan, splits, protocol, also_uniform?, device?, batch_size?}`.

    The folder then holds `config.yml` and `merged/`, `uniform.yml` and `uniform/` when asked for, and
    `scores/<split>.jsonl` of the merge beside `scores/<split>.<rival>.jsonl`. The rows of the base and
    the best single are copied from the bank where it has scores under this protocol; otherwise both
    are evaluated. The best single is the one with the highest mean on the recipe's split, whichever
    split is evaluated, since a held-out split must not choose.

    Result: `merge, uniform, out, protocol, best_single, scores, sources, means, comparisons`.
    """

    name = "merge_eval"

    def check(self, spec: dict[str, Any]) -> dict[str, Any]:
        """As `Kind.check`; reads the bank and the recipe, and looks for every model and task file."""
        optional = ("also_uniform", "device", "batch_size")
        specs.only_fields(self.name, spec, ("bank", "recipe", "plan", "splits", "protocol"), optional)
        bank = load_bank(specs.absolute(specs.text_of(self.name, spec, "bank")))
        validate(recipe_from_dict(spec["recipe"]), bank)
        check_plan(specs.text_of(self.name, spec, "plan"), bank.root / "config.yml", bank.root)
        if spec.get("also_uniform"):
            check_plan(uniform_mean_plan(bank), bank.root / "config.yml", bank.root)
        if not isinstance(spec["splits"], list) or not spec["splits"]:
            raise InputError("no split to evaluate on was chosen. Choose at least one.")
        for name in spec["splits"]:
            tasks_path(bank, name)
        specs.batch_size_of(spec)
        return spec | {
            "bank": str(specs.absolute(spec["bank"])),
            "protocol": specs.protocol_from(spec["protocol"]).as_dict(),
        }

    def device(self, spec: dict[str, Any]) -> str:
        """As `Kind.device`."""
        return resolve_device(spec.get("device"))

    def run(self, spec: dict[str, Any], folder: Path, device: str, work: Work) -> dict[str, Any]:
        """As `Kind.run`."""
        return MergeEval(spec, folder, device, work).run()

    def command(self, spec: dict[str, Any], folder: Path) -> str:
        """The merge and the evaluations of it, as one would type them."""
        bank = load_bank(spec["bank"])
        lines = [shell("merge", folder / "config.yml", "merged")]
        for name in spec["splits"]:
            lines.append(eval_command("merged", tasks_path(bank, name), f"merged.{name}.jsonl", spec))
        return "\n".join(lines)

    def remove_half_written(self, spec: dict[str, Any], folder: Path, *, keep: bool) -> None:
        """As `Kind.remove_half_written`, among the scores too; a merge that is complete stays."""
        remove_temporaries(folder, keep=keep)
        remove_temporaries(folder / "scores")


class MergeEval:
    """One run of the job, step by step."""

    def __init__(self, spec: dict[str, Any], folder: Path, device: str, work: Work) -> None:
        self.spec = spec
        self.folder = folder
        self.device = device
        self.work = work
        self.bank = load_bank(spec["bank"])
        self.recipe = recipe_from_dict(spec["recipe"])
        self.protocol = specs.protocol_from(spec["protocol"])
        self.splits = [self.bank.splits[name] for name in spec["splits"]]
        self.uniform = bool(spec.get("also_uniform"))
        self.best = best_single(self.bank, self.recipe)

    def run(self) -> dict[str, Any]:
        """Merge, evaluate, compare; gives the result."""
        self.work.plan(self._phases())
        result: dict[str, Any] = {
            "merge": self._merge("merge", self.spec["plan"], "config.yml", "merged"),
            "out": str(self.folder / "merged"),
            "protocol": self.protocol.as_dict(),
            "best_single": self.best,
        }
        if self.uniform:
            plan = uniform_mean_plan(self.bank, self.recipe.out_dtype)
            result["uniform"] = self._merge("uniform mean", plan, "uniform.yml", "uniform")
        self.work.phase(LOAD)
        load_libraries()
        scores: dict[str, dict[str, str]] = {}
        sources: dict[str, dict[str, str]] = {}
        for split in self.splits:
            scores[split.name], sources[split.name] = self._score(split)
        self.work.phase("compare")
        means, comparisons = {}, {}
        for split in self.splits:
            means[split.name], comparisons[split.name] = compare_models(split, scores[split.name], self.protocol)
        return result | {"scores": scores, "sources": sources, "means": means, "comparisons": comparisons}

    def _merge(self, phase: str, plan: str, config: str, out: str) -> dict[str, Any]:
        from core.merge import parse_plan, run_merge

        progress = self.work.phase(phase)
        write_atomically(self.folder / config, plan)
        parsed = parse_plan(plan, self.bank.root / "config.yml")
        figures: dict[str, Any] = run_merge(parsed, self.folder / out, progress=progress).as_dict()
        return figures

    def _score(self, split: Split) -> tuple[dict[str, str], dict[str, str]]:
        """Score files of one split by model, and whether each was evaluated or is the bank's."""
        files = {"merge": self._evaluate(split, "merge", self.folder / "merged")}
        sources = {"merge": "evaluated"}
        if self.uniform:
            files["uniform"] = self._evaluate(split, "uniform", self.folder / "uniform")
            sources["uniform"] = "evaluated"
        known = split.score_file(self.protocol)
        for rival, checkpoint in (("base", self.bank.base.id), ("best_single", self.best)):
            path = self._score_path(split, rival)
            if known is not None and copy_rows(known, checkpoint, path):
                files[rival], sources[rival] = str(path), "bank"
            else:
                model = self._weights_of(checkpoint)
                files[rival], sources[rival] = self._evaluate(split, rival, model, checkpoint), "evaluated"
        return files, sources

    def _evaluate(self, split: Split, who: str, model: Path, checkpoint: str | None = None) -> str:
        """Evaluate one model on one split; gives the score file."""
        from core.evals import evaluate, read_tasks

        progress = self.work.phase(phase_name(who, split.name))
        path = self._score_path(split, who)
        path.parent.mkdir(exist_ok=True)
        evaluate(
            model,
            read_tasks(tasks_path(self.bank, split.name)),
            self.protocol,
            out=path,
            checkpoint=checkpoint or specs.checkpoint_name(model),
            batch_size=specs.batch_size_of(self.spec),
            device=self.device,
            progress=progress,
        )
        return str(path)

    def _score_path(self, split: Split, who: str) -> Path:
        return self.folder / "scores" / (f"{split.name}.jsonl" if who == "merge" else f"{split.name}.{who}.jsonl")

    def _weights_of(self, checkpoint: str) -> Path:
        known = {one.id: one.path for one in (self.bank.base, *self.bank.checkpoints)}
        path = known[checkpoint]
        if path is None:
            raise BankError(f"{self.bank.root}: '{checkpoint}' has no folder of weights to evaluate.")
        return path

    def _phases(self) -> list[Phase]:
        """Every step with its expected seconds; the ledger corrects them as it measures."""
        from core.merge import checkpoint_summary

        elements = checkpoint_summary(self._weights_of(self.bank.base.id))[1]
        pool = len(self.bank.checkpoints)
        phases = [merge_phase("merge", elements, self.recipe.k)]
        phases += [merge_phase("uniform mean", elements, pool)] if self.uniform else []
        phases.append(Phase(LOAD, LOAD_SECONDS, "load"))
        for split in self.splits:
            who = ["merge", *(["uniform"] if self.uniform else [])]
            who += ["base", "best_single"] if split.score_file(self.protocol) is None else []
            seconds = eval_seconds(len(split.tasks), self.protocol, elements)
            phases += [Phase(phase_name(one, split.name), seconds, "eval", "generate") for one in who]
            phases += [
                Phase(phase_name(one, split.name), 0.01, "eval") for one in ("base", "best_single") if one not in who
            ]
        return [*phases, Phase("compare", 0.5, "compare")]


def load_libraries() -> None:
    """Import what evaluating needs."""
    import torch  # noqa: F401
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: F401


def best_single(bank: Bank, recipe: Recipe) -> str:
    """The checkpoint with the highest mean on the recipe's split; the earlier of equals."""
    return bank.checkpoints[int(relevances(bank.splits[recipe.split]).argmax())].id


def copy_rows(source: Path, checkpoint: str, target: Path) -> bool:
    """Copy one checkpoint's rows to a file of their own; False, and no file, when there are none."""
    rows = [row for _, row in read_jsonl(source, error=BankError) if str(row.get("checkpoint")) == checkpoint]
    if rows:
        write_atomically(target, jsonl_bytes(rows))
    return bool(rows)


def compare_models(
    split: Split, files: Mapping[str, str], protocol: Protocol
) -> tuple[dict[str, float], dict[str, Any]]:
    """Means of every model on a split, and the merge against each rival, clustered by scenario.

    Where the bank knows its run-to-run noise, no difference inside it is called better or worse.
    """
    from core.stats import compare, read_samples

    samples = {who: read_samples(path).scores for who, path in files.items()}
    means = {who: _mean(of.values()) for who, of in samples.items()}
    clusters = dict(zip(split.tasks, split.scenarios, strict=True))
    noise = split_noise(split, protocol)
    comparisons = {
        rival: compare(
            samples[rival], samples["merge"], clusters=clusters, noise=noise, names=(said, "merge")
        ).as_dict()
        for rival, said in RIVALS.items()
        if rival in samples
    }
    return means, comparisons


def _mean(tasks: Any) -> float:
    per_task = [sum(one) / len(one) for one in tasks]
    return math.fsum(per_task) / len(per_task)


def phase_name(who: str, split: str) -> str:
    """Of the evaluation of a model on a split."""
    return f"evaluate {who.replace('_', ' ')} on {split}"


def merge_phase(name: str, elements: int, members: int) -> Phase:
    """A merge of so many members, each of `elements` parameters."""
    return Phase(name, 1.0 + elements * members / MERGED_PER_SECOND, "merge", main_stage="merging")


def eval_seconds(tasks: int, protocol: Protocol, elements: int) -> float:
    """Expected seconds of an evaluation, before the ledger corrects them."""
    step = max(STEP_SECONDS, 2 * elements * BATCH / FLOPS)
    return 0.2 + math.ceil(tasks * protocol.samples / BATCH) * protocol.max_new_tokens * step


def tasks_path(bank: Bank, split: Any) -> Path:
    """The split's task file; raises InputError where there is none."""
    if split not in bank.splits:
        raise InputError(f"unknown split {split!r:.80}. The bank '{bank.name}' has: {', '.join(bank.splits)}.")
    path = bank.splits[split].tasks_path
    if path is None:
        raise InputError(
            f"split '{split}' of the bank '{bank.name}' has no task file, so nothing can be evaluated on it."
        )
    return specs.task_file(path)
