"""A bank with real weights, small enough to merge and evaluate in a test: random Qwen3 models.

Three float32 checkpoints that walk away from one base by steps of about half a bf16 ulp, and tasks that a random
model sometimes solves. Its scores are made, since no test looks at who is better.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

IDS = ("10", "20", "30")
TASKS = 9
PROTOCOL = {"temperature": 0.5, "samples": 1, "seed": 0, "dtype": "float32", "max_new_tokens": 4}


def write_tiny_bank(folder: Path) -> Path:
    """Write the bank with its models and give its folder."""
    _write_models(folder)
    generator = np.random.default_rng(5)
    for split in ("dev", "test"):
        tasks = [
            {
                "id": f"{split}-{n}",
                "scenario": f"{split}-s{n // 3}",
                "prompt": f"{'abcdefghi'[n]}{split[0]}: ",
                "target": "[a-p]",
                "scorer": "regex",
            }
            for n in range(TASKS)
        ]
        _write(folder / "tasks" / f"{split}.jsonl", tasks)
        rows = [
            {
                "checkpoint": one, "task": task["id"], "scenario": task["scenario"], "sample": 0, "seed": 0,
                "score": int(generator.random() < 0.5), "prompt": task["prompt"], "completion": f"made for {one}",
            }
            for one in (*IDS, "base") for task in tasks
        ]  # fmt: skip
        _write(folder / "scores" / f"{split}.jsonl", rows)
        again = [{**row, "seed": seed} for seed in range(6) for row in rows if row["checkpoint"] == "30"]
        _write(folder / "scores" / f"{split}.again.jsonl", again)
    (folder / "bank.yaml").write_text(_bank_yaml())
    return folder


def _bank_yaml() -> str:
    members = "".join(f'  - {{id: "{one}", step: {one}, path: checkpoint-{one}}}\n' for one in IDS)
    splits = "".join(
        f"  {split}:\n    tasks: tasks/{split}.jsonl\n    scores: scores/{split}.jsonl\n"
        f"    protocol: {json.dumps(PROTOCOL)}\n    replicates: scores/{split}.again.jsonl\n"
        for split in ("dev", "test")
    )
    return f"name: tiny\nkind: illustrative\nbase: {{id: base, path: base}}\ncheckpoints:\n{members}splits:\n{splits}"


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _write_models(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    words = ["<pad>", "<eos>", *(chr(code) for code in range(32, 127))]
    letters = Tokenizer(models.BPE(vocab={word: at for at, word in enumerate(words)}, merges=[]))
    letters.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, pad_token="<pad>", eos_token="<eos>")
    config = Qwen3Config(
        vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, max_position_embeddings=64, tie_word_embeddings=True, eos_token_id=1,
        pad_token_id=0, bos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    base = Qwen3ForCausalLM(config)
    weights = {name: value.to(torch.bfloat16).float() for name, value in base.state_dict().items()}
    walk = {name: torch.zeros_like(value) for name, value in weights.items()}
    for place in ("base", *(f"checkpoint-{one}" for one in IDS)):
        model = Qwen3ForCausalLM(config)
        model.load_state_dict({name: value + walk[name] for name, value in weights.items()})
        model.save_pretrained(folder / place)
        tokenizer.save_pretrained(folder / place)
        walk = {name: value + 6e-5 * torch.randn(value.shape) for name, value in walk.items()}
