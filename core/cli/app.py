"""Puts the commands together, and turns what goes wrong into one line and an exit code.

Exit codes: 0, 2 for bad input, 1 for a failure, 130 when interrupted. `python -m core --help` imports
nothing heavy, and a command only the module that has it.
"""

import gc
import importlib
import os
import signal
import sys
import traceback
from types import FrameType

import typer

from core.errors import MergescopeError

MODULES = {
    "banks": ("bank", "select", "plan"),
    "stability": ("stability",),
    "scores": ("scores",),
    "models": ("merge", "verify", "reproduce", "rounding", "eval"),
    "preview": ("preview",),
    "xray": ("xray", "dialects"),
    "precision": ("lens", "sidecar"),
    "checkpoints": ("convert",),
    "hub": ("hub",),
    "judge": ("compare",),
    "ladder": ("ladder", "random-delta"),
    "report": ("report",),
    "jobs": ("jobs", "worker"),
    "doctor": ("doctor",),
}
"""The commands of each module of `core.cli`, in the order of the help."""
INTERRUPTED = 130
GARBAGE_AFTER = 50_000
"""Objects made between two looks for garbage: imports make many, and none of it is garbage."""
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""What the command line parser raises for a wrong option; its module differs between versions of typer."""


def app_for(arguments: list[str]) -> typer.Typer:
    """The parser of the command that `arguments` begins with; of all commands where it begins with none."""
    app = typer.Typer(
        name="core",
        help="Mergescope from a shell: look at a bank, choose a recipe, merge, evaluate, compare.",
        epilog="Example: python -m core select data/s3_card --lambda 0.7 --k 5 --tau 0.02",
        add_completion=False,
        invoke_without_command=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(no_command)
    named = [module for module, commands in MODULES.items() if arguments and arguments[0] in commands]
    for module in named or MODULES:
        importlib.import_module(f"core.cli.{module}").register(app)
    return app


def no_command(context: typer.Context) -> None:
    """Print the help when no command was named."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its code."""
    for one in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, _terminated)
    gc.set_threshold(GARBAGE_AFTER)
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    # The process ends; taking apart what it imported, object by object, took 0.3 s after a merge.
    gc.freeze()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command; gives its exit code after at most one line of error on stderr."""
    try:
        result = app_for(arguments)(args=arguments, prog_name="python -m core", standalone_mode=False)
        code = result if isinstance(result, int) else 0
        # typer makes an exit code of an interruption by itself, without a word.
        return _say("interrupted.", code) if code == INTERRUPTED else code
    except typer.Exit as done:
        return done.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted.", INTERRUPTED)
    except UsageError as problem:
        return _say(f"{_message(problem)} See --help.", 2)
    except MergescopeError as problem:
        return _say(str(problem), problem.exit_code)
    except BrokenPipeError:
        raise
    except Exception as problem:
        from core.jobs.worker import failure_message

        if os.environ.get("MERGESCOPE_DEBUG"):
            traceback.print_exc()
        return _say(failure_message(problem).replace("(see the log)", "(MERGESCOPE_DEBUG=1 shows where)"), 1)


def _message(problem: Exception) -> str:
    text = str(problem.format_message() if hasattr(problem, "format_message") else problem)
    return text if text.endswith((".", "?")) else f"{text}."


def _say(message: str, code: int) -> int:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    return code


def _terminated(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
