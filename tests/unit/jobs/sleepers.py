"""Kinds of job that the tests' workers find through MERGESCOPE_KINDS: they only wait, count or break."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from core.errors import InputError, RunError
from core.jobs.kinds import Kind
from core.jobs.timeline import Phase
from core.jobs.work import Work


class Sleep(Kind):
    """Count to `steps`, `pause` seconds each, on `device`; leaves a file that is only complete at the end."""

    name = "sleep"

    def check(self, spec: dict[str, Any]) -> dict[str, Any]:
        if spec.get("steps", 1) < 0:
            raise InputError("steps must be at least 0.")
        return spec

    def device(self, spec: dict[str, Any]) -> str:
        return str(spec.get("device", "cpu"))

    def run(self, spec: dict[str, Any], folder: Path, device: str, work: Work) -> dict[str, Any]:
        work.plan([Phase("count", 1.0, "count")])
        progress = work.phase("count")
        half = folder / ".numbers.txt.x.tmp"
        half.write_text("")
        began = time.time()
        for step in range(spec["steps"]):
            progress("counting", step, spec["steps"], "numbers")
            time.sleep(spec.get("pause", 0.05))
        half.rename(folder / "numbers.txt")
        return {"steps": spec["steps"], "began": began, "ended": time.time(), "home": os.environ["MERGESCOPE_HOME"]}


class Break(Kind):
    """Fail in the way that `how` says."""

    name = "break"

    def check(self, spec: dict[str, Any]) -> dict[str, Any]:
        return spec

    def run(self, spec: dict[str, Any], folder: Path, device: str, work: Work) -> dict[str, Any]:
        (folder / ".half.x.tmp").write_text("half")
        if spec["how"] == "message":
            raise RunError("the disk is made of cheese. Use another.")
        if spec["how"] == "full":
            raise OSError(28, "No space left on device", "/data/out")
        if spec["how"] == "json":
            return {"path": folder}
        raise ZeroDivisionError("one over nothing")


class Deaf(Kind):
    """Never looks at its progress, and ignores SIGTERM when `deaf`; starts a child of its own."""

    name = "deaf"

    def check(self, spec: dict[str, Any]) -> dict[str, Any]:
        return spec

    def run(self, spec: dict[str, Any], folder: Path, device: str, work: Work) -> dict[str, Any]:
        if spec.get("deaf"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        (folder / ".half.x.tmp").write_text("half")
        (folder / "child.pid").write_text(str(child.pid))
        time.sleep(60)
        return {}


KINDS = [Sleep(), Break(), Deaf()]
