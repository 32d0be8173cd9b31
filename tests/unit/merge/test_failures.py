"""What goes wrong: one clear message each, and nothing left at or beside the output path.

Run: .venv/bin/python -m pytest tests/unit/merge/test_failures.py
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from core.errors import Cancelled, CheckpointError, DiskError, InputError, MergescopeError, RunError
from core.merge import parse_plan, preflight, run_merge
from tests.unit.merge.models import CONFIG, random_tensors, save, ties_config, to_bf16, write_model, write_pool
from tests.unit.merge.test_crash import contents

NAME = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture
def pool(tmp_path: Path) -> tuple[Path, list[Path]]:
    return write_pool(tmp_path / "models", 2)


@contextmanager
def refused(tmp_path: Path, error: type[MergescopeError], match: str) -> Iterator[None]:
    """The block raises the error with one line that matches, and leaves the output's folder as it was."""
    place = tmp_path / "place"
    place.mkdir(exist_ok=True)
    before = sorted(str(path) for path in place.rglob("*"))
    with pytest.raises(error, match=match) as caught:
        yield
    assert "\n" not in str(caught.value)
    assert sorted(str(path) for path in place.rglob("*")) == before


def merge(pool: tuple[Path, list[Path]], tmp_path: Path, **options: object) -> None:
    base, members = pool
    run_merge(parse_plan(ties_config(base, members), tmp_path), tmp_path / "place" / "out", **options)  # type: ignore[arg-type]


def change(folder: Path, name: str, value: np.ndarray | None) -> None:
    """Replace or drop one tensor of the first member's pool seed."""
    tensors = random_tensors(1, base=random_tensors(0))
    if value is None:
        del tensors[name]
    else:
        tensors[name] = value
    save(folder / "model.safetensors", tensors)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_or_infinity_in_a_member(pool: tuple[Path, list[Path]], tmp_path: Path, bad: float) -> None:
    values = np.zeros((24, 16), np.float32)
    values[3, 4:7] = bad
    change(pool[1][0], NAME, to_bf16(values) if np.isinf(bad) else (values.view(np.uint32) >> 16).astype(np.uint16))
    with refused(tmp_path, CheckpointError, rf"member-0: tensor {NAME} has 3 values that are NaN or infinite, of 384"):
        merge(pool, tmp_path)


