"""Batched generation whose draws do not depend on the batch: each sample has its own random stream.

Takes a transformers model, its tokenizer, prompts and sample keys; gives completions as text. Knows
nothing about tasks, scores or files.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from core.errors import RunError, TaskError
from core.evals.protocol import Protocol
from core.progress import Progress, no_progress

if TYPE_CHECKING:
    import torch

STEPS_PER_REPORT = 8
"""Tokens between two calls of `progress` within a batch, so that a long answer can be cancelled."""


@dataclass(frozen=True)
class Completion:
    """What a model answered."""

    text: str
    """Without special tokens; may be empty."""
    finish: Literal["stop", "length"]
    """`stop` when the model ended the answer, `length` when it was cut at `max_new_tokens`."""
    tokens: int
    """New tokens, the end token included."""


def uniforms(seed: int, task: str, sample: int, count: int) -> np.ndarray:
    """The draws of one sample: float64, shape (count,), in [0, 1).

    A PCG64 stream seeded by blake2b of (seed, task id, sample index), so they depend on nothing else:
    not the batch, the order, the device or `count`. Two models share them, which pairs their noise.
    """
    name = repr((int(seed), task, int(sample))).encode()
    start = int.from_bytes(hashlib.blake2b(name, digest_size=16).digest(), "little")
    # The raw stream is fixed by numpy for good; 53 bits make a float64.
    return (np.random.PCG64(start).random_raw(count) >> np.uint64(11)) * 2.0**-53


def draw(logits: "torch.Tensor", temperature: float, u: "torch.Tensor") -> "torch.Tensor":
    """Token of each row by inverse transform sampling: the first whose cumulative probability exceeds u.

    `logits` is (rows, vocabulary), `u` is (rows,) in [0, 1); gives int64 (rows,). Computed in float64. At
    temperature 0 it is the largest logit, the lowest id of equals, and `u` is not used.
    """
    import torch

    if temperature == 0:
        return logits.argmax(-1)
    # The maximum is taken out first, so that a tiny temperature cannot overflow.
    scaled = (logits.double() - logits.amax(-1, keepdim=True).double()) / temperature
    cumulative = torch.softmax(scaled, -1).cumsum(-1)
    total = cumulative[:, -1:]
    # Below the total even where u * total rounds up to it, so no token of probability 0 is drawn.
    aim = torch.minimum(u[:, None].to(total) * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, aim, right=True).clamp_(max=logits.shape[-1] - 1)[:, 0]


class _Draw:
    """A logits processor that makes greedy decoding sample: only the drawn token stays finite."""

    def __init__(self, prompt_length: int, temperature: float, u: "torch.Tensor", model_name: str, tick: Any) -> None:
        self.prompt_length, self.temperature, self.u = prompt_length, temperature, u
        self.model_name, self.tick = model_name, tick

    def __call__(self, input_ids: "torch.Tensor", scores: "torch.Tensor") -> "torch.Tensor":
        import torch

        step = input_ids.shape[1] - self.prompt_length
        # A maximum is NaN where any is; -inf alone may be a mask, +inf or only -inf cannot.
        if not bool(torch.isfinite(scores.amax(-1)).all()):
            raise RunError(
                f"{self.model_name}: gave logits that are not finite at answer token {step + 1}. Nothing was written. "
                f"The weights may hold NaN or infinity, or the dtype may overflow: try float32."
            )
        if step % STEPS_PER_REPORT == 0:
            self.tick()
        chosen = draw(scores, self.temperature, self.u[:, step])
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen[:, None], 0.0)


def generate(  # noqa: PLR0917
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    keys: Sequence[tuple[str, int]],
    protocol: Protocol,
    batch_size: int,
    *,
    progress: Progress = no_progress,
) -> list[Completion]:
    """One completion for each prompt, in order; `keys` gives each one's (task id, sample index).

    Prompts pass through the tokenizer's chat template where it has one. The model's own generation
    settings (top-p, penalties) are not used: only its end tokens and the protocol count. Samples do not
    depend on `batch_size`, but for float rounding under padding. Raises RunError for logits that are not
    finite, TaskError for a prompt that has no tokens or does not fit the model.
    """
    encoded = [_encode(tokenizer, prompt, key[0]) for prompt, key in zip(prompts, keys, strict=True)]
    _refuse_long(model, encoded, keys, protocol)
    # Like lengths together pad little; the longest first, so that memory runs out early or not at all.
    order = sorted(range(len(encoded)), key=lambda i: (-len(encoded[i]), i))
    found: dict[int, Completion] = {}
    with _plain_generation(model, tokenizer):
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]

            def tick(done: int = start) -> None:
                progress("generate", done, len(order), "samples")

            answers = _one_batch(
                model,
                tokenizer,
                [encoded[i] for i in rows],
                keys=[keys[i] for i in rows],
                protocol=protocol,
                tick=tick,
            )
            found.update(zip(rows, answers, strict=True))
            progress("generate", len(found), len(order), "samples")
    return [found[i] for i in range(len(encoded))]


def _encode(tokenizer: Any, prompt: str, task: str) -> list[int]:
    if getattr(tokenizer, "chat_template", None):
        turns = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        ids = tokenizer(prompt)["input_ids"]
    if not ids:
        raise TaskError(f"Task '{task}': the model's tokenizer makes no token of its prompt {prompt!r:.80}.")
    return list(ids)


def _refuse_long(model: Any, encoded: list[list[int]], keys: Sequence[tuple[str, int]], protocol: Protocol) -> None:
    room = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if room is None:
        return
    for ids, (task, _) in zip(encoded, keys, strict=True):
        if len(ids) + protocol.max_new_tokens > room:
            raise TaskError(
                f"Task '{task}': its prompt has {len(ids)} tokens, and {protocol.max_new_tokens} new ones do not fit "
                f"the {room} positions of {model.name_or_path}. Lower max_new_tokens, or shorten the prompt."
            )


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    own = getattr(model.generation_config, "eos_token_id", None)
    listed = own if isinstance(own, list | tuple) else [own]
    return sorted({int(one) for one in (*listed, tokenizer.eos_token_id) if one is not None})


@contextmanager
def _plain_generation(model: Any, tokenizer: Any) -> Iterator[None]:
    """Greedy decoding with nothing of the model's own settings but its end tokens, put back afterwards."""
    from transformers import GenerationConfig

    before, ends = model.generation_config, _end_tokens(model, tokenizer)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else (ends[0] if ends else 0)
    model.generation_config = GenerationConfig(
        do_sample=False, use_cache=True, pad_token_id=pad, eos_token_id=ends or None, return_dict_in_generate=False
    )
    try:
        yield
    finally:
        model.generation_config = before


