"""A random delta: as long as the merge's in every tensor, another one for another seed, the same on any machine.

Run: .venv/bin/python -m pytest tests/unit/merge/test_random_delta.py
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import Cancelled, CheckpointError, InputError
from core.merge import random_delta as module
from core.merge.random_delta import random_delta
from core.merge.verify import verify
from tests.unit.merge.models import CONFIG, load, random_tensors, save, to_bf16, write_model

EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"
KEPT = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A bf16 base and a float32 merge that leaves one tensor alone."""
    start = random_tensors(0)
    base = write_model(tmp_path / "base", start)
    changed = random_tensors(1, "fp32", base=start)
    changed[KEPT] = load(base / "model.safetensors")[KEPT]
    return base, write_model(tmp_path / "merge", changed)


def deltas(base: Path, other: Path) -> dict[str, np.ndarray]:
    """other − base of every tensor, float64."""
    first, second = ({name: one.astype(np.float64) for name, one in load(path / "model.safetensors").items()}
                     for path in (base, other))  # fmt: skip
    return {name: second[name] - one for name, one in first.items()}


def test_every_tensor_moves_as_far_as_the_merge_moved_it(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    base, merge = pair
    found = random_delta(base, merge, tmp_path / "out", 3)
    wanted, got = deltas(base, merge), deltas(base, tmp_path / "out")
    for name, one in wanted.items():
        assert np.linalg.norm(got[name]) == pytest.approx(np.linalg.norm(one), rel=1e-5)
    assert not got[KEPT].any()
    assert (found.tensors, found.moved) == (len(wanted), len(wanted) - 1)
    assert found.norm == pytest.approx(np.sqrt(sum((one**2).sum() for one in wanted.values())), rel=1e-6)
    # 640 elements each: the cosine of independent directions has a deviation of 1/√640 = 0.04.
    one, other = got[EMBED].ravel(), wanted[EMBED].ravel()
    assert abs(one @ other / np.linalg.norm(one) / np.linalg.norm(other)) < 0.2
    normed = np.concatenate([d.ravel() / np.sqrt((d**2).mean()) for d in got.values() if d.any()])
    assert abs(normed.mean()) < 0.05
    assert abs((normed**4).mean() - 3) < 0.5


def test_the_folder_is_a_whole_model_and_can_be_verified(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    base, merge = pair
    out = tmp_path / "out"
    random_delta(base, merge, out, 3)
    assert json.loads((out / "config.json").read_text())["dtype"] == "float32"
    assert (out / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()
    told = json.loads((out / "provenance.json").read_text())
    assert told["recipe"]["seed"] == 3
    assert told["versions"]["numpy"] == np.__version__
    assert [one["role"] for one in told["inputs"]] == ["base", "merge"]
    found = verify(out, inputs=True)
    assert found.ok
    assert {one.role for one in found.files} == {"output", "base", "merge"}


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def test_the_seed_alone_decides_the_bytes(
    tmp_path: Path, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    base, merge = pair
    monkeypatch.setattr(module, "CHUNK", 100)
    found = []
    for name, seed, threads in (("a", 1, 1), ("b", 1, 5), ("c", 2, 5)):
        monkeypatch.setattr(module, "thread_count", lambda threads=threads: threads)
        random_delta(base, merge, tmp_path / name, seed)
        found.append(digest(tmp_path / name))
    assert found[0] == found[1] != found[2]
    # Chunks and tensors have noise of their own.
    moved = {name: one.ravel() / np.linalg.norm(one) for name, one in deltas(base, tmp_path / "a").items() if one.any()}
    pieces = [one[start : start + 100] for one in moved.values() for start in range(0, one.size - 99, 100)]
    cosines = np.corrcoef(np.array(pieces)) - np.eye(len(pieces))
    assert np.abs(cosines).max() < 0.6


def test_a_tied_copy_stays_one(tmp_path: Path) -> None:
    start = random_tensors(0)
    start[HEAD] = start[EMBED]
    base = write_model(tmp_path / "base", start)
    changed = random_tensors(1, "fp32", base={name: one for name, one in start.items() if name != HEAD})
    merge = write_model(tmp_path / "merge", changed)
    found = random_delta(base, merge, tmp_path / "out", 0)
    tensors = load(tmp_path / "out" / "model.safetensors")
    assert np.array_equal(tensors[HEAD], tensors[EMBED])
    assert found.norm == pytest.approx(
        np.sqrt(sum((one**2).sum() for name, one in deltas(base, tmp_path / "out").items() if name != HEAD)), rel=1e-5
    )


def test_integers_are_copied_and_must_agree(tmp_path: Path) -> None:
    start = random_tensors(0) | {"model.table": np.arange(7)}
    base = write_model(tmp_path / "base", start)
    same = write_model(tmp_path / "same", random_tensors(1) | {"model.table": np.arange(7)})
    other = write_model(tmp_path / "other", random_tensors(1) | {"model.table": np.arange(1, 8)})
    random_delta(base, same, tmp_path / "out", 0)
    assert load(tmp_path / "out" / "model.safetensors")["model.table"].tolist() == list(range(7))
    with pytest.raises(CheckpointError, match=r"model\.table"):
        random_delta(base, other, tmp_path / "no", 0)
    assert not (tmp_path / "no").exists()


def test_several_shards_hold_the_same_tensors(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    random_delta(*pair, tmp_path / "one", 4)
    random_delta(*pair, tmp_path / "more", 4, shard_size=3000)
    index = json.loads((tmp_path / "more" / "model.safetensors.index.json").read_text())["weight_map"]
    whole = load(tmp_path / "one" / "model.safetensors")
    assert set(index) == set(whole)
    assert len(set(index.values())) > 2
    for name, file in index.items():
        assert np.array_equal(load(tmp_path / "more" / file)[name], whole[name])


def test_what_does_not_fit_is_refused_and_leaves_no_trace(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    base, merge = pair
    broken = random_tensors(1, "fp32", base=random_tensors(0))
    broken[EMBED][0, 0] = np.nan
    poisoned = write_model(tmp_path / "nan", broken)
    smaller = write_model(tmp_path / "small", random_tensors(1, config=CONFIG | {"hidden_size": 8}))
    out = tmp_path / "out"
    for one, says in ((poisoned, "NaN or infinity"), (smaller, "shape"), (tmp_path / "none", "none")):
        with pytest.raises(CheckpointError, match=says):
            random_delta(base, one, out, 0)
    for seed in (-1, 2**64):
        with pytest.raises(InputError, match="seed"):
            random_delta(base, merge, out, seed)
    for taken, says in ((merge, "the merge reads"), (poisoned, "not empty")):
        with pytest.raises(InputError, match=says):
            random_delta(base, merge, taken, 0)

    def stop(*_: Any) -> None:
        raise Cancelled("stop")

    with pytest.raises(Cancelled):
        random_delta(base, merge, out, 0, progress=stop)
    assert not [path for path in tmp_path.iterdir() if "out" in path.name]


def test_half_precision_inputs_are_read_as_they_are(tmp_path: Path) -> None:
    start = {"model.norm.weight": np.ones(16, np.float16)}
    base, merge = tmp_path / "base", tmp_path / "merge"
    for folder, values in ((base, start), (merge, {"model.norm.weight": to_bf16(np.full(16, 1.5))})):
        folder.mkdir()
        save(folder / "model.safetensors", values)
        (folder / "config.json").write_text(json.dumps(CONFIG))
    random_delta(base, merge, tmp_path / "out", 0)
    moved = load(tmp_path / "out" / "model.safetensors")["model.norm.weight"] - 1
    assert np.linalg.norm(moved) == pytest.approx(2, rel=1e-5)
