"""What the S3 recipe gives on a bank: `python -m data.measure_s3 data/rl_only [--seeds 8]`.

Merges with the recipe's defaults and with two plain rivals, evaluates each over several seeds on
dev and test beside the best single checkpoint and the base, and writes measure_s3.json to the bank.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.bank import Bank, load_bank
from core.evals import evaluate, read_tasks
from core.files import read_jsonl, write_atomically
from core.merge import parse_plan, run_merge
from core.recipe import Recipe, compile_plan, select, uniform_mean_plan
from core.stats import compare

S3 = Recipe()
TWO_STRONGEST = Recipe(lam=1.0, k=2, weighting="uniform")
SAMPLES = dict[str, list[float]]
"""Task id to its scores, one a seed."""


def merged_models(bank: Bank, folder: Path) -> dict[str, Path]:
    """Merge the S3 recipe, the two strongest at equal weight, and the mean of all; gives their folders."""
    plans = {
        "S3 merge": compile_plan(bank, S3),
        "two strongest": compile_plan(bank, TWO_STRONGEST),
        "uniform mean": uniform_mean_plan(bank),
    }
    out: dict[str, Path] = {}
    for name, text in plans.items():
        out[name] = folder / name.replace(" ", "_")
        run_merge(parse_plan(text, bank.root / "bank.yaml"), out[name])
    return out


def scores_over_seeds(model: Path, bank: Bank, split: str, seeds: list[int], folder: Path) -> SAMPLES:
    """Evaluate one model under the split's own protocol with each seed."""
    one = bank.splits[split]
    assert one.tasks_path is not None and one.protocol is not None
    tasks, found = read_tasks(one.tasks_path), SAMPLES()
    for seed in seeds:
        path = folder / "samples.jsonl"
        protocol = replace(one.protocol, seed=seed)
        evaluate(model, tasks, protocol, out=path, checkpoint=model.name, device="cpu")
        for _, row in read_jsonl(path):
            found.setdefault(row["task"], []).append(row["score"])
    return found


def totals_by_seed(scores: SAMPLES) -> list[float]:
    """Tasks solved under each seed."""
    return [sum(column) for column in zip(*scores.values(), strict=True)]


def sentences(split: str, scores: Mapping[str, SAMPLES], clusters: Mapping[str, str]) -> list[str]:
    """The S3 merge against each of the others, over all seeds, clustered by scenario."""
    return [
        f"{split}, A = {name}, B = S3 merge: {compare(scores[name], scores['S3 merge'], clusters=clusters).sentence}"
        for name in scores
        if name != "S3 merge"
    ]


def measure(folder: Path, seeds: list[int]) -> dict[str, Any]:
    """Everything that measure_s3.json holds."""
    bank = load_bank(folder)
    chosen = select(bank, S3)
    best = max(bank.checkpoints, key=lambda c: float(bank.splits["dev"].scores[bank.index_of(c.id)].mean()))
    protocol = bank.splits["dev"].protocol
    assert protocol is not None and best.path is not None and bank.base.path is not None
    found: dict[str, dict[str, SAMPLES]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        models = {**merged_models(bank, work), f"best single ({best.id})": best.path, "base": bank.base.path}
        for split in bank.splits:
            for name, model in models.items():
                scores = scores_over_seeds(model, bank, split, seeds, work)
                found.setdefault(split, {})[name] = scores
                print(f"{bank.name} {split} {name}: {totals_by_seed(scores)}", flush=True)
    clusters = {s: dict(zip(one.tasks, one.scenarios, strict=True)) for s, one in bank.splits.items()}
    return {
        "protocol": protocol.as_dict(),
        "seeds": seeds,
        "picks": [pick.checkpoint for pick in chosen.picks],
        "weights": dict(chosen.weights),
        "models": list(models),
        "totals": {s: {name: totals_by_seed(v) for name, v in by_name.items()} for s, by_name in found.items()},
        "comparisons": [line for s, by_name in found.items() for line in sentences(s, by_name, clusters[s])],
    }


def main() -> int:
    """Read the command line, measure, write."""
    parser = argparse.ArgumentParser(prog="python -m data.measure_s3", description=__doc__)
    parser.add_argument("bank", type=Path, help="folder of a bank with weights and the splits dev and test")
    parser.add_argument("--seeds", type=int, default=8, help="evaluations a model and split (default 8)")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    result = measure(given.bank, list(range(1000, 1000 + given.seeds)))
    write_atomically(given.bank / "measure_s3.json", json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
