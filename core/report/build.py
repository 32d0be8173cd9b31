"""Builds the report from what a run, and the ladder of the same bank, measured.

Takes jobs of the ledger and reads their files; gives HTML in which every text of theirs is escaped. Needs no network,
neither to be made nor to be read.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core import __version__
from core.charts import ladder as ladders
from core.charts import result_words as words
from core.errors import InputError, MergescopeError
from core.evals.protocol import Protocol
from core.jobs.model import Job
from core.recipe import KNOBS

NAMES = {"merge": "merge", "uniform": "uniform mean", "best_single": "best single", "base": "base"}
GROUPS = {"uniform": "null", "best_single": "null", "base": "null"}


def report_html(job: Job, ladder: Job | None = None) -> str:
    """The report of a finished `merge_eval` run, with a finished `ladder` where one is given.

    Raises InputError for a run of another kind, or one that has not succeeded.
    """
    if job.kind != "merge_eval" or job.state != "succeeded" or not job.result:
        raise InputError(
            f"run {job.id} is {job.kind}, {job.state}. Expected a finished merge with its evaluation: see `jobs list`."
        )
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    place = FileSystemLoader(Path(__file__).parent)
    engine = Environment(loader=place, autoescape=select_autoescape(), undefined=StrictUndefined, trim_blocks=True)
    return engine.get_template("report.html").render(
        job=job,
        version=__version__,
        made=time.strftime("%Y-%m-%d %H:%M %Z"),
        recipe=[(one.label, job.spec["recipe"].get(one.name)) for one in KNOBS],
        protocol=Protocol(**job.result["protocol"]),
        plotly=_plotly(),
        splits=[_split(job, name) for name in _order(job)],
        comparisons=words.comparison_table(job.result["comparisons"], NAMES),
        distrust=words.distrust(_chosen_on(job), job.result["comparisons"]),
        files=_files(job),
        ladder=_ladder(ladder) if ladder is not None and ladder.state == "succeeded" and ladder.result else None,
    )


def ladder_of(job: Job, jobs: Sequence[Job]) -> Job | None:
    """The newest finished ladder of a run's own bank and recipe, among the ledger's jobs, newest first."""
    asked = (job.spec.get("bank"), job.spec.get("recipe"))
    same = (one for one in jobs if one.kind == "ladder" and (one.spec["bank"], one.spec["recipe"]) == asked)
    return next((one for one in same if one.state == "succeeded"), None)


def _chosen_on(job: Job) -> str:
    return str(job.spec["recipe"].get("split", "dev"))


def _order(job: Job) -> list[str]:
    """The split that the verdict rests on comes first."""
    found = list((job.result or {})["comparisons"])
    first = words.main_split(found, _chosen_on(job))
    return [first, *(one for one in found if one != first)]


def _split(job: Job, name: str) -> dict[str, Any]:
    """What is said and drawn of one split."""
    result = job.result or {}
    found = result["comparisons"][name]["best_single"]
    family = as_family(result, name)
    rivals = ladders.rivals(family, name)
    return {
        "name": name,
        "headline": words.headline(name, found, held_out=name != _chosen_on(job)),
        "evidence": words.evidence(found, int(result["protocol"]["samples"])),
        "sentence": found["sentence"],
        "figure": _figure(ladders.ladder_chart(rivals, ladders.noise_of(family, name), dark=False)),
        "alt": " ".join(ladders.sentence(one) for one in rivals),
        "gained": found["gained"],
        "lost": found["lost"],
    }


def as_family(result: Mapping[str, Any], split: str) -> dict[str, Any]:
    """A run's comparisons on one split in the form of a ladder's result: p adjusted by Holm for their number."""
    from core.stats.family import holm

    found = result["comparisons"][split]
    p = [max(one["p_value"], one["p_value_by_cluster"] or 0.0) for one in found.values()]
    corrected = holm(p)
    members = [
        {
            "rival": rival, "comparison": one, "p_value": own, "p_adjusted": adjusted,
            "verdict": one["verdict"] if significant else "unresolved",
        }
        for (rival, one), own, adjusted, significant in zip(
            found.items(), p, corrected.adjusted, corrected.significant, strict=True
        )
    ]  # fmt: skip
    rungs = [
        {"name": one, "title": NAMES.get(one, one).capitalize(), "group": GROUPS.get(one, "null"), "why": "",
         "model": None, "seed": None, "same_as": None}
        for one in found
    ]  # fmt: skip
    means = {**result["means"][split], "recipe": result["means"][split]["merge"]}
    return {"rungs": rungs, "means": {split: means}, "families": {split: {"members": members}}}


def _ladder(job: Job) -> dict[str, Any]:
    result = job.result or {}
    parts = []
    names = list(result["families"])
    first = words.main_split(names, _chosen_on(job))
    for split in (first, *(one for one in names if one != first)):
        rivals = ladders.rivals(result, split)
        figure = ladders.ladder_chart(rivals, ladders.noise_of(result, split), dark=False)
        parts.append(
            {
                "headline": ladders.headline(result, split),
                "figure": _figure(figure),
                "alt": ladders.alt(result, split, rivals),
                "table": ladders.ladder_table(rivals),
            }
        )
    return {"job": job, "splits": parts}


def _files(job: Job) -> list[tuple[str, str, str]]:
    """Role, name and SHA-256 of the task files, the models that went in, and the files of the merge."""
    from core.bank import load_bank
    from core.merge.record import read_record

    found: list[tuple[str, str, str]] = []
    try:
        bank = load_bank(job.spec["bank"])
        for name in job.spec["splits"]:
            path = bank.splits[name].tasks_path if name in bank.splits else None
            if path is not None and path.is_file():
                found.append((f"tasks of {name}", path.name, hashlib.sha256(path.read_bytes()).hexdigest()))
        record = read_record(Path((job.result or {})["out"]))
    except (MergescopeError, OSError) as problem:
        return [*found, ("the rest", f"cannot be read any more: {problem}", "")]
    found += [(f"{one.role}: {one.path.name}", file.name, file.sha256) for one in record.inputs for file in one.files]
    return [*found, *(("merge", one.name, one.sha256) for one in record.outputs)]


def _plotly() -> str:
    """The drawing library, once for all figures."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _figure(figure: Any) -> str:
    return str(
        figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False, "staticPlot": True})
    )
