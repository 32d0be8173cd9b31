"""Telling processes apart, and ending one: a pid alone is not enough, since pids are used again.

Takes and gives `Worker` identities (pid, start, machine). Knows nothing about jobs.
"""

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import psutil

from core.jobs.model import Worker


def machine() -> str:
    """Names the boot and process namespace in which a pid has its meaning."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"{socket.gethostname()}:{psutil.boot_time():.0f}"


def start_of(pid: int) -> str | None:
    """When the process began, as a token that stays the same while it lives; None when there is none.

    On Linux these are the kernel's ticks since boot, which setting the clock does not move. A zombie
    has ended, so it counts as none.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _start_without_proc(pid)
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields[19]


def _start_without_proc(pid: int) -> str | None:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return f"{process.create_time():.2f}"
    except psutil.Error:
        return None


def identify(pid: int) -> Worker | None:
    """The identity of a process of this machine; None when it has ended."""
    started = start_of(pid)
    return Worker(pid, started, machine()) if started is not None else None


def is_here(worker: Worker) -> bool:
    """True when the worker's pid has its meaning on this machine, since its last boot."""
    return worker.machine == machine()


def is_alive(worker: Worker) -> bool:
    """True while exactly that process runs here; False for a later process with its pid."""
    return is_here(worker) and start_of(worker.pid) == worker.started


def wait_for_end(worker: Worker, seconds: float) -> bool:
    """Wait until the process has ended, at most `seconds`; gives whether it has."""
    end = time.monotonic() + seconds
    while is_alive(worker):
        if time.monotonic() >= end:
            return False
        time.sleep(0.05)
    return True


def send(worker: Worker, number: signal.Signals, *, group: bool = False) -> None:
    """Signal exactly that process, or with `group` its whole group where it leads one."""
    if not is_alive(worker) or worker.pid == os.getpid():
        return
    with suppress(ProcessLookupError, PermissionError):
        if group and os.getpgid(worker.pid) == worker.pid:
            os.killpg(worker.pid, number)
        else:
            os.kill(worker.pid, number)
