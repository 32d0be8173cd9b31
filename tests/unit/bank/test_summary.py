"""What `bank show` says: sizes of the splits, and of the weights from their headers.

Run: .venv/bin/python -m pytest tests/unit/bank/test_summary.py
"""

import json
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from core.bank import bank_summary, load_bank


def test_a_bank_of_scores_only(folder: Any) -> None:
    found = bank_summary(load_bank(folder.write()))
    assert json.loads(json.dumps(found)) == found
    assert found["name"] == "small"
    nothing = {"path": None, "dtype": None, "parameters": None}
    assert found["base"] == {"id": "base", "step": None} | nothing
    assert found["checkpoints"][1] == {"id": "b", "step": 20} | nothing
    assert found["splits"] == {"dev": {"tasks": 4, "samples": 1}}
    assert any("Scores only" in one for one in found["warnings"])


def test_weights_are_summed_up_from_their_headers_and_a_broken_one_is_named(folder: Any) -> None:
    folder.yaml["base"]["path"] = "base"
    folder.yaml["checkpoints"][0]["path"] = "a"
    folder.yaml["checkpoints"][1]["path"] = "b"
    folder.write()
    for name in ("base", "a"):
        (folder.root / name).mkdir()
        (folder.root / name / "config.json").write_text('{"model_type": "qwen3"}')
        tensors = {"x.weight": np.ones((3, 4), np.float32), "y.weight": np.ones(5, np.float32)}
        save_file(tensors, folder.root / name / "model.safetensors")
    (folder.root / "b").mkdir()
    (folder.root / "b" / "model.safetensors").write_bytes(b"\x10")
    found = bank_summary(load_bank(folder.root))
    assert (found["base"]["dtype"], found["base"]["parameters"]) == ("float32", 17)
    assert found["checkpoints"][0]["path"] == str(folder.root / "a")
    assert found["checkpoints"][0]["parameters"] == 17
    assert (found["checkpoints"][1]["dtype"], found["checkpoints"][1]["parameters"]) == (None, None)
    assert any(one.startswith("b: ") and "model.safetensors" in one for one in found["warnings"])
