"""The parts of one run: stages, config, log, history, files, and the commands that repeat it.

Takes one job of the ledger; reads its folder. Changes nothing.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from core.errors import MergescopeError
from core.words import duration, file_size
from pages.shared.members import members
from pages.shared.preflights import checked, needs, obstacles, particulars
from pages.shared.runs import note, when
from pages.shared.show import ledger, plain, say

TAIL = 64_000
"""Bytes of the log's end that are shown."""
MAX_FILES = 400
PARTS = ("Log", "Stages", "Members", "Config", "Files", "Repeat it")


def details(job: Any) -> None:
    """One part at a time, so that only that part is read."""
    part = st.segmented_control(
        "Part of the run", PARTS, default=PARTS[0], required=True, key="run_part", label_visibility="collapsed",
        persist_state="session",
    )  # fmt: skip
    dict(zip(PARTS, (log, stages, members, config, files, repeat), strict=True))[part or PARTS[0]](job)


def log(job: Any) -> None:
    """The end of the worker's output."""
    text = tail(job.log)
    if not text.strip():
        note("The worker has written nothing yet." if job.live else "The worker wrote nothing.")
        return
    st.code(text, language=None, wrap_lines=True, height="content" if text.count("\n") < 14 else 320)
    note(f"End of {job.log}")


def tail(path: Path) -> str:
    """The last lines of a file that may be large or not there."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - TAIL, 0))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return text if size <= TAIL else text.partition("\n")[2]


def stages(job: Any) -> None:
    """When each stage began and how long it took, then every event of the ledger."""
    events = ledger().events(job.id)
    st.dataframe(
        history(events, job),
        hide_index=True,
        alt="Events of the run in order, with how long each lasted",
        key="run_events",
        height="content" if len(events) <= 14 else 420,
    )


def history(events: list[Any], job: Any) -> pd.DataFrame:
    """Events with the time until the next one."""
    times = [one.time for one in events]
    ends = [*times[1:], None if job.live else times[-1]]
    return pd.DataFrame(
        {
            "when": [when(one.time) for one in events],
            "event": [one.kind for one in events],
            "what": [_what(one) for one in events],
            "lasted": [
                "" if end is None or end == one.time else duration(end - one.time)
                for one, end in zip(events, ends, strict=True)
            ],
        }
    )


def _what(event: Any) -> str:
    for key in ("stage", "why", "error", "device"):
        if event.data.get(key):
            return str(event.data[key])
    if "bytes" in event.data:
        return f"freed {file_size(event.data['bytes'])}"
    if "worker" in event.data:
        return f"process {event.data['worker'].get('pid')}"
    return ""


def config(job: Any) -> None:
    """What was asked for: preflight figures of the plan, the mergekit config, the rest of the specification.

    Not coloured by syntax: some of those colours fall below 4.5:1.
    """
    text = job.spec.get("plan") or job.spec.get("config")
    rest = {name: value for name, value in job.spec.items() if name not in ("plan", "config")}
    said = json.dumps(rest, indent=2, ensure_ascii=False)
    if not text:
        st.code(said, language=None)
        return
    preflight(text, job)
    left, right = st.columns([0.6, 0.4], gap="small")
    with left:
        note("The mergekit config")
        st.code(text, language=None)
    with right:
        note("The rest of the specification")
        st.code(said, language=None)


def preflight(text: str, job: Any) -> None:
    """Header-only checks of the plan, as they would be now."""
    try:
        found = checked(text, Path(job.spec.get("where") or job.folder / "config.yml"))
    except (MergescopeError, OSError) as problem:
        say(problem)
        return
    note(f"Preflight: {needs(found)}")
    for one in obstacles(found):
        st.warning(plain(one), icon=":material/warning:")
    particulars(found, "run_preflight")


def files(job: Any) -> None:
    """Every file of the run with its size, and its hash where the run recorded one."""
    known = recorded_hashes(job)
    found = sizes(job.folder)
    if not found:
        note("No files: the run has written none, or they were cleaned up.")
        return
    st.dataframe(
        pd.DataFrame(
            {
                "file": [str(one.relative_to(job.folder)) for one in found],
                "size": [file_size(size) for size in found.values()],
                "sha256": [known.get(str(one), "") for one in found],
            }
        ),
        hide_index=True,
        alt="Files of the run with sizes and hashes",
        key="run_files",
        height="content" if len(found) <= 14 else 420,
    )
    note(f"In {job.folder}. Hashes are those that the merge recorded in provenance.json when it wrote the files.")


def sizes(folder: Path) -> dict[Path, int]:
    """Every file below a folder with its bytes, by path; one that a worker moves away meanwhile is left out."""
    found: dict[Path, int] = {}
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            with suppress(OSError):
                found[Path(parent, name)] = Path(parent, name).stat().st_size
            if len(found) >= MAX_FILES:
                return found
    return found


def recorded_hashes(job: Any) -> dict[str, str]:
    """Absolute path to SHA-256, from the provenance.json of every merge in the run's folder."""
    known: dict[str, str] = {}
    for record in job.folder.glob("*/provenance.json"):
        try:
            outputs = json.loads(record.read_text())["outputs"]
            known |= {str(record.with_name(one["file"])): one["sha256"] for one in outputs}
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return known


def repeat(job: Any) -> None:
    """Shell commands that do the same work."""
    note("The same work from a shell, in the folder of Mergescope:")
    st.code(job.command, language=None, wrap_lines=True)
