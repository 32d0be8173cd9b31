"""`jobs …` and `worker`: the ledger of runs from a shell, and the process that does one job."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from core.cli.options import JsonOption
from core.cli.output import cell, emit, note, table
from core.errors import InputError
from core.jobs import Job, Ledger

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or `last` for the newest.")]

group = typer.Typer(
    help="The ledger of runs: list, show, submit, cancel. It lies in MERGESCOPE_HOME, or else in ./runs.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(group, name="jobs")
    app.command("worker", epilog="Example: python -m core worker 261201-141500-7f3a")(worker)


@group.callback()
def no_command(context: typer.Context) -> None:
    """Print the help when no command was named."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@group.command("list", epilog="Example: python -m core jobs list --limit 5 --json")
def list_jobs(
    limit: Annotated[int, typer.Option(min=1, help="At most this many, newest first.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List the latest jobs; those whose worker died are first marked as lost."""
    ledger = Ledger()
    ledger.recover()
    found = ledger.jobs(limit)
    if as_json:
        emit({"home": str(ledger.home), "jobs": [one.as_dict() for one in found]})
        return
    rows = [[one.id, one.kind, one.state, _how_far(one), one.device, _seconds(one), one.title] for one in found]
    print(table(rows, ["job", "kind", "state", "progress", "device", "seconds", "title"]))


@group.command("show", epilog="Example: python -m core jobs show last --log 20")
def show(
    job: JobArgument,
    log: Annotated[int, typer.Option(min=0, help="Also this many last lines of its log.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Show one job: how it stands, its history, its result, and the commands that repeat it."""
    ledger = Ledger()
    ledger.recover()
    found = ledger.job(_id(ledger, job))
    events = ledger.events(found.id)
    lines = found.log.read_text(errors="replace").splitlines()[-log:] if log and found.log.is_file() else []
    if as_json:
        history = [{"id": one.id, "time": one.time, "kind": one.kind, "data": one.data} for one in events]
        emit(found.as_dict() | {"events": history} | ({"log_lines": lines} if log else {}))
        return
    for name in ("id", "title", "kind", "state", "stage", "device", "pid", "error", "folder"):
        if (value := getattr(found, name)) not in (None, ""):
            print(f"{name:8}  {value}")
    print(f"{'progress':8}  {_how_far(found)}")
    for one in events:
        print(f"{time.strftime('%H:%M:%S', time.localtime(one.time)):8}  {one.kind} {_detail(one.data)}".rstrip())
    print(*lines, sep="\n", end="\n" if lines else "")
    print(f"repeat with\n{found.command}")


@group.command("cancel", epilog="Example: python -m core jobs cancel last")
def cancel(job: JobArgument, as_json: JsonOption = False) -> None:
    """Cancel a queued or running job, and wait until its process has ended."""
    ledger = Ledger()
    done = ledger.cancel(_id(ledger, job))
    emit(done.as_dict()) if as_json else print(f"{done.id}: {done.state}")


@group.command("submit", epilog="Example: python -m core jobs submit runs/jobs/261201-141500-7f3a/spec.json --wait")
def submit(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.json", help="`{kind, spec, title?}`, as in a job's folder.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end; exit 1 unless it succeeded.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Submit a job from a file; its worker goes on when this shell is closed."""
    try:
        request = json.loads(spec.read_text())
        kind, asked = request["kind"], dict(request["spec"])
        title = str(request.get("title", kind))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise InputError(f"{spec}: expected JSON with kind, spec and title ({problem}).") from None
    ledger = Ledger()
    identity = ledger.submit(kind, asked, title)
    found = _wait(ledger, identity) if wait else ledger.job(identity)
    emit(found.as_dict()) if as_json else print(f"{found.id}: {found.state}")
    if wait and found.state != "succeeded":
        note(f"error: {found.error}")
        raise typer.Exit(1)


@group.command("recover", epilog="Example: python -m core jobs recover")
def recover(as_json: JsonOption = False) -> None:
    """Mark as lost every job whose worker is gone; live ones are left alone, and nothing is started."""
    lost = Ledger().recover()
    emit({"lost": lost}) if as_json else print(*lost or ["none lost"], sep="\n")


@group.command("clean", epilog="Example: python -m core jobs clean last")
def clean(job: JobArgument, as_json: JsonOption = False) -> None:
    """Remove a finished job's outputs from its folder; its record and log stay."""
    ledger = Ledger()
    identity = _id(ledger, job)
    freed = ledger.delete_files(identity)
    emit({"job": identity, "bytes": freed}) if as_json else print(f"{identity}: {freed:,} bytes freed")


def worker(job: Annotated[str, typer.Argument(metavar="JOB", help="The id of a queued job.")]) -> None:
    """Do one queued job in this process. Started for every job; rarely typed by hand."""
    from core.jobs.worker import run_worker

    raise typer.Exit(run_worker(Ledger(), job))


def _id(ledger: Ledger, job: str) -> str:
    if job != "last":
        return job
    newest = ledger.jobs(1)
    if not newest:
        raise InputError(f"no job in {ledger.home} yet.")
    return newest[0].id


def _wait(ledger: Ledger, job: str) -> Job:
    while (found := ledger.job(job)).live:
        ledger.recover()
        time.sleep(0.3)
    return found


def _how_far(job: Job) -> str:
    left = f", {job.eta_seconds:.0f} s left" if job.eta_seconds is not None else ""
    return f"{100 * job.fraction:.0f} %{left}"


def _seconds(job: Job) -> str:
    return f"{(job.finished or time.time()) - job.started:.1f}" if job.started is not None else ""


def _detail(data: dict[str, Any]) -> str:
    return " ".join(f"{name}={cell(data[name])}" for name in ("device", "why", "stage", "error") if data.get(name))
