"""Merges that are killed with SIGKILL, meet a full disk or one another, and are gone on with to the same bytes.

Run: .venv/bin/python -m pytest tests/unit/merge/test_crash.py
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.errors import Cancelled, InputError
from core.merge import parse_plan, run_merge
from core.merge.journal import JOURNAL_FILE
from core.merge.writer import ShardWriter
from tests.unit.merge.models import ties_config, write_pool

MOMENTS, KILLS = 100, 24


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


CHILD = """
import os, signal, sys, time
from pathlib import Path
import core.merge.writer
from core.merge import read_plan, run_merge

core.merge.writer.SYNC_BYTES = 512
plan = read_plan(Path(sys.argv[1]))
place, moments = Path(sys.argv[2]), [float(one) for one in sys.argv[3:]]
run_merge(plan, place / "reference" / "out", shard_size=9000)  # nothing is left to compile

def slowly(stage, done, total, unit):
    time.sleep(0.002)

began = time.perf_counter()
run_merge(plan, place / "timed" / "out", shard_size=9000, progress=slowly)
took = time.perf_counter() - began
kills = 0
for number, moment in enumerate(moments):
    if kills == int(os.environ["KILLS"]):
        break
    out = place / str(number) / "out"
    child = os.fork()
    if child == 0:
        run_merge(plan, out, shard_size=9000, progress=slowly)
        os._exit(0)
    time.sleep(moment * took)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status)
    kills += killed
    there = out.exists()
    result = None if there else run_merge(plan, out, shard_size=9000)
    print(number, int(killed), int(there), result.resumed if result else -1, flush=True)
