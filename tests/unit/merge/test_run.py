"""Whole merges of tiny folders: the numbers, the files beside them, and what does not change the bytes.

Run: .venv/bin/python -m pytest tests/unit/merge/test_run.py
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from core.merge import Plan, parse_plan, preflight, read_report, run_merge
from core.merge.blocks import SUB_BLOCK
from core.merge.engine import StreamingEngine
from core.merge.pairing import pair
from tests.unit.merge import reference
from tests.unit.merge.models import CONFIG, load, random_tensors, save, ties_config, to_bf16, write_model, write_pool

WEIGHTS = [0.456, 0.456, 0.079]


@pytest.fixture
def pool(tmp_path: Path) -> tuple[Path, list[Path]]:
    return write_pool(tmp_path, 3)


def flat(folder: Path) -> dict[str, np.ndarray]:
    return {name: one.ravel() for name, one in load(folder / "model.safetensors").items()}


@pytest.mark.parametrize("density", [1.0, 0.5, 0.2])
@pytest.mark.parametrize("dtype", ["bf16", "fp32", "fp16"])
def test_ties_of_folders_is_the_reference_to_the_bit(tmp_path: Path, dtype: str, density: float) -> None:
    base, members = write_pool(tmp_path, 3, dtype)
    text = ties_config(base, members, WEIGHTS, density=density, extra="parameters: {lambda: 0.7}\ndtype: float32\n")
    run_merge(parse_plan(text, tmp_path), tmp_path / "out")
    start, others = flat(base), [flat(one) for one in members]
    for name, got in flat(tmp_path / "out").items():
        inputs = [one[name] for one in others]
        expected = reference.ties(start[name], inputs, WEIGHTS, densities=[density] * 3, scale=0.7)
        assert got.tobytes() == expected.tobytes(), name


def test_a_base_in_fp32_with_members_in_bf16_and_a_bf16_result(tmp_path: Path) -> None:
    start = random_tensors(0, "fp32")
    base = write_model(tmp_path / "base", start)
    member = write_model(tmp_path / "member", random_tensors(1, "bf16", base=start))
    text = ties_config(base, [member], extra="dtype: float32\nout_dtype: bfloat16\n")
    result = run_merge(parse_plan(text, tmp_path), tmp_path / "out")
    for name, one in load(tmp_path / "out" / "model.safetensors").items():
        merged = reference.ties(flat(base)[name], [flat(member)[name]], [1.0])
        assert to_bf16(one).ravel().tolist() == to_bf16(merged).tolist()
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"
    assert result.rounding["lost"] > 0


def test_without_dtypes_the_output_is_as_its_inputs_and_the_wider_where_they_differ(tmp_path: Path) -> None:
    start = random_tensors(0)
    base = write_model(tmp_path / "base", start)
    changed = dict(random_tensors(1, base=start))
    changed["model.norm.weight"] = np.ones(16, np.float32)
    member = write_model(tmp_path / "member", changed)
    run_merge(parse_plan(ties_config(base, [member], extra=""), tmp_path), tmp_path / "out")
    text = (tmp_path / "out" / "model.safetensors").read_bytes()
    header = json.loads(text[8 : 8 + int.from_bytes(text[:8], "little")])
    assert header["model.norm.weight"]["dtype"] == "F32"
    assert header["model.embed_tokens.weight"]["dtype"] == "BF16"


def test_the_folder_is_complete_and_says_where_it_came_from(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    base, members = pool
    (base / "generation_config.json").write_text('{"eos_token_id": 1}')
    (base / "chat_template.jinja").write_text("{{ messages }}")
    text = ties_config(base, members, WEIGHTS)
    result = run_merge(parse_plan(text, tmp_path), tmp_path / "out", extra_metadata={"bank": "b"})
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        "model.safetensors", "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "chat_template.jinja", "README.md", "mergekit_config.yml", "merge_report.parquet", "provenance.json",
    }  # fmt: skip
    assert (out / "mergekit_config.yml").read_text() == text
    assert json.loads((out / "config.json").read_text()) == CONFIG | {"dtype": "float32"}
    made = json.loads((out / "provenance.json").read_text())
    assert made["recipe"]["weights"] == WEIGHTS
    assert made["extra"] == {"bank": "b"}
    assert [one["role"] for one in made["inputs"]] == ["base", "member 1", "member 2", "member 3"]
    for folder, one in zip([base, *members], made["inputs"], strict=True):
        assert one["files"][0]["sha256"] == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    for one in made["outputs"]:
        assert one["sha256"] == hashlib.sha256((out / one["file"]).read_bytes()).hexdigest()
    assert result.tensors == 24
    assert result.elements == sum(one.size for one in load(base / "model.safetensors").values())
    assert result.bytes_written == sum(path.stat().st_size for path in out.iterdir())
    assert {one["file"] for one in made["outputs"]} == {path.name for path in out.iterdir()} - {"provenance.json"}
    with safe_open(out / "model.safetensors", "np") as file:
        metadata = file.metadata()
    assert json.loads(metadata["mergescope_recipe"]) == made["recipe"]
    hashes = [one["files"][0]["sha256"] for one in made["inputs"]]
    assert metadata["mergescope_inputs_sha256"].split() == hashes
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_report_adds_up(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    base, members = pool
    result = run_merge(parse_plan(ties_config(base, members, WEIGHTS, density=0.5), tmp_path), tmp_path / "out")
    report = read_report(tmp_path / "out")
    assert len(report) == 24
    row = report.set_index("name").loc["model.layers.1.self_attn.q_proj.weight"]
    assert (row["layer"], row["module"], row["shape"], row["elements"]) == (1, "self_attn.q_proj", "16×16", 256)
    assert report["elements"].sum() == result.elements
    for column in ("members_changed_0", "unanimous", "contested", "zero_sum"):
        assert report[column].sum() == result.election[column]
    votes = report["members_changed_0"] + report["members_changed_1"] + report["members_changed_2plus"]
    assert (votes == report["elements"]).all()
    assert (report["unanimous"] + report["contested"] == report["members_changed_2plus"]).all()
    assert [int(one) for one in np.sum(report["member_trimmed"].tolist(), axis=0)] == result.election["member_trimmed"]
    assert (report["histogram"].map(sum) == report["changed"]).all()
    name = "model.layers.0.mlp.up_proj.weight"
    deltas = [flat(one)[name] - flat(base)[name] for one in members]
    kept = [reference.keep_largest(one, 192) for one in deltas]
    expected = [int((one != 0).sum() - (left != 0).sum()) for one, left in zip(deltas, kept, strict=True)]
    assert report.set_index("name").loc[name]["member_trimmed"].tolist() == expected


def test_linear_and_task_arithmetic(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    base, members = pool
    lines = [f"  - model: {path}\n    parameters: {{weight: {w}}}\n" for path, w in zip(members, WEIGHTS, strict=True)]
    text = "merge_method: linear\nmodels:\n" + "".join(lines) + "dtype: float32\n"
    result = run_merge(parse_plan(text, tmp_path), tmp_path / "linear")
    text = ties_config(base, members, WEIGHTS, method="task_arithmetic", extra="dtype: float32\n")
    run_merge(parse_plan(text, tmp_path), tmp_path / "arithmetic")
    start, others = flat(base), [flat(one) for one in members]
    for name in start:
        inputs = [one[name] for one in others]
        expected = reference.linear(inputs, WEIGHTS, normalize=True)
        assert flat(tmp_path / "linear")[name].tobytes() == expected.tobytes()
        expected = reference.task_arithmetic(start[name], inputs, WEIGHTS, 1.0)
        assert flat(tmp_path / "arithmetic")[name].tobytes() == expected.tobytes()
    # Without a base the figures are against the first member, which so differs from nothing.
    assert result.election["member_changed"][0] == 0
    assert json.loads((tmp_path / "linear" / "provenance.json").read_text())["inputs"][0]["role"] == "reference"


def merged_in_blocks(plan: Plan, block: int, threads: int) -> tuple[object, ...]:
    """Output bytes and figures of a plan whose only float tensor is the last."""
    pieces: list[bytes] = []
    with StreamingEngine(plan, pair(plan), block=block, threads=threads) as engine:
        (_, (_, one)) = list(engine.run(lambda data: pieces.append(data.tobytes()), lambda count: None))
    assert one is not None
    return b"".join(pieces), json.dumps(one.as_dict())


def test_block_size_and_threads_change_no_byte_and_no_figure(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 3 * SUB_BLOCK + 5
    start = (rng.standard_normal(n) * 0.02).astype(np.float32)
    drifts = [np.round(rng.standard_normal(n), 1) * 2**-10 for _ in range(3)]  # coarse, so that magnitudes tie
    base = write_model(tmp_path / "base", {"w": to_bf16(start), "steps": np.arange(4)})
    members = [
        write_model(tmp_path / f"m{at}", {"w": to_bf16(start + one.astype(np.float32)), "steps": np.arange(4)})
        for at, one in enumerate(drifts)
    ]
    plan = parse_plan(ties_config(base, members, WEIGHTS, density=0.3), tmp_path)
    cuts = ((1, 1), (SUB_BLOCK, 2), (2 * SUB_BLOCK, 3), (10 * SUB_BLOCK, 2))
    seen = {merged_in_blocks(plan, block, threads) for block, threads in cuts}
    assert len(seen) == 1


def test_shard_layouts_change_no_value(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    base, members = pool
    plan = parse_plan(ties_config(base, members, WEIGHTS), tmp_path)
    run_merge(plan, tmp_path / "one")
    result = run_merge(plan, tmp_path / "many", shard_size=3000)
    index = json.loads((tmp_path / "many" / "model.safetensors.index.json").read_text())
    files = sorted(set(index["weight_map"].values()))
    assert len(files) > 2
    assert files[0] == f"model-00001-of-{len(files):05d}.safetensors"
    whole = load(tmp_path / "one" / "model.safetensors")
    assert index["metadata"]["total_size"] == 4 * result.elements
    for name, file in index["weight_map"].items():
        assert load(tmp_path / "many" / file)[name].tobytes() == whole[name].tobytes()
    again = run_merge(parse_plan(ties_config(tmp_path / "many", members, WEIGHTS), tmp_path), tmp_path / "again")
    assert again.tensors == 24


def test_the_same_merge_elsewhere_gives_the_same_weights_file(tmp_path: Path) -> None:
    for place in ("x", "a/longer/place"):
        base, members = write_pool(tmp_path / place, 2)
        run_merge(parse_plan(ties_config(base, members), tmp_path), tmp_path / place / "out")
    one, two = (tmp_path / place / "out" / "model.safetensors" for place in ("x", "a/longer/place"))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("where", ["all", "base only", "members only"])
def test_a_tied_head_is_merged_as_the_embedding(tmp_path: Path, where: str) -> None:
    start = random_tensors(0)
    embedding = "model.embed_tokens.weight"
    other = random_tensors(1, base=start)
    with_head = [{**one, "lm_head.weight": one[embedding]} for one in (start, other)]
    base = write_model(tmp_path / "base", with_head[0] if where != "members only" else start)
    member = write_model(tmp_path / "member", with_head[1] if where != "base only" else other)
    result = run_merge(parse_plan(ties_config(base, [member]), tmp_path), tmp_path / "out")
    merged = load(tmp_path / "out" / "model.safetensors")
    assert ("lm_head.weight" in merged) == (where != "members only")
    if where != "members only":
        assert merged["lm_head.weight"].tobytes() == merged[embedding].tobytes()
    assert "lm_head.weight" not in read_report(tmp_path / "out")["name"].tolist()
    assert result.rounding["elements"] == sum(one.size for one in start.values())


def test_integers_and_booleans_are_copied_when_all_agree(tmp_path: Path) -> None:
    extra = {"steps": np.arange(5), "mask": np.array([True, False])}
    base = write_model(tmp_path / "base", {"w": np.ones(3, np.float32), **extra})
    member = write_model(tmp_path / "member", {"w": np.zeros(3, np.float32), **extra})
    run_merge(parse_plan(ties_config(base, [member]), tmp_path), tmp_path / "out")
    merged = load(tmp_path / "out" / "model.safetensors")
    assert merged["steps"].tolist() == [0, 1, 2, 3, 4]
    assert merged["mask"].tolist() == [True, False]
    assert merged["w"].tolist() == [0, 0, 0]


def test_empty_tensors_and_scalars(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", {"none": np.zeros((0, 4), np.float32), "one": np.float32(1).reshape(())})
    member = write_model(tmp_path / "member", {"none": np.zeros((0, 4), np.float32), "one": np.float32(3).reshape(())})
    run_merge(parse_plan(ties_config(base, [member], density=0.2), tmp_path), tmp_path / "out")
    merged = load(tmp_path / "out" / "model.safetensors")
    assert merged["none"].shape == (0, 4)
    assert merged["one"] == 3
    assert read_report(tmp_path / "out").set_index("name").loc["one"]["shape"] == "scalar"


def test_a_density_that_keeps_less_than_one_keeps_one_and_says_so(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", {"w": np.zeros(4, np.float32)})
    member = write_model(tmp_path / "member", {"w": np.array([1, -3, 2, 3], np.float32)})
    result = run_merge(parse_plan(ties_config(base, [member], density=0.2), tmp_path), tmp_path / "out")
    assert load(tmp_path / "out" / "model.safetensors")["w"].tolist() == [0, -3, 0, 0]
    assert any("below 1" in one for one in result.warnings)


def test_nearly_cancelling_weights_are_warned_of(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    base, members = pool
    text = ties_config(base, members[:2], [0.5, -0.499])
    result = run_merge(parse_plan(text, tmp_path), tmp_path / "out")
    assert result.election["small_divisor"] > 0
    assert any("Σ|w|" in one for one in result.warnings)


def test_preflight_reads_headers_only(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    base, members = pool
    plan = parse_plan(ties_config(base, members), tmp_path)
    found = preflight(plan)
    assert found.problems == ()
    assert found.tensors == 24
    assert found.disk_needed > 4 * found.elements
    broken = random_tensors(9)
    broken["model.norm.weight"] = broken["model.norm.weight"][:8]
    save(members[0] / "model.safetensors", broken)
    assert "model.norm.weight: shape [8]" in preflight(plan).problems[0]


def test_different_tokenizers_are_warned_of(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    base, members = pool
    (members[1] / "tokenizer.json").write_text("{}")
    result = run_merge(parse_plan(ties_config(base, members), tmp_path), tmp_path / "out")
    assert any("member-1: its tokenizer.json differs" in one for one in result.warnings)


def test_progress_reaches_its_total(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    base, members = pool
    seen: list[tuple[str, float, float]] = []
    plan = parse_plan(ties_config(base, members), tmp_path)
    result = run_merge(plan, tmp_path / "out", progress=lambda *call: seen.append(call[:3]))
    merging = [(done, total) for stage, done, total in seen if stage == "merging"]
    assert merging[-1] == (result.elements, result.elements)
    assert [done for done, _ in merging] == sorted(done for done, _ in merging)


def test_overwrite_replaces_an_earlier_merge_whole(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    base, members = pool
    plan = parse_plan(ties_config(base, members), tmp_path)
    run_merge(plan, tmp_path / "out")
    (tmp_path / "out" / "old").write_text("x")
    run_merge(plan, tmp_path / "out", overwrite=True)
    assert not (tmp_path / "out" / "old").exists()
    assert (tmp_path / "out" / "model.safetensors").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_how_a_tokenizer_last_padded_is_no_difference(pool: tuple[Path, list[Path]], tmp_path: Path) -> None:
    base, members = pool
    for at, folder in enumerate([base, *members]):
        (folder / "tokenizer.json").write_text('{{"model": {{}}, "padding": {}}}'.format(("null", "1")[at % 2]))
    result = run_merge(parse_plan(ties_config(base, members), tmp_path), tmp_path / "out")
    assert not any("tokenizer" in one for one in result.warnings)
