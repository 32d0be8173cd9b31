"""A whole bank in miniature: real Qwen3 weights, a tokenizer, tasks in scenarios, scores of every model."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.unit.evals.conftest import make_model, make_tokenizer

CHECKPOINTS = ("100", "110", "120")
PROTOCOL = {"temperature": 0.5, "samples": 1, "seed": 0, "dtype": "float32", "max_new_tokens": 4}
SOLVED = {"base": "1000", "100": "1100", "110": "1101", "120": "0111"}
"""Which of the first four tasks each model solves, by the scores that the bank carries."""


def make_bank(root: Path) -> Path:
    """Write the bank; gives its folder. Takes a second or two after torch is imported."""
    import torch

    root.mkdir(parents=True)
    generator = torch.Generator().manual_seed(1)
    base = make_model().to(torch.bfloat16)
    for at, name in enumerate(("base", *CHECKPOINTS)):
        model = make_model().to(torch.bfloat16)
        for own, first in zip(model.parameters(), base.parameters(), strict=True):
            own.data = (first.data.float() + at * 0.01 * torch.randn(own.shape, generator=generator)).to(torch.bfloat16)
        model.save_pretrained(root / name)
        make_tokenizer().save_pretrained(root / name)
    tasks = [
        {"id": f"t{at}", "scenario": f"s{at // 2}", "prompt": f"{at}+{at}=", "target": str(2 * at), "scorer": "exact"}
        for at in range(4)
    ]
    rows = [
        {"checkpoint": who, "task": task["id"], "scenario": task["scenario"], "sample": 0, "score": int(solved)}
        for who, all_solved in SOLVED.items()
        for task, solved in zip(tasks, all_solved, strict=True)
    ]
    write_lines(root / "dev.jsonl", tasks)
    write_lines(root / "scores.jsonl", rows)
    bank = {
        "name": "tiny",
        "base": {"id": "base", "path": "base"},
        "checkpoints": [{"id": one, "step": int(one), "path": one} for one in CHECKPOINTS],
        "splits": {"dev": {"tasks": "dev.jsonl", "scores": "scores.jsonl", "protocol": PROTOCOL}},
    }
    (root / "bank.yaml").write_text(yaml.safe_dump(bank, sort_keys=False))
    return root


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
