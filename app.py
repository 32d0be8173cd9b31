"""Starts the explorer: `streamlit run app.py`, or with a bank of yours, `streamlit run app.py -- --bank FOLDER`.

Recovers the ledger of runs once a server starts; everything on screen is in `pages/`.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import streamlit as st

ROOT = Path(__file__).resolve().parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


def remember_banks(arguments: list[str]) -> None:
    """Put every `--bank FOLDER` in front of MERGESCOPE_BANK, where the pages look."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--bank", action="append", default=[])
    named, _ = parser.parse_known_args(arguments)
    folders = [str(Path(one).expanduser().resolve()) for one in named.bank]
    known = [one for one in os.environ.get("MERGESCOPE_BANK", "").split(os.pathsep) if one and one not in folders]
    if folders:
        os.environ["MERGESCOPE_BANK"] = os.pathsep.join([*folders, *known])


@asynccontextmanager
async def recover_runs(_: Any) -> AsyncIterator[dict[str, Any]]:
    """Once a server: runs whose worker died while no server watched are marked as lost."""
    from core.errors import MergescopeError
    from core.jobs import Ledger

    try:
        Ledger().recover()
    except (MergescopeError, OSError) as problem:
        # Every page says it too; a server that does not start would say nothing.
        print(f"warning: {problem}", file=sys.stderr)
    # What the first page needs is imported while the browser still loads.
    loading = asyncio.get_running_loop().run_in_executor(None, import_first_page)
    yield {}
    await loading


def import_first_page() -> None:
    """Import what every page uses: about half a second that the first visitor would otherwise wait."""
    import plotly.graph_objects  # noqa: F401

    from core.charts import bank, recipe  # noqa: F401
    from pages import launch  # noqa: F401


remember_banks(sys.argv[1:])
app = st.App(ROOT / "pages" / "frame.py", lifespan=recover_runs)
