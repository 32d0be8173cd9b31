"""Makes the bundled trained banks again: `python -m data.make_banks [--bank NAME] [--part PART]`.

Without `--bank` the shared base is trained, then both banks side by side, one process and one thread
each, in under 30 minutes on two cores. `data/s3_card` is scores only and is not made here.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

BANKS = ("rl_only", "sft_rl")
PARTS = ("base", "rl", "score", "card")


def base(name: str) -> None:
    """Pretrain the raw base; the banks share one, so the second copies the first's."""
    from data.make.banks import INIT_SEED, PRETRAIN, RL_ONLY, SETTINGS
    from data.make.model import new_model, save_bf16
    from data.make.supervised import train_supervised
    from data.make.tasks import held_out_prompts
    from data.make.tokenizer import make_tokenizer

    settings, tokenizer = SETTINGS[name], make_tokenizer()
    folder, made = settings.folder / "base", RL_ONLY.folder / "base"
    if name != RL_ONLY.name and made.is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder)
        return
    model = new_model(len(tokenizer), INIT_SEED)
    train_supervised(model, tokenizer, PRETRAIN, forbidden=held_out_prompts(), title=f"{name} pretraining")
    save_bf16(model, tokenizer, folder)


def rl(name: str) -> None:
    """From the saved base: the clean supervised phase where there is one, then GRPO, saving as it goes."""
    from data.make.banks import SETTINGS
    from data.make.grpo import train_grpo
    from data.make.model import load_fp32, save_bf16
    from data.make.settings import STEPS
    from data.make.supervised import train_supervised
    from data.make.tasks import held_out_prompts
    from data.make.tokenizer import make_tokenizer

    settings, tokenizer, forbidden = SETTINGS[name], make_tokenizer(), held_out_prompts()
    # From the numbers that were saved, so that a task vector holds only what came after the base.
    model = load_fp32(settings.folder / "base")
    if settings.clean is not None:
        train_supervised(model, tokenizer, settings.clean, forbidden=forbidden, title=f"{name} supervised")

    def save(step: int) -> None:
        save_bf16(model, tokenizer, settings.folder / f"checkpoint-{step}")

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
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    began = time.perf_counter()
    for part in parts:
        {"base": base, "rl": rl, "score": score, "card": card}[part](name)
    print(f"{name}: {', '.join(parts)} done in {(time.perf_counter() - began) / 60:.1f} min", flush=True)


def make_all(parts: Sequence[str]) -> int:
    """The base first, then both banks at once, a process each; gives the worst exit status."""
    if "base" in parts:
        status = _start("rl_only", ["base"]).wait()
        if status:
            return abs(status)
    running = [
        _start(name, wanted)
        for name in BANKS
        if (wanted := [part for part in parts if (name, part) != ("rl_only", "base")])
    ]
    return max((abs(process.wait()) for process in running), default=0)


def _start(name: str, parts: Sequence[str]) -> subprocess.Popen[bytes]:
    words = [word for part in parts for word in ("--part", part)]
    command = [sys.executable, "-m", "data.make_banks", "--bank", name, *words]
    root = Path(__file__).resolve().parents[1]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=root)


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
