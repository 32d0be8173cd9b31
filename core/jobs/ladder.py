"""The ladder as one job: a recipe's merge, its null baselines and ablations, evaluated and judged as one family.

Takes a bank, a recipe and a protocol; everything it writes is in the job's folder. A rung's model is removed once it is
scored; its scores stay, and a run that goes on after a bad end does not make them again.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.bank import Bank, Split, load_bank, split_noise
from core.errors import BankError, InputError
from core.files import write_atomically
from core.jobs import specs
from core.jobs.kinds import RUNG_SCORES, Kind, remove_temporaries, resolve_device
from core.jobs.merge_eval import (
    LOAD,
    LOAD_SECONDS,
    copy_rows,
    eval_seconds,
    load_libraries,
    merge_phase,
    phase_name,
    tasks_path,
)
from core.jobs.timeline import Phase
from core.jobs.work import Work
from core.recipe import recipe_from_dict, uniform_mean_plan, validate
from core.recipe.ladder import Rung, greedy_soup, ladder
from core.recipe.model import Recipe

DRAWS = 5
FROM_BANK = 0.01
"""Expected seconds of an evaluation whose scores the bank has."""
MOST_DRAWS = 100
RECIPE = "recipe"
SOUP = "greedy soup"


class LadderKind(Kind):
    """`{bank, recipe, splits, protocol, draws?, device?, batch_size?}`.

    `draws` is the number of random choices of K, 5 unless given. The folder then holds
    `rung_scores/<split>.<rung>.jsonl`. Rungs that are checkpoints of the bank take their scores from it where it has
    them under this protocol. The greedy soup looks only at the recipe's split.

    Result: `rungs, rung_scores, means, families, protocol, soup`.
    """

    name = "ladder"

    def check(self, spec: dict[str, Any]) -> dict[str, Any]:
        """As `Kind.check`; reads the bank and the recipe, and looks for every model and task file."""
        specs.only_fields(self.name, spec, ("bank", "recipe", "splits", "protocol"), ("draws", "device", "batch_size"))
        bank = load_bank(specs.absolute(specs.text_of(self.name, spec, "bank")))
        recipe = recipe_from_dict(spec["recipe"])
        validate(recipe, bank)
        for one in (bank.base, *bank.checkpoints):
            if one.path is None:
                raise BankError(f"{bank.root}: '{one.id}' has no folder of weights, so no ladder can be run.")
            specs.model_folder(one.path)
        if not isinstance(spec["splits"], list) or recipe.split not in spec["splits"]:
            raise InputError(f"a ladder is evaluated on the recipe's split, {recipe.split}, and any others beside it.")
        for name in spec["splits"]:
            tasks_path(bank, name)
        draws = spec.get("draws", DRAWS)
        if isinstance(draws, bool) or not isinstance(draws, int) or not 0 <= draws <= MOST_DRAWS:
            raise InputError(f"draws must be a whole number from 0 to {MOST_DRAWS}, found {draws!r:.80}.")
        specs.batch_size_of(spec)
        protocol = specs.protocol_from(spec["protocol"]).as_dict()
        return spec | {"bank": str(specs.absolute(spec["bank"])), "protocol": protocol, "draws": draws}

    def device(self, spec: dict[str, Any]) -> str:
        """As `Kind.device`."""
        return resolve_device(spec.get("device"))

    def run(self, spec: dict[str, Any], folder: Path, device: str, work: Work) -> dict[str, Any]:
        """As `Kind.run`."""
        return LadderRun(spec, folder, device, work).run()

    def remove_half_written(self, spec: dict[str, Any], folder: Path, *, keep: bool) -> None:
        """As `Kind.remove_half_written`; models of rungs go, since only their scores are wanted."""
        remove_temporaries(folder, keep=keep)
        remove_temporaries(folder / RUNG_SCORES)
        shutil.rmtree(folder / "rungs", ignore_errors=True)


def rungs_of(bank: Bank, recipe: Recipe, draws: int) -> list[Rung]:
    """The rungs of a job, those that repeat another included."""
    return ladder(bank, recipe, seeds=range(draws))


@dataclass(frozen=True)
class Amount:
    """What a ladder takes, before it is run."""

    made: int
    """Models that are merged, or drawn, and removed again."""
    evaluations: int
    seconds: float
    """Expected; rough."""
    bytes: int
    """Largest amount on the disk at one time: the recipe's merge and one other model, in float32."""


