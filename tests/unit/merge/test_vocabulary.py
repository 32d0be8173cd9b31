"""Embeddings of unequal rows: refused, or cut to the smallest when asked, and what is lost by it.

Run: .venv/bin/python -m pytest tests/unit/merge/test_vocabulary.py
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import CheckpointError, PlanError
from core.merge import MergeResult, Plan, parse_plan, preflight, run_merge, with_vocabulary
from core.merge.companions import recipe_fields, shard_metadata
from core.merge.vocabulary import token_ids
from tests.unit.merge.models import CONFIG, from_bf16, load, random_tensors, ties_config, write_model
from tests.unit.merge.sharded import split, write_ranks

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def model(folder: Path, rows: int, seed: int, *, untied: int = 0, **settings: Any) -> Path:
    """A model with so many rows of vocabulary; `untied` rows of an lm_head of its own."""
    config = CONFIG | {"vocab_size": rows} | settings
    tensors = random_tensors(seed, config=config)
    if untied:
        tensors[HEAD] = np.full((untied, 16), 0x3F80, np.uint16)
        config["tie_word_embeddings"] = False
    return write_model(folder, tensors, config)


def plan_of(base: Path, members: Sequence[Path], vocabulary: str = "truncate", **options: Any) -> Plan:
    return with_vocabulary(parse_plan(ties_config(base, members, **options), base.parent), vocabulary)


def merged(plan: Plan, out: Path) -> tuple[MergeResult, dict[str, np.ndarray], dict[str, Any]]:
    result = run_merge(plan, out)
    return result, load(out / "model.safetensors"), json.loads((out / "config.json").read_text())


def test_unequal_rows_are_refused_and_the_choice_is_named(tmp_path: Path) -> None:
    base, member = model(tmp_path / "base", 40, 0), model(tmp_path / "member", 44, 1)
    with pytest.raises(CheckpointError, match=r"shape \[44, 16\] .*`--vocabulary truncate` would cut every model"):
        run_merge(plan_of(base, [member], "refuse"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_larger_member_is_cut_to_the_base(tmp_path: Path) -> None:
    base, member = model(tmp_path / "base", 40, 0), model(tmp_path / "member", 44, 1)
    result, weights, config = merged(plan_of(base, [member]), tmp_path / "out")
    # One member at weight 1 and density 1: the merge is the member itself, but for the rounding of base + (m - base).
    rows = from_bf16(random_tensors(1, config=CONFIG | {"vocab_size": 44})[EMBEDDING])[:40]
    assert weights[EMBEDDING].shape == (40, 16)
    np.testing.assert_allclose(weights[EMBEDDING], rows, atol=1e-8)
    assert config["vocab_size"] == 40
    assert f"{member}: {EMBEDDING} is cut from 44 rows to 40." in result.warnings
    record = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert record["recipe"]["vocabulary"] == "truncate"


def test_the_base_is_cut_to_the_smallest_member(tmp_path: Path) -> None:
    base, small = model(tmp_path / "base", 44, 0), model(tmp_path / "small", 36, 1)
    large = model(tmp_path / "large", 48, 2)
    result, weights, config = merged(plan_of(base, [small, large]), tmp_path / "out")
    assert weights[EMBEDDING].shape == (36, 16) and config["vocab_size"] == 36
    cuts = [one for one in result.warnings if "is cut from" in one]
    assert [one.split(": ", 1)[1] for one in cuts] == [
        f"{EMBEDDING} is cut from 44 rows to 36.",
        f"{EMBEDDING} is cut from 48 rows to 36.",
    ]


def test_an_untied_head_is_cut_too(tmp_path: Path) -> None:
    base = model(tmp_path / "base", 40, 0, untied=40)
    member = model(tmp_path / "member", 44, 1, untied=44)
    _, weights, _ = merged(plan_of(base, [member]), tmp_path / "out")
    assert weights[HEAD].shape == weights[EMBEDDING].shape == (40, 16)
    assert (weights[HEAD] == 1).all()


def test_equal_rows_are_left_alone_and_say_nothing(tmp_path: Path) -> None:
    base, member = model(tmp_path / "base", 40, 0), model(tmp_path / "member", 40, 1)
    run_merge(plan_of(base, [member], "refuse"), tmp_path / "one")
    result, weights, _ = merged(plan_of(base, [member]), tmp_path / "two")
    assert not any("cut" in one for one in result.warnings)
    for name, one in load(tmp_path / "one" / "model.safetensors").items():
        assert np.array_equal(weights[name], one)


def test_any_other_mismatch_stays_an_error(tmp_path: Path) -> None:
    base = model(tmp_path / "base", 40, 0)
    member = model(tmp_path / "member", 44, 1, intermediate_size=20)
    said = preflight(plan_of(base, [member]), tmp_path / "out").problems
    assert len(said) == 6 and all(".mlp." in one for one in said)
    assert not any("--vocabulary" in one for one in said)


def test_a_wider_embedding_is_no_question_of_vocabulary(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", {EMBEDDING: np.zeros((40, 16), np.uint16)})
    member = write_model(tmp_path / "member", {EMBEDDING: np.zeros((44, 8), np.uint16)})
    said = preflight(plan_of(base, [member]), tmp_path / "out").problems
    assert len(said) == 1 and "--vocabulary" not in said[0]


def test_a_slice_of_a_vocabulary_is_not_cut(tmp_path: Path) -> None:
    base = write_ranks(tmp_path / "base", split(random_tensors(0), 2))
    larger = CONFIG | {"vocab_size": 100}
    member = write_ranks(tmp_path / "member", split(random_tensors(1, config=larger), 2, larger), larger)
    said = preflight(plan_of(base, [member]), tmp_path / "out").problems
    assert said and any("embed_tokens" in one for one in said)
    assert not any("--vocabulary" in one for one in said)


def give_tokens(folder: Path, **tokens: int) -> None:
    vocabulary = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    added = [{"id": number, "content": token} for token, number in tokens.items()]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added, "model": vocabulary}))


def test_a_token_of_the_kept_tokenizer_without_a_row_is_refused(tmp_path: Path) -> None:
    base, member = model(tmp_path / "base", 44, 0), model(tmp_path / "member", 40, 1)
    give_tokens(base, last=39, think=40, answer=43)
    said = preflight(plan_of(base, [member]), tmp_path / "out").problems
    assert len(said) == 1 and "2 tokens (first: 'think', id 40)" in said[0]
    with pytest.raises(CheckpointError, match="would have no row after the cut to 40 rows"):
        run_merge(plan_of(base, [member]), tmp_path / "out")


def test_a_token_that_only_a_member_knows_is_lost_with_a_warning(tmp_path: Path) -> None:
    base, member = model(tmp_path / "base", 40, 0), model(tmp_path / "member", 44, 1)
    give_tokens(member, think=41)
    found = preflight(plan_of(base, [member]), tmp_path / "out")
    assert found.ok
    assert any(
        "member: beyond the 40 rows that are kept, 1 token (first: 'think', id 41)" in one for one in found.warnings
    )


def test_a_special_token_of_the_config_without_a_row_is_refused(tmp_path: Path) -> None:
    base = model(tmp_path / "base", 44, 0, eos_token_id=[3, 41])
    member = model(tmp_path / "member", 40, 1)
    said = preflight(plan_of(base, [member]), tmp_path / "out").problems
    assert len(said) == 1 and "eos_token_id 41 would have no row" in said[0]


def test_a_tokenizer_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    base, member = model(tmp_path / "base", 40, 0), model(tmp_path / "member", 44, 1)
    (base / "tokenizer.json").unlink()
    (base / "tokenizer.model").write_bytes(b"x")
    warnings = preflight(plan_of(base, [member]), tmp_path / "out").warnings
    assert any("whether every token keeps its row is not known" in one for one in warnings)


def test_tokens_are_found_in_each_kind_of_tokenizer(tmp_path: Path) -> None:
    place = tmp_path / "tokenizer.json"
    assert token_ids(tmp_path) == {}
    for text, expected in (
        ({"model": {"vocab": {"a": 0, "b": 7}}, "added_tokens": [{"id": 9, "content": "c"}]}, {"a": 0, "b": 7, "c": 9}),
        ({"model": {"vocab": [["x", -1.0], ["y", -2.0]]}}, {"x": 0, "y": 1}),
        ({"model": None, "added_tokens": "odd"}, {}),
        ([], {}),
    ):
        place.write_text(json.dumps(text))
        assert token_ids(tmp_path) == expected


def test_the_choice_changes_the_recipe_only_when_it_is_made(tmp_path: Path) -> None:
    base, member = model(tmp_path / "base", 40, 0), model(tmp_path / "member", 40, 1)
    plain = parse_plan(ties_config(base, [member]), tmp_path)
    assert "vocabulary" not in recipe_fields(plain)
    assert shard_metadata(plan_of(base, [member])) != shard_metadata(plain)


def test_an_unknown_choice_and_one_that_mergekit_would_not_keep_are_refused(tmp_path: Path) -> None:
    base, member = model(tmp_path / "base", 40, 0), model(tmp_path / "member", 40, 1)
    with pytest.raises(PlanError, match="expected refuse or truncate, found 'pad'"):
        plan_of(base, [member], "pad")
    with pytest.raises(PlanError, match="needs the streaming engine"):
        plan_of(base, [member], method="dare_ties")
