"""Fast batched sampling for RL: many answers to many prompts in one pass with a key-value cache.

Used for rollouts only; every reported score comes from `core.evals`.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rollouts:
    """Sampled answers, one row each. All tensors are int64 on the CPU."""

    ids: Any
    """(rows, prompt + answer): left-padded prompt, then the answer, then padding."""
    mask: Any
    """The same shape: 1 where `ids` holds a prompt or answer token, the answer's end token included."""
    prompt_length: int


def positions(mask: Any) -> Any:
    """Position ids that ignore left padding, same shape as `mask`."""
    return (mask.cumsum(1) - 1).clamp(min=0)


def sample(
    model: Any, tokenizer: Any, prompts: list[str], *, temperature: float, limit: int, generator: Any
) -> Rollouts:
    """Sample one answer of at most `limit` tokens for each prompt, drawing from `generator`."""
    import torch
    from transformers import DynamicCache

    encoded = tokenizer(prompts, padding=True, padding_side="left", return_tensors="pt")
    ids, mask = encoded["input_ids"], encoded["attention_mask"]
    prompt_length, cache = ids.shape[1], DynamicCache()
    alive = torch.ones(len(prompts), dtype=torch.bool)
    with torch.no_grad():
        step_ids, step_positions = ids, positions(mask)
        for _ in range(limit):
            logits = model(
                input_ids=step_ids,
                attention_mask=mask,
                position_ids=step_positions,
                cache=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]
            probabilities = torch.softmax(logits / temperature, dim=-1)
            drawn = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
            drawn = torch.where(alive, drawn, tokenizer.pad_token_id)
            step_positions = mask.sum(1, keepdim=True)
            ids = torch.cat([ids, drawn[:, None]], 1)
            mask = torch.cat([mask, alive[:, None].long()], 1)
            alive = alive & (drawn != tokenizer.eos_token_id)
            step_ids = drawn[:, None]
            if not alive.any():
                break
    return Rollouts(ids, mask, prompt_length)


def answers(rollouts: Rollouts, tokenizer: Any) -> list[str]:
    """The answers as text, without special tokens."""
    texts: list[str] = tokenizer.batch_decode(rollouts.ids[:, rollouts.prompt_length :], skip_special_tokens=True)
    return texts
