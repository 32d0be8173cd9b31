"""Which banks there are and which one is live, read once per change on disk.

Banks come from `data/`, from `banks/` of the working folder, from MERGESCOPE_BANK (a path, or several
joined by the system's path separator) and from `?bank=`, which may name a folder below the working
folder or below one of MERGESCOPE_ROOTS. Knows nothing about recipes.
"""

import os
from functools import lru_cache
from itertools import count
from pathlib import Path
from weakref import WeakKeyDictionary

import streamlit as st

from core.bank import bank_files, list_banks, load_bank
from core.bank.model import Bank
from core.errors import BankError
from core.files import is_inside

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "data"
MADE = Path("banks")
"""Below the working folder: where the wizard puts new banks."""
KEY = "bank"
MAX_ASKED = 8
FileStamp = tuple[int, int]
_MARKS: WeakKeyDictionary[Bank, int] = WeakKeyDictionary()
_NUMBERS = count()


@st.cache_data(max_entries=4, ttl="10s", show_spinner=False)
def _on_disk(bundled: str, named: str) -> dict[str, Path]:
    found = {path.name: path for path in list_banks([Path(bundled)])}
    found |= {str(path): path for path in list_banks([MADE])}
    for one in filter(None, named.split(os.pathsep)):
        path = Path(one).expanduser()
        found[_label(path)] = path
    return found


def _label(path: Path) -> str:
    """A bundled bank goes by its folder's name, any other by its path."""
    return path.name if path.resolve().parent == BUNDLED else str(path)


def known_banks() -> dict[str, Path]:
    """Every bank the selector offers, label to folder; those named by the user come first."""
    found = _on_disk(str(BUNDLED), os.environ.get("MERGESCOPE_BANK", ""))
    bundled = {label: path for label, path in found.items() if path.parent in (BUNDLED, MADE)}
    named = {label: path for label, path in found.items() if label not in bundled}
    asked = {label: Path(label) for label in st.session_state.get("asked_banks", ())}
    return {**named, **bundled, **{label: path for label, path in asked.items() if label not in found}}


def remember_asked() -> str | None:
    """Add the bank that the address asks for to the selector; a message where there is none.

    Called by the frame before it draws the selector. The address is the visitor's: only a folder
    below an allowed root that holds a `bank.yaml` is accepted.
    """
    asked = st.query_params.get(KEY)
    if not asked or asked in known_banks():
        return None
    if not is_allowed(Path(asked)):
        return (
            f"The link asks for the bank “{asked[:80]}”, which is outside the folders this explorer may read. "
            "Start it with `--bank FOLDER`, or name a folder above it in MERGESCOPE_ROOTS."
        )
    if not has_bank(Path(asked)):
        return f"The link asks for the bank “{asked[:80]}”, but no folder of that name holds a bank.yaml."
    st.session_state["asked_banks"] = [*st.session_state.get("asked_banks", ()), asked][-MAX_ASKED:]
    return None


def open_bank(path: Path) -> None:
    """Make a bank the live one; only from a callback, before the selector is drawn."""
    _on_disk.clear()
    label = str(path)
    if label not in known_banks():
        st.session_state["asked_banks"] = [*st.session_state.get("asked_banks", ()), label][-MAX_ASKED:]
    st.session_state[KEY] = label


def allowed_roots() -> list[Path]:
    """Folders below which an address may name a bank: the working folder and MERGESCOPE_ROOTS."""
    named = os.environ.get("MERGESCOPE_ROOTS", "").split(os.pathsep)
    return [Path.cwd(), *(Path(one).expanduser() for one in named if one)]


def is_allowed(path: Path) -> bool:
    """True for a path below one of the allowed roots, links followed."""
    try:
        return is_inside(path, allowed_roots())
    except (OSError, ValueError):
        return False


def has_bank(path: Path) -> bool:
    """True for a folder with a `bank.yaml`, or such a file itself."""
    try:
        return (path / "bank.yaml").is_file() or (path.name == "bank.yaml" and path.is_file())
    except (OSError, ValueError):
        return False


def file_stamp(path: Path) -> FileStamp:
    """Time and size: changes when the file must be read again. Raises OSError where there is none."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


def _stamp_or_none(path: Path) -> FileStamp:
    try:
        return file_stamp(path)
    except OSError:
        return (0, 0)


@lru_cache(maxsize=32)
def _files(path: str, stamp: FileStamp) -> tuple[Path, ...]:
    return bank_files(path)


@st.cache_resource(max_entries=8, show_spinner=False)
def _load(path: str, stamps: tuple[FileStamp, ...]) -> Bank:
    return load_bank(Path(path))


def read_bank(path: Path) -> Bank:
    """The bank in a folder, read again only when one of its files has changed; raises BankError or OSError."""
    yaml = path / "bank.yaml" if path.is_dir() else path
    files = _files(str(path), _stamp_or_none(yaml))
    return _load(str(path), tuple(_stamp_or_none(one) for one in files))


def mark_of(bank: Bank) -> int:
    """A number of its own for every bank that was read: what is computed from one is kept under it."""
    return _MARKS.setdefault(bank, next(_NUMBERS))


def current_bank() -> Bank:
    """The bank that the top line shows. Says why and stops the page where it cannot be read."""
    known = known_banks()
    if not known:
        st.info(
            "No bank was found. Build the bundled ones with `make data`, or start with "
            "`streamlit run app.py -- --bank FOLDER`, where FOLDER holds a bank.yaml. "
            "`python -m core bank make RUNS FOLDER` makes one from checkpoints and score files."
        )
        st.stop()
    path = known.get(st.session_state.get(KEY, ""), next(iter(known.values())))
    try:
        return read_bank(path)
    except (BankError, OSError) as problem:
        st.error(str(problem))
        st.stop()