"""


def test_a_merge_that_is_killed_at_any_moment_ends_in_the_same_bytes(tmp_path: Path) -> None:
    base, members = write_pool(tmp_path / "models", 3)
    config = tmp_path / "c.yml"
    config.write_text(ties_config(base, members))
    place = tmp_path / "place"
    chance = random.Random(3)
    moments = [chance.random() for _ in range(MOMENTS)]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(config), str(place), *map(str, moments)],
        capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"PYTHONPATH": ".", "KILLS": str(KILLS)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [[int(one) for one in line.split()] for line in done.stdout.splitlines()]
    assert sum(killed for _, killed, _, _ in rows) == KILLS
    assert any(resumed > 0 for *_, resumed in rows), "no kill came between two tensors"
    expected = contents(place / "reference" / "out")
    assert len([name for name in expected if name.endswith(".safetensors")]) > 1
    for number, _, there, _ in rows:
        # One that is killed after the last rename leaves its empty lock, which the kernel has freed.
        left = {".out.lock"} if there else set()
        assert {path.name for path in (place / str(number)).iterdir()} - left == {"out"}
        assert contents(place / str(number) / "out") == expected


def stopped_at(plan, out: Path, share: float, shard_size: float = 9000) -> None:
    """Merge until a share of the parameters is done, as a process that is killed then: the journal stays."""

    writers: list[ShardWriter] = []

    def stop(stage: str, done: float, total: float, unit: str) -> None:
        if stage == "merging" and done >= share * total:
            for one in (sync for writer in writers for sync in list(writer._syncs)):
                one.result()  # the syncs that were begun end
            os._exit(9)

    child = os.fork()
    if child == 0:
        begun = ShardWriter._sync
        ShardWriter._sync = lambda self: (writers.append(self), begun(self))[1]  # type: ignore[method-assign]
        run_merge(plan, out, progress=stop, shard_size=shard_size)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.fixture
def small_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.merge.writer.SYNC_BYTES", 512)


@pytest.fixture
def plan(tmp_path: Path):
    base, members = write_pool(tmp_path / "models", 2)
    plan = parse_plan(ties_config(base, members), tmp_path)
    run_merge(plan, tmp_path / "reference" / "out", shard_size=9000)
    return plan


@pytest.mark.usefixtures("small_syncs")
@pytest.mark.parametrize("damage", ["none", "torn line", "flipped bit", "other plan", "shorter shard", "no journal"])
def test_what_a_killed_merge_left_is_used_only_as_far_as_it_can_be_trusted(tmp_path: Path, plan, damage: str) -> None:
    out = tmp_path / "place" / "out"
    stopped_at(plan, out, 0.9)
    work = out.parent / ".out.partial"
    journal = work / JOURNAL_FILE
    whole = journal.read_bytes()
    assert whole.count(b"\n") > 3
    if damage == "torn line":
        journal.write_bytes(whole[:-20])
    elif damage == "flipped bit":
        lines = whole.splitlines(keepends=True)
        lines[2] = lines[2].replace(b'"name"', b'"nome"')
        journal.write_bytes(b"".join(lines))
    elif damage == "other plan":
        journal.write_bytes(whole.replace(b'"identity":"', b'"identity":"0'))
    elif damage == "shorter shard":
        first = sorted(work.glob("*.safetensors"))[0]
        os.truncate(first, first.stat().st_size // 2)
    elif damage == "no journal":
        journal.unlink()
    found = run_merge(plan, out, shard_size=9000)
    expected = {"none": whole.count(b"\n") - 1, "torn line": whole.count(b"\n") - 2, "flipped bit": 1}
    assert found.resumed == expected.get(damage, found.resumed)
    assert found.resumed > 0 or damage in ("other plan", "shorter shard", "no journal")
    assert contents(out) == contents(tmp_path / "reference" / "out")


@pytest.mark.usefixtures("small_syncs")
def test_a_changed_input_or_plan_starts_anew(tmp_path: Path, plan) -> None:
    out = tmp_path / "place" / "out"
    stopped_at(plan, out, 0.9)
    member = plan.members[0].path / "model.safetensors"
    os.utime(member, ns=(0, member.stat().st_mtime_ns + 1))
    assert run_merge(plan, out, shard_size=9000).resumed == 0


@pytest.mark.usefixtures("small_syncs")
def test_restart_begins_anew_and_cancelling_a_resumed_merge_leaves_nothing(tmp_path: Path, plan) -> None:
    out = tmp_path / "place" / "out"
    stopped_at(plan, out, 0.9)
    assert run_merge(plan, out, shard_size=9000, restart=True).resumed == 0
    second = tmp_path / "place" / "second"
    stopped_at(plan, second, 0.5)

    def stop(stage: str, done: float, total: float, unit: str) -> None:
        if stage == "merging":
            raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        run_merge(plan, second, progress=stop, shard_size=9000)
    assert sorted(path.name for path in (tmp_path / "place").iterdir()) == ["out"]


def test_a_second_merge_to_the_same_place_is_refused_while_the_first_runs(tmp_path: Path, plan) -> None:
    out, refused = tmp_path / "place" / "out", []

    def meet(stage: str, done: float, total: float, unit: str) -> None:
        if stage == "merging" and not refused:
            with pytest.raises(InputError, match="another process is writing a model there") as caught:
                run_merge(plan, out, shard_size=9000)
            refused.append(caught)

    run_merge(plan, out, progress=meet, shard_size=9000)
    assert refused
    assert contents(out) == contents(tmp_path / "reference" / "out")


def test_a_death_between_the_two_renames_of_an_overwrite_loses_nothing(tmp_path: Path, plan) -> None:
    out = tmp_path / "place" / "out"
    run_merge(plan, out, shard_size=9000)
    before = contents(out)
    out.rename(out.parent / ".out.old")
    with pytest.raises(InputError, match="exists and is not empty"):
        run_merge(plan, out, shard_size=9000)
    assert contents(out) == before
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_hashes_are_remembered_until_a_file_changes(tmp_path: Path, plan) -> None:
    member = plan.members[0].path / "model.safetensors"
    for path in (plan.base, *(one.path for one in plan.members)):
        os.utime(path / "model.safetensors", (1, 1))
    first = json.loads((run_to(plan, tmp_path / "a") / "provenance.json").read_text())
    data = np.fromfile(member, np.uint8)
    data[-1] ^= 1
    data.tofile(member)
    os.utime(member, (1, 1))
    second = json.loads((run_to(plan, tmp_path / "b") / "provenance.json").read_text())
    same = [one == two for one, two in zip(first["inputs"], second["inputs"], strict=True)]
    assert same == [True, False, True]


def run_to(plan, out: Path) -> Path:
    """Merge and give the folder."""
    run_merge(plan, out)
    return out
