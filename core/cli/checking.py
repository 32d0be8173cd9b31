"""What `merge --check` prints: the models, what the merge needs, what stands in its way.

Takes a preflight; gives lines for people or JSON values. Estimates the time from earlier merges of the ledger.
"""

from typing import TYPE_CHECKING, Any

from core.cli.output import table
from core.preview.cost import Estimate, estimate_merge
from core.words import amount, duration, file_size

if TYPE_CHECKING:
    from core.merge import Preflight

SHOWN = 8
"""Problems and warnings printed; `--json` has all of them."""
LATEST = 50


def expected_time(found: "Preflight") -> Estimate:
    """Seconds the merge will take, from the constants and from finished merges of about this size."""
    from core.jobs import Ledger

    results = [one.result for one in Ledger().jobs(LATEST) if one.state == "succeeded" and one.result]
    merges = [one["merge"] for one in results if isinstance(one.get("merge"), dict)]
    return estimate_merge(found.elements, max(1, _members(found)), merges)


def _members(found: "Preflight") -> int:
    return sum(one.role.startswith("member") for one in found.models)


def as_json(found: "Preflight", guess: Estimate) -> dict[str, Any]:
    """Everything the preflight found, with the estimated time and on how many earlier merges it rests."""
    return found.as_dict() | {"seconds_expected": guess.seconds, "seconds_rest_on_merges": guess.runs}


def as_text(found: "Preflight", guess: Estimate) -> str:
    """The preflight for people: models, needs, problems, warnings, verdict."""
    parts = [_models(found)] if found.models else []
    parts += [_needs(found, guess)]
    if found.problems:
        parts.append(_listed("stands in the way", found.problems))
    if found.warnings:
        parts.append(_listed("to know", found.warnings))
    parts.append("Nothing stands in the way." if found.ok else "It cannot run as it is.")
    return "\n\n".join(parts)


def _models(found: "Preflight") -> str:
    head = ("model", "form", "parameters", "dtype", "tied", "vocabulary", "files", "size", "folder")
    rows = [
        [one.role, one.form, one.parameters, ", ".join(one.dtypes), one.tied, one.vocabulary, one.files,
         file_size(one.bytes), one.folder]
        for one in found.models
    ]  # fmt: skip
    return table(rows, head)


def _needs(found: "Preflight", guess: Estimate) -> str:
    basis = f"from {guess.runs} earlier merge{'s' * (guess.runs > 1)}" if guess.runs else "rough, for two CPU cores"
    engine = "mergekit itself" if found.engine == "mergekit" else "the streaming engine"
    unknown = "not known before mergekit runs"
    memory = f"up to {file_size(found.memory_expected)}" if found.memory_expected else unknown
    lines = {
        "method": f"{found.method}, by {engine}",
        "merged model": f"{found.tensors:,} tensors, {amount(found.elements)} parameters, dtype {found.out_dtype}",
        "reads": file_size(found.bytes_to_read),
        "disk": f"{file_size(found.disk_needed)} needed, {file_size(found.disk_free)} free",
        "memory": memory,
        "time": f"about {duration(guess.seconds)} ({basis})",
        "NaN, infinity": _scanned(found),
    }
    return "\n".join(f"{name:14}  {text}" for name, text in lines.items())


def _scanned(found: "Preflight") -> str:
    if found.scan is None:
        return "not looked for; --scan reads every weight once"
    what = f"{len(found.scan.found):,} tensors hold some" if found.scan.found else "none"
    return f"{what}, in {file_size(found.scan.bytes_read)} of weights ({duration(found.scan.seconds)})"


def _listed(title: str, lines: tuple[str, ...]) -> str:
    """The first lines under a title that counts them; alike beginnings are not folded, so each can be searched for."""
    more = len(lines) - SHOWN
    rest = [f"  and {more:,} more; --json lists all"] if more > 0 else []
    return "\n".join([f"{title}: {len(lines):,}", *(f"  {one}" for one in lines[:SHOWN]), *rest])


def refusal(found: "Preflight") -> str:
    """One line for the error: how many things stand in the way, and the first."""
    count = len(found.problems)
    return found.problems[0] if count == 1 else f"{count:,} things stand in the way. The first: {found.problems[0]}"