def test_nan_in_the_base(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    tensors = random_tensors(0)
    tensors[NAME][0, 0] = 0x7FC0
    save(pool[0] / "model.safetensors", tensors)
    with refused(tmp_path, CheckpointError, "base: tensor .* has 1 values"):
        merge(pool, tmp_path)


def test_mismatched_shapes(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    change(pool[1][0], NAME, np.zeros((24, 8), np.uint16))
    with refused(tmp_path, CheckpointError, r"shape \[24, 8\] in .*member-0, \[24, 16\] in .*base"):
        merge(pool, tmp_path)


def test_a_tensor_missing_from_a_member_and_one_too_many(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    change(pool[1][0], NAME, None)
    with refused(tmp_path, CheckpointError, rf"member-0: tensor {NAME} is missing"):
        merge(pool, tmp_path)
    change(pool[1][0], "model.extra.weight", np.zeros(3, np.uint16))
    with refused(tmp_path, CheckpointError, r"tensor model\.extra\.weight is not in .*base"):
        merge(pool, tmp_path)


def test_a_truncated_member_and_a_missing_shard(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    path = pool[1][1] / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-10])
    with refused(tmp_path, CheckpointError, r"model\.safetensors: is truncated"):
        merge(pool, tmp_path)
    path.rename(pool[1][1] / "model-00001-of-00002.safetensors")
    index = {"weight_map": {NAME: "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (pool[1][1] / "model.safetensors.index.json").write_text(json.dumps(index))
    with refused(tmp_path, CheckpointError, "shard model-00002-of-00002.safetensors is missing"):
        merge(pool, tmp_path)


def test_a_pickled_member(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    (pool[1][0] / "model.safetensors").rename(pool[1][0] / "pytorch_model.bin")
    with refused(tmp_path, CheckpointError, "pickled PyTorch checkpoint"):
        merge(pool, tmp_path)


def test_integers_that_differ(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", {"w": np.zeros(2, np.float32), "steps": np.arange(3)})
    member = write_model(tmp_path / "member", {"w": np.zeros(2, np.float32), "steps": np.arange(1, 4)})
    with refused(tmp_path, CheckpointError, r"steps \(I64, copied from the base\) differs in .*member"):
        merge((base, [member]), tmp_path)


def test_a_member_that_unties_its_head(tmp_path: Path) -> None:
    start = random_tensors(0)
    base = write_model(tmp_path / "base", start)
    other = random_tensors(1, base=start)
    other["lm_head.weight"] = random_tensors(7)["model.embed_tokens.weight"]
    member = write_model(tmp_path / "member", other, CONFIG | {"tie_word_embeddings": False})
    with refused(tmp_path, CheckpointError, "agree on tying"):
        merge((base, [member]), tmp_path)


def test_a_result_that_does_not_fit_fp16(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", {"w": np.array([1, 6e4], np.float32)})
    member = write_model(tmp_path / "member", {"w": np.array([1, 7e4], np.float32)})
    plan = parse_plan(ties_config(base, [member], extra="dtype: float32\nout_dtype: float16\n"), tmp_path)
    with refused(tmp_path, RunError, "tensor w: 1 merged values do not fit F16"):
        run_merge(plan, tmp_path / "place" / "out")


def test_an_output_path_that_is_taken(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    out = tmp_path / "place" / "out"
    out.mkdir(parents=True)
    (out / "mine").write_text("x")
    with refused(tmp_path, InputError, "exists and is not empty"):
        merge(pool, tmp_path)
    (out / "mine").unlink()
    merge(pool, tmp_path)
    assert (out / "model.safetensors").exists()


def test_overwriting_spares_what_is_no_merge(
    pool: tuple[Path, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = parse_plan(ties_config(*pool), tmp_path)
    work = tmp_path / "work" / "inner"
    work.mkdir(parents=True)
    (work / "thesis.txt").write_text("years")
    with refused(tmp_path, InputError, "holds no earlier merge"):
        run_merge(plan, work, overwrite=True)
    (work / "mergekit_config.yml").write_text("")
    monkeypatch.chdir(work)
    for out in (Path(), Path(), work, work.parent):
        with refused(tmp_path, InputError, "the working directory or above it"):
            run_merge(plan, out, overwrite=True)
    problems = preflight(plan, work).problems
    assert len(problems) == 1 and "working directory" in problems[0]


@pytest.mark.parametrize("target", ["models", "models/base", "models/member-0"])
def test_a_merge_never_replaces_what_it_reads(pool: tuple[Path, list[Path]], tmp_path: Path, target: str) -> None:
    plan = parse_plan(ties_config(*pool), tmp_path)
    with refused(tmp_path, InputError, "which the merge reads"):
        run_merge(plan, tmp_path / target, overwrite=True)


@pytest.mark.parametrize("stage", ["checking", "merging", "hashing", "publishing"])
def test_cancelling_leaves_nothing(pool: tuple[Path, list[Path]], tmp_path: Path, stage: str) -> None:
    def stop(now: str, done: float, total: float, unit: str) -> None:
        if now == stage:
            raise Cancelled("stopped")

    with refused(tmp_path, Cancelled, "stopped"):
        merge(pool, tmp_path, progress=stop)


def test_too_little_room_is_seen_before_anything_is_written(
    pool: tuple[Path, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.merge.folder.free_bytes", lambda path: 1000)
    with refused(tmp_path, RunError, "the disk has 1,000 free"):
        merge(pool, tmp_path)


LIMITED = """
import resource, signal, sys
from pathlib import Path
from core.errors import RunError
from core.merge import read_plan, run_merge
plan = read_plan(Path(sys.argv[1]))
run_merge(plan, Path(sys.argv[2] + "-before"))  # so that nothing is left to compile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    run_merge(plan, Path(sys.argv[2]))
except RunError as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("limit", [100, 4096, 15_000])
def test_a_write_that_fails_midway(pool: tuple[Path, list[Path]], tmp_path: Path, limit: int) -> None:
    # A limit on the size of files makes the system refuse real writes, as a full disk does.
    config = tmp_path / "c.yml"
    config.write_text(ties_config(*pool))
    place = tmp_path / "place"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(config), str(place / "out"), str(limit)],
        capture_output=True, text=True, timeout=300, check=False, env=os.environ | {"PYTHONPATH": "."},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert len(done.stdout.strip().splitlines()) == 1
    assert "the same command goes on with it" in done.stdout
    assert sorted(path.name for path in place.iterdir()) == [".out.partial", "out-before"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk(pool: tuple[Path, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(small)], check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let tests mount a small disk")
    try:
        monkeypatch.setattr("core.merge.run.check_space", lambda out, needed: None)
        plan = parse_plan(ties_config(*pool), tmp_path)
        with pytest.raises(DiskError, match=r"the disk is full\. .* the same command goes on with it"):
            run_merge(plan, small / "out")
        assert not (small / "out").exists()
        subprocess.run(["mount", "-o", "remount,size=16m", str(small)], check=True)
        run_merge(plan, small / "out")
        run_merge(plan, tmp_path / "elsewhere" / "out")
        assert contents(small / "out") == contents(tmp_path / "elsewhere" / "out")
        assert [path.name for path in small.iterdir()] == ["out"]
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_mergekit_failing_leaves_nothing(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    # slerp takes exactly two models: mergekit says so itself.
    base, members = pool
    text = ties_config(base, members, method="slerp", extra="parameters: {t: 0.5}\ndtype: float32\n")
    with refused(tmp_path, RunError, r"mergekit failed \(1\): .*ValueError"):
        run_merge(parse_plan(text, tmp_path), tmp_path / "place" / "out")


def test_nan_that_mergekit_lets_through_is_refused_too(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    base, members = pool
    change(members[0], NAME, np.full((24, 16), 0x7FC0, np.uint16))
    text = f"merge_method: slerp\nbase_model: {base}\nmodels:\n  - model: {base}\n  - model: {members[0]}\n"
    with refused(tmp_path, CheckpointError, f"tensor {NAME} has 384 values that are NaN"):
        run_merge(parse_plan(text + "parameters: {t: 0.5}\ndtype: float32\n", tmp_path), tmp_path / "place" / "out")
