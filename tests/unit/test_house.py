"""The house rules, checked: layers, sizes, and what may be imported on the way to the first page.

Run: .venv/bin/python -m pytest tests/unit/test_house.py
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("core", "pages", "data", "bench", "tests")
SOURCES = [*sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")), ROOT / "app.py"]
HEAVY = ("torch", "transformers", "mergekit", "numba")


def imported_modules(path: Path) -> set[str]:
    """Every module named by an import statement anywhere in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def offenders(folder: str, *forbidden: str) -> list[str]:
    """Files of a folder that import a forbidden package or anything inside it."""
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in sorted(imported_modules(path))
        if any(name == one or name.startswith(f"{one}.") for one in forbidden)
    ]


def test_core_knows_no_screen() -> None:
    assert offenders("core", "streamlit", "pages") == []


def test_recipe_and_stats_know_nothing_of_merging_evaluating_or_jobs() -> None:
    forbidden = ("core.merge", "core.evals", "core.jobs")
    assert offenders("core/recipe", *forbidden) + offenders("core/stats", *forbidden) == []


def test_charts_know_no_jobs() -> None:
    assert offenders("core/charts", "core.jobs", "core.merge.engine") == []


def is_compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A numba kernel: one fused pass, which must keep its scratch arrays in one function."""
    return any("njit" in ast.unparse(one) for one in function.decorator_list)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_stay_under_400_lines_and_functions_under_40(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= 400
    nodes = ast.walk(ast.parse("\n".join(lines)))
    functions = [one for one in nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {one.name: (one.end_lineno or 0) - one.lineno + 1 for one in functions if not is_compiled(one)}
    assert {name: length for name, length in lengths.items() if length > 40} == {}


@pytest.mark.parametrize("path", [p for p in SOURCES if "tests" not in p.parts], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())) or not path.read_text().strip()


def test_the_first_page_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from streamlit.testing.v1 import AppTest\n"
        "test = AppTest.from_file('pages/frame.py', default_timeout=60).run()\n"
        "assert not test.exception, test.exception\n"
        f"print([name for name in {(*HEAVY, 'scipy')!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_the_shell_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, runpy\n"
        "sys.argv = ['core', '--help']\n"
        "try:\n    runpy.run_module('core', run_name='__main__')\n"
        "except SystemExit:\n    pass\n"
        f"print([name for name in {(*HEAVY, 'streamlit')!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip().splitlines()[-1] == "[]", done.stderr
