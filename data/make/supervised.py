"""The supervised phase: next-token training on demonstrations drawn fresh for every batch.

A share of the demonstrations may be sloppy, which is what leaves RL something to put right. The loss
covers the answer only. Knows nothing about rewards or checkpoints on disk.
"""

import math
import time
from random import Random
from typing import Any

from data.make.families import draw
from data.make.settings import Supervised


def demonstration_batch(
    tokenizer: Any, random: Random, size: int, sloppy_share: float, forbidden: frozenset[str]
) -> tuple[Any, Any, Any]:
    """`(ids, mask, labels)`, each (size, length) int64, right-padded; labels are -100 outside the answer."""
    import torch

    rows = []
    for _ in range(size):
        item = draw(random, forbidden=forbidden)
        answer = item.sloppy if random.random() < sloppy_share else item.right
        prompt_ids = tokenizer.encode(item.prompt)
        rows.append((prompt_ids, [*tokenizer.encode(answer), tokenizer.eos_token_id]))
    length = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids = torch.full((size, length), tokenizer.pad_token_id)
    labels = torch.full((size, length), -100)
    for row, (before, after) in enumerate(rows):
        end = len(before) + len(after)
        ids[row, :end] = torch.tensor(before + after)
        labels[row, len(before) : end] = torch.tensor(after)
    mask = (torch.arange(length) < (ids != tokenizer.pad_token_id).sum(1, keepdim=True)).long()
    return ids, mask, labels


def rate_factor(step: int, steps: int) -> float:
    """Learning rate at `step` as a share of its peak: 5 % warm-up, then a cosine to a tenth."""
    warm = max(1, steps // 20)
    if step < warm:
        return (step + 1) / warm
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def train_supervised(model: Any, tokenizer: Any, phase: Supervised, *, forbidden: frozenset[str], title: str) -> None:
    """Train `model` in place with AdamW on its fp32 weights."""
    import torch

    random, steps = Random(phase.seed), phase.steps
    optimizer = torch.optim.AdamW(model.parameters(), lr=phase.peak_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_factor(step, steps))
    model.train()
    began, recent = time.perf_counter(), 0.0
    for step in range(1, steps + 1):
        ids, mask, labels = demonstration_batch(tokenizer, random, phase.batch, phase.sloppy_share, forbidden)
        loss = model(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        recent += loss.item()
        if step % 100 == 0:
            seconds = time.perf_counter() - began
            print(f"{title}: step {step}/{steps} loss {recent / 100:.3f} ({seconds:.0f} s)", flush=True)
            recent = 0.0
    model.eval()
