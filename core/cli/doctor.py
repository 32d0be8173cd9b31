"""`doctor`: what this machine can do, what is missing, and how to install it.

Asks the system and the package metadata; imports none of the heavy packages it reports on.
"""

import os
import platform
import shutil
import sqlite3
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import typer

from core import __version__
from core.cli.options import JsonOption
from core.cli.output import emit, table
from core.jobs import default_home

NEEDED_FOR = {
    "numpy": "everything",
    "pandas": "the report of a merge",
    "pyarrow": "the report of a merge",
    "scipy": "statistics",
    "numba": "merging",
    "safetensors": "merging",
    "torch": "evaluating, and merging with mergekit",
    "transformers": "evaluating",
    "tokenizers": "evaluating",
    "mergekit": "merge methods other than ties, task_arithmetic and linear",
    "streamlit": "the explorer in the browser",
    "plotly": "the explorer in the browser",
}
INSTALL = "make setup, or: pip install -r requirements.txt -c constraints.txt"


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("doctor", epilog="Example: python -m core doctor --json")(doctor)


def doctor(as_json: JsonOption = False) -> None:
    """Say what this machine can do: cores, memory, disk, GPU, packages, and what is missing."""
    found = examine()
    if as_json:
        emit(found)
        return
    print(f"Mergescope {found['version']} on Python {found['python']}, {found['platform']}\n")
    for name in ("cores", "memory_bytes", "memory_free_bytes", "home", "disk_free_bytes"):
        value = found[name]
        print(
            f"{name.removesuffix('_bytes').replace('_', ' '):12}  {_size(value) if name.endswith('bytes') else value}"
        )
    for gpu in found["gpus"] or [{"name": "none", "memory_bytes": None}]:
        print(f"{'gpu':12}  {gpu['name']}{', ' + _size(gpu['memory_bytes']) if gpu['memory_bytes'] else ''}")
    print()
    rows = [[name, version or "missing", NEEDED_FOR[name]] for name, version in found["packages"].items()]
    print(table(rows, ["package", "version", "needed for"]))
    print()
    for what, able in found["can"].items():
        print(f"{what:12}  {'yes' if able else 'no'}")
    for one in found["missing"]:
        print(f"missing: {one['name']} ({one['why']}). {one['install']}")


def examine() -> dict[str, Any]:
    """Everything `doctor` says, as JSON values. Sizes in bytes."""
    memory, home = psutil.virtual_memory(), default_home()
    packages = {name: _version(name) for name in NEEDED_FOR}
    gpus = graphics_cards()
    cuda = bool(gpus) and packages["torch"] is not None and "+cpu" not in packages["torch"]
    return {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_bytes": memory.total,
        "memory_free_bytes": memory.available,
        "home": str(home),
        "disk_free_bytes": shutil.disk_usage(_existing(home)).free,
        "home_writable": os.access(_existing(home), os.W_OK),
        "sqlite": sqlite3.sqlite_version,
        "gpus": gpus,
        "packages": packages,
        "can": {
            "explore": all(packages[name] for name in ("numpy", "streamlit", "plotly")),
            "merge": all(packages[name] for name in ("numba", "safetensors", "pyarrow")),
            "evaluate": all(packages[name] for name in ("torch", "transformers")),
            "use a gpu": cuda,
        },
        "missing": _missing(packages, gpus, cuda, _existing(home)),
    }


def _missing(packages: dict[str, str | None], gpus: list[Any], cuda: bool, home: Path) -> list[dict[str, str]]:
    missing = [
        {"name": name, "why": f"needed for {NEEDED_FOR[name]}", "install": f"Install with {INSTALL}."}
        for name, version in packages.items()
        if version is None
    ]
    if gpus and packages["torch"] and not cuda:
        how = "Install with pip install torch --index-url https://download.pytorch.org/whl/cu126"
        missing.append({"name": "torch for CUDA", "why": "there is a GPU, but this torch uses the CPU", "install": how})
    if not os.access(home, os.W_OK):
        how = "Set MERGESCOPE_HOME to a folder that can be written."
        missing.append({"name": "a place for runs", "why": f"{home} cannot be written", "install": how})
    return missing


def graphics_cards() -> list[dict[str, Any]]:
    """Name and memory of every NVIDIA GPU that the driver reports; empty where there is no driver."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    cards = [line.rsplit(", ", 1) for line in done.stdout.splitlines() if ", " in line]
    return [{"name": name, "memory_bytes": int(mb) * 2**20 if mb.isdigit() else None} for name, mb in cards]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _existing(path: Path) -> Path:
    """The path, or its nearest parent that exists."""
    return next(one for one in (path, *path.parents) if one.exists())


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
