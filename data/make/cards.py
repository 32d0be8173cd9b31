"""Writes a bank's bank.yaml and its data card from what is on disk, so that no figure is typed by hand.

Takes the settings, the checkpoints, the score files and, where it exists, the result of
`data.measure_s3`. Computes nothing but totals, spreads and shares.
"""

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from core.evals.protocol import Protocol
from core.files import read_jsonl, write_atomically
from data.make.banks import PRETRAIN
from data.make.evaluate import best_single, members, totals
from data.make.settings import MAIN, MORE, REPLICATE_SEEDS, STEPS, BankSettings, Supervised
from data.make.tasks import SCENARIOS, TASKS_PER_SCENARIO

S3_FILE = "measure_s3.json"

CARD = """# {title}

{description}

Made by `python -m data.make_banks --bank {name}` (both banks: `make data`, under 30 minutes on two cores). Seeded and
single-threaded: the same machine and packages give the same files; another processor may round differently.

## How it was made
- Model: `Qwen3ForCausalLM`, {parameters} parameters, 4 layers of width 96, tied embeddings, a character tokenizer.
- Tasks: eight families (addition, largest number, reversal, sorting, counting, tool call, letter shift, run lengths),
  five difficulties; 57 dev tasks in 19 scenarios of three and 168 test tasks in 56. The sloppy answer of each family is
  one systematic mistake: off by one, last letter dropped, wrong order and so on.
{made}
- The settings were chosen for checkpoints that disagree, by the checkpoints' own scores (at least 10 dev tasks gained
  over the base, at least 6 between best and worst), before any merge of them was scored. Learning rates of 5e-5 and
  1e-4, twice the prompts a step, and easier tasks were tried first: their checkpoints agreed more.

## What was measured
Tasks solved, of 57 (dev) and 168 (test); the mean over samples where n is more than 1. All in fp32. Best single by dev
at {main}: **{best}**.

{scores}

Noise: checkpoint {best} evaluated {repeats} times with different seeds, {main}.
{noise}

Samples are drawn from a random stream per seed, task and sample, the same for every model, so two checkpoints under one
seed share their luck and differ by less than two seeds would.

The share of changed parameters is higher than in a real 8B run (5 to 30 %): small models have small weights, so the
same step moves more of them across a bf16 boundary.

## What the S3 recipe gives on it
{s3}
"""


@dataclass(frozen=True)
class Noise:
    """Spread of repeated evaluations of one checkpoint, in tasks."""

    mean: float
    sd: float
    low: float
    high: float


def changed_share(base: Path, checkpoint: Path) -> float:
    """Share of bf16 parameters whose value differs between two checkpoints, in [0, 1]."""
    from safetensors.torch import load_file

    before, after = (load_file(folder / "model.safetensors") for folder in (base, checkpoint))
    changed = sum(int((before[name] != after[name]).sum()) for name in before)
    return changed / sum(tensor.numel() for tensor in before.values())


def parameters(folder: Path) -> int:
    """Number of parameters in a checkpoint."""
    from safetensors.torch import load_file

    return sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values())


def replicate_noise(path: Path) -> Noise:
    """Mean, standard deviation (n - 1) and extremes of the replicates' totals."""
    sums: dict[int, float] = {}
    for _, row in read_jsonl(path):
        sums[row["seed"]] = sums.get(row["seed"], 0.0) + row["score"]
    values = list(sums.values())
    return Noise(statistics.mean(values), statistics.stdev(values), min(values), max(values))


def bank_yaml(settings: BankSettings) -> str:
    """The text of bank.yaml."""
    folder, splits = settings.folder, {}
    for split in SCENARIOS:
        splits[split] = {
            "tasks": f"tasks/{split}.jsonl",
            "scores": f"scores/{split}.t05n1.jsonl",
            "protocol": MAIN.as_dict(),
            "more_scores": [{"path": f"scores/{split}.t09n8.jsonl", "protocol": MORE.as_dict()}],
            "replicates": f"scores/{split}.replicates.jsonl",
        }
    content = {
        "name": settings.name,
        "title": settings.title,
        "description": settings.description,
        "kind": "measured",
        "base": {"id": "base", "path": "base"},
        "checkpoints": [{"id": str(step), "step": step, "path": f"checkpoint-{step}"} for step in STEPS],
        "splits": splits,
        "facts": facts(folder),
        "notes": _notes(settings),
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)


def facts(folder: Path) -> list[dict[str, Any]]:
    """What was measured on the bank, as statements for the Bank page."""
    shares = [changed_share(folder / "base", path) for name, path in members(folder).items() if name != "base"]
    noise, best = replicate_noise(folder / "scores" / "dev.replicates.jsonl"), best_single(folder)
    count = TASKS_PER_SCENARIO * SCENARIOS["dev"]
    return [
        {
            "label": "bf16 parameters that differ from the base",
            "value": f"{min(shares):.0%} to {max(shares):.0%}",
            "source": "measured; a real 8B run changes 5 to 30 %: small models have small weights, "
            "so their updates are denser",
        },
        {
            "label": f"checkpoint {best} evaluated {len(REPLICATE_SEEDS)} times on dev",
            "value": f"{noise.low:.0f} to {noise.high:.0f} of {count}, mean {noise.mean:.1f}, sd {noise.sd:.1f}",
            "source": f"measured, {MAIN.label}",
        },
    ]


