"""Step numbers in names, and which checkpoint a name in a score file means.

Takes names; gives a mapping as data, each entry with its reason, for people to correct. Reads no files.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from core.bank.readers.common import listed
from core.errors import BankError

WORDS = r"global[_-]?steps?|checkpoints?|ckpt|steps?|iterations?|iter|it|updates?"
AFTER_WORD = re.compile(rf"(?<![a-z])(?:{WORDS})[_=-]?0*(\d{{1,12}})(?![\d.km])", re.IGNORECASE)
BEFORE_WORD = re.compile(
    r"(?<![\d.])0*(\d{1,12})[_-]?(?:global[_-]?)?(?:steps?|iters?|iterations?)(?![a-z])", re.IGNORECASE
)
BARE = re.compile(r"0*(\d{1,12})")
SCORE_ENDING = re.compile(r"\.(?:jsonl?|csv|tsv|parquet|eval)$", re.IGNORECASE)
LEFT_OUT, SCORES_ONLY = "", "+"
"""In a mapping: scores that are not used, and scores of a checkpoint without weights."""
How = Literal["name", "sub-folder", "step", "given", "unmatched", "ambiguous"]


def step_of(name: str) -> int | None:
    """The training step that a file or folder name says, or None.

    Understands `checkpoint-200`, `global_step_200`, `global_step200_hf`, `step-200`, `iter_0000200`, `200-steps` and a
    bare `200`. Of a path, the part nearest to its end that says a step counts; `__` parts a path, as lm-evaluation-
    harness writes it.
    """
    for part in reversed(_parts(name)):
        found = AFTER_WORD.findall(part) or BEFORE_WORD.findall(part)
        if found:
            return int(found[-1])
        if bare := BARE.fullmatch(part):
            return int(bare[1])
    return None


def _parts(name: str) -> list[str]:
    return [one for one in re.split(r"[/\\]|__", SCORE_ENDING.sub("", name)) if one]


class Target(NamedTuple):
    """A checkpoint that scores may be matched to."""

    id: str
    step: int | None = None
    folder: str = ""
    """Its path below the folder that was searched; the id where there is none."""


@dataclass(frozen=True)
class Match:
    """What one name in the score files was taken for."""

    scores: str
    checkpoint: str | None
    """Id of the checkpoint; None where it must be said by hand."""
    how: How
    reason: str
    """In words, for the screen."""


def match_scores(names: Sequence[str], targets: Sequence[Target]) -> list[Match]:
    """What each name most likely means: by equal name, then by sub-folder, then by step number.

    A name that fits several checkpoints at one of these levels is ambiguous and left to people. Several names may mean
    one checkpoint, where they say so by name or folder (repeated evaluations); by step number alone, only where one
    name has that step.
    """
    steps = [step_of(one) for one in names]
    alone = {step for step in steps if step is not None and steps.count(step) == 1}
    return [_match(name, step, targets, alone) for name, step in zip(names, steps, strict=True)]


def _match(name: str, step: int | None, targets: Sequence[Target], alone: set[int]) -> Match:
    levels: tuple[tuple[How, list[Target], str], ...] = (
        ("name", [one for one in targets if name in (one.id, one.folder)], "has this name"),
        ("sub-folder", _deepest(name, targets), "is named in its path"),
        ("step", [one for one in targets if step is not None and one.step == step], f"is step {step} too"),
    )
    for how, found, reason in levels:
        if len(found) > 1:
            ids = listed([one.id for one in found])
            return Match(name, None, "ambiguous", f"fits {len(found)} checkpoints alike: {ids}")
        if found and how == "step" and step not in alone:
            return Match(name, None, "ambiguous", f"{found[0].id} {reason}, and so are other scores")
        if found:
            return Match(name, found[0].id, how, f"{found[0].id} {reason}")
    if not targets:
        return Match(name, None, "unmatched", "no weights were found")
    said = f"no checkpoint is step {step}" if step is not None else "says no step, and no checkpoint has this name"
    return Match(name, None, "unmatched", said)


def _deepest(name: str, targets: Sequence[Target]) -> list[Target]:
    """Checkpoints whose folder's last part is a part of the name, those with the most parts in common."""
    parts = _parts(name)
    common = {
        one: sum(part in parts for part in (_parts(one.folder) or [one.id]))
        for one in targets
        if (_parts(one.folder) or [one.id])[-1] in parts or one.id in parts
    }
    most = max(common.values(), default=0)
    return [one for one, count in common.items() if count == most]


def as_mapping(matches: Iterable[Match]) -> dict[str, str]:
    """The matches as data: name in the score files to checkpoint id, `""` where it is left out."""
    return {one.scores: one.checkpoint or LEFT_OUT for one in matches}


def edited(mapping: Mapping[str, str], changes: Iterable[str], targets: Sequence[Target]) -> dict[str, str]:
    """The mapping with changes such as `checkpoint-200=run_a` made: checkpoint, then the name in the score files.

    `=NAME` leaves scores out; `+=NAME` keeps them as a checkpoint without weights. Raises BankError for what is not of
    this form, an unknown checkpoint and an unknown name.
    """
    changed, ids = dict(mapping), [one.id for one in targets]
    for one in changes:
        checkpoint, sign, name = one.partition("=")
        if not sign:
            raise BankError(f"'{one}': expected CHECKPOINT=NAME, with NAME as the score files have it.")
        if name not in mapping:
            raise BankError(
                f"'{one}': no scores are named '{name}'. The score files have: {listed(list(mapping), 12)}."
            )
        if checkpoint not in (LEFT_OUT, SCORES_ONLY, *ids):
            raise BankError(f"'{one}': no checkpoint '{checkpoint}' was found. There are: {listed(ids, 12) or 'none'}.")
        changed[name] = checkpoint
    return changed
