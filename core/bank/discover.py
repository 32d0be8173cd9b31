"""What lies in a folder: checkpoints of any form, what looks like their base, score files and task files.

Takes a folder; gives names, steps, headers and reasons. Bounded in depth, number and time, follows no link that leads
out, and reads no score: that is for `core.bank.readers`.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from core.bank.match import Target, step_of
from core.bank.readers.reading import FORMATS
from core.bank.readers.sources import MAX_SIDE_BYTES, Source, read_json
from core.bank.readers.walk import cannot_hold_scores, natural
from core.errors import BankError, CheckpointError
from core.files import is_inside

MAX_DEPTH = 8
SCORE_ENDINGS = (".json", ".jsonl", ".csv", ".tsv", ".parquet", ".eval")
MAX_ENTRIES = 100_000
MAX_CHECKPOINTS = 500
SECONDS = 30.0
BASE_NAMES = ("base", "base_model", "base-model", "init", "initial", "pretrained", "raw", "start")
WEIGHT_ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".distcp", ".gguf")
WEIGHT_NAMES = frozenset(("model.safetensors.index.json", "adapter_config.json", "latest", "__0_0.distcp"))
Seen = Callable[[int, float], None]
"""Called now and then with the number of entries looked at and the seconds it took so far."""


@dataclass(frozen=True)
class FoundCheckpoint:
    """A folder that holds weights."""

    id: str
    """Its name, or its path where several have that name."""
    folder: str
    """Path below the folder that was searched."""
    path: Path
    step: int | None
    dtype: str = ""
    parameters: int = 0
    trained_from: str = ""
    """What its config.json says it was loaded from."""
    problem: str = ""
    """Why it cannot be merged, and what to do; empty where it can."""


class BaseGuess(NamedTuple):
    """A checkpoint that looks like what the others were trained from."""

    id: str
    reason: str


class ScoreFile(NamedTuple):
    """A file whose format was recognised."""

    path: Path
    format: str


@dataclass(frozen=True)
class Discovery:
    """What a folder holds."""

    root: Path
    checkpoints: tuple[FoundCheckpoint, ...]
    """Those that can be merged, by step, then by name."""
    unreadable: tuple[FoundCheckpoint, ...]
    """Weights in a form that cannot be merged, each with the reason."""
    bases: tuple[BaseGuess, ...]
    """The likeliest first."""
    scores: tuple[ScoreFile, ...]
    tasks: tuple[Path, ...]
    """JSONL files of tasks: `id` with a prompt or target, and no score."""
    banks: tuple[Path, ...]
    """Folders that already hold a bank.yaml."""
    warnings: tuple[str, ...]
    entries: int
    seconds: float

    @property
    def targets(self) -> list[Target]:
        """The checkpoints, as `match_scores` takes them."""
        return [Target(one.id, one.step, one.folder) for one in self.checkpoints]

    def checkpoint(self, name: str) -> FoundCheckpoint:
        """The readable checkpoint of that id; raises BankError with the ids there are."""
        for one in self.checkpoints:
            if one.id == name:
                return one
        ids = ", ".join(one.id for one in self.checkpoints[:12]) or "none"
        raise BankError(f"no checkpoint '{name:.80}' in {self.root}. Found: {ids}.")

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "root": str(self.root),
            "checkpoints": [asdict(one) | {"path": str(one.path)} for one in self.checkpoints],
            "unreadable": [asdict(one) | {"path": str(one.path)} for one in self.unreadable],
            "bases": [one._asdict() for one in self.bases],
            "scores": [{"path": str(one.path), "format": one.format} for one in self.scores],
            "tasks": [str(one) for one in self.tasks],
            "banks": [str(one) for one in self.banks],
            "warnings": list(self.warnings),
            "entries": self.entries,
            "seconds": round(self.seconds, 3),
        }


def discover(
    folder: Path | str, *, roots: Sequence[Path] | None = None, seconds: float = SECONDS, seen: Seen | None = None
) -> Discovery:
    """Search a folder for what a bank is made of.

    `roots` are the only folders that may be read (default: the folder itself). What is over 100,000 entries, 500
    checkpoints, 8 folders deep or `seconds` is passed over with a warning. Raises BankError for what is no folder, or
    lies outside `roots`.
    """
    given = Path(folder)
    if "\0" in str(given) or not given.is_dir():
        raise BankError(f"{str(given)!r:.300}: no such folder. Expected one with checkpoints, score files, or both.")
    allowed = tuple(one.resolve() for one in (roots if roots is not None else [given]))
    if not is_inside(given, allowed):
        raise BankError(f"{given}: lies outside the folders that may be read: {', '.join(map(str, allowed))}.")
    search = _Search(given.absolute(), allowed, seconds, seen or (lambda _count, _seconds: None))
    for each in search.folders():
        search.look_at(each)
    return search.result()


class _Here(NamedTuple):
    """One folder of the walk."""

    path: Path
    name: str
    """Below the root, with slashes; empty for the root."""
    files: tuple[Path, ...]
    folders: frozenset[str]
    leads_out: str
    """A file here that is a link out of the folders that may be read, or nothing."""


class _Search:
    """A walk, and what it has found so far."""

    def __init__(self, root: Path, roots: tuple[Path, ...], seconds: float, seen: Seen) -> None:
        self.root, self.roots, self._limit, self._seen = root, roots, seconds, seen
        self._start = time.monotonic()
        self.entries = 0
        self.found: list[FoundCheckpoint] = []
        self.scores: list[ScoreFile] = []
        self.strange: list[Path] = []
        self.tasks: list[Path] = []
        self.banks: list[Path] = []
        self.warnings: list[str] = []
        self._stopped = False

    def _over(self) -> bool:
        """True once a limit is reached; says which, once."""
        took = time.monotonic() - self._start
        self._seen(self.entries, took)
        if not self._stopped and (self.entries > MAX_ENTRIES or took > self._limit):
            self._stopped = True
            why = f"{MAX_ENTRIES:,} files" if self.entries > MAX_ENTRIES else f"{self._limit:g} seconds"
            self.warnings.append(f"{self.root}: the search ended after {why}; name a folder further down for the rest.")
        return self._stopped

    def folders(self) -> Iterator[_Here]:
        """The folder and those below it, in natural order, each once; none that a link leads to from outside."""
        waiting, known = [(self.root, 0)], {self.root.resolve()}
        while waiting and not self._over():
            path, depth = waiting.pop()
            files, below, out = self._entries(path)
            name = path.relative_to(self.root).as_posix() if path != self.root else ""
            yield _Here(path, name, tuple(files), frozenset(one.name for one in below), out)
            fresh = []
            for one in below:
                real = one.resolve()
                if real not in known and not one.name.startswith("."):
                    known.add(real)
                    fresh.append((one, depth + 1))
            if depth >= MAX_DEPTH and fresh:
                self.warnings.append(f"{path}: folders in it are passed over, they lie over {MAX_DEPTH} folders deep.")
                continue
            waiting.extend(reversed(fresh))

    def _entries(self, folder: Path) -> tuple[list[Path], list[Path], str]:
        """Files and folders in one folder, and a link in it that leads out."""
        files, folders, out = [], [], ""
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self.entries += 1
                    if self.entries > MAX_ENTRIES:
                        break
                    path = folder / entry.name
                    if entry.is_symlink() and not is_inside(path, self.roots):
                        out = out or entry.name
                    elif entry.is_dir():
                        folders.append(path)
                    elif entry.is_file():
                        files.append(path)
        except OSError as problem:
            self.warnings.append(f"{folder}: passed over, it cannot be read ({problem.strerror}).")
        if out:
            self.warnings.append(f"{folder / out}: passed over, it is a link that leads out of {self.root}.")
        order = {"key": lambda one: natural(one.name)}
        return sorted(files, **order), sorted(folders, **order), out  # type: ignore[call-overload]

    def look_at(self, here: _Here) -> None:
        """Note what a folder holds."""
        names = {one.name for one in here.files}
        if "bank.yaml" in names:
            self.banks.append(here.path)
        if any(one.endswith(WEIGHT_ENDINGS) for one in names) or names & WEIGHT_NAMES or "dist_ckpt" in here.folders:
            self._checkpoint(here)
        for path in here.files:
            if self._stopped or cannot_hold_scores(path) or self._over():
                continue
            self._file(path)

    def _checkpoint(self, here: _Here) -> None:
        if len(self.found) >= MAX_CHECKPOINTS:
            self.warnings.append(f"{here.path}: passed over, {MAX_CHECKPOINTS} checkpoints were found already.")
            return
        folder = here.name or self.root.name
        step = self._step(here, folder)
        one = FoundCheckpoint(folder, folder, here.path, step)
        if here.leads_out:
            reason = f"{here.path}: {here.leads_out} is a link that leads out of the folders that may be read."
            self.found.append(_with(one, problem=reason))
            return
        self.found.append(_opened(one))

    def _step(self, here: _Here, folder: str) -> int | None:
        """The step of trainer_state.json, else of the name."""
        named = step_of(folder)
        state = here.path / "trainer_state.json"
        if state not in here.files:
            return named
        try:
            value = read_json(state, MAX_SIDE_BYTES)
        except BankError as problem:
            self.warnings.append(f"passed over: {problem}")
            return named
        step = value.get("global_step") if isinstance(value, dict) else None
        if not isinstance(step, int) or isinstance(step, bool) or step < 0:
            return named
        if named is not None and named != step:
            self.warnings.append(f"{folder}: its name says step {named}, its trainer_state.json {step}; that is taken.")
        return step

    def _file(self, path: Path) -> None:
        source = Source(path, self.roots, confined=True)
        try:
            if source.size == 0:
                self.strange.append(path)
                return
            if _holds_tasks(source):
                self.tasks.append(path)
                return
            known = next((one.name for one in FORMATS if one.recognise(source)), None)
        except BankError:
            known = None
        if known is not None:
            self.scores.append(ScoreFile(path, known))
        else:
            self.strange.append(path)

    def _not_understood(self) -> list[str]:
        """Where no scores were found: which files may have been meant as some."""
        meant = [one for one in self.strange if one.suffix.lower() in SCORE_ENDINGS]
        if self.scores or not meant:
            return []
        more = f" and {len(meant) - 1} more" if len(meant) > 1 else ""
        return [
            f"{meant[0]}{more}: empty, damaged, or in no format that is known here. `scores read` says what is wrong "
            "with one."
        ]

    def result(self) -> Discovery:
        """Everything found, named, ordered and judged."""
        named = _named(_without_shells(self.found))
        order = sorted(named, key=lambda one: (one.step is None, one.step or 0, natural(one.id)))
        readable = tuple(one for one in order if not one.problem)
        return Discovery(
            root=self.root,
            checkpoints=readable,
            unreadable=tuple(one for one in order if one.problem),
            bases=tuple(guess_bases(readable, self.root)),
            scores=tuple(self.scores),
            tasks=tuple(self.tasks),
            banks=tuple(self.banks),
            warnings=tuple(dict.fromkeys([*self.warnings, *self._not_understood()])),
            entries=self.entries,
            seconds=time.monotonic() - self._start,
        )


def _with(one: FoundCheckpoint, **changes: Any) -> FoundCheckpoint:
    return FoundCheckpoint(**{**one.__dict__, **changes})


def _opened(one: FoundCheckpoint) -> FoundCheckpoint:
    """With what its headers say, or why they cannot be used."""
    # Imported here so that reading a bank does not bring in the merge layer.
    from core.merge.checkpoint import open_checkpoint

    try:
        opened = open_checkpoint(one.path)
    except CheckpointError as problem:
        return _with(one, problem=str(problem))
    except OSError as problem:
        return _with(one, problem=f"{one.path}: cannot be read ({problem.strerror}).")
    origin = opened.config.get("_name_or_path")
    return _with(
        one, dtype=opened.dtype, parameters=opened.parameters, trained_from=origin if isinstance(origin, str) else ""
    )


def _holds_tasks(source: Source) -> bool:
    if source.path.suffix.lower() != ".jsonl":
        return False
    first = source.first_row or {}
    return "id" in first and "score" not in first and bool({"target", "prompt", "scorer"} & set(first))


def _without_shells(found: Sequence[FoundCheckpoint]) -> list[FoundCheckpoint]:
    """Without unreadable folders above a readable one, or below another unreadable one."""
    readable = [one.path for one in found if not one.problem]
    bad = {one.path for one in found if one.problem}
    return [
        one
        for one in found
        if not one.problem
        or not (any(one.path in other.parents for other in readable) or any(up in bad for up in one.path.parents))
    ]


def _named(found: Sequence[FoundCheckpoint]) -> list[FoundCheckpoint]:
    """Each with a short id: the part of its folder that says a step, else the last; where two share it, the whole."""
    shorts = [_short(one.folder) for one in found]
    return [
        _with(one, id=short if shorts.count(short) == 1 else one.folder)
        for one, short in zip(found, shorts, strict=True)
    ]


def _short(folder: str) -> str:
    parts = folder.split("/")
    return next((one for one in reversed(parts) if step_of(one) is not None), parts[-1])


def guess_bases(checkpoints: Sequence[FoundCheckpoint], root: Path) -> list[BaseGuess]:
    """Which checkpoints look like what the others were trained from, the likeliest first, each with the reason."""
    guesses: dict[str, str] = {}
    for one in checkpoints:
        children = [other.id for other in checkpoints if other is not one and _came_from(other, one, root)]
        if children:
            guesses[one.id] = f"{len(children)} of the others say in config.json that they were loaded from it"
    for one in checkpoints:
        if one.folder.rsplit("/", 1)[-1].lower() in BASE_NAMES:
            guesses.setdefault(one.id, "its folder is called that")
    for one in checkpoints:
        if one.step == 0:
            guesses.setdefault(one.id, "it is step 0")
    stepless = [one for one in checkpoints if one.step is None]
    if len(stepless) == 1 and len(checkpoints) > 1:
        guesses.setdefault(stepless[0].id, "it is the only one without a step number")
    return [BaseGuess(*one) for one in guesses.items()]


def _came_from(one: FoundCheckpoint, other: FoundCheckpoint, root: Path) -> bool:
    said = one.trained_from
    if not said or "\0" in said or len(said) > 1000:
        return False
    return any((start / said).resolve() == other.path.resolve() for start in (root, one.path.parent))
