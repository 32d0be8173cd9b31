"""Looks for a parameter that shows something: a contested one, one lost to bf16, one a member of little weight decided.

Takes a plan whose models lie on this machine; looks at random blocks of random tensors, for a bounded time. Gives a
place to X-ray, or says that none was found among how many. Writes nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.errors import InputError
from core.merge.plan import Plan
from core.preview.steps import Steps, bf16, sign_without
from core.preview.xray import Reader, open_reader

Kind = Literal["contested", "lost", "weak", "trimmed", "solo"]
KINDS: dict[Kind, str] = {
    "contested": "its members pull in opposite directions",
    "lost": "the merge changes it and bf16 rounds it back to the base",
    "weak": "a member of little weight decides it",
    "trimmed": "the trim drops a member's change",
    "solo": "one member alone changes it",
}
"""What can be asked for, and what that means."""
BLOCK = 65_536
SECONDS = 4.0
MOST_TENSORS = 64
WHOLE_LIMIT = 300_000_000
"""Parameters up to which a dialect that trims whole models is looked at for an example."""


@dataclass(frozen=True)
class Found:
    """The answer to one request."""

    kind: Kind
    tensor: str | None
    """None where none was found."""
    index: int
    looked: int
    """Parameters looked at until then."""
    said: str
    """One sentence."""


def find_example(plan: Plan, kind: str, seed: int = 0, *, seconds: float = SECONDS) -> Found:
    """A random parameter of a kind in KINDS; the same seed finds the same one.

    No new tensor is begun after `seconds`. Raises InputError for an unknown kind, and for whole-model dialects
    of models over 300 million parameters; else as `xray`.
    """
    if kind not in KINDS:
        raise InputError(f"expected one of {', '.join(KINDS)}; found {kind!r}.")
    wanted: Kind = kind
    if wanted == "weak" and not _light(plan):
        return Found(wanted, None, 0, 0, "No member has little weight: each has more than half of the largest.")
    with open_reader(plan) as reader:
        if reader.whole_models and sum(one.elements for one in reader.jobs) > WHOLE_LIMIT:
            raise InputError(
                f"the {plan.dialect} dialect trims whole models, which takes too long here for so large ones. "
                "Name a tensor and an index, or look with the mergekit dialect."
            )
        return _search(reader, wanted, np.random.default_rng(seed), time.monotonic() + seconds)


def _search(reader: Reader, kind: Kind, rng: np.random.Generator, until: float) -> Found:
    looked = 0
    tensors = rng.permutation(len(reader.jobs))[:MOST_TENSORS].tolist()
    for number in tensors:
        job = reader.jobs[number]
        if looked and time.monotonic() > until:
            break
        n = min(BLOCK, job.elements)
        start = int(rng.integers(job.elements - n + 1))
        hits = np.flatnonzero(_mask(kind, reader)(reader.steps(job, start, n)))
        looked += n
        if hits.size:
            index = start + int(rng.choice(hits))
            return Found(kind, job.name, index, looked, f"Found where {KINDS[kind]}, among {looked:,} looked at.")
    return Found(kind, None, 0, looked, f"None found where {KINDS[kind]}, among {looked:,} parameters looked at.")


def _light(plan: Plan) -> list[int]:
    """Members with at most half of the largest |weight|; none where weights count for nothing."""
    if plan.method == "ties" and plan.dialect != "mergekit":
        return []
    sizes = np.abs([one.weight for one in plan.members])
    return [int(one) for one in np.flatnonzero((sizes <= sizes.max() / 2) & (sizes > 0))]


def _mask(kind: Kind, reader: Reader) -> Callable[[Steps], np.ndarray]:
    """Which elements of some steps are of a kind: bool (n,)."""
    return {
        "contested": lambda s: (s.weighted > 0).any(0) & (s.weighted < 0).any(0),
        "lost": lambda s: (s.merged != s.base) & (bf16(s.merged) == bf16(s.base)),
        "trimmed": lambda s: ((s.delta != 0) & ~s.kept).any(0),
        "solo": lambda s: (s.weighted != 0).sum(0) == 1,
        "weak": lambda s: _decided_by_light(s, reader),
    }[kind]


def _decided_by_light(steps: Steps, reader: Reader) -> np.ndarray:
    """Where a member of little weight is alone, or where another sign would be elected without it."""
    alone = (steps.weighted != 0).sum(0) == 1
    found = np.zeros(steps.base.size, bool)
    for member in _light(reader.plan):
        voted = steps.weighted[member] != 0
        found |= voted & alone
        if reader.plan.method == "ties":
            found |= voted & (sign_without(steps, member, bool(reader.rule.zero_plus)) != steps.sign)
    return found
