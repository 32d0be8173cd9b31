"""How far a job is and how long it still takes, from the expected seconds of its phases and a clock.

Takes times as arguments and gives numbers: pure, so that its figures can be checked by hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

FIRST_SECONDS = 1.5
"""No estimate of a phase from its own rate before it has run this long."""
FIRST_SHARE = 0.02


@dataclass(frozen=True)
class Phase:
    """One part of a job, such as one merge or the evaluation of one model."""

    name: str
    seconds: float
    """Expected, above 0; corrected by what phases of its group really took."""
    group: str
    """Phases of one group are expected to be wrong by one common factor."""
    main_stage: str | None = None
    """How the stage begins whose progress is the phase's progress; None counts every stage."""


@dataclass
class Timeline:
    """Follows a job through its phases; `enter` and `advance` are told the time in seconds."""

    phases: Sequence[Phase]
    _at: int = -1
    _entered: float = 0.0
    _moving_since: float | None = None
    _share: float = 0.0
    _now: float = 0.0
    _took: dict[int, float] = field(default_factory=dict)

    def enter(self, name: str, now: float) -> Phase:
        """Begin the phase of that name; the one before has ended. Raises KeyError for an unknown name."""
        if self._at >= 0:
            self._took[self._at] = now - self._entered
        names = [one.name for one in self.phases]
        if name not in names:
            raise KeyError(name)
        self._at = names.index(name)
        self._entered, self._moving_since, self._share, self._now = now, None, 0.0, now
        return self.phases[self._at]

    def advance(self, share: float, now: float) -> None:
        """The present phase is done to `share` in [0, 1]; going back is ignored."""
        if self._moving_since is None:
            self._moving_since = now
        self._share = max(self._share, min(max(share, 0.0), 1.0))
        self._now = now

    @property
    def fraction(self) -> float:
        """Share of the whole job that is done, in [0, 1], by expected seconds."""
        whole = sum(one.seconds for one in self.phases)
        if self._at < 0 or whole <= 0:
            return 0.0
        before = sum(one.seconds for one in self.phases[: self._at])
        return min((before + self._share * self.phases[self._at].seconds) / whole, 1.0)

    def eta(self) -> float | None:
        """Seconds left, or None while no phase has shown its rate yet.

        This phase by its own rate once it has one; what is left of the others is their expected seconds,
        times what phases of their group took in relation to what was expected of them.
        """
        if self._at < 0 or self._factor(None) is None:
            return None
        later = self.phases[self._at + 1 :]
        return self._left_in_phase() + sum(one.seconds * (self._factor(one.group) or 1.0) for one in later)

    def _left_in_phase(self) -> float:
        if self._share >= 1.0:
            return 0.0
        if self._has_rate:
            return self._ran * (1 - self._share) / self._share
        phase = self.phases[self._at]
        return max(phase.seconds * (self._factor(phase.group) or 1.0) - (self._now - self._entered), 0.0)

    @property
    def _has_rate(self) -> bool:
        return self._ran >= FIRST_SECONDS and self._share >= FIRST_SHARE

    @property
    def _ran(self) -> float:
        """Seconds since the present phase first moved: loading before that does not count in its rate."""
        return 0.0 if self._moving_since is None else self._now - self._moving_since

    def _factor(self, group: str | None) -> float | None:
        """Measured over expected seconds, of the phases of a group or of all; None before any."""
        measured = [(self.phases[at].seconds, took) for at, took in self._took.items() if self._of(at, group)]
        if self._of(self._at, group) and self._has_rate:
            measured.append((self.phases[self._at].seconds * self._share, self._now - self._entered))
        expected = sum(seconds for seconds, _ in measured)
        return sum(took for _, took in measured) / expected if expected > 0 else None

    def _of(self, at: int, group: str | None) -> bool:
        return group is None or self.phases[at].group == group
