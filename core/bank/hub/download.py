"""Downloads chosen checkpoints of a listing to the Hub's own cache, at the pinned commit.

Takes a listing's address and folders; gives local folders. Never fetches pickles or code.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.bank.hub.address import HubAddress, check_path
from core.bank.hub.listing import pinned
from core.bank.hub.problems import plain_words
from core.errors import BankError, DiskError, RunError
from core.progress import Progress, no_progress
from core.words import file_size

KEPT = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")
RESERVE = 64 * 1024 * 1024
"""Bytes that stay free on the disk."""


def download(address: HubAddress, checkpoints: Sequence[str], progress: Progress = no_progress) -> dict[str, Path]:
    """Download the named folders (`""` is the root) of a repository pinned to a commit.

    A branch or tag is pinned first, so that all files are of one commit. Files that the cache holds are not fetched
    again; one that was cut off is begun anew. With HF_HUB_OFFLINE the cache alone answers. Gives the local folder of
    each. Raises DiskError before anything is fetched.
    """
    from huggingface_hub import snapshot_download

    cached = _from_cache(address, checkpoints)
    if cached is not None:
        return cached
    address = pinned(address)
    patterns = [f"{check_path(str(address), one)}/{kind}" if one else kind for one in checkpoints for kind in KEPT]
    # The Hub's patterns let `*` cross folders, so the folders below a chosen one are left out by name.
    options: dict[str, Any] = {"revision": address.revision, "allow_patterns": patterns}
    with plain_words(address):
        plan = snapshot_download(address.repository, dry_run=True, **options)
        chosen = [one for one in plan if str(Path(one.filename).parent).removeprefix(".") in checkpoints]
        for one in checkpoints:
            if not any(str(Path(file.filename).parent).removeprefix(".") == one for file in chosen):
                raise BankError(f"{address}: no checkpoint '{one}' in the repository at this revision.")
        missing = sum(one.file_size for one in chosen if one.will_download)
        _check_disk(address, missing)
        options["allow_patterns"] = [one.filename for one in chosen]
        root = Path(snapshot_download(address.repository, tqdm_class=_reporter(progress, missing), **options))
    return {one: root / one for one in checkpoints}


def _from_cache(address: HubAddress, checkpoints: Sequence[str]) -> dict[str, Path] | None:
    """The folders as the cache holds them, where HF_HUB_OFFLINE says to ask no network; None where it does not."""
    from huggingface_hub import constants, snapshot_download

    if not constants.HF_HUB_OFFLINE:
        return None
    found: dict[str, Path] = {}
    for one in checkpoints:
        patterns = [f"{one}/{kind}" if one else kind for kind in KEPT]
        named = HubAddress(address.repository, address.revision, one)
        with plain_words(named):
            root = snapshot_download(
                address.repository, revision=address.revision, local_files_only=True, allow_patterns=patterns
            )
        found[one] = Path(root) / one
        if not any(found[one].glob("*.safetensors")):
            raise RunError(f"{named}: the cache holds no weights. Connect, or unset HF_HUB_OFFLINE, and try again.")
    return found


def _check_disk(address: HubAddress, missing: int) -> None:
    from huggingface_hub import constants

    place = Path(constants.HF_HUB_CACHE)
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if missing and missing + RESERVE > free:
        raise DiskError(
            f"{address}: {file_size(missing)} are to be downloaded to {place}, which has {file_size(free)} free. "
            f"Free space, choose fewer checkpoints, or set HF_HOME to another disk."
        )


def _reporter(progress: Progress, total: int) -> Any:
    """A silent bar for the Hub's client that passes on the bytes it counts."""
    from huggingface_hub.utils import tqdm

    class Reporter(tqdm):
        def __init__(self, *given: Any, **named: Any) -> None:
            self._counts = named.get("unit") == "B"
            super().__init__(*given, **(named | {"disable": True}))
            self._seen = 0.0

        def update(self, n: float | None = 1) -> bool | None:
            if self._counts and total:
                self._seen += n or 0
                progress("download", min(self._seen, total), total, "bytes")
            return super().update(n)

    return Reporter
