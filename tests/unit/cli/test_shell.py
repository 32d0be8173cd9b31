"""The shell as a whole: help with an example everywhere, exit codes, pure JSON, speed of `--help`.

Run: .venv/bin/python -m pytest tests/unit/cli/test_shell.py
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from core.cli import doctor, output
from core.cli.app import MODULES
from tests.unit.cli.conftest import Shell

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = (
    "bank show",
    "select",
    "plan",
    "merge",
    "convert",
    "rounding",
    "eval",
    "compare",
    "worker",
    "doctor",
    "jobs list",
    "jobs show",
    "jobs cancel",
    "jobs submit",
    "jobs recover",
    "jobs clean",
)


def core(*words: object, home: Path) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "core", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "MERGESCOPE_HOME": str(home), "PYTHONUTF8": "1"},
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(shell: Shell, command: str) -> None:
    found = shell(*command.split(), "--help")
    assert found.code == 0
    assert f"Example: python -m core {command}" in " ".join(found.out.split())


def test_commands_that_are_only_groups_print_their_help(shell: Shell) -> None:
    for words in ((), ("bank",), ("jobs",)):
        found = shell(*words)
        assert (found.code, found.err) == (0, "")
        assert found.out.startswith("Usage: python -m core")


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom core.cli.app import run\nassert run(['--help']) == 0\n"
        "heavy = ('torch', 'transformers', 'mergekit', 'numba', 'scipy', 'pandas', 'streamlit', 'rich')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"
    assert all(f"  {command.split()[0]} " in done.stdout for command in COMMANDS)


def test_a_process_prints_json_alone_and_exits_with_the_code(tmp_path: Path) -> None:
    good = core("select", "data/s3_card", "--json", home=tmp_path)
    assert good.returncode == 0
    assert set(json.loads(good.stdout)) >= {"picks", "weights", "effective_members"}
    bad = core("select", "data/s3_card", "--k", "0", "--json", home=tmp_path)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("error: k (K): expected a whole number, at least 1")
    usage = core("select", home=tmp_path)
    assert (usage.returncode, usage.stdout) == (2, "")
    assert usage.stderr == "error: Missing argument 'BANK'. See --help.\n"
    unknown = core("jobs", "show", "nothing", home=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "no job 'nothing'" in unknown.stderr


def test_a_defect_and_an_interruption_have_codes_of_their_own(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError("one over nothing")

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "examine", broken)
    found = shell("doctor", "--json")
    assert (found.code, found.out) == (1, "")
    expected = "error: internal error: ZeroDivisionError: one over nothing (MERGESCOPE_DEBUG=1 shows where)\n"
    assert found.err == expected
    monkeypatch.setattr(doctor, "examine", interrupted)
    assert shell("doctor").code == 130


def test_doctor_knows_this_machine_without_importing_what_it_names(shell: Shell) -> None:
    found = shell("doctor", "--json").json
    assert found["cores"] >= 1
    assert found["memory_bytes"] > 1e8
    assert found["packages"]["numpy"]
    assert found["can"]["merge"]
    assert "merge" in shell("doctor").out


def test_doctor_says_how_to_install_what_is_missing(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "torch" else "1.0")
    found = shell("doctor", "--json").json
    assert not found["can"]["evaluate"]
    assert [one["name"] for one in found["missing"]] == ["torch"]
    assert "make setup" in found["missing"][0]["install"]


def test_what_libraries_print_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with output.only_ours_on_stdout():
        print("from python")
        subprocess.run(["echo", "from a child"], check=True)
    print("ours")
    out, err = capfd.readouterr()
    assert out == "ours\n"
    assert "from python" in err
    assert "from a child" in err


def test_json_has_null_for_what_json_cannot_say(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit({"a": float("nan"), "b": [float("inf"), 1.5], "c": (1, None)})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5], "c": [1, None]}


def test_a_table_lines_numbers_up_on_the_right() -> None:
    text = output.table([["a", 1, 0.5], ["bb", 1000, None]], ["name", "n", "x"])
    assert text == "name      n       x\na         1  0.5000\nbb    1,000       -"


def test_each_command_is_found_in_the_module_that_has_it() -> None:
    for module, commands in MODULES.items():
        alone = typer.Typer()
        importlib.import_module(f"core.cli.{module}").register(alone)
        named = [one.name for one in (*alone.registered_commands, *alone.registered_groups)]
        assert sorted(filter(None, named)) == sorted(commands)


def test_a_command_loads_its_own_module_only() -> None:
    code = (
        "import sys\nfrom core.cli.app import run\nassert run(['merge', '--help']) == 0\n"
        "print([one for one in ('core.bank', 'core.recipe', 'core.jobs', 'core.evals.runner') if one in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip().splitlines()[-1] == "[]", done.stderr
