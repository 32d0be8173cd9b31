"""What the visitor has found, matched and chosen on the way to a new bank, and the moves between the steps.

One `Wizard` a session; widgets keep what was typed under keys that begin with `wizard_`. Draws nothing.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import streamlit as st

from core.bank.discover import BASE_NAMES, Discovery
from core.bank.draft import Member
from core.bank.match import LEFT_OUT, SCORES_ONLY, Match
from core.bank.readers import ReadOptions, ScoreSet, read_scores
from core.bank.repeats import Matched, matched_scores
from core.errors import BankError
from pages.shared.banks import allowed_roots, is_allowed

KEY = "wizard"
STEPS = ("Where", "Found", "Match", "Base", "What does not fit", "Save")
MAX_UPLOADS, MAX_UPLOAD_BYTES = 60, 256 << 20
NO_BASE = ""


@dataclass
class Wizard:
    """The state between two reruns."""

    at: int = 0
    busy: str = ""
    """`search` or `read` while that must be done before the next step is drawn."""
    error: str = ""
    searched: str = ""
    """The folder that was searched last, as it was typed."""
    discovery: Discovery | None = None
    uploads: "tempfile.TemporaryDirectory[str] | None" = None
    """Where uploaded files lie; removed with the session."""
    used: list[Path] = field(default_factory=list)
    """The score files to read, of those that were found."""
    offered: list[Path] = field(default_factory=list)
    """The score files of the last search: what is new in the next is used."""
    shown_used: list[Path] | None = None
    """As `shown`, for the table of score files."""
    scores: ScoreSet | None = None
    matches: list[Match] = field(default_factory=list)
    mapping: dict[str, str] = field(default_factory=dict)
    shown: dict[str, str] | None = None
    """The mapping as it was when its table was first drawn: an editor starts anew when its input changes."""
    base: str | None = None
    matched: Matched | None = None
    """The scores under the mapping, made when its step is left."""

    @property
    def uploaded(self) -> list[Path]:
        """The uploaded files."""
        return sorted(Path(self.uploads.name).glob("*/*")) if self.uploads else []

    @property
    def members(self) -> list[Member]:
        """The checkpoints that were found."""
        found = self.discovery.checkpoints if self.discovery else ()
        return [Member(one.id, one.step, one.path) for one in found]


def wizard() -> Wizard:
    """The session's wizard; a new one where there is none."""
    found: Wizard = st.session_state.setdefault(KEY, Wizard())
    return found


def is_open() -> bool:
    """True from *Load another bank* until the bank is saved or the wizard closed."""
    return KEY in st.session_state


def start() -> None:
    """Open the wizard; a callback."""
    st.session_state[KEY] = Wizard()


def close() -> None:
    """Close it and forget everything; a callback."""
    for name in [one for one in st.session_state if str(one).startswith(KEY)]:
        del st.session_state[name]


def back() -> None:
    """One step back, with everything kept; a callback."""
    state = wizard()
    state.at, state.error, state.shown, state.busy = max(0, state.at - 1), "", None, ""
    state.shown_used = None


def forward() -> None:
    """One step on; a callback, and what the steps call once their work is done."""
    state = wizard()
    state.at, state.error, state.shown, state.busy = state.at + 1, "", None, ""
    state.shown_used = None


def forget_choices() -> None:
    """Ask anew what was answered about other scores: choices, files, names."""
    wizard().offered = []
    for name in [one for one in st.session_state if str(one).startswith(f"{KEY}_")]:
        if not str(name).startswith((f"{KEY}_where", f"{KEY}_files")):
            del st.session_state[name]


def refuse(problem: Exception | str) -> None:
    """Stay on this step and say why."""
    state = wizard()
    state.error, state.busy = str(problem), ""


def typed(name: str, default: Any = "") -> Any:
    """What a widget of the wizard holds."""
    return st.session_state.get(f"{KEY}_{name}", default)


