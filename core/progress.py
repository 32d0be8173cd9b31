"""How long work tells others how far it is, and how it learns that it should stop.

A long function takes `progress: Progress = no_progress`, calls it often, and lets whatever it
raises (`Cancelled`) pass through after cleaning up. It knows nothing about jobs or screens.
"""

from typing import Protocol


class Progress(Protocol):
    """Called as `progress(stage, done, total, unit)`; may raise `Cancelled`."""

    def __call__(self, stage: str, done: float, total: float, unit: str) -> None: ...


def no_progress(stage: str, done: float, total: float, unit: str) -> None:
    """Ignore progress: the default of every function that reports it."""
