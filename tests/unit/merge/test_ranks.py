"""vLLM sharded states: opened rank by rank, merged rank by rank, and every way in which they do not add up.

Run: .venv/bin/python -m pytest tests/unit/merge/test_ranks.py
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from core.errors import CheckpointError
from core.merge import open_checkpoint, parse_plan, preflight, read_report, run_merge
from core.precision import rounding_report
from tests.unit.merge.models import (
    CONFIG,
    from_bf16,
    load,
    random_tensors,
    save,
    ties_config,
    to_bf16,
    write_model,
    write_pool,
)
from tests.unit.merge.sharded import Tensors, split, write_ranks

WEIGHTS = [0.456, 0.456, 0.079]
NORM = "model.norm.weight"
EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def salted(ranks: list[Tensors], seed: int) -> list[Tensors]:
    """Norms with noise of each rank's own, as evolution strategies leave them."""
    rng = np.random.default_rng(seed)
    return [
        {
            name: to_bf16(from_bf16(one) + 0.01 * rng.standard_normal(one.shape).astype(np.float32))
            if "norm" in name
            else one
            for name, one in rank.items()
        }
        for rank in ranks
    ]


@pytest.fixture
def tensors() -> list[Tensors]:
    """A base and three members that drifted from it."""
    base = random_tensors(0)
    return [base, *(random_tensors(seed, base=base) for seed in (1, 2, 3))]


def sharded_pool(root: Path, pool: list[list[Tensors]], parts: int = 1) -> tuple[Path, list[Path]]:
    base, *members = (write_ranks(root / f"sharded-{n}", ranks, parts=parts) for n, ranks in enumerate(pool))
    return base, members


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("extra", ["dtype: float32\n", "dtype: float32\nout_dtype: bfloat16\n"])
def test_a_merge_of_ranks_is_the_merge_of_each_rank_as_a_plain_folder(
    tmp_path: Path, tensors: list[Tensors], parts: int, extra: str
) -> None:
    pool = [salted(split(one, 2), seed) for seed, one in enumerate(tensors)]
    base, members = sharded_pool(tmp_path, pool, parts)
    out = tmp_path / "out"
    result = run_merge(parse_plan(ties_config(base, members, WEIGHTS, density=0.5, extra=extra), tmp_path), out)
    assert [one for one in result.warnings if "sharded over 2 ranks" in one and "slice" in one]
    for rank in (0, 1):
        plain = [write_model(tmp_path / f"plain-{rank}-{n}", ranks[rank], {}) for n, ranks in enumerate(pool)]
        alone = tmp_path / f"alone-{rank}"
        run_merge(parse_plan(ties_config(plain[0], plain[1:], WEIGHTS, density=0.5, extra=extra), tmp_path), alone)
        together = load(out / f"model-rank-{rank}-part-0.safetensors")
        single = load(alone / "model.safetensors")
        assert list(together) == list(single)
        assert all(together[name].tobytes() == one.tobytes() for name, one in single.items())
    norms = [load(out / f"model-rank-{rank}-part-0.safetensors")[NORM] for rank in (0, 1)]
    assert norms[0].tobytes() != norms[1].tobytes()


def test_the_merged_folder_is_a_sharded_state_that_can_be_merged_again(tmp_path: Path, tensors: list[Tensors]) -> None:
    base, members = sharded_pool(tmp_path, [split(one, 2) for one in tensors])
    plan = parse_plan(ties_config(base, members, WEIGHTS), tmp_path)
    run_merge(plan, tmp_path / "out", shard_size=4000)
    names = sorted(path.name for path in (tmp_path / "out").glob("*.safetensors*"))
    counts = [sum(name.startswith(f"model-rank-{rank}-") for name in names) for rank in (0, 1)]
    assert counts[0] == counts[1] > 1 and sum(counts) == len(names)
    assert {f"model-rank-0-part-{part}.safetensors" for part in range(counts[0])} < set(names)
    found = open_checkpoint(tmp_path / "out")
    assert found.ranks == open_checkpoint(base).ranks and set(found.tensors) == set(open_checkpoint(base).tensors)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "float32"
    assert (tmp_path / "out" / "tokenizer.json").exists()
    again = parse_plan(ties_config(base, [tmp_path / "out", members[0]]), tmp_path)
    run_merge(again, tmp_path / "again")
    assert open_checkpoint(tmp_path / "again").ranks == found.ranks
    run_merge(plan, tmp_path / "whole")
    parts = [load(tmp_path / "out" / f"model-rank-1-part-{part}.safetensors") for part in range(counts[1])]
    joined = {name: one for part in parts for name, one in part.items()}
    whole = load(tmp_path / "whole" / "model-rank-1-part-0.safetensors")
    assert {name: one.tobytes() for name, one in joined.items()} == {n: one.tobytes() for n, one in whole.items()}