def _notes(settings: BankSettings) -> str:
    start = "the raw pretrained base"
    if settings.clean:
        start = "a model fine-tuned on clean demonstrations; the bank's base is the raw pretrained model before that"
    return (
        f"One GRPO run from {start}. Trained and scored by `python -m data.make_banks --bank {settings.name}`; "
        "how, and what was measured, is in README.md beside this file."
    )


def _score_table(folder: Path) -> list[str]:
    columns = [
        totals(folder / "scores" / f"{split}.{protocol}.jsonl")
        for protocol in ("t05n1", "t09n8")
        for split in ("dev", "test")
    ]
    lines = [
        f"| checkpoint | dev, {MAIN.label} | test, {MAIN.label} | dev, {MORE.label} | test, {MORE.label} "
        "| bf16 parameters changed |",
        "|---|---|---|---|---|---|",
    ]
    for name, path in members(folder).items():
        figures = [f"{column[name]:.0f}" if i < 2 else f"{column[name]:.1f}" for i, column in enumerate(columns)]
        share = "" if name == "base" else f"{changed_share(folder / 'base', path):.1%}"
        lines.append(f"| {name} | {' | '.join(figures)} | {share} |")
    return lines


def _noise_lines(folder: Path) -> list[str]:
    lines = []
    for split, scenarios in SCENARIOS.items():
        noise = replicate_noise(folder / "scores" / f"{split}.replicates.jsonl")
        lines.append(
            f"- {split}: {noise.low:.0f} to {noise.high:.0f} of {scenarios * TASKS_PER_SCENARIO}, "
            f"mean {noise.mean:.1f}, standard deviation {noise.sd:.1f}"
        )
    return lines


def _phase(phase: Supervised, what: str) -> str:
    return (
        f"- {what}: {phase.steps} steps of {phase.batch} fresh demonstrations, {phase.sloppy_share * 100:.0f} % "
        f"sloppy, AdamW, learning rate {phase.peak_rate:g} with warm-up and cosine, seed {phase.seed}."
    )


def _made_lines(settings: BankSettings) -> list[str]:
    grpo = settings.grpo
    lines = [_phase(PRETRAIN, "Pretraining of the base")]
    if settings.clean:
        lines.append(_phase(settings.clean, "Supervised phase, from the base"))
    lines += [
        f"- GRPO: {grpo.steps} steps of {grpo.prompts} fresh prompts × {grpo.group} samples at temperature "
        f"{grpo.temperature:g}, reward 1 or 0 by the task's own scorer, advantage (r − mean) / sd within each group, "
        f"one clipped update a step, no KL term, AdamW on fp32 masters, constant learning rate {grpo.rate:g} after ten "
        f"steps of warm-up, seed {grpo.seed}.",
        "- No training phase ever sees a dev or test prompt. Checkpoints are rounded to bf16 when saved; "
        "training goes on from the fp32 masters.",
    ]
    return lines


def _s3_lines(folder: Path) -> list[str]:
    path = folder / S3_FILE
    command = f"`python -m data.measure_s3 data/{folder.name}`"
    if not path.is_file():
        return [f"Not measured yet: run {command}."]
    result = json.loads(path.read_text())
    names, seeds = result["models"], len(result["seeds"])
    lines = [
        f"Measured by {command}, {Protocol(**result['protocol']).label}, {seeds} seeds; figures are tasks solved.",
        "",
        f"Picks, in order: {', '.join(result['picks'])}. Weights: "
        + ", ".join(f"{name} {weight:.3f}" for name, weight in result["weights"].items())
        + ".",
        "",
        "| model | dev mean | dev each seed | test mean | test each seed |",
        "|---|---|---|---|---|",
    ]
    for name in names:
        dev, test = (result["totals"][split][name] for split in ("dev", "test"))
        cells = [f"{statistics.mean(v):.1f} | {' '.join(f'{x:.0f}' for x in v)}" for v in (dev, test)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append("")
    lines += [f"- {sentence}" for sentence in result["comparisons"]]
    return lines


def write_card(settings: BankSettings) -> None:
    """Write bank.yaml and README.md into the bank's folder."""
    folder = settings.folder
    write_atomically(folder / "bank.yaml", bank_yaml(settings))
    text = CARD.format(
        title=settings.title,
        description=settings.description,
        name=settings.name,
        parameters=f"{parameters(folder / 'base'):,}",
        made="\n".join(_made_lines(settings)),
        main=MAIN.label,
        best=best_single(folder),
        scores="\n".join(_score_table(folder)),
        repeats=len(REPLICATE_SEEDS),
        noise="\n".join(_noise_lines(folder)),
        s3="\n".join(_s3_lines(folder)),
    )
    write_atomically(folder / "README.md", text)
    print(f"{settings.name}: bank.yaml and README.md written", flush=True)
