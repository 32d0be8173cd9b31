"""HELM `per_instance_stats.json`: one metric of every instance that was not perturbed.

Takes a run's file and the `run_spec.json` beside it; gives a row an instance and train trial.
"""

import re
from pathlib import Path
from typing import Any

from core.bank.readers.common import (
    FileScores,
    Format,
    ReadOptions,
    ScoreRow,
    listed,
    name_of,
    number,
    prefixed,
    whole,
)
from core.bank.readers.sources import MAX_SIDE_BYTES, Source, read_json
from core.errors import BankError

PREFERRED = ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match", "f1_score")
MODEL = re.compile(r"[:,]?model=([^,]+)")


def recognise(source: Source) -> bool:
    """A list of instances with `stats`."""
    found = source.json
    if not isinstance(found, list) or not found or not isinstance(found[0], dict):
        return False
    return "instance_id" in found[0] and isinstance(found[0].get("stats"), list)


def read(source: Source, options: ReadOptions) -> FileScores:
    """One row an instance and trial. Raises BankError where no metric is named and none of the usual ones is there."""
    path = source.path
    checkpoint, scenario = _whose(source)
    found = FileScores(path, FORMAT.name, [], group=scenario)
    instances = [(f"{path}: entry {at}", one) for at, one in enumerate(source.json, start=1) if not _perturbed(one)]
    metric = _metric(path, [one for _, one in instances], options, found)
    trials = [whole(one.get("train_trial_index"), "train_trial_index", where) for where, one in instances]
    several = len(set(trials)) > 1
    for (where, one), trial in zip(instances, trials, strict=True):
        if "instance_id" not in one:
            raise BankError(f"{where}: expected an `instance_id`.")
        values = [stat for stat in _stats(one) if stat[0] == metric]
        if len(values) > 1:
            raise BankError(f"{where}: has the metric '{metric}' {len(values)} times.")
        score = number(values[0][1], f"{where}: {metric}") if values else None
        found.rows.append(
            ScoreRow(checkpoint, name_of(one["instance_id"], "task", where), score, sample=trial if several else None)
        )
    return found


def _perturbed(one: Any) -> bool:
    return isinstance(one, dict) and one.get("perturbation") is not None


def _stats(one: dict[str, Any]) -> list[tuple[str, Any]]:
    """Name and mean of each statistic; None for one that counted nothing."""
    found = []
    stats = one.get("stats")
    for stat in stats if isinstance(stats, list) else []:
        name = stat.get("name") if isinstance(stat, dict) else None
        if isinstance(name, dict) and isinstance(name.get("name"), str) and name.get("perturbation") is None:
            mean = stat.get("mean")
            if mean is None and stat.get("count") and "sum" in stat:
                mean = number(stat["sum"], "sum")
                mean = None if mean is None else mean / stat["count"]
            found.append((name["name"], None if stat.get("count") == 0 else mean))
    return found


def _metric(path: Path, instances: list[Any], options: ReadOptions, found: FileScores) -> str:
    if not all(isinstance(one, dict) for one in instances):
        raise BankError(f"{path}: expected every entry to be an object with `instance_id` and `stats`.")
    names = list(dict.fromkeys(name for one in instances for name, _ in _stats(one)))
    if options.metric is not None:
        if options.metric not in names:
            raise BankError(f"{path}: has no metric '{options.metric}'. It has: {listed(names, 20)}.")
        return options.metric
    usual = [one for one in PREFERRED if one in names] or (names if len(names) == 1 else [])
    if not usual:
        raise BankError(f"{path}: which metric is the score? Name one with --metric: {listed(names, 20)}.")
    if len(usual) > 1:
        found.warnings.append(f"{path}: metric '{usual[0]}' is read, of {', '.join(usual)}. Choose with --metric.")
    return usual[0]


def _whose(source: Source) -> tuple[str, str]:
    """The model, from run_spec.json, the run's name or its folder; and the scenario, the run's name without it."""
    folder, run, model = source.path.parent, source.path.parent.name, None
    beside = folder / "run_spec.json"
    if source.beside(beside):
        spec = read_json(beside, MAX_SIDE_BYTES)
        adapter = spec.get("adapter_spec") if isinstance(spec, dict) else None
        if isinstance(adapter, dict):
            model = adapter.get("model") or adapter.get("model_deployment")
        run = spec["name"] if isinstance(spec, dict) and isinstance(spec.get("name"), str) else run
    named = MODEL.search(run)
    if not isinstance(model, str) or not model:
        model = named[1] if named else folder.name
    scenario = MODEL.sub("", run).strip(":,") if named else ""
    where = str(source.path)
    return name_of(model, "checkpoint", where), name_of(scenario, "scenario", where) if scenario else ""


def combine(files: list[FileScores], options: ReadOptions) -> list[FileScores]:
    """Scenarios in front of instance ids where there are several."""
    return prefixed(files, options)


FORMAT = Format("helm", "HELM per_instance_stats.json", recognise, read, combine)