def test_no_part_passes_the_shard_size(tmp_path: Path, tensors: list[Tensors]) -> None:
    base, members = sharded_pool(tmp_path, [split(one, 2) for one in tensors])
    run_merge(parse_plan(ties_config(base, members), tmp_path), tmp_path / "out", shard_size=3000)
    for path in (tmp_path / "out").glob("*.safetensors"):
        held = load(path)
        assert len(held) == 1 or sum(one.nbytes for one in held.values()) <= 3000


def test_the_report_has_a_row_for_each_tensor_of_each_rank(tmp_path: Path, tensors: list[Tensors]) -> None:
    base, members = sharded_pool(tmp_path, [split(one, 2) for one in tensors])
    result = run_merge(parse_plan(ties_config(base, members), tmp_path), tmp_path / "out")
    assert not [one for one in result.warnings if "slice" in one]
    names = set(read_report(tmp_path / "out")["name"])
    assert {f"rank-{rank}/{name}" for rank in (0, 1) for name in (NORM, EMBED)} < names
    assert len(names) == result.tensors == 2 * len(split(tensors[0], 2)[0])
    rounded = rounding_report(base, tmp_path / "out")
    assert (rounded.total.changed, rounded.total.lost) == (result.rounding["changed"], result.rounding["lost"])
    assert {row.name for row in rounded.tensors} == names


def test_pipeline_stages_are_merged_under_their_own_names(tmp_path: Path, tensors: list[Tensors]) -> None:
    names = [f"pp-{stage}-tp-{slot}" for stage in (0, 1) for slot in (0, 1)]

    def staged(one: Tensors) -> list[Tensors]:
        halves = split(one, 2)
        last = {name for name in halves[0] if ".layers.1." in name or name == NORM}
        first = [{name: value for name, value in half.items() if name not in last} for half in halves]
        return first + [{name: half[name] for name in sorted(last)} for half in halves]

    base, *members = (write_ranks(tmp_path / f"m{n}", staged(one), names=names) for n, one in enumerate(tensors))
    run_merge(parse_plan(ties_config(base, members), tmp_path), tmp_path / "out")
    found = open_checkpoint(tmp_path / "out")
    assert found.ranks is not None and (found.ranks.pipeline, found.ranks.tensor) == (2, 2)
    assert {path.name for path in found.files} == {f"model-{name}-part-0.safetensors" for name in names}
    assert f"pp-1-tp-0/{NORM}" in found.tensors and f"pp-0-tp-0/{NORM}" not in found.tensors


def test_more_than_ten_ranks_stay_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    ranks = [{"a": np.full(4, n, np.float32), "b": np.zeros(2, np.uint16)} for n in range(12)]
    base, member = (write_ranks(tmp_path / name, ranks, None) for name in ("base", "member"))
    run_merge(parse_plan(ties_config(base, [member], extra=""), tmp_path), tmp_path / "out")
    for n in range(12):
        assert load(tmp_path / "out" / f"model-rank-{n}-part-0.safetensors")["a"].tolist() == [n] * 4
    assert len(list((tmp_path / "out").glob("*.safetensors"))) == 12


