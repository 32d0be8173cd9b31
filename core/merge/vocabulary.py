"""Embeddings of unequal rows: what differs, and the explicit choice to cut every model to the smallest.

Takes opened models; gives them with shorter embeddings, which are a prefix of the same bytes (tensors are
stored row by row), and what is lost by it. Reads headers and tokenizers, no weights.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from core.merge.checkpoint import EMBEDDING, HEAD, CheckpointFile
from core.merge.header import FLOATS, ITEM_SIZES, TensorInfo
from core.merge.ranks import split_key

MAX_TOKENIZER_BYTES = 200_000_000
CHOICE = "--vocabulary truncate"


def has_vocabulary_rows(name: str) -> bool:
    """True for a token embedding or an output head: tensors with one row a token."""
    return any(name == one or name.endswith(f".{one}") for one in (EMBEDDING, HEAD))


def differ_in_rows_only(one: TensorInfo, other: TensorInfo) -> bool:
    """True for two embeddings or heads whose shapes differ in the number of rows and nothing else.

    False in a sharded state: a rank holds a slice of the vocabulary, and cutting each slice would move the others.
    """
    if not (has_vocabulary_rows(one.name) and has_vocabulary_rows(other.name)) or split_key(one.name)[0]:
        return False
    return len(one.shape) == len(other.shape) == 2 and one.shape[1] == other.shape[1]


@dataclass(eq=False)
class Cut:
    """Models whose vocabularies have been made equal."""

    models: dict[Path, CheckpointFile]
    warnings: list[str] = field(default_factory=list)
    """Each tensor that was cut, with its rows before and after; tokens of members that are lost."""
    problems: list[str] = field(default_factory=list)
    """Tokens of the merged folder's own tokenizer or config that would have no row."""


def truncate(models: Mapping[Path, CheckpointFile], reference: Path) -> Cut:
    """Cut every embedding and head to the smallest number of rows among the models.

    `reference` is the folder whose config the result keeps. The merged folder keeps one tokenizer: a token of
    it beyond the cut would have no row, so that is a problem. Tokens that only other models know are lost
    with their rows, which is what was asked for: a warning names how many. Sharded states are left as they are.
    """
    if any(one.ranks for one in models.values()):
        return Cut(dict(models))
    rows = {info.shape[0] for one in models.values() for info in _vocabulary_tensors(one)}
    if len(rows) < 2:
        return Cut(dict(models))
    smallest = min(rows)
    cut = Cut({folder: _shortened(one, smallest) for folder, one in models.items()})
    cut.warnings += [line for one in models.values() for line in _cut_lines(one, smallest)]
    _check_tokens(list(models.values()), reference, smallest, cut)
    kept = cut.models[reference]
    cut.models[reference] = replace(kept, config=_with_rows(kept.config, smallest))
    return cut


def _vocabulary_tensors(model: CheckpointFile) -> list[TensorInfo]:
    return [
        info
        for name, info in model.tensors.items()
        if has_vocabulary_rows(name) and len(info.shape) == 2 and info.dtype in FLOATS
    ]


def _shortened(model: CheckpointFile, rows: int) -> CheckpointFile:
    tensors = dict(model.tensors)
    for info in _vocabulary_tensors(model):
        if info.shape[0] > rows:
            shape = (rows, info.shape[1])
            tensors[info.name] = replace(info, shape=shape, nbytes=rows * info.shape[1] * ITEM_SIZES[info.dtype])
    return replace(model, tensors=tensors)


def _cut_lines(model: CheckpointFile, rows: int) -> list[str]:
    return [
        f"{model.folder}: {info.name} is cut from {info.shape[0]:,} rows to {rows:,}."
        for info in _vocabulary_tensors(model)
        if info.shape[0] > rows
    ]


def _with_rows(config: Mapping[str, Any], rows: int) -> dict[str, Any]:
    changed = dict(config)
    text = changed.get("text_config")
    if isinstance(text, dict):
        changed["text_config"] = text | {"vocab_size": rows}
    if "vocab_size" in changed or (changed and not isinstance(text, dict)):
        changed["vocab_size"] = rows
    return changed


def _check_tokens(models: Sequence[CheckpointFile], reference: Path, rows: int, cut: Cut) -> None:
    from core.merge.companions import tokenizer_source

    ordered = sorted(models, key=lambda one: one.folder != reference)
    kept = tokenizer_source(ordered)
    if kept is not None and not (kept.folder / "tokenizer.json").exists():
        cut.warnings.append(f"{kept.folder}: has no tokenizer.json, so whether every token keeps its row is not known.")
    for one in ordered:
        lost = sorted((number, token) for token, number in token_ids(one.folder).items() if number >= rows)
        if lost and one is kept:
            cut.problems.append(
                f"{one.folder}: {_named(lost)} of its tokenizer, which the merged model keeps, would have no row after "
                f"the cut to {rows:,} rows. Take a base whose vocabulary is the smallest, or remove these tokens."
            )
        elif lost:
            cut.warnings.append(f"{one.folder}: beyond the {rows:,} rows that are kept, {_named(lost)} of it go lost.")
    beyond = [f"{key} {value}" for key, value in _special_ids(ordered[0].config) if value >= rows]
    if beyond:
        where = ordered[0].folder / "config.json"
        cut.problems.append(f"{where}: {', '.join(beyond)} would have no row after the cut to {rows:,} rows.")


def _named(lost: Sequence[tuple[int, str]]) -> str:
    number, token = lost[0]
    return f"{len(lost):,} token{'s' * (len(lost) > 1)} (first: {token[:40]!r}, id {number:,})"


def _special_ids(config: Mapping[str, Any]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for key, value in config.items():
        if key in ("bos_token_id", "eos_token_id", "pad_token_id"):
            found += [(key, one) for one in (value if isinstance(value, list) else [value]) if type(one) is int]
    return found


def token_ids(folder: Path) -> dict[str, int]:
    """Each token of a folder's tokenizer.json and its id; empty where there is none that can be read."""
    path = folder / "tokenizer.json"
    try:
        if path.stat().st_size > MAX_TOKENIZER_BYTES:
            return {}
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    model = value.get("model") if isinstance(value, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    found: dict[str, int] = {}
    if isinstance(vocabulary, dict):
        found = {token: number for token, number in vocabulary.items() if type(number) is int}
    elif isinstance(vocabulary, list):  # a unigram model: pairs of token and score, the place is the id
        found = {str(one[0]): at for at, one in enumerate(vocabulary) if isinstance(one, list) and one}
    added = value.get("added_tokens") if isinstance(value, dict) else None
    for one in added if isinstance(added, list) else []:
        if isinstance(one, dict) and type(one.get("id")) is int:
            found[str(one.get("content"))] = one["id"]
    return found
