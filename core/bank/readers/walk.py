"""The files under some paths: bounded in depth and number, never through a link that leads out.

Takes paths; gives `Source`s in natural order, and what was passed over. Reads no file's content.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from core.bank.readers.sources import Source
from core.errors import BankError
from core.files import is_inside

MAX_DEPTH = 16
MAX_FILES = 200_000
# fmt: off
NEVER_SCORES = frozenset((
    ".safetensors", ".bin", ".pt", ".pth", ".distcp", ".gguf", ".npz", ".npy", ".pkl", ".pickle", ".model",
    ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".html", ".css", ".js", ".py", ".pyc", ".sh", ".md",
    ".rst", ".log", ".diff", ".patch", ".yaml", ".yml", ".toml", ".lock", ".gz", ".bz2", ".xz", ".zst", ".tar",
))
# fmt: on
"""Endings that are passed over in a folder; a file that is named itself is always looked at."""
# fmt: off
MODEL_FILES = frozenset((
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "vocab.json", "added_tokens.json", "model.safetensors.index.json",
    "pytorch_model.bin.index.json", "adapter_config.json", "preprocessor_config.json", "chat_template.json",
    "trainer_state.json",
))
# fmt: on


class Found:
    """The sources of a walk, and what it passed over."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.passed: int = 0
        """Files that cannot hold scores by their ending or name."""
        self.warnings: list[str] = []
        self._real: set[Path] = set()

    def add(self, source: Source) -> None:
        """Keep a file, once however often it is reached."""
        real = source.path.resolve()
        if real in self._real:
            return
        self._real.add(real)
        self.sources.append(source)


def walk(paths: Sequence[Path], roots: Sequence[Path] | None = None, *, named: bool = True) -> Found:
    """Every file that may hold scores: the paths themselves, and what lies in those that are folders.

    `roots`, where given, are the only folders that may be read; else the paths are. `named=False` says that the paths
    were not written by the user, so that a file among them is judged as one of a folder is. Raises BankError for a
    path that does not exist or lies outside, and for a folder with more than 200,000 files. What lies more than 16
    folders deep is skipped with a warning.
    """
    found = Found()
    for path in paths:
        if "\0" in str(path) or not path.exists():
            raise BankError(f"{str(path)!r:.300}: no such file or folder.")
    allowed = tuple(one.resolve() for one in (roots if roots is not None else paths))
    for path in paths:
        if not is_inside(path, allowed):
            raise BankError(f"{path}: lies outside the folders that may be read: {', '.join(map(str, allowed))}.")
        here = path.resolve() if ".." in path.parts else path.absolute()
        if here.is_file():
            # What lies beside a file that the user named may be read with it.
            beside = allowed if roots is not None else (*allowed, here.parent.resolve())
            found.add(Source(here, beside, given=named, confined=roots is not None))
        elif here.is_dir():
            _walk_folder(here, allowed, found, confined=roots is not None)
        else:
            raise BankError(f"{path}: is neither a file nor a folder.")
    return found


def _walk_folder(folder: Path, roots: tuple[Path, ...], found: Found, *, confined: bool) -> None:
    waiting, seen, count = [(folder, 0)], {folder.resolve()}, 0
    while waiting:
        here, depth = waiting.pop()
        folders = []
        for entry in _entries(here, found):
            count += 1
            if count > MAX_FILES:
                raise BankError(f"{folder}: holds more than {MAX_FILES:,} files. Name the folders with scores instead.")
            if entry.is_symlink() and not is_inside(entry, roots):
                found.warnings.append(f"{entry}: skipped, it is a link that leads out of the folders to be read.")
            elif entry.is_dir():
                real = entry.resolve()
                if depth + 1 > MAX_DEPTH:
                    found.warnings.append(f"{entry}: skipped, it lies more than {MAX_DEPTH} folders deep.")
                elif real not in seen and not entry.name.startswith("."):
                    seen.add(real)
                    folders.append((entry, depth + 1))
            elif not entry.is_file() or cannot_hold_scores(entry):
                found.passed += 1
            else:
                found.add(Source(entry, roots, confined=confined))
        waiting.extend(reversed(folders))


def _entries(folder: Path, found: Found) -> list[Path]:
    try:
        return sorted(folder.iterdir(), key=lambda one: natural(one.name))
    except OSError as problem:
        found.warnings.append(f"{folder}: skipped, it cannot be read ({problem.strerror}).")
        return []


def cannot_hold_scores(path: Path) -> bool:
    """True for a file that by its ending or name is something else."""
    return path.suffix.lower() in NEVER_SCORES or path.name in MODEL_FILES or path.name.startswith(".")


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts `step-90` before `step-200`."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", name)
    return [(0, int(one), "") if one.isascii() and one.isdigit() else (1, 0, one) for one in parts]