def test_unequal_ranks_are_refused_before_anything_is_written(tmp_path: Path, tensors: list[Tensors]) -> None:
    two = write_ranks(tmp_path / "two", split(tensors[0], 2))
    one = write_ranks(tmp_path / "one", split(tensors[1], 1))
    plain = write_model(tmp_path / "plain", tensors[1])
    for other, word in ((one, "at TP 1"), (plain, "a Hugging Face folder")):
        for base, member in ((two, other), (other, two)):
            plan = parse_plan(ties_config(base, [member]), tmp_path)
            with pytest.raises(CheckpointError) as caught:
                run_merge(plan, tmp_path / "out")
            assert word in str(caught.value) and "at TP 2" in str(caught.value)
            assert str(caught.value) in preflight(plan, tmp_path / "out").problems
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "plain", "two"]


def test_mergekit_is_never_given_ranks(tmp_path: Path, tensors: list[Tensors]) -> None:
    base, members = sharded_pool(tmp_path, [split(one, 2) for one in tensors])
    plan = parse_plan(ties_config(base, members, method="dare_ties"), tmp_path)
    assert plan.engine == "mergekit"
    with pytest.raises(CheckpointError, match=r"merge_method dare_ties.*core convert"):
        run_merge(plan, tmp_path / "out")
    assert "dare_ties" in preflight(plan).problems[0]
    assert not (tmp_path / "out").exists()


def test_unequal_vocabularies_are_refused_also_where_cutting_was_asked_for(tmp_path: Path) -> None:
    large = CONFIG | {"vocab_size": 70}
    base = write_ranks(tmp_path / "base", split(random_tensors(0), 2))
    member = write_ranks(tmp_path / "member", split(random_tensors(1, config=large), 2, large), large)
    plan = parse_plan(ties_config(base, [member]), tmp_path)
    with pytest.raises(CheckpointError, match=r"shape \[64, 16\].*\[32, 16\].*cannot be cut"):
        run_merge(plan, tmp_path / "out")


def tied(ranks: list[Tensors], keep: str) -> list[Tensors]:
    """The embedding under one name, or under both."""
    return [
        {name: one for name, one in rank.items() if name != EMBED}
        | dict.fromkeys((EMBED, HEAD) if keep == "both" else (keep,), rank[EMBED])
        for rank in ranks
    ]


@pytest.mark.parametrize("kept", [(HEAD, HEAD), (HEAD, EMBED), (EMBED, HEAD), (HEAD, "both"), ("both", HEAD)])
def test_a_tied_embedding_is_merged_whichever_of_its_two_names_is_kept(
    tmp_path: Path, tensors: list[Tensors], kept: tuple[str, str]
) -> None:
    base = write_ranks(tmp_path / "base", tied(split(tensors[0], 2), kept[0]))
    member = write_ranks(tmp_path / "member", tied(split(tensors[1], 2), kept[1]))
    plain = sharded_pool(tmp_path, [split(one, 2) for one in tensors[:2]])
    run_merge(parse_plan(ties_config(base, [member]), tmp_path), tmp_path / "out")
    run_merge(parse_plan(ties_config(*plain), tmp_path), tmp_path / "plain")
    for rank in (0, 1):
        file = f"model-rank-{rank}-part-0.safetensors"
        got, expected = load(tmp_path / "out" / file), load(tmp_path / "plain" / file)
        for name in (EMBED, HEAD) if kept[0] == "both" else (kept[0],):
            assert got[name].tobytes() == expected[EMBED].tobytes()
        assert len(got) == len(expected) + (kept[0] == "both")


def test_an_index_or_a_whole_file_beside_rank_files_is_ignored_with_a_warning(
    tmp_path: Path, tensors: list[Tensors]
) -> None:
    folder = write_ranks(tmp_path / "m", split(tensors[0], 2))
    before = open_checkpoint(folder)
    assert before.warnings == ()
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "gone.safetensors"}}')
    save(folder / "model.safetensors", {"a": np.zeros(3, np.float32)})
    found = open_checkpoint(folder)
    assert set(found.tensors) == set(before.tensors)
    assert len(found.warnings) == 2 and all("ignored" in one for one in found.warnings)
    plan = parse_plan(ties_config(folder, [write_ranks(tmp_path / "n", split(tensors[1], 2))]), tmp_path)
    assert [one for one in run_merge(plan, tmp_path / "out").warnings if "index.json" in one]


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def rename(old: str, new: str) -> Callable[[Path], None]:
    return lambda folder: (folder / old).replace(folder / new) and None


