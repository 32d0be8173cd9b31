"""`report`: one HTML file about a finished run, with the ladder of the same bank and recipe where one was run."""

from pathlib import Path
from typing import Annotated

import typer

from core.cli.output import note
from core.errors import InputError, RunError
from core.files import write_atomically
from core.jobs import Job, Ledger

EXAMPLE = "Example: python -m core report last report.html"


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("report", epilog=EXAMPLE)(report)


def report(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a finished merge with its evaluation, or `last`.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.html", help="File to write; it needs no other to be read.")],
) -> None:
    """Write a report of a run: verdicts, figures, recipe, protocol, hashes, and the commands that repeat it."""
    from core.report import report_html
    from core.report.build import ladder_of

    ledger = Ledger()
    chosen = _last(ledger) if job == "last" else ledger.job(job)
    try:
        write_atomically(out, report_html(chosen, ladder_of(chosen, ledger.jobs(200))))
    except OSError as problem:
        raise RunError(f"{out}: cannot be written ({problem.strerror}).") from None
    note(f"wrote {out}")


def _last(ledger: Ledger) -> Job:
    for one in ledger.jobs(200):
        if one.kind == "merge_eval" and one.state == "succeeded":
            return one
    raise InputError(
        f"no merge with its evaluation has succeeded in {ledger.home}. Press Merge and evaluate in the explorer first, "
        "or name another working folder in MERGESCOPE_HOME."
    )
