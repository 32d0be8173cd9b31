"""GRPO: groups of sampled answers, a verifiable reward, a group-normalised advantage.

Takes a model with fp32 master weights and trains it in place; hands each wanted step to `save`. Follows
Shao et al. 2024 (arXiv 2402.03300) with one update a batch of rollouts and no KL term.
"""

import time
from collections.abc import Callable, Collection
from random import Random
from typing import Any

from core.evals import Task, score
from data.make.families import draw
from data.make.rollout import Rollouts, answers, positions, sample
from data.make.settings import GrpoSettings
from data.make.tasks import task_row


def group_advantages(rewards: Any, epsilon: float = 1e-4) -> Any:
    """`(r - mean) / (sd + epsilon)` within each group; rewards (prompts, group) float32, sd with n - 1."""
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + epsilon)


def answer_log_probabilities(model: Any, rollouts: Rollouts, temperature: float) -> Any:
    """Log-probability of each sampled answer token, shape (rows, answer length)."""
    import torch

    logits = model(
        input_ids=rollouts.ids,
        attention_mask=rollouts.mask,
        position_ids=positions(rollouts.mask),
        use_cache=False,
    ).logits[:, rollouts.prompt_length - 1 : -1]
    chosen = rollouts.ids[:, rollouts.prompt_length :, None]
    return torch.log_softmax(logits / temperature, dim=-1).gather(2, chosen)[..., 0]


def policy_loss(new: Any, old: Any, advantages: Any, mask: Any, clip: float) -> Any:
    """Clipped surrogate, mean over each answer's tokens and then over answers; `advantages` (rows,)."""
    import torch

    ratio, weight = torch.exp(new - old), advantages[:, None]
    gain = torch.minimum(ratio * weight, ratio.clamp(1 - clip, 1 + clip) * weight)
    return -((gain * mask).sum(1) / mask.sum(1)).mean()


def _rewards(rows: list[dict[str, Any]], texts: list[str], group: int) -> Any:
    import torch

    tasks = [Task(**row) for row in rows for _ in range(group)]
    values = [score(task, text)[0] for task, text in zip(tasks, texts, strict=True)]
    return torch.tensor(values, dtype=torch.float32).view(-1, group)


def train_grpo(
    model: Any,
    tokenizer: Any,
    settings: GrpoSettings,
    *,
    forbidden: frozenset[str],
    save_at: Collection[int],
    save: Callable[[int], None],
    title: str,
) -> None:
    """Run GRPO on fresh prompts, never one of `forbidden`; calls `save(step)` after each step in `save_at`."""
    import torch

    random, generator = Random(settings.seed), torch.Generator().manual_seed(settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.rate, betas=(0.9, 0.95), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))
    model.eval()
    began, recent = time.perf_counter(), 0.0
    for step in range(1, settings.steps + 1):
        rows = [task_row(draw(random, forbidden=forbidden), str(i), str(i)) for i in range(settings.prompts)]
        prompts = [row["prompt"] for row in rows for _ in range(settings.group)]
        rollouts = sample(
            model,
            tokenizer,
            prompts,
            temperature=settings.temperature,
            limit=settings.max_new_tokens,
            generator=generator,
        )
        rewards = _rewards(rows, answers(rollouts, tokenizer), settings.group)
        _update(model, optimizer, rollouts, group_advantages(rewards).flatten(), settings)
        schedule.step()
        recent += rewards.mean().item()
        if step % 20 == 0:
            seconds = time.perf_counter() - began
            print(f"{title}: step {step}/{settings.steps} reward {recent / 20:.3f} ({seconds:.0f} s)", flush=True)
            recent = 0.0
        if step in save_at:
            save(step)


def _update(model: Any, optimizer: Any, rollouts: Rollouts, advantages: Any, settings: GrpoSettings) -> None:
    """One AdamW step. Rows without an advantage add nothing to the gradient, so they are left out of the pass."""
    import torch

    rows = advantages.abs() > 0
    if not rows.any():
        return
    share = rows.float().mean()
    kept = Rollouts(rollouts.ids[rows], rollouts.mask[rows], rollouts.prompt_length)
    new = answer_log_probabilities(model, kept, settings.temperature)
    mask = kept.mask[:, kept.prompt_length :].float()
    loss = policy_loss(new, new.detach(), advantages[rows], mask, settings.clip) * share
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
