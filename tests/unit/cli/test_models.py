"""`merge`, `rounding`, `eval` on real small models: the keys, the files, and what bad input says.

Run: .venv/bin/python -m pytest tests/unit/cli/test_models.py
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.cli.models import size_of
from core.errors import InputError
from core.jobs.specs import checkpoint_name
from tests.unit.cli.conftest import Shell
from tests.unit.merge.models import CONFIG, random_tensors, ties_config, write_model

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def config(shell: Shell, tiny_bank: Path, tmp_path: Path) -> Path:
    path = tmp_path / "config.yml"
    assert shell("plan", tiny_bank, "--k", 2, "--tau", 0.5, "--out", path).code == 0
    return path


def test_merge_then_rounding_have_the_promised_keys_and_agree(
    shell: Shell, config: Path, tiny_bank: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    checked = shell("merge", config, out, "--check", "--json").json
    assert (checked["ok"], checked["problems"], out.exists()) == (True, [], False)
    merged = shell("merge", config, out, "--json", "--shard-size", "10kB").json
    keys = "out engine tensors elements seconds bytes_read bytes_written peak_rss_bytes election rounding"
    assert set(keys.split()) <= set(merged)
    assert (merged["engine"], merged["tensors"]) == ("streaming", checked["tensors"])
    assert len(list(out.glob("model-*.safetensors"))) > 1
    lost = shell("rounding", "--base", tiny_bank / "base", "--merged", out, "--json").json
    assert lost["total"]["changed"] == merged["rounding"]["changed"]
    assert lost["total"]["lost"] == merged["rounding"]["lost"]
    assert len(lost["tensors"]) == merged["tensors"]
    row = {"name", "elements", "changed", "lost", "lost_fraction", "relative_l2", "cosine"}
    assert all(row <= set(one) for one in lost["tensors"])
    assert sum(one["changed"] for one in lost["tensors"]) == lost["total"]["changed"]
    text = shell("rounding", "--base", tiny_bank / "base", "--merged", out).out
    assert text.splitlines()[-1].startswith("total")


def test_merge_writes_nothing_where_something_is_unless_told(shell: Shell, config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("keep")
    refused = shell("merge", config, out, "--json")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.splitlines()[-1].startswith("error: ")
    assert shell("merge", config, out, "--check").code == 2
    assert shell("merge", config, out, "--overwrite").code == 2
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    (out / "mine.txt").unlink()
    assert shell("merge", config, out).code == 0
    assert shell("merge", config, out, "--overwrite").code == 0


def test_rounding_says_when_a_file_is_already_rounded(shell: Shell, tiny_bank: Path) -> None:
    found = shell("rounding", "--base", tiny_bank / "base", "--merged", tiny_bank / "100", "--json")
    assert found.code == 0 and found.json["total"]["lost"] == 0
    assert "is stored in bfloat16" in found.err


def test_bad_input_of_merge(shell: Shell, config: Path, tiny_bank: Path, tmp_path: Path) -> None:
    (tmp_path / "gone.yml").write_text(config.read_text().replace("/110", "/111"))
    (tmp_path / "odd.yml").write_text("just words")
    for words in (
        ("merge", tmp_path / "none.yml", "out"),
        ("merge", tmp_path / "gone.yml", "out"),
        ("merge", tmp_path / "gone.yml", "out", "--check"),
        ("merge", tmp_path / "odd.yml", "out"),
        ("merge", config, "out", "--shard-size", "huge"),
        ("rounding", "--base", tiny_bank / "base", "--merged", tmp_path / "none"),
    ):
        found = shell(*words)
        assert (found.code, found.err.count("error: "), found.err.count("\n")) == (2, 1, 1), found.err
    assert not (tmp_path / "out").exists()


def test_eval_in_a_process_prints_json_alone_and_the_same_seed_gives_the_same_bytes(
    tiny_bank: Path, tmp_path: Path, shell: Shell
) -> None:
    words = ["eval", tiny_bank / "110", "--tasks", tiny_bank / "dev.jsonl", "--samples", 2, "--max-new-tokens", 4]
    command = [sys.executable, "-m", "core", *map(str, words), "--out", str(tmp_path / "a.jsonl"), "--json"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["n_tasks"], found["samples"], found["checkpoint"]) == (4, 2, "110")
    assert found["protocol"]["temperature"] == 0.5
    again = shell(*words, "--out", tmp_path / "b.jsonl", "--batch-size", 3)
    assert again.code == 0
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    keys = "checkpoint task scenario sample score seed prompt completion scorer finish"
    assert [list(one) for one in rows] == [keys.split()] * 8


def test_bad_input_of_eval(shell: Shell, tiny_bank: Path, tmp_path: Path) -> None:
    good = {"model": tiny_bank / "base", "--tasks": tiny_bank / "dev.jsonl", "--out": tmp_path / "out.jsonl"}
    for change, says in (
        ({"model": tmp_path / "none"}, "no such folder"),
        ({"--tasks": tmp_path / "none.jsonl"}, "no such file"),
        ({"--out": tmp_path}, "is a folder"),
        ({"--temperature": -1}, "temperature must be a number from 0"),
        ({"--samples": 0}, "samples must be a whole number of at least 1"),
        ({"--dtype": "int8"}, "dtype must be one of float32"),
        ({"--batch-size": 0}, "batch_size must be"),
        ({"--tasks": tiny_bank / "scores.jsonl"}, "scores.jsonl:1"),
    ):
        asked = good | change
        model = asked.pop("model")
        found = shell("eval", model, *(word for pair in asked.items() for word in pair), "--json")
        assert (found.code, found.out) == (2, ""), found.err
        assert says in found.err
    assert not (tmp_path / "out.jsonl").exists()


def test_sizes_are_powers_of_ten() -> None:
    assert [size_of(one) for one in ("5GB", "500MB", "1.5 kB", "12", "2t")] == [
        5_000_000_000, 500_000_000, 1500, 12, 2_000_000_000_000,
    ]  # fmt: skip
    for wrong in ("", "GB", "-1GB", "0", "nan", "inf"):
        with pytest.raises(InputError, match="expected a size such as 5GB"):
            size_of(wrong)


def test_a_merge_is_called_merged_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "anything").mkdir()
    assert checkpoint_name(tmp_path / "anything") == "anything"
    (tmp_path / "anything" / "mergekit_config.yml").write_text("merge_method: ties\n")
    assert checkpoint_name(tmp_path / "anything") == "merged"
    assert checkpoint_name(tmp_path / "anything" / ".." / "anything") == "merged"


def test_check_prints_models_needs_and_obstacles_and_writes_nothing(
    shell: Shell, config: Path, tiny_bank: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    found = shell("merge", config, out, "--check", "--scan")
    assert found.code == 0
    lines = found.out.splitlines()
    assert lines[0].split() == ["model", "form", "parameters", "dtype", "tied", "vocabulary", "files", "size", "folder"]
    assert lines[1].split()[:3] == ["base", "one", "file"]
    assert "Nothing stands in the way." in lines
    for name in ("merged model", "reads", "disk", "memory", "time", "NaN, infinity"):
        assert sum(one.startswith(name + "  ") for one in lines) == 1
    assert any(one.startswith("NaN, infinity") and "none, in" in one for one in lines)
    assert not out.exists()
    values = shell("merge", config, out, "--check", "--json").json
    assert (values["ok"], values["scan"], values["seconds_rest_on_merges"]) == (True, None, 0)
    assert [one["role"] for one in values["models"]] == ["base", "member 1", "member 2"]
    assert values["seconds_expected"] > 0 and values["memory_expected"] > 0


def test_check_lists_every_obstacle_and_fails(shell: Shell, tiny_bank: Path, tmp_path: Path) -> None:
    base, member = write_model(tmp_path / "base", random_tensors(0)), tmp_path / "member"
    write_model(member, random_tensors(1, config=CONFIG | {"intermediate_size": 20, "num_hidden_layers": 4}))
    (tmp_path / "c.yml").write_text(ties_config(base, [member]))
    found = shell("merge", tmp_path / "c.yml", tmp_path / "out", "--check")
    assert found.code == 2
    # Three matrices of two layers have another shape; eleven tensors of two more layers are not in the base.
    assert found.err.startswith("error: 28 things stand in the way. The first: tensor model.layers.0.mlp")
    assert "stands in the way: 28" in found.out and "and 20 more; --json lists all" in found.out
    values = shell("merge", tmp_path / "c.yml", tmp_path / "out", "--check", "--json")
    assert (values.code, len(values.json["problems"]), values.json["ok"]) == (2, 28, False)


def test_the_vocabulary_is_cut_only_when_asked(shell: Shell, tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", random_tensors(0))
    member = tmp_path / "member"
    write_model(member, random_tensors(1, config=CONFIG | {"vocab_size": 44}), CONFIG | {"vocab_size": 44})
    (tmp_path / "c.yml").write_text(ties_config(base, [member]))
    refused = shell("merge", tmp_path / "c.yml", tmp_path / "out")
    assert refused.code == 2 and "`--vocabulary truncate`" in refused.err
    assert shell("merge", tmp_path / "c.yml", tmp_path / "out", "--vocabulary", "pad").code == 2
    assert shell("merge", tmp_path / "c.yml", tmp_path / "out", "--scan").code == 2
    merged = shell("merge", tmp_path / "c.yml", tmp_path / "out", "--vocabulary", "truncate", "--json")
    assert merged.code == 0 and any("from 44 rows to 40" in one for one in merged.json["warnings"])
