"""How long a preview takes on checkpoints of the shape of an 8B model, and how often its intervals hold the truth.

Prints seconds and coverages. Run: python -m bench.preview_bench [coverage SEEDS]
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from core.merge import parse_plan
from core.merge.plan import Plan
from core.preview.estimate import estimate_plan
from core.preview.sample import Sample, read_sample
from tests.unit.preview.coverage import coverage
from tests.unit.preview.large import noise, write_large
from tests.unit.preview.pool import Truth, config, plan_of, write_bank

MEMBERS, ROUNDS = 11, 7
ROOT = Path(__file__).resolve().parents[1]


def fill(sample: Sample, plan: Plan) -> None:
    """Write weights where the sample reads, so that there is something to elect; the rest stays a hole."""
    from core.merge.pairing import pair

    rng = np.random.default_rng(0)
    jobs = {job.name: job for job in pair(plan).jobs}
    handles: dict[Path, int] = {}
    for at, tensor in enumerate(sample.design.tensor.tolist()):
        base = (rng.normal(0, 0.02, int(sample.design.sizes[at])).astype(np.float32).view(np.uint32) >> 16).astype(
            np.uint16
        )
        for row, info in enumerate(jobs[sample.names[tensor]].inputs):
            handle = handles.setdefault(info.file, -1)
            if handle < 0:
                handle = handles[info.file] = os.open(info.file, os.O_WRONLY)
            bits = base if row == 0 else noise(base, rng)
            os.pwrite(handle, bits.tobytes(), info.offset + 2 * int(sample.design.numbers[at]) * sample.design.block)
    for handle in handles.values():
        os.close(handle)


def timed(plans: list[Plan], sample: Sample) -> float:
    """Median seconds of an estimate when the knobs move between the plans."""
    seconds = []
    for one in plans * ROUNDS:
        started = time.perf_counter()
        estimate_plan(sample, one)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[2:])


def run() -> dict[str, float]:
    """Time reading, estimating and the command on an 8B-shaped base and 11 members; prints and returns seconds."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        base, members = write_large(root, MEMBERS)

        def plan(density: float, scale: float) -> Plan:
            text = config(base, members, [1 / MEMBERS] * MEMBERS, density, extra=f"parameters: {{lambda: {scale}}}\n")
            return parse_plan(text, root)

        fill(read_sample(plan(1, 1)), plan(1, 1))
        estimate_plan(read_sample(plan(0.2, 1)), plan(0.2, 1))
        found, whole = {}, []
        for density in (1.0, 0.2):
            started = time.perf_counter()
            sample = read_sample(plan(density, 1))
            read = time.perf_counter() - started
            estimate_plan(sample, plan(density, 1))
            whole.append(time.perf_counter() - started)
            found[f"read {density}"], found[f"first {density}"] = read, whole[-1]
            found[f"moved {density}"] = timed([plan(density, 0.7), plan(density, 0.9)], sample)
        found["density moved"] = timed([plan(0.2, 1), plan(0.3, 1)], sample)
        path = root / "config.yml"
        path.write_text(plan(0.2, 1).yaml_text)
        started = time.perf_counter()
        command = [sys.executable, "-m", "core", "preview", str(path), "--json"]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        found["command"] = time.perf_counter() - started
    print(f"8B-shaped, {MEMBERS} members, {sample.bytes_read / 1e6:.0f} MB in {sample.design.numbers.size:,} blocks")
    print("  " + ", ".join(f"{name}: {1000 * one:.0f} ms" for name, one in found.items()))
    print("  to beat: 2 s from files to figures; 100 ms when a knob moves")
    return found


def study(seeds: int) -> None:
    """Coverage of every figure over seeds, for more kinds of models than the tests have time for."""
    cases: tuple[tuple[str, dict[str, Any], float, str, float, int, float], ...] = (
        ("bf16", {}, 1.0, "ties", 0.6, 64, 0.33), ("bf16, half kept", {"sparse": 1.4}, 0.5, "ties", 0.6, 64, 0.33),
        ("bf16, a fifth kept", {"sparse": 1.4}, 0.2, "ties", 0.6, 64, 0.33),
        ("bf16, few blocks", {"sparse": 1.4}, 0.2, "ties", 0.6, 64, 0.1),
        ("fp32, half kept", {"fp32": True}, 0.5, "ties", 1.0, 64, 0.33),
        ("fp32, a fifth kept, few blocks", {"fp32": True}, 0.2, "ties", 1.0, 128, 0.2),
        ("bf16, task arithmetic", {}, 1.0, "task_arithmetic", 0.4, 64, 0.2),
        ("bf16, rare changes", {"sparse": 0.01}, 1.0, "ties", 0.6, 128, 0.33),
    )  # fmt: skip
    for label, kind, density, method, scale, block, share in cases:
        with tempfile.TemporaryDirectory() as name:
            base, members = write_bank(Path(name), 4, **kind)
            extra = f"parameters: {{lambda: {scale}}}\n"
            plan = plan_of(base, members, [0.4, 0.3, 0.2, 0.1], density, method=method, extra=extra)
            truth = Truth(base, members, plan)
            size = sum(int(one["elements"]) for one in truth.sums.values()) * 5 * (4 if kind.get("fp32") else 2)
            found = coverage(plan, truth, range(seeds), budget=int(share * size), block=block)
        print(f"{label}: {100 * share:.0f} % read")
        for figure in dict.fromkeys(key[1] for key in found):
            total = found["total", figure]
            rest = np.array([one for key, one in found.items() if key[1] == figure and key[0] != "total"])
            lows = f"least {total.min():.3f}", f"least {rest.min():.3f}"
            print(f"  {figure:15} total {total.mean():.3f} ({lows[0]})  tensors {rest.mean():.3f} ({lows[1]})")


if __name__ == "__main__":
    if sys.argv[1:2] == ["coverage"]:
        study(int(sys.argv[2]) if len(sys.argv) > 2 else 400)
    else:
        run()
