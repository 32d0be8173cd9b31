"""Sharded states made one Hugging Face folder: the same bytes as before the split, or a refusal that says why.

Run: .venv/bin/python -m pytest tests/unit/merge/test_convert.py
"""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import Cancelled, CheckpointError, InputError
from core.merge import open_checkpoint
from core.merge.blocks import Files
from core.merge.convert import convert
from core.merge.replicas import replica_report
from core.merge.slabs import pieces
from core.merge.splits import joining_of
from tests.unit.merge.models import CONFIG, from_bf16, random_tensors, to_bf16, write_model
from tests.unit.merge.sharded import MOE_CONFIG, Tensors, moe_tensors, split, write_ranks

NORM = "model.norm.weight"
EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"
QKV = "model.layers.1.self_attn.qkv_proj.weight"
WIDE = CONFIG | {"num_attention_heads": 8, "num_key_value_heads": 4, "tie_word_embeddings": False}


def raw(folder: Path) -> dict[str, tuple[str, list[int], bytes]]:
    """(dtype, shape, bytes) of every tensor of a folder, read without the code under test."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        for name, one in header.items():
            begin, end = one["data_offsets"]
            found[name] = (one["dtype"], one["shape"], data[8 + length + begin : 8 + length + end])
    return found


def with_biases(tensors: Tensors, config: dict[str, Any], seed: int = 9) -> Tensors:
    """Qwen2's biases of q, k and v, and Llama's possible bias of o."""
    rng, found = np.random.default_rng(seed), dict(tensors)
    for name, one in tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight")):
            found[name.removesuffix("weight") + "bias"] = to_bf16(rng.standard_normal(one.shape[0]))
    return found


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("parts", [1, 3])
def test_split_and_joined_again_every_tensor_has_its_bytes(tmp_path: Path, tp: int, parts: int) -> None:
    config = CONFIG | {"num_attention_heads": 4, "num_key_value_heads": 2}
    tensors = with_biases(random_tensors(0, config=config), config)
    before = raw(write_model(tmp_path / "hf", tensors, config))
    folder = write_ranks(tmp_path / "sharded", split(tensors, tp, config), config, parts=parts)
    result = convert(folder, tmp_path / "out", shard_size=3000 if parts > 1 else 5e9)
    assert raw(tmp_path / "out") == before
    assert result.tensors == len(before) and result.layout == f"a vLLM sharded state at TP {tp}"
    found = open_checkpoint(tmp_path / "out")
    assert found.ranks is None and found.warnings == () and (len(found.files) > 1) == (parts > 1)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["vocab_size"] == 40
    assert (tmp_path / "out" / "tokenizer.json").exists()


@pytest.mark.parametrize("tp", [2, 8])
def test_untied_heads_and_a_vocabulary_of_more_than_one_padding(tmp_path: Path, tp: int) -> None:
    config = WIDE | {"vocab_size": 150}
    tensors = random_tensors(0, config=config)
    tensors[HEAD] = random_tensors(1, config=config)[EMBED]
    before = raw(write_model(tmp_path / "hf", tensors, config))
    convert(write_ranks(tmp_path / "sharded", split(tensors, tp, config), config), tmp_path / "out")
    assert raw(tmp_path / "out") == before


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_experts_are_named_one_by_one_and_a_warning_says_that_kernels_may_reorder(tmp_path: Path, tp: int) -> None:
    config = MOE_CONFIG | {"num_attention_heads": 4}
    tensors = {name: one for name, one in moe_tensors(0).items() if "_proj" not in name or "experts" in name}
    tensors |= {name: one.astype(np.float32) for name, one in attention(config).items()}
    before = raw(write_model(tmp_path / "hf", tensors, config))
    ranks = split(tensors, tp, config)
    assert ranks[0]["model.layers.0.mlp.experts.w13_weight"].shape == (3, 16 // tp, 16)
    result = convert(write_ranks(tmp_path / "sharded", ranks, config), tmp_path / "out")
    assert raw(tmp_path / "out") == before
    assert [one for one in result.warnings if "reorder" in one]


def attention(config: dict[str, Any]) -> Tensors:
    return {
        name: from_bf16(one)
        for name, one in random_tensors(3, config=config).items()
        if "self_attn" in name and "_proj" in name
    }


def test_the_names_that_newer_versions_of_vllm_save_under(tmp_path: Path) -> None:
    config = MOE_CONFIG | {"model_type": "qwen2_moe", "shared_expert_intermediate_size": 12}
    tensors, rng = moe_tensors(0), np.random.default_rng(5)
    for layer in (0, 1):
        mlp = f"model.layers.{layer}.mlp"
        tensors[f"{mlp}.shared_expert.gate_proj.weight"] = rng.standard_normal((12, 16)).astype(np.float32)
        tensors[f"{mlp}.shared_expert.up_proj.weight"] = rng.standard_normal((12, 16)).astype(np.float32)
        tensors[f"{mlp}.shared_expert.down_proj.weight"] = rng.standard_normal((16, 12)).astype(np.float32)
        tensors[f"{mlp}.shared_expert_gate.weight"] = rng.standard_normal((1, 16)).astype(np.float32)
    renamed = (
        (".mlp.gate.weight", ".mlp.experts._gate.weight"),
        (".mlp.experts.w", ".mlp.experts.routed_experts.w"),
        (".mlp.shared_expert.", ".mlp.experts._shared_experts."),
        (".mlp.shared_expert_gate.", ".mlp.experts._shared_experts.expert_gate."),
    )
    ranks = split(tensors, 2, config)
    for old, new in renamed:
        ranks = [{name.replace(old, new): one for name, one in rank.items()} for rank in ranks]
    for rank in ranks:
        rank["model.layers.0.self_attn.attn._k_scale"] = np.ones((), np.float32)
    before = raw(write_model(tmp_path / "hf", tensors, config))
    result = convert(write_ranks(tmp_path / "sharded", ranks, config), tmp_path / "out")
    assert raw(tmp_path / "out") == before
    assert [one for one in result.warnings if "_k_scale" in one and "left out" in one]


@pytest.mark.parametrize("keep", [(HEAD,), (EMBED,), (EMBED, HEAD)])
def test_a_tied_embedding_is_written_once_whichever_name_vllm_kept(tmp_path: Path, keep: tuple[str, ...]) -> None:
    tensors = random_tensors(0)
    ranks = [
        {name: one for name, one in rank.items() if name != EMBED} | dict.fromkeys(keep, rank[EMBED])
        for rank in split(tensors, 2)
    ]
    convert(write_ranks(tmp_path / "sharded", ranks), tmp_path / "out")
    assert raw(tmp_path / "out") == raw(write_model(tmp_path / "hf", tensors))


def test_a_tied_head_that_differs_is_refused_and_padding_is_never_compared(tmp_path: Path) -> None:
    ranks = [rank | {HEAD: rank[EMBED].copy()} for rank in split(random_tensors(0), 2)]
    ranks[1][HEAD][20] = 0x7FC0  # row 52 of 64, beyond the vocabulary of 40
    assert convert(write_ranks(tmp_path / "padding", ranks), tmp_path / "out").tensors == 24
    ranks[1][HEAD][7] += 1  # row 39
    with pytest.raises(CheckpointError, match=r"worst is lm_head.weight: 16 of 640 values differ"):
        convert(write_ranks(tmp_path / "differ", ranks), tmp_path / "out2")


def test_pipeline_stages_are_joined_also_where_the_tied_embedding_is_on_the_last_too(tmp_path: Path) -> None:
    tensors = random_tensors(0)
    halves = split(tensors, 2)
    late = {name for name in halves[0] if ".layers.1." in name or name == NORM}
    stages = [{name: one for name, one in half.items() if name not in late} for half in halves]
    stages += [{name: half[name] for name in late} | {HEAD: half[EMBED]} for half in halves]
    names = [f"pp-{stage}-tp-{slot}" for stage in (0, 1) for slot in (0, 1)]
    convert(write_ranks(tmp_path / "sharded", stages, names=names), tmp_path / "out")
    assert raw(tmp_path / "out") == raw(write_model(tmp_path / "hf", tensors))


def salted(ranks: list[Tensors]) -> list[Tensors]:
    """Norms of ones, on rank 1 apart by one bf16 ulp of 1.0, and by 0.5 and 0.25."""
    ranks = [{name: one.copy() for name, one in rank.items()} for rank in ranks]
    for rank in ranks:
        rank[NORM][:] = to_bf16(np.ones(16))
        rank["model.layers.0.self_attn.q_norm.weight"][:] = to_bf16(np.ones(8))
    ranks[1][NORM][3] = to_bf16(np.float32([1.0078125]))[0]
    ranks[1]["model.layers.0.self_attn.q_norm.weight"][[0, 5]] = to_bf16(np.float32([1.5, 0.75]))
    return ranks


def test_norms_that_differ_are_refused_with_the_worst_and_how_many(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "sharded", salted(split(random_tensors(0), 2)))
    with pytest.raises(CheckpointError) as caught:
        convert(folder, tmp_path / "out")
    said = str(caught.value)
    assert "The worst is model.layers.0.self_attn.q_norm.weight: 2 of 8 values differ, by up to 0.5." in said
    # Four norms, and k and v of the one shared head, in each of two layers; and the last norm.
    assert "2 of 13 shared tensors differ" in said
    assert [path.name for path in tmp_path.iterdir()] == ["sharded"]
    rows = replica_report(open_checkpoint(folder))
    assert [(row.tensor, row.difference, row.differing) for row in rows[:3]] == [
        ("model.layers.0.self_attn.q_norm.weight", 0.5, 2),
        (NORM, 0.0078125, 1),
        ("model.layers.0.input_layernorm.weight", 0.0, 0),
    ]
    assert len(rows) == 13


def test_shared_key_value_heads_must_agree_too(tmp_path: Path) -> None:
    config = CONFIG | {"num_attention_heads": 4, "num_key_value_heads": 2}
    ranks = split(random_tensors(0, "fp32", config=config), 4, config)
    ranks[3][QKV] = ranks[3][QKV].copy()
    ranks[3][QKV][8 + 2, 5] += np.float32(0.25)  # rank 3: 8 rows of q, then head 1 of k
    with pytest.raises(
        CheckpointError, match=r"layers.1.self_attn.k_proj.weight: 1 of 256 values differ, by up to 0.25"
    ):
        convert(write_ranks(tmp_path / "sharded", ranks, config), tmp_path / "out")


def test_a_report_needs_no_config_and_passes_over_what_it_does_not_know(tmp_path: Path) -> None:
    ranks = salted(split(random_tensors(0), 2))
    for rank in ranks:
        rank["model.layers.0.linear_attn.in_proj.weight"] = np.ones((2, 2), np.float32)
    rows = replica_report(open_checkpoint(write_ranks(tmp_path / "sharded", ranks, None)))
    assert rows[0].tensor == NORM and rows[0].difference == 0.0078125
    with pytest.raises(CheckpointError, match="Hugging Face folder already"):
        replica_report(open_checkpoint(write_model(tmp_path / "hf", random_tensors(0))))


def test_a_nan_on_one_rank_only_is_an_infinite_difference(tmp_path: Path) -> None:
    ranks = split(random_tensors(0), 2)
    ranks[0][NORM] = ranks[0][NORM].copy()
    ranks[0][NORM][0] = 0x7FC0
    row = replica_report(open_checkpoint(write_ranks(tmp_path / "sharded", ranks)))[0]
    assert (row.tensor, row.difference, row.differing) == (NORM, float("inf"), 1)


def changed(**sizes: Any) -> dict[str, Any]:
    return {key: value for key, value in (CONFIG | sizes).items() if value is not None}


REFUSED = [
    (
        changed(),
        {"model.layers.0.self_attn.rotary.weight": (4,)},
        "rank-0/model.layers.0.self_attn.rotary.weight has a name",
    ),
    (changed(), {"model.layers.0.self_attn.q_norm.weight": (4,)}, r"q_norm.weight has shape \[4\]"),
    (changed(), {"model.layers.0.mlp.down_proj.weight": (16, 12, 1)}, "expected 2 dimensions"),
    (changed(), {EMBED: (48, 16)}, "has 96 rows over all ranks, not the 40"),
    (changed(), {EMBED: (32, 8)}, "has 8 columns where config.json asks for 16"),
    (changed(num_key_value_heads=4), {}, "has 24 rows on each of 2 ranks where config.json asks for 40"),
    (changed(intermediate_size=30), {}, "has 48 rows over all ranks where config.json asks for 60"),
    (changed(num_hidden_layers=3), {}, "no rank holds model.layers.2.self_attn.q_proj.weight"),
    (changed(tie_word_embeddings=False), {}, "no rank holds lm_head.weight"),
    (
        changed(num_attention_heads=None, head_dim=None),
        {},
        "expected a positive number `num_attention_heads`, found None",
    ),
    (changed(), {HEAD: (64, 16)}, "lm_head.weight is not split as rank-0/model.embed_tokens.weight"),
    (changed(num_hidden_layers=10**15), {}, "no rank holds model.layers.2.self_attn.q_proj.weight"),
    (changed(model_type="phi3"), {}, "of model_type phi3"),
]


@pytest.mark.parametrize(("config", "more", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_told_apart_is_refused_with_the_tensor(
    tmp_path: Path, config: dict[str, Any], more: dict[str, tuple[int, ...]], message: str
) -> None:
    extra = {name: np.zeros(shape, np.uint16) for name, shape in more.items()}
    ranks = [rank | extra for rank in split(random_tensors(0), 2)]
    with pytest.raises(CheckpointError, match=message):
        convert(write_ranks(tmp_path / "sharded", ranks, config), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["sharded"]


def test_a_folder_without_config_or_without_ranks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no config.json"):
        convert(write_ranks(tmp_path / "sharded", split(random_tensors(0), 2), None), tmp_path / "out")
    with pytest.raises(CheckpointError, match="Hugging Face folder already"):
        convert(write_model(tmp_path / "hf", random_tensors(0)), tmp_path / "out")


def test_sizes_that_are_no_numbers_are_not_compared(tmp_path: Path) -> None:
    tensors = random_tensors(0)
    config = changed(intermediate_size=[24, 24], architectures=7, num_key_value_heads=1, hidden_size=16.0)
    convert(write_ranks(tmp_path / "sharded", split(tensors, 2), config), tmp_path / "out")
    assert raw(tmp_path / "out") == raw(write_model(tmp_path / "hf", tensors))


def test_experts_kept_by_expert_parallel_ranks_are_refused(tmp_path: Path) -> None:
    ranks = split(moe_tensors(0), 2, MOE_CONFIG)
    for rank in ranks:
        rank["model.layers.0.mlp.experts.w13_weight"] = rank["model.layers.0.mlp.experts.w13_weight"][:2].copy()
    with pytest.raises(CheckpointError, match=r"w13_weight has 2 experts where config.json asks for 3"):
        convert(write_ranks(tmp_path / "sharded", ranks, MOE_CONFIG), tmp_path / "out")


def test_an_unfamiliar_model_type_is_converted_with_a_warning(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "sharded", split(random_tensors(0), 2), changed(model_type="novel"))
    assert [one for one in convert(folder, tmp_path / "out").warnings if "model_type novel" in one]


def test_the_provenance_names_every_file_with_its_hash(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "sharded", split(random_tensors(0), 2), parts=2)
    result = convert(folder, tmp_path / "out")
    found = json.loads((tmp_path / "out" / "provenance.json").read_text())
    listed = {one["file"]: one["sha256"] for one in found["inputs"][0]["files"]}
    assert listed == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.safetensors")}
    merged = (tmp_path / "out" / "model.safetensors").read_bytes()
    assert [one["sha256"] for one in found["outputs"]] == [hashlib.sha256(merged).hexdigest()]
    assert found["config_sha256"] == hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
    assert found["layout"] == {"pipeline": 1, "tensor": 2, "staged": False}
    assert result.bytes_written > len(merged) and result.replicated == 13


def test_only_an_earlier_conversion_is_overwritten_and_only_when_asked(tmp_path: Path) -> None:
    folder, out = write_ranks(tmp_path / "sharded", split(random_tensors(0), 2)), tmp_path / "out"
    convert(folder, out)
    with pytest.raises(InputError, match="not empty"):
        convert(folder, out)
    (out / "config.json").unlink()
    convert(folder, out, overwrite=True)
    assert (out / "config.json").exists()
    (out / "provenance.json").write_text("{}")
    with pytest.raises(InputError, match="no earlier conversion"):
        convert(folder, out, overwrite=True)
    with pytest.raises(InputError, match="holds"):
        convert(folder, folder, overwrite=True)
    assert open_checkpoint(folder).ranks


def test_a_cancelled_conversion_leaves_nothing(tmp_path: Path) -> None:
    folder = write_ranks(tmp_path / "sharded", split(random_tensors(0), 2))

    def cancel(stage: str, done: float, total: float, unit: str) -> None:
        if stage == "converting" and done > total / 2:
            raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        convert(folder, tmp_path / "out", progress=cancel)
    assert [path.name for path in tmp_path.iterdir()] == ["sharded"]


@settings(max_examples=25, deadline=None)
@given(
    tp=st.sampled_from([1, 2, 4]),
    groups=st.sampled_from([(4, 1), (4, 2), (4, 4), (8, 4), (8, 8)]),
    sizes=st.tuples(st.integers(1, 130), st.integers(1, 3), st.integers(1, 3), st.integers(1, 5)),
    dtype=st.sampled_from(["bf16", "fp16", "fp32"]),
)
def test_any_sizes_come_back_as_they_were(
    tp: int, groups: tuple[int, int], sizes: tuple[int, int, int, int], dtype: str
) -> None:
    vocabulary, width, slices, hidden = sizes
    config = CONFIG | {
        "num_attention_heads": groups[0], "num_key_value_heads": groups[1], "head_dim": width,
        "vocab_size": vocabulary, "intermediate_size": 4 * slices, "hidden_size": hidden,
    }  # fmt: skip
    tensors = random_tensors(0, dtype, config=config)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        convert(write_ranks(root / "sharded", split(tensors, tp, config), config), root / "out")
        assert raw(root / "out") == raw(write_model(root / "hf", tensors, config))


def test_pieces_stay_within_their_limit_and_are_the_same_bytes(tmp_path: Path) -> None:
    ranks = split(random_tensors(0), 2)
    joining = joining_of(open_checkpoint(write_ranks(tmp_path / "sharded", ranks)))
    with Files() as files:
        for tensor in joining.tensors:
            for info in tensor.inputs:
                files.open(info.file)
            whole = b"".join(one.tobytes() for one in pieces(tensor, files))
            for limit in (64, 100):
                small = [one.tobytes() for one in pieces(tensor, files, limit)]
                assert b"".join(small) == whole
                assert max(map(len, small)) <= limit
            assert len(whole) == tensor.nbytes


def test_an_opened_conversion_is_the_model_that_transformers_opens(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tensors = random_tensors(0, "fp32")
    convert(write_ranks(tmp_path / "sharded", split(tensors, 2)), tmp_path / "out")
    model = transformers.AutoModelForCausalLM.from_pretrained(str(tmp_path / "out"), dtype="float32")
    for name, one in model.state_dict().items():
        expected = tensors[EMBED if name == HEAD else name]
        assert one.numpy().tobytes() == expected.tobytes()
