"""The programs that make the banks: tasks can be checked, the tokenizer is faithful, GRPO does what it says.

Run: .venv/bin/python -m pytest tests/unit/data/test_making.py
"""

from random import Random

import pytest

from core.evals import Task, score
from data.make.families import DIFFICULTIES, FAMILIES, draw
from data.make.tasks import held_out_prompts, make_split, task_row
from data.make.tokenizer import make_tokenizer


@pytest.mark.parametrize("family", FAMILIES)
def test_the_right_answer_scores_and_the_sloppy_one_never_does(family: str) -> None:
    random = Random(3)
    for difficulty in list(range(DIFFICULTIES)) * 20:
        item = FAMILIES[family](random, difficulty)
        task = Task(**task_row(item, "x_1", "x"))
        assert score(task, item.right)[0] == 1, item
        assert score(task, item.sloppy)[0] == 0, item


def test_the_same_seed_draws_the_same_tasks_and_held_out_prompts_are_never_drawn() -> None:
    assert make_split("dev") == make_split("dev")
    held_out = held_out_prompts()
    assert len(held_out) == 57 + 168
    random = Random(0)
    assert not {draw(random, forbidden=held_out).prompt for _ in range(20_000)} & held_out


def test_answers_encode_alone_as_they_do_after_their_prompt() -> None:
    tokenizer, random = make_tokenizer(), Random(1)
    for _ in range(300):
        item = draw(random)
        whole = tokenizer.encode(item.prompt + item.right)
        assert whole == tokenizer.encode(item.prompt) + tokenizer.encode(item.right)
        assert tokenizer.decode(whole) == item.prompt + item.right
        assert tokenizer.unk_token_id not in whole


def test_advantages_are_centred_scaled_and_zero_where_a_group_agrees() -> None:
    import torch

    from data.make.grpo import group_advantages

    got = group_advantages(torch.tensor([[1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]]))
    assert torch.allclose(got[0], torch.tensor([0.866, -0.866, -0.866, 0.866]), atol=1e-3)
    assert not got[1].any()


def test_sampled_tokens_keep_their_probabilities_when_read_back() -> None:
    import torch

    from data.make.grpo import answer_log_probabilities
    from data.make.model import new_model
    from data.make.rollout import sample

    tokenizer = make_tokenizer()
    model = new_model(len(tokenizer), 0).eval()
    prompts = ["Add 1 2 =", "Reverse kdfjask =", "Sort ba ="]
    got = sample(model, tokenizer, prompts, temperature=1.0, limit=12, generator=torch.Generator().manual_seed(5))
    batched = answer_log_probabilities(model, got, 1.0)
    for row, prompt in enumerate(prompts):
        length = int(got.mask[row, got.prompt_length :].sum())
        answer = got.ids[row, got.prompt_length :][:length]
        ids = torch.cat([torch.tensor(tokenizer.encode(prompt)), answer])[None]
        logits = model(input_ids=ids).logits[0, -length - 1 : -1]
        alone = torch.log_softmax(logits, -1).gather(1, answer[:, None])[:, 0]
        assert torch.allclose(batched[row, :length], alone, atol=1e-4)
