"""The trained banks on disk: what they hold, and that their checkpoints really differ.

Run: .venv/bin/python -m pytest tests/unit/data/test_banks.py
"""

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from core.bank import load_bank, load_more_scores, replicate_scores
from core.evals.protocol import Protocol

DATA = Path(__file__).resolve().parents[3] / "data"
BANKS = ("rl_only", "sft_rl")
IDS = [str(step) for step in range(200, 301, 10)]
LIMIT_BYTES = 40_000_000
MAIN = Protocol(temperature=0.5, samples=1, seed=0, dtype="float32", max_new_tokens=32)
ROW_KEYS = ["checkpoint", "task", "scenario", "sample", "score", "seed", "prompt", "completion", "scorer", "finish"]


@pytest.mark.parametrize("name", BANKS)
def test_the_bank_reads_without_missing_parts(name: str) -> None:
    bank = load_bank(DATA / name)
    assert [one.id for one in bank.checkpoints] == IDS
    assert [one.step for one in bank.checkpoints] == [int(one) for one in IDS]
    assert bank.kind == "measured" and bank.has_weights
    assert not [warning for warning in bank.warnings if "no folder" in warning.lower()]


@pytest.mark.parametrize("name", BANKS)
@pytest.mark.parametrize(("split", "tasks", "scenarios"), [("dev", 57, 19), ("test", 168, 56)])
def test_tasks_come_in_scenarios_of_three_and_never_twice(name: str, split: str, tasks: int, scenarios: int) -> None:
    one = load_bank(DATA / name).splits[split]
    assert len(one.tasks) == tasks
    assert Counter(Counter(one.scenarios).values()) == {3: scenarios}
    assert one.tasks_path is not None
    prompts = [json.loads(line)["prompt"] for line in one.tasks_path.read_text().splitlines()]
    assert len(set(prompts)) == tasks


@pytest.mark.parametrize("name", BANKS)
@pytest.mark.parametrize("split", ["dev", "test"])
def test_every_promised_evaluation_is_there(name: str, split: str) -> None:
    bank = load_bank(DATA / name)
    one = bank.splits[split]
    assert one.protocol == MAIN and one.base_scores is not None and one.scores.shape == (11, len(one.tasks))
    (protocol, _), *others = one.more_scores
    assert (protocol.temperature, protocol.samples, protocol.dtype, others) == (0.9, 8, "float32", [])
    more = load_more_scores(bank, split, protocol)
    assert more.samples == 8 and more.base is not None
    repeats = replicate_scores(one)
    assert repeats is not None and repeats.scores.shape == (20, len(one.tasks))
    dev = bank.splits["dev"].scores.sum(axis=1)
    assert repeats.checkpoint == IDS[int(dev.argmax())]


@pytest.mark.parametrize("name", BANKS)
@pytest.mark.parametrize("split", ["dev", "test"])
def test_samples_are_kept_whole(name: str, split: str) -> None:
    path = load_bank(DATA / name).splits[split].scores_path
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(list(row)[: len(ROW_KEYS)] == ROW_KEYS for row in rows)
    assert {row["finish"] for row in rows} <= {"stop", "length"}


@pytest.mark.parametrize("name", BANKS)
def test_the_checkpoints_gain_over_the_base_and_disagree(name: str) -> None:
    dev = load_bank(DATA / name).splits["dev"]
    assert dev.base_scores is not None
    totals = dev.scores.sum(axis=1)
    assert totals.max() - dev.base_scores.sum() >= 10
    assert totals.max() - totals.min() >= 6


@pytest.mark.parametrize("name", BANKS)
def test_checkpoints_are_small_bf16_models_that_transformers_loads(name: str) -> None:
    import torch
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM, AutoTokenizer

    bank = load_bank(DATA / name)
    shapes = []
    for one in (bank.base, *bank.checkpoints):
        assert one.path is not None
        with safe_open(one.path / "model.safetensors", "pt") as file:
            slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118 - not a dict
            assert {piece.get_dtype() for piece in slices.values()} == {"BF16"}
            shapes.append({key: tuple(piece.get_shape()) for key, piece in slices.items()})
    assert all(one == shapes[0] for one in shapes)
    path = bank.checkpoints[0].path
    model = AutoModelForCausalLM.from_pretrained(path, local_files_only=True)
    assert type(model).__name__ == "Qwen3ForCausalLM" and model.dtype == torch.bfloat16
    assert sum(parameter.numel() for parameter in model.parameters()) <= 600_000
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    assert tokenizer.is_fast and tokenizer.decode(tokenizer.encode("Reverse kdfja =")) == "Reverse kdfja ="


@pytest.mark.parametrize("name", BANKS)
def test_the_card_says_how_noisy_and_how_dense(name: str) -> None:
    card = (DATA / name / "README.md").read_text()
    assert "20 times" in card and "bf16 parameters changed" in card and f"--bank {name}" in card
    result = json.loads((DATA / name / "measure_s3.json").read_text())
    assert len(result["seeds"]) >= 8 and " ".join(result["picks"]) in card.replace(",", "")


def test_all_of_data_stays_under_40_mb() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "data"],
        cwd=DATA.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    names = [DATA.parent / name for name in listed.stdout.split("\0") if name]
    files = names if listed.returncode == 0 and names else [path for path in DATA.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files if path.is_file()) < LIMIT_BYTES