def _one_batch(
    model: Any, tokenizer: Any, rows: list[list[int]], *, keys: list[tuple[str, int]], protocol: Protocol, tick: Any
) -> list[Completion]:
    import torch
    from transformers import LogitsProcessorList

    settings, length = model.generation_config, max(map(len, rows))
    ids = torch.full((len(rows), length), settings.pad_token_id)
    mask = torch.zeros((len(rows), length), dtype=torch.long)
    for at, row in enumerate(rows):
        ids[at, length - len(row) :] = torch.tensor(row)
        mask[at, length - len(row) :] = 1
    u = np.stack([uniforms(protocol.seed, task, sample, protocol.max_new_tokens) for task, sample in keys])
    drawing = _Draw(
        length, protocol.temperature, torch.from_numpy(u).to(model.device), str(model.name_or_path or "the model"), tick
    )
    with torch.inference_mode():
        out = model.generate(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            max_new_tokens=protocol.max_new_tokens,
            logits_processor=LogitsProcessorList([drawing]),
        )
    ends = set(settings.eos_token_id or ())
    return [_completion(tokenizer, row, ends) for row in out[:, length:].tolist()]


def _completion(tokenizer: Any, ids: list[int], ends: set[int]) -> Completion:
    stop = next((at for at, token in enumerate(ids) if token in ends), None)
    kept = ids if stop is None else ids[:stop]
    text = tokenizer.decode(kept, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return Completion(text, "length", len(ids)) if stop is None else Completion(text, "stop", stop + 1)