def copy(old: str, new: str) -> Callable[[Path], None]:
    return lambda folder: (folder / new).write_bytes((folder / old).read_bytes()) and None


PART = "model-rank-{}-part-{}.safetensors"
BROKEN = [
    ([PART.format(0, 0), PART.format(0, 1)], None, "rank-0 is missing"),
    (
        [PART.format(1, 0), PART.format(1, 1)],
        None,
        r"32 rows on each of 1 ranks, 32 in all; config.json asks for 40",
    ),
    ([PART.format(1, 0)], None, r"model-rank-1-part-0\.safetensors is missing, though model-rank-1-part-1"),
    ([PART.format(1, 1)], None, r"rank-0 holds tensor .*, rank-1 does not"),
    ([], copy(PART.format(0, 1), PART.format(0, 2)), "is in two parts of rank-0"),
    ([], rename(PART.format(1, 1), PART.format(1, 3)), r"model-rank-1-part-1\.safetensors is missing"),
    ([], copy(PART.format(1, 1), PART.format(3, 0)), "rank-2 is missing: the file names speak of 4 ranks"),
    ([], copy(PART.format(1, 1), PART.format(10**40, 0)), "rank-2 is missing"),
    ([], copy(PART.format(1, 1), "model-pp-0-tp-0-part-0.safetensors"), "two layouts"),
]


@pytest.mark.parametrize(("removed", "change", "message"), BROKEN, ids=range(len(BROKEN)))
def test_ranks_that_do_not_add_up_are_refused(
    tmp_path: Path,
    tensors: list[Tensors],
    removed: list[str],
    change: Callable[[Path], None] | None,
    message: str,
) -> None:
    folder = write_ranks(tmp_path / "m", split(tensors[0], 2), parts=2)
    for name in removed:
        remove(name)(folder)
    if change:
        change(folder)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(folder)


def test_a_missing_last_rank_shows_in_the_attention_where_the_vocabulary_would_still_fit(tmp_path: Path) -> None:
    config = CONFIG | {"num_attention_heads": 4, "num_key_value_heads": 4}
    ranks = split(random_tensors(0, config=config), 4, config)
    folder = write_ranks(tmp_path / "m", ranks[:3], config)
    with pytest.raises(CheckpointError, match=r"o_proj.weight has 8 columns on each of 3 ranks.*asks for 32"):
        open_checkpoint(folder)


def test_quantised_ranks_are_refused_and_a_nan_is_named_with_its_rank(tmp_path: Path, tensors: list[Tensors]) -> None:
    config = CONFIG | {"quantization_config": {"quant_method": "fp8"}}
    with pytest.raises(CheckpointError, match="quantised"):
        open_checkpoint(write_ranks(tmp_path / "q", split(tensors[0], 2), config))
    ranks = [dict(one) for one in split(tensors[1], 2)]
    ranks[1][NORM] = np.full(16, 0x7FC0, np.uint16)
    base, member = write_ranks(tmp_path / "b", split(tensors[0], 2)), write_ranks(tmp_path / "n", ranks)
    with pytest.raises(CheckpointError, match=rf"rank-1/{NORM} has 16 values that are NaN"):
        run_merge(parse_plan(ties_config(base, [member]), tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_plain_folder_keeps_a_name_that_looks_like_a_rank(tmp_path: Path) -> None:
    held = {"rank-0/a": np.ones(3, np.float32), "b": np.ones(3, np.float32)}
    base, member = (write_model(tmp_path / name, held, {}) for name in ("base", "member"))
    run_merge(parse_plan(ties_config(base, [member]), tmp_path), tmp_path / "out")
    assert set(load(tmp_path / "out" / "model.safetensors")) == {"rank-0/a", "b"}


def test_merges_of_plain_folders_still_get_an_index(tmp_path: Path) -> None:
    base, members = write_pool(tmp_path, 1)
    run_merge(parse_plan(ties_config(base, members), tmp_path), tmp_path / "out", shard_size=4000)
    assert (tmp_path / "out" / "model.safetensors.index.json").exists()
