"""Runs commands in this process, quickly, with what they print and their exit code."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from core.cli.app import run
from tests.unit.jobs.tiny_bank import make_bank


class Said(NamedTuple):
    """What one command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Everything on stdout, which must be one JSON object."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


Shell = Callable[..., Said]


@pytest.fixture
def shell(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """`shell("select", BANK, "--json")`, in a working directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MERGESCOPE_HOME", str(tmp_path / "home"))

    def call(*words: object) -> Said:
        capfd.readouterr()
        code = run([str(word) for word in words])
        return Said(code, *capfd.readouterr())

    return call


@pytest.fixture(scope="session")
def tiny_bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank with weights; tests must not change it."""
    return make_bank(tmp_path_factory.mktemp("bank") / "tiny")