def amount_of(spec: dict[str, Any]) -> Amount:
    """What a specification asks for; reads the headers of the base. Raises as `LadderKind.check`."""
    from core.merge import checkpoint_summary

    run = LadderRun(LadderKind().check(spec), Path(), "cpu", None)
    phases = run.phases()
    evaluations = [one for one in phases if one.name.startswith("evaluate ") and one.seconds > FROM_BANK]
    soups = sum(len(one.members) - 1 for one in run.rungs if one.kind == "greedy_soup")
    made = sum(one.name.startswith("make ") for one in phases) + soups
    elements = checkpoint_summary(run.weights_of(run.bank.base.id))[1]
    return Amount(made, len(evaluations) + soups, sum(one.seconds for one in phases), 2 * 4 * elements)


class LadderRun:
    """One run of the job, rung by rung."""

    def __init__(self, spec: dict[str, Any], folder: Path, device: str, work: Work | None) -> None:
        self.spec, self.folder, self.device, self._work = spec, folder, device, work
        self.bank = load_bank(spec["bank"])
        self.recipe = recipe_from_dict(spec["recipe"])
        self.protocol = specs.protocol_from(spec["protocol"])
        self.splits = [self.bank.splits[name] for name in spec["splits"]]
        self.rungs = rungs_of(self.bank, self.recipe, spec["draws"])
        self.models = folder / "rungs"
        self.trials = folder / RUNG_SCORES / "soup.json"
        """What a greedy soup tried."""

    @property
    def work(self) -> Work:
        """Whom to tell how far it is."""
        assert self._work is not None
        return self._work

    def run(self) -> dict[str, Any]:
        """Make, evaluate and compare every rung; gives the result."""
        self.models.mkdir(exist_ok=True)
        (self.folder / RUNG_SCORES).mkdir(exist_ok=True)
        self.work.plan(self.phases())
        self.work.phase(LOAD)
        load_libraries()
        todo = [one for one in self.rungs if one.same_as is None]
        for rung in todo:
            self._score(rung, todo)
        self.work.phase("compare")
        result = {
            "rungs": [{name: value for name, value in one.as_dict().items() if name != "config"} for one in self.rungs],
            "rung_scores": {
                one.name: {rung.name: str(self._path(one, rung.name)) for rung in todo} for one in self.splits
            },
            "protocol": self.protocol.as_dict(),
            "soup": json.loads(self.trials.read_text()) if self.trials.is_file() else [],
        }
        result["means"], result["families"] = self._judged(todo)
        shutil.rmtree(self.models, ignore_errors=True)
        return result

    def _score(self, rung: Rung, todo: Sequence[Rung]) -> None:
        """Score files of one rung; its model is made where they are missing, and removed again."""
        if all(self._path(one, rung.name).is_file() for one in self.splits) and not self._needed(rung, todo):
            return
        if rung.kind == "greedy_soup":
            self._stir(rung)
            return
        model = self._model(rung)
        for split in self.splits:
            if not (rung.model and self._known(split, rung.model, rung.name)):
                self._evaluate(split, model, rung.name)
        if rung.kind != "model" and rung.name != RECIPE:
            shutil.rmtree(model)

    def _needed(self, rung: Rung, todo: Sequence[Rung]) -> bool:
        """Whether another rung that is not scored yet is made from this one's model."""
        return rung.name == RECIPE and any(
            one.kind == "random_delta" and not self._path(split, one.name).is_file()
            for one in todo
            for split in self.splits
        )

    def _model(self, rung: Rung) -> Path:
        """The folder of a rung's model, made where it has none."""
        if rung.model is not None:
            return self.weights_of(rung.model)
        out = self.models / rung.name
        if rung.kind == "random_delta":
            from core.merge.random_delta import random_delta

            progress = self.work.phase(_making(rung))
            base = self.weights_of(self.bank.base.id)
            random_delta(base, self.models / RECIPE, out, rung.seed or 0, progress=progress)
            return out
        return self._merged(str(rung.config), out, _making(rung))

    def _merged(self, config: str, out: Path, phase: str) -> Path:
        from core.merge import parse_plan, run_merge

        run_merge(parse_plan(config, self.bank.root / "config.yml"), out, progress=self.work.phase(phase))
        return out

    def _stir(self, rung: Rung) -> None:
        """A greedy soup: plain means judged on the recipe's split alone; the last that was kept is evaluated on all."""
        chooser = self.bank.splits[self.recipe.split]

        def tried(members: tuple[str, ...]) -> float:
            name = f"soup_{len(members)}"
            path = self._path(chooser, name)
            if len(members) > 1 or not self._known(chooser, members[0], name):
                model = self._mean_of(members)
                self._evaluate(chooser, model, name, phase=SOUP)
                self._discard(model)
            found = _mean(path)
            path.unlink()
            return found

        trials = greedy_soup(rung.members, tried)
        told = [{"members": list(one.members), "score": one.score, "kept": one.kept} for one in trials]
        write_atomically(self.trials, json.dumps(told, ensure_ascii=False))
        kept = next(one.members for one in reversed(trials) if one.kept)
        model = self._mean_of(kept)
        for split in self.splits:
            self._evaluate(split, model, rung.name)
        self._discard(model)

    def _mean_of(self, members: tuple[str, ...]) -> Path:
        """The plain mean of some checkpoints; of one, itself."""
        if len(members) == 1:
            return self.weights_of(members[0])
        out = self.models / "soup"
        return self._merged(uniform_mean_plan(self.bank, self.recipe.out_dtype, members), out, SOUP)

    def _discard(self, model: Path) -> None:
        if model.parent == self.models:
            shutil.rmtree(model)

    def _known(self, split: Split, checkpoint: str, name: str) -> bool:
        """Copy a checkpoint's rows from the bank, where it has them under this protocol."""
        known = split.score_file(self.protocol)
        return known is not None and copy_rows(known, checkpoint, self._path(split, name))

    def _evaluate(self, split: Split, model: Path, name: str, *, phase: str | None = None) -> None:
        from core.evals import evaluate, read_tasks

        evaluate(
            model,
            read_tasks(tasks_path(self.bank, split.name)),
            self.protocol,
            out=self._path(split, name),
            checkpoint=name,
            batch_size=specs.batch_size_of(self.spec),
            device=self.device,
            progress=self.work.phase(phase or phase_name(name, split.name)),
        )

    def _path(self, split: Split, name: str) -> Path:
        return self.folder / RUNG_SCORES / f"{split.name}.{name}.jsonl"

    def weights_of(self, checkpoint: str) -> Path:
        """The folder of a checkpoint, or of the base."""
        known = {one.id: one.path for one in (self.bank.base, *self.bank.checkpoints)}
        path = known[checkpoint]
        if path is None:
            raise BankError(f"{self.bank.root}: '{checkpoint}' has no folder of weights to evaluate.")
        return path

    def _judged(self, todo: Sequence[Rung]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Means by split and rung, and each split's family: the recipe's merge against every other rung."""
        from core.stats import compare_family, read_samples

        means: dict[str, Any] = {}
        families: dict[str, Any] = {}
        for split in self.splits:
            scores = {one.name: read_samples(self._path(split, one.name)).scores for one in todo}
            means[split.name] = {one.name: _mean(self._path(split, one.name)) for one in todo}
            clusters = dict(zip(split.tasks, split.scenarios, strict=True))
            noise = split_noise(split, self.protocol)
            families[split.name] = compare_family(scores, RECIPE, clusters=clusters, noise=noise).as_dict()
        return means, families

    def phases(self) -> list[Phase]:
        """Every step with its expected seconds; the ledger corrects them as it measures."""
        from core.merge import checkpoint_summary

        elements = checkpoint_summary(self.weights_of(self.bank.base.id))[1]
        phases = [Phase(LOAD, LOAD_SECONDS, "load")]
        seconds = {one.name: eval_seconds(len(one.tasks), self.protocol, elements) for one in self.splits}
        for rung in (one for one in self.rungs if one.same_as is None):
            if rung.kind in ("merge", "random_delta"):
                phases.append(merge_phase(_making(rung), elements, len(rung.members)))
            if rung.kind == "greedy_soup":
                phases.append(Phase(SOUP, len(rung.members) * seconds[self.recipe.split], "eval", "generate"))
            phases += [
                Phase(phase_name(rung.name, one.name), self._seconds(rung, one, seconds[one.name]), "eval", "generate")
                for one in self.splits
            ]
        return [*phases, Phase("compare", 0.5, "compare")]

    def _seconds(self, rung: Rung, split: Split, each: float) -> float:
        known = rung.kind == "model" and split.score_file(self.protocol) is not None
        return FROM_BANK if known else each


def _making(rung: Rung) -> str:
    return f"make {rung.name.replace('_', ' ')}"


def _mean(path: Path) -> float:
    """Mean over tasks of each task's mean."""
    from core.stats import read_samples

    scores = read_samples(path).scores
    return sum(sum(one) / len(one) for one in scores.values()) / len(scores)
