"""Makes the bundled trained banks again: `python -m data.make_banks [--bank NAME] [--part PART]`.

Without `--bank` both are made side by side, one process and one thread each, in under 30 minutes on
two cores. `data/s3_card` is scores only and is not made here.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

BANKS = ("rl_only", "sft_rl")
PARTS = ("train", "score", "card")


def train(name: str) -> None:
    """Pretrain, optionally fine-tune on clean demonstrations, then run GRPO, saving as it goes."""
    from data.make.banks import SETTINGS
    from data.make.evaluate import write_tasks
    from data.make.grpo import train_grpo
    from data.make.model import load_fp32, new_model, save_bf16
    from data.make.settings import STEPS, Supervised
    from data.make.supervised import train_supervised
    from data.make.tasks import held_out_prompts
    from data.make.tokenizer import make_tokenizer

    settings, tokenizer, forbidden = SETTINGS[name], make_tokenizer(), held_out_prompts()
    folder = settings.folder
    write_tasks(folder)
    model = new_model(len(tokenizer), settings.init_seed)

    def supervise(phase: Supervised, title: str) -> None:
        train_supervised(model, tokenizer, phase, forbidden=forbidden, title=f"{name} {title}")

    supervise(settings.pretrain, "pretraining")
    save_bf16(model, tokenizer, folder / "base")
    # RL starts from the numbers that were saved, so that a task vector holds RL's own change only.
    model = load_fp32(folder / "base")
    if settings.clean.steps:
        supervise(settings.clean, "supervised")

    def save(step: int) -> None:
        save_bf16(model, tokenizer, folder / f"checkpoint-{step}")

    train_grpo(model, tokenizer, settings.grpo, forbidden=forbidden, save_at=STEPS, save=save, title=f"{name} GRPO")


def score(name: str) -> None:
    """Evaluate the bank's checkpoints and its base."""
    from data.make.banks import SETTINGS
    from data.make.evaluate import score_bank

    score_bank(SETTINGS[name].folder)


def card(name: str) -> None:
    """Write bank.yaml and the data card from the score files and the checkpoints."""
    from data.make.banks import SETTINGS
    from data.make.cards import write_card

    write_card(SETTINGS[name])


def make_one(name: str, parts: Sequence[str]) -> None:
    """Make one bank in this process, on one thread so that the same machine gives the same bytes."""
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    began = time.perf_counter()
    for part in parts:
        {"train": train, "score": score, "card": card}[part](name)
    print(f"{name}: {', '.join(parts)} done in {(time.perf_counter() - began) / 60:.1f} min", flush=True)


def make_all(parts: Sequence[str]) -> int:
    """Make both banks at once, a process each; gives the worst exit status."""
    command = [sys.executable, "-m", "data.make_banks", *(word for part in parts for word in ("--part", part))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    root = Path(__file__).resolve().parents[1]
    running = [subprocess.Popen([*command, "--bank", name], env=environment, cwd=root) for name in BANKS]
    return max(abs(process.wait()) for process in running)


def main() -> int:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(prog="python -m data.make_banks", description=__doc__)
    parser.add_argument("--bank", choices=BANKS, help="make only this bank")
    parser.add_argument("--part", choices=PARTS, action="append", help="do only this part; may be repeated")
    given = parser.parse_args()
    parts = given.part or list(PARTS)
    if given.bank is None:
        return make_all(parts)
    make_one(given.bank, parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
