"""The memory budget: kept by a whole process, and refused where nothing could be merged within it.

Run: .venv/bin/python -m pytest tests/unit/merge/test_memory.py
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.errors import InputError
from core.merge import parse_plan, preflight, run_merge
from tests.unit.merge.models import ties_config, write_model

MB = 1_000_000


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A base and five fp32 members of 12 million parameters: 290 MB to read."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    start = rng.standard_normal((3000, 4000), np.float32)
    base = write_model(folder / "base", {"w.weight": start}, {})
    members = [write_model(folder / f"m{at}", {"w.weight": start + rng.standard_normal((3000, 4000), np.float32)}, {})
               for at in range(5)]  # fmt: skip
    return base, members


def test_a_merge_stays_within_its_budget_and_its_bytes_do_not_depend_on_it(
    pool: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    config = tmp_path / "c.yml"
    config.write_text(ties_config(*pool, density=0.3))
    hashes = set()
    for budget in ("400MB", "2GB"):
        out = tmp_path / budget
        command = [sys.executable, "-m", "core", "merge", str(config), str(out), "--memory", budget, "--json"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, env=os.environ | {"PYTHONPATH": "."}
        )
        assert done.returncode == 0, done.stderr
        if budget == "400MB":
            assert json.loads(done.stdout)["peak_rss_bytes"] <= 400 * MB
        made = json.loads((out / "provenance.json").read_text())
        hashes.add(tuple(one["sha256"] for one in made["outputs"] if one["file"] != "README.md"))
    assert len(hashes) == 1


def test_too_small_a_budget_is_refused_before_anything_is_written(
    pool: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    plan = parse_plan(ties_config(*pool), tmp_path)
    with pytest.raises(InputError, match=r"--memory: 50,000,000 bytes are too few to merge 5 members: at least \d"):
        run_merge(plan, tmp_path / "out", memory=50 * MB)
    assert not (tmp_path / "out").exists()
    assert any("at least" in one for one in preflight(plan, tmp_path / "out", memory=50 * MB).problems)
