"""Columns of a report: equal to what pyarrow makes of the same values, and written without pandas."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.merge.columns import column

ROOT = Path(__file__).parents[3]
INTEGERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), st.lists(st.none() | INTEGERS)),
        (pa.int32(), st.lists(st.integers(-(2**31), 2**31 - 1))),
        (pa.float64(), st.lists(st.none() | FLOATS)),
        (pa.string(), st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])))),
        (pa.list_(pa.int64()), st.lists(st.lists(INTEGERS))),
        (pa.list_(pa.float64()), st.lists(st.lists(FLOATS))),
    ],
    ids=str,
)
def test_a_column_is_what_pyarrow_makes_of_the_values(kind: pa.DataType, values: st.SearchStrategy[list]) -> None:
    @given(values)
    def check(given_values: list) -> None:
        found = column(given_values, kind)
        found.validate(full=True)
        assert found.equals(pa.array(given_values, kind))

    check()


def test_a_report_is_written_without_pandas() -> None:
    script = (
        "import sys, tempfile, pathlib\n"
        "from core.merge.report import report_bytes\n"
        "from core.merge.warm import compile_kernels\n"
        "import core.merge.run as run\n"
        "seen = []\n"
        "def spy(rows):\n"
        "    seen.append('pandas' in sys.modules)\n"
        "    found = report_bytes(rows)\n"
        "    seen.append('pandas' in sys.modules)\n"
        "    return found\n"
        "run.report_bytes = spy\n"
        "compile_kernels()\n"
        "print(seen[:2])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[False, False]", done.stderr
