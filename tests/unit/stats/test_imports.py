"""Importing statistics and evaluation loads none of the heavy packages, in any order.

Run: .venv/bin/python -m pytest tests/unit/stats/test_imports.py
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "order", ["core.stats", "core.evals", "core.bank", "core.evals.protocol", "core.stats.samples"]
)
def test_any_first_import_works_and_is_light(order: str) -> None:
    code = (
        f"import sys, {order}, core.stats, core.evals, core.bank\n"
        "print([n for n in ('torch', 'transformers', 'scipy', 'numba', 'streamlit') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr
