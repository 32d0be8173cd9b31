"""Draws: right probabilities, one stream a sample, and no dependence on the batch.

Run: .venv/bin/python -m pytest tests/unit/evals/test_sampling.py
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import RunError, TaskError
from core.evals import Protocol, generate
from core.evals.runner import load_model
from core.evals.sampling import draw, uniforms

PROMPTS = [*("ab cd=?", "1+1=", "q", "hello world, how are you?", "zz", "9-4=") * 4]
FROZEN = [0.27363159595665887, 0.7597085847476942, 0.05957943084976869]
KEYS = [(f"t{i // 2}", i % 2) for i in range(len(PROMPTS))]


def test_a_stream_is_fixed_by_seed_task_and_sample_alone() -> None:
    base = uniforms(0, "a", 0, 50)
    assert (uniforms(0, "a", 0, 20) == base[:20]).all()
    for other in (uniforms(1, "a", 0, 50), uniforms(0, "b", 0, 50), uniforms(0, "a", 1, 50)):
        assert not (other == base).any()
    # Frozen for good: a change here would change every recorded evaluation.
    assert uniforms(0, "a", 0, 3) == pytest.approx(FROZEN, abs=1e-15)


def test_draws_are_uniform() -> None:
    u = np.concatenate([uniforms(3, f"t{i}", j, 25) for i in range(100) for j in range(8)])
    assert ((u >= 0) & (u < 1)).all()
    counts = np.histogram(u, 20, (0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 50  # chi square of 19 degrees: p = 1e-4


def test_a_draw_inverts_the_cumulative_distribution_by_hand() -> None:
    import torch

    # p = 0.2, 0.5, 0, 0.3: cumulative 0.2, 0.7, 0.7, 1.
    logits = torch.tensor([[0.2, 0.5, 0.0, 0.3]]).log().repeat(6, 1)
    u = torch.tensor([0.0, 0.19, 0.21, 0.69, 0.71, 1 - 2**-53], dtype=torch.float64)
    assert draw(logits, 1.0, u).tolist() == [0, 0, 1, 1, 3, 3]
    # T = 0.5 squares and renormalises: 0.04, 0.25, 0, 0.09 over 0.38: cumulative 0.105, 0.763, 0.763, 1.
    assert draw(logits, 0.5, torch.full((6,), 0.11, dtype=torch.float64)).tolist() == [1] * 6
    assert draw(logits, 0.5, torch.full((6,), 0.77, dtype=torch.float64)).tolist() == [3] * 6
    assert draw(logits, 0.0, u).tolist() == [1] * 6


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=30), st.floats(0, 1, exclude_max=True), st.floats(1e-3, 10))
def test_a_draw_has_positive_probability(values: list[float], u: float, temperature: float) -> None:
    import torch

    logits = torch.tensor([[*values, -torch.inf]], dtype=torch.float32)
    token = int(draw(logits, temperature, torch.tensor([u], dtype=torch.float64))[0])
    scaled = (logits.double() - logits.max()) / temperature
    assert torch.softmax(scaled, -1)[0, token] > 0


def test_a_very_low_temperature_is_greedy() -> None:
    import torch

    logits = torch.tensor([[1.0, 3.0, 2.0]])
    assert draw(logits, 1e-6, torch.tensor([0.999999], dtype=torch.float64)).tolist() == [1]


def test_samples_follow_the_models_own_distribution(model_folder: Path) -> None:
    import torch

    model, tokenizer = load_model(model_folder, "float32", "cpu")
    ids = torch.tensor([tokenizer("ab=")["input_ids"]])
    expected = torch.softmax(model(ids).logits[0, -1].double() / 2.0, -1).detach().numpy()
    rows = 2000
    protocol = Protocol(temperature=2.0, max_new_tokens=1)
    found = generate(model, tokenizer, ["ab="] * rows, [("t", i) for i in range(rows)], protocol, 500)
    at = {tokenizer.decode([token]): token for token in range(3, model.config.vocab_size)}
    for letter in sorted(at, key=lambda one: -expected[at[one]])[:3]:
        p = expected[at[letter]]
        share = sum(one.text == letter for one in found) / rows
        assert abs(share - p) < 4 * (p * (1 - p) / rows) ** 0.5


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_answers_agree_across_batch_sizes(model_folder: Path, temperature: float) -> None:
    model, tokenizer = load_model(model_folder, "float32", "cpu")
    protocol = Protocol(temperature=temperature, max_new_tokens=12)
    one, five, all_ = (generate(model, tokenizer, PROMPTS, KEYS, protocol, size) for size in (1, 5, 100))
    assert one == five == all_
    if temperature == 1.0:
        assert {answer.finish for answer in one} == {"length", "stop"}
        assert len({answer.text for answer in one}) > 10


def test_greedy_equals_the_models_own_argmax(model_folder: Path) -> None:
    import torch

    model, tokenizer = load_model(model_folder, "float32", "cpu")
    (answer,) = generate(model, tokenizer, ["ab cd="], [("t", 0)], Protocol(temperature=0, max_new_tokens=6), 4)
    ids = tokenizer("ab cd=")["input_ids"]
    start = len(ids)
    while len(ids) - start < 6:
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        if ids[-1] == tokenizer.eos_token_id:
            break
    assert answer.text == tokenizer.decode(ids[start:], skip_special_tokens=True)


def test_the_models_own_sampling_settings_do_not_count_and_come_back(model_folder: Path) -> None:
    from transformers import GenerationConfig

    model, tokenizer = load_model(model_folder, "float32", "cpu")
    protocol = Protocol(temperature=1.0, max_new_tokens=8)
    plain = generate(model, tokenizer, PROMPTS[:6], KEYS[:6], protocol, 6)
    loud = GenerationConfig(
        do_sample=True,
        top_k=1,
        repetition_penalty=5.0,
        suppress_tokens=[5],
        eos_token_id=1,
        pad_token_id=0,
        max_length=9,
    )
    model.generation_config = loud
    assert generate(model, tokenizer, PROMPTS[:6], KEYS[:6], protocol, 6) == plain
    assert model.generation_config is loud


def test_a_chat_template_is_used_where_there_is_one(model_folder: Path) -> None:
    model, tokenizer = load_model(model_folder, "float32", "cpu")
    protocol = Protocol(temperature=0, max_new_tokens=6)
    by_hand = generate(model, tokenizer, ["u ab= a "], [("t", 0)], protocol, 1)
    tokenizer.chat_template = (
        "{% for m in messages %}u {{ m['content'] }}{% endfor %}{% if add_generation_prompt %} a {% endif %}"
    )
    assert generate(model, tokenizer, ["ab="], [("t", 0)], protocol, 1) == by_hand


def test_every_end_token_ends_an_answer(model_folder: Path) -> None:
    model, tokenizer = load_model(model_folder, "float32", "cpu")
    protocol = Protocol(temperature=1.0, max_new_tokens=12)
    before = generate(model, tokenizer, PROMPTS, KEYS, protocol, 8)
    letter = max("abcdefghij", key=lambda one: sum(one in answer.text for answer in before))
    model.generation_config.eos_token_id = [1, tokenizer.convert_tokens_to_ids(letter)]
    after = generate(model, tokenizer, PROMPTS, KEYS, protocol, 8)
    assert [answer.text for answer in after] == [answer.text.partition(letter)[0] for answer in before]
    assert {a.finish for a, b in zip(after, before, strict=True) if letter in b.text} == {"stop"}


def test_an_answer_that_ends_at_once_is_empty(model_folder: Path) -> None:
    import torch

    model, tokenizer = load_model(model_folder, "float32", "cpu")
    model.lm_head = torch.nn.Linear(32, model.config.vocab_size)
    torch.nn.init.zeros_(model.lm_head.weight)
    with torch.no_grad():
        model.lm_head.bias.copy_(torch.eye(model.config.vocab_size)[1] * 100)
    (answer,) = generate(model, tokenizer, ["ab"], [("t", 0)], Protocol(), 1)
    assert (answer.text, answer.finish, answer.tokens) == ("", "stop", 1)


def test_logits_that_are_not_finite_are_an_error_that_names_the_model(model_folder: Path) -> None:
    import torch

    for value in (torch.nan, torch.inf):
        model, tokenizer = load_model(model_folder, "float32", "cpu")
        model.lm_head = torch.nn.Linear(32, model.config.vocab_size)
        with torch.no_grad():
            model.lm_head.bias[4] = value
        with pytest.raises(RunError, match=r"model: gave logits that are not finite at answer token 1"):
            generate(model, tokenizer, ["ab"], [("t", 0)], Protocol(), 1)


def test_a_prompt_that_does_not_fit_is_named(model_folder: Path) -> None:
    model, tokenizer = load_model(model_folder, "float32", "cpu")
    with pytest.raises(TaskError, match=r"Task 'long'.*100 tokens.*32 new ones do not fit the 128 positions"):
        generate(model, tokenizer, ["a", "a" * 100], [("short", 0), ("long", 0)], Protocol(), 4)
