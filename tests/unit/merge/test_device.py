"""Where a merge computes: naming a device, merging in torch, and going on with the CPU when a device is lost.

Run: .venv/bin/python -m pytest tests/unit/merge/test_device.py
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from core.errors import InputError
from core.merge import parse_plan, run_merge
from core.merge.on_torch import DeviceLost, available, describe, resolve
from core.merge.on_torch.kernels import TorchKernels
from tests.unit.merge.models import ties_config, write_pool
from tests.unit.merge.test_crash import contents


def test_devices_are_named_or_refused_with_a_sentence() -> None:
    assert resolve("cpu") == "cpu" == describe("cpu")
    assert resolve("auto") == (available() or "cpu")
    for wanted in ("gpu", "cuda:", "cuda:x", "cpu:0", "cuda:-1", ""):
        with pytest.raises(InputError, match="must be auto, cpu, cuda or cuda:N"):
            resolve(wanted)
    with pytest.raises(InputError, match=r"device cuda:99 .*--device cpu: the merged bytes are the same"):
        resolve("cuda:99")


def test_merging_on_the_cpu_never_loads_torch() -> None:
    code = "import sys; import core.merge, core.merge.on_torch, core.merge.engine; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


class Faulty:
    """torch's block operations, lost at the n-th call of one of them."""

    def __init__(self, name: str, calls: int) -> None:
        self._inner, self._name, self._left = TorchKernels("cpu"), name, calls

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            self._left -= 1
            if self._left < 0:
                raise DeviceLost("cuda:0 has stopped working.")
        return getattr(self._inner, name)


@pytest.mark.parametrize(("name", "calls"), [("merge_block", 3), ("count_window", 0), ("sample_magnitudes", 2)])
def test_a_lost_device_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, calls: int) -> None:
    base, members = write_pool(tmp_path / "models", 3)
    plan = parse_plan(ties_config(base, members, density=0.4), tmp_path)
    run_merge(plan, tmp_path / "cpu" / "out")
    monkeypatch.setattr("core.merge.device.resolve", lambda wanted: "cuda:0")
    monkeypatch.setattr("core.merge.device.load_kernels", lambda device: Faulty(name, calls))
    result = run_merge(plan, tmp_path / "gpu" / "out", device="cuda")
    assert result.device == "cpu"
    assert any("goes on with the CPU; its bytes are the same" in one for one in result.warnings)
    mine, other = contents(tmp_path / "gpu" / "out"), contents(tmp_path / "cpu" / "out")
    assert {name for name in mine if mine[name] != other[name]} <= {"README.md", "provenance.json"}


def test_a_whole_merge_in_torch_gives_the_bytes_and_figures_of_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, members = write_pool(tmp_path / "models", 3)
    plan = parse_plan(ties_config(base, members, density=0.4), tmp_path)
    run_merge(plan, tmp_path / "cpu" / "out")
    monkeypatch.setattr("core.merge.device.resolve", lambda wanted: "cuda:0")
    monkeypatch.setattr("core.merge.device.load_kernels", lambda device: TorchKernels("cpu"))
    result = run_merge(plan, tmp_path / "gpu" / "out", device="cuda")
    assert result.device == "cuda:0" and not result.warnings
    mine, other = contents(tmp_path / "gpu" / "out"), contents(tmp_path / "cpu" / "out")
    assert {name for name in mine if mine[name] != other[name]} == {"provenance.json"}
    assert json.loads(mine["provenance.json"])["device"] == "cuda:0"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch can use")
def test_a_whole_merge_on_a_gpu_gives_the_bytes_and_figures_of_the_cpu(tmp_path: Path) -> None:
    base, members = write_pool(tmp_path / "models", 3)
    plan = parse_plan(ties_config(base, members, density=0.4), tmp_path)
    run_merge(plan, tmp_path / "cpu" / "out")
    assert run_merge(plan, tmp_path / "gpu" / "out", device="cuda").device == "cuda:0"
    mine, other = contents(tmp_path / "gpu" / "out"), contents(tmp_path / "cpu" / "out")
    assert {name for name in mine if mine[name] != other[name]} == {"provenance.json"}