def hub_folder(address: str) -> Path:
    """The folder of what a Hub address names; raises BankError, since nothing is fetched from here yet."""
    name = address.rpartition("huggingface.co/")[2].removeprefix("hf://")
    raise BankError(
        f"“{address}” looks like an address on the Hugging Face Hub. See what it holds with `python -m core hub list "
        f"hf://{name}`, fetch what you want with `python -m core hub download hf://{name} CHECKPOINT`, then name the "
        "folder that it prints."
    )


def looks_like_hub(text: str) -> bool:
    """True for `hf://…`, an address of huggingface.co, or `owner/name` where no such folder is."""
    if text.startswith(("hf://", "https://huggingface.co/", "huggingface.co/")):
        return True
    parts = text.split("/")
    plain = len(parts) == 2 and all(parts) and not text.startswith((".", "~"))
    return plain and not Path(text).exists() and not Path(parts[0]).exists()


def folder_of(text: str) -> Path:
    """The folder that was typed; raises BankError where it may not be read or is not there."""
    if looks_like_hub(text):
        return hub_folder(text)
    path = Path(text).expanduser()
    if "\0" in text or not is_allowed(path):
        raise BankError(
            f"{text:.200} lies outside the folders that this explorer may read: "
            f"{', '.join(map(str, allowed_roots()))}. Start it in a folder above, or name one in MERGESCOPE_ROOTS."
        )
    if not path.is_dir():
        raise BankError(f"{text:.200}: no such folder.")
    return path


def keep_uploads(files: list[Any]) -> None:
    """Put uploaded files into a folder of the session; raises BankError where they are too many or too large."""
    if not files:
        return
    if len(files) > MAX_UPLOADS or sum(one.size for one in files) > MAX_UPLOAD_BYTES:
        raise BankError(
            f"{len(files)} files of {sum(one.size for one in files) / 1e6:.0f} MB together were uploaded. At most "
            f"{MAX_UPLOADS} files and {MAX_UPLOAD_BYTES / 1e6:.0f} MB are taken: name the folder they are in instead."
        )
    folder = tempfile.TemporaryDirectory(prefix="mergescope-")
    for one in files:
        # A folder for each, since some formats name the checkpoint by it.
        name, count = Path(one.name).name or "scores", 2
        place = Path(folder.name, Path(name).stem)
        while place.exists():
            place, count = Path(folder.name, f"{Path(name).stem}_{count}"), count + 1
        place.mkdir()
        (place / name).write_bytes(one.getbuffer())
    wizard().uploads = folder


def read_chosen(files: list[Path], options: ReadOptions) -> ScoreSet:
    """The scores of the chosen files and of what was uploaded; raises BankError."""
    state = wizard()
    roots = [one.resolve() for one in allowed_roots()]
    if state.uploads:
        roots.append(Path(state.uploads.name).resolve())
    found = read_scores([*files, *state.uploaded], options, roots=roots, named=False)
    uploaded = {str(one): f"uploaded: {one.name}" for one in state.uploaded}
    return replace(found, files=tuple(uploaded.get(one, one) for one in found.files))


def first_mapping(matches: list[Match], *, weights: bool) -> dict[str, str]:
    """The mapping before anything was edited; without any weights, names without a checkpoint stand alone."""
    otherwise = LEFT_OUT if weights else SCORES_ONLY
    return {one.scores: one.checkpoint or otherwise for one in matches}


def apply_mapping(mapping: Mapping[str, str]) -> Matched:
    """The scores under a mapping; raises BankError."""
    state = wizard()
    assert state.scores is not None
    targets = state.discovery.targets if state.discovery else []
    return matched_scores(state.scores, mapping, targets)


def base_options() -> list[tuple[str, str]]:
    """What may be the base, each with why it looks like one (or nothing); the likeliest first."""
    state = wizard()
    guesses = dict(state.discovery.bases) if state.discovery else {}
    scored = state.matched.scores.checkpoints if state.matched else ()
    every = dict.fromkeys([*guesses, *(one.id for one in state.members), *scored])
    named = {one: "its scores are called that" for one in every if one.lower() in BASE_NAMES and one not in guesses}
    reasons = {**guesses, **named}
    ordered = sorted(every, key=lambda one: one not in reasons)
    return [(one, reasons.get(one, "")) for one in ordered]
