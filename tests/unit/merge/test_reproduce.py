"""A merge made again from its record gives the same bytes, or it is said what is not the same.

Run: .venv/bin/python -m pytest tests/unit/merge/test_reproduce.py
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from core.errors import InputError
from core.merge import parse_plan, run_merge, with_vocabulary
from core.merge.reproduce import first_difference, reproduce
from core.merge.verify import verify
from tests.unit.merge.models import CONFIG, random_tensors, save, ties_config, write_model, write_pool
from tests.unit.merge.sharded import split, write_ranks
from tests.unit.merge.test_verify import flip

Pool = tuple[Path, list[Path]]


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    return write_pool(tmp_path / "models", 2)


def merged(pool: Pool, tmp_path: Path, shard_size: float = 5e9, **options: float | str) -> Path:
    text = ties_config(pool[0], pool[1], [0.7, 0.3], **options)  # type: ignore[arg-type]
    run_merge(parse_plan(text, tmp_path), tmp_path / "out", shard_size=shard_size)
    return tmp_path / "out"


def change_record(out: Path, **changes: object) -> None:
    path = out / "provenance.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"density": 0.3},
        {"method": "linear", "extra": "dtype: float32\nparameters: {weight: 0.1}\n"},
        {"method": "task_arithmetic"},
    ],
)
def test_the_same_inputs_give_the_same_bytes_and_nothing_is_left(
    pool: Pool, tmp_path: Path, options: dict[str, float | str]
) -> None:
    out = merged(pool, tmp_path, **options)
    before = contents(out)
    found = reproduce(out)
    assert found.ok and found.difference == "" and found.other_versions == ()
    assert [(one.file, one.same) for one in found.files] == [("model.safetensors", True)]
    assert found.files[0].sha256 == hashlib.sha256(before["model.safetensors"]).hexdigest()
    assert contents(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models", "out"]


def test_a_linear_merge_without_a_base_is_repeated(pool: Pool, tmp_path: Path) -> None:
    entries = "".join(f"  - model: {one}\n    parameters: {{weight: 0.5}}\n" for one in pool[1])
    run_merge(parse_plan(f"merge_method: linear\nmodels:\n{entries}dtype: float32\n", tmp_path), tmp_path / "out")
    assert reproduce(tmp_path / "out").ok


def test_a_merge_of_sharded_states_is_verified_and_repeated(tmp_path: Path) -> None:
    start = random_tensors(0)
    base = write_ranks(tmp_path / "base", split(start, 2))
    member = write_ranks(tmp_path / "member", split(random_tensors(1, base=start), 2))
    out = tmp_path / "out"
    run_merge(parse_plan(ties_config(base, [member]), tmp_path), out)
    assert verify(out, inputs=True).ok
    found = reproduce(out)
    assert found.ok and [one.file for one in found.files] == [
        "model-rank-0-part-0.safetensors",
        "model-rank-1-part-0.safetensors",
    ]


def test_the_recorded_shard_size_and_vocabulary_are_used(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", random_tensors(0))
    larger = CONFIG | {"vocab_size": 44}
    member = write_model(tmp_path / "member", random_tensors(1, config=larger), larger)
    plan = with_vocabulary(parse_plan(ties_config(base, [member]), tmp_path), "truncate")
    run_merge(plan, tmp_path / "out", shard_size=6000)
    change_record(tmp_path / "out", settings={"shard_size": 6000, "dialect": "mergekit", "vocabulary": "truncate"})
    found = reproduce(tmp_path / "out", keep=tmp_path / "again")
    assert found.ok and len(found.files) > 3
    assert found.kept == str(tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors.index.json").read_bytes() == (
        tmp_path / "out" / "model.safetensors.index.json"
    ).read_bytes()


def test_models_are_found_where_the_record_says_not_where_the_config_lies_now(pool: Pool, tmp_path: Path) -> None:
    text = ties_config(Path("base"), [Path("member-0"), Path("member-1")])
    (tmp_path / "models" / "config.yml").write_text(text)
    run_merge(parse_plan(text, tmp_path / "models" / "config.yml"), tmp_path / "out")
    write_model(tmp_path / "out" / "base", random_tensors(99))  # a relative `base` would now be this one
    assert reproduce(tmp_path / "out").ok


def test_a_changed_input_is_named_with_both_hashes(pool: Pool, tmp_path: Path) -> None:
    out = merged(pool, tmp_path)
    weights = pool[1][1] / "model.safetensors"
    before = hashlib.sha256(weights.read_bytes()).hexdigest()
    flip(weights)
    after = hashlib.sha256(weights.read_bytes()).hexdigest()
    with pytest.raises(InputError) as caught:
        reproduce(out)
    assert str(caught.value).startswith(f"{weights} (member 2): has changed since the merge.")
    assert f"Expected SHA-256 {before}, found {after}." in str(caught.value)
    weights.unlink()
    with pytest.raises(InputError, match=r"\(member 2\): is not there"):
        reproduce(out)


def test_the_first_tensor_that_differs_is_named(pool: Pool, tmp_path: Path) -> None:
    out = merged(pool, tmp_path)
    data = (out / "model.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    start = len(data) - max(one["data_offsets"][1] for name, one in header.items() if name != "__metadata__")
    begin = header["model.norm.weight"]["data_offsets"][0]
    flip(out / "model.safetensors", start + begin + 4 * 5 + 1)
    found = reproduce(out)
    assert not found.ok
    assert found.difference == "model.safetensors: tensor model.norm.weight differs first at element 5 of 16."


def test_a_missing_or_broken_weight_file_is_a_difference(pool: Pool, tmp_path: Path) -> None:
    out = merged(pool, tmp_path)
    (out / "model.safetensors").write_bytes(b"short")
    assert "is not a complete safetensors file" in reproduce(out).difference
    (out / "model.safetensors").unlink()
    found = reproduce(out)
    assert not found.ok and "the repetition wrote it" in found.difference


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"w": np.zeros(4, np.float32), "v": np.zeros(2, np.float32)}, "tensor v is in the repetition only"),
        ({"w": np.zeros(5, np.float32)}, r"F32 \[4\], and F32 \[5\] when repeated"),
        ({"w": np.array([0, 0, 0, 1], np.float32)}, "tensor w differs first at element 3 of 4"),
        ({"w": np.zeros(4, np.float32)}, "only the header differs"),
    ],
)
def test_differences_between_two_files(tmp_path: Path, changed: dict[str, np.ndarray], says: str) -> None:
    save(tmp_path / "one.safetensors", {"w": np.zeros(4, np.float32)})
    save(tmp_path / "two.safetensors", changed)
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(first_difference(tmp_path / "one.safetensors", tmp_path / "two.safetensors"))


def test_what_is_not_the_recorded_merge_is_refused(pool: Pool, tmp_path: Path) -> None:
    out = merged(pool, tmp_path)
    recorded = json.loads((out / "provenance.json").read_text())
    with pytest.raises(InputError, match="lies in the merge that is repeated"):
        reproduce(out, keep=out / "again")
    change_record(out, recipe=recorded["recipe"] | {"scale": 0.5})
    with pytest.raises(InputError, match=r"records scale 0\.5, its config means 1\.0"):
        reproduce(out)
    change_record(out, recipe=recorded["recipe"], inputs=recorded["inputs"][:-1])
    with pytest.raises(InputError, match=r"lists other models than mergekit_config\.yml"):
        reproduce(out)
    change_record(out, inputs=recorded["inputs"], engine="mergekit")
    with pytest.raises(InputError, match="was merged by the mergekit engine"):
        reproduce(out)
    change_record(out, engine="streaming")
    config = out / "mergekit_config.yml"
    config.write_text(config.read_text().replace("0.7", "0.6"))
    with pytest.raises(InputError, match=r"mergekit_config\.yml: has changed since the merge"):
        reproduce(out)
    config.unlink()
    with pytest.raises(InputError, match="no such file"):
        reproduce(out)


def test_other_versions_are_named(pool: Pool, tmp_path: Path) -> None:
    out = merged(pool, tmp_path)
    change_record(out, versions={"numpy": "0.1", "python": "2.7.0", "../../etc": "1"})
    found = reproduce(out).other_versions
    assert [one.split(" then")[0] for one in found] == ["numpy 0.1", "python 2.7.0"]


def test_what_mergekit_itself_merged_is_repeated_too(pool: Pool, tmp_path: Path) -> None:
    text = "merge_method: slerp\nbase_model: base\nmodels:\n  - model: base\n  - model: member-0\n"
    (tmp_path / "models" / "config.yml").write_text(text + "parameters: {t: 0.5}\ndtype: float32\n")
    plan = parse_plan((tmp_path / "models" / "config.yml").read_text(), tmp_path / "models" / "config.yml")
    run_merge(plan, tmp_path / "out")
    found = reproduce(tmp_path / "out")
    assert found.ok, found.difference
