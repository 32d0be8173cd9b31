"""What checkpoints a repository holds, at one commit: sizes, parameters and dtypes from headers, no weights."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from core.bank.hub.address import HubAddress, check_path
from core.bank.hub.problems import plain_words
from core.errors import BankError

RANK_PART = re.compile(r"model-rank-\d+-part-\d+\.safetensors")
COMMIT = re.compile(r"[0-9a-f]{40}")
STEP = re.compile(r"(?:.*[-_/])?(?:step|checkpoint|ckpt|global_step)s?[-_]?\d+.*", re.IGNORECASE)
SCORES = (".json", ".jsonl", ".csv", ".parquet")
NOT_SCORES = re.compile(
    r"(config|tokenizer|generation|adapter|special|added|vocab|preprocessor|trainer).*|.*index\.json"
)


@dataclass(frozen=True)
class HubCheckpoint:
    """One folder of a repository that holds weights."""

    subfolder: str
    form: str
    """`hugging face`, `sharded state`, or `cannot be read: ` and why."""
    files: tuple[str, ...]
    bytes: int
    parameters: int | None
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class HubListing:
    """What `list_repository` found."""

    address: HubAddress
    """With the commit as its revision."""
    checkpoints: tuple[HubCheckpoint, ...]
    scores: tuple[str, ...]
    step_revisions: tuple[str, ...]
    """Branches and tags that look like training steps."""


def pinned(address: HubAddress) -> HubAddress:
    """The address with the commit that its revision, or the main branch, is at now; raises as `list_repository`."""
    from huggingface_hub import HfApi

    if address.revision and COMMIT.fullmatch(address.revision):
        return address
    with plain_words(address):
        commit = HfApi().repo_info(address.repository, revision=address.revision).sha
    if not commit:
        raise BankError(f"{address}: the Hub names no commit, so nothing can be pinned.")
    return address.at(commit)


def list_repository(address: HubAddress) -> HubListing:
    """List the checkpoints under an address; the revision is pinned to its commit first.

    Raises BankError for what cannot be found or read, RunError for what may work later.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    api = HfApi()
    address = pinned(address)
    with plain_words(address):
        tree = api.list_repo_tree(
            address.repository, address.subfolder or None, recursive=True, revision=address.revision
        )
        sizes = {check_path(str(address), one.path): one.size for one in tree if isinstance(one, RepoFile)}
        refs = api.list_repo_refs(address.repository)
    folders: dict[str, list[str]] = {}
    for path in sorted(sizes):
        folders.setdefault(str(PurePosixPath(path).parent).removeprefix("."), []).append(path)
    found = [_checkpoint(api, address, folder, files, sizes) for folder, files in folders.items()]
    names = [one.name for one in (*refs.branches, *refs.tags)]
    return HubListing(
        address,
        tuple(one for one in found if one is not None),
        tuple(path for path in sizes if path.endswith(SCORES) and not NOT_SCORES.fullmatch(PurePosixPath(path).name)),
        tuple(one for one in names if STEP.fullmatch(one)),
    )


def _checkpoint(
    api: Any, address: HubAddress, folder: str, files: list[str], sizes: dict[str, int]
) -> HubCheckpoint | None:
    weights = [one for one in files if one.endswith(".safetensors")]
    pickles = [one for one in files if one.endswith((".bin", ".pt", ".pth", ".ckpt"))]
    if not weights and not pickles:
        return None
    size = sum(sizes[one] for one in weights or pickles)
    if not weights:
        reason = "cannot be read: only pickled weights, which are never opened"
        return HubCheckpoint(folder, reason, tuple(files), size, None, ())
    names = {PurePosixPath(one).name for one in files}
    form = "sharded state" if any(RANK_PART.fullmatch(one) for one in names) else "hugging face"
    if "config.json" not in names:
        form = "cannot be read: no config.json beside its weights"
    counts: Counter[str] = Counter()
    for one in weights:
        with plain_words(address):
            header = api.parse_safetensors_file_metadata(address.repository, one, revision=address.revision)
        counts.update(header.parameter_count)
    return HubCheckpoint(folder, form, tuple(files), size, sum(counts.values()), tuple(sorted(counts)))
