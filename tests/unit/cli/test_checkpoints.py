"""`convert` on tiny sharded states: the keys, what it refuses, and a merge before it.

Run: .venv/bin/python -m pytest tests/unit/cli/test_checkpoints.py
"""

from pathlib import Path

import numpy as np

from tests.unit.cli.conftest import Shell
from tests.unit.merge.models import from_bf16, load, random_tensors
from tests.unit.merge.sharded import split, write_ranks


def test_the_shell_converts_and_says_what_stands_in_the_way(shell: Shell, tmp_path: Path) -> None:
    ranks = split(random_tensors(0), 2)
    folder = write_ranks(tmp_path / "sharded", ranks)
    done = shell("convert", folder, tmp_path / "out", "--shard-size", "3kB", "--json")
    assert done.code == 0 and done.json["tensors"] == 24 and done.json["replicated"] == 13
    assert len(list((tmp_path / "out").glob("model-*.safetensors"))) > 1
    assert shell("convert", folder, tmp_path / "out").code == 2
    assert "replicated" in shell("convert", folder, tmp_path / "out", "--overwrite").out
    unequal = [ranks[0], ranks[1] | {"model.norm.weight": np.zeros(16, np.uint16)}]
    largest = np.abs(from_bf16(ranks[0]["model.norm.weight"])).max()
    refused = shell("convert", write_ranks(tmp_path / "salted", unequal), tmp_path / "no", "--json")
    assert (refused.code, refused.out) == (2, "")
    assert f"model.norm.weight: 16 of 16 values differ, by up to {largest:.6g}" in refused.err
    assert len(refused.err.strip().splitlines()) == 1
    config = tmp_path / "c.yml"
    config.write_text(
        f"merge_method: linear\ndtype: float32\nmodels:\n- model: {folder}\n  parameters: {{weight: 1}}\n"
    )
    assert shell("merge", config, tmp_path / "merged", "--check", "--json").json["problems"] == []
    assert shell("merge", config, tmp_path / "merged", "--json").code == 0
    assert shell("convert", tmp_path / "merged", tmp_path / "hf").code == 0
    converted = load(tmp_path / "hf" / "model.safetensors")
    for name, one in random_tensors(0).items():
        assert converted[name].tobytes() == from_bf16(one).tobytes()
