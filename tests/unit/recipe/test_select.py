"""A recipe applied to a bank: every figure of the published recipe, and the warnings.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_select.py
"""

import json
from collections.abc import Callable

import numpy as np
import pytest

from core.bank import Bank
from core.errors import RecipeError
from core.files import jsonl_bytes
from core.recipe import PRESETS, Recipe, preset, relevances, select, similarity_matrix, similarity_rows
from data.make_s3_card import OUT, rows, search

IDS = tuple(str(step) for step in range(200, 301, 10))


def test_the_s3_card_agrees_with_every_published_figure(s3_card: Bank) -> None:
    chosen = select(s3_card, Recipe())
    assert {pick.checkpoint for pick in chosen.picks} == {"250", "270", "280", "290", "300"}
    solved = dict(zip(IDS, (relevances(s3_card.splits["dev"]) * 57).round(9), strict=True))
    assert {one: solved[one] for one in ("250", "270", "280", "290", "300")} == {
        "250": 33,
        "270": 38,
        "280": 36,
        "290": 32,
        "300": 38,
    }
    assert max(solved.values()) == 38
    assert sorted(solved, key=lambda one: -solved[one])[:2] == ["270", "300"]
    assert {one: round(weight, 3) for one, weight in chosen.weights.items()} == {
        "270": 0.456,
        "300": 0.456,
        "280": 0.079,
        "250": 0.006,
        "290": 0.002,
    }
    assert list(chosen.weights) == [pick.checkpoint for pick in chosen.picks]
    assert chosen.effective_members == pytest.approx(2.612, abs=1e-3)


def test_the_s3_card_has_room_to_spare_and_one_tie(s3_card: Bank) -> None:
    first, *others = select(s3_card, Recipe()).picks
    assert (first.checkpoint, first.ties, first.margin) == ("270", ("300",), 0.0)
    assert all(pick.margin is not None and pick.margin >= 0.005 and not pick.ties for pick in others)


def test_the_s3_card_says_what_it_is(s3_card: Bank) -> None:
    assert s3_card.kind == "illustrative"
    assert "illustrative reconstruction" in s3_card.title
    assert "not measured" in s3_card.description
    assert s3_card.splits["dev"].base_scores is None
    assert not s3_card.has_weights
    facts = " ".join(str(fact["value"]) for fact in s3_card.facts)
    for figure in ("43 of 57", "38 of 57", "77 of 168", "31 of 57", "6 of 57", "0.5238", "0.4464", "80 to 88"):
        assert figure in facts
    assert {fact["source"] for fact in s3_card.facts} == {"published S3 recipe"}


def test_the_s3_card_looks_like_a_run(s3_card: Bank) -> None:
    dev = s3_card.splits["dev"]
    assert dev.scores.shape == (11, 57)
    assert set(np.unique(dev.scores)) == {0, 1}
    assert [dev.scenarios.count(one) for one in dict.fromkeys(dev.scenarios)] == [3] * 19
    matrix = similarity_matrix(dev.scores, "pearson")
    assert np.diagonal(matrix, 1).mean() > np.diagonal(matrix, 6).mean() + 0.05
    assert len(np.unique(dev.scores.sum(axis=0))) >= 8


def test_the_s3_card_is_what_its_program_makes() -> None:
    assert jsonl_bytes(rows(search())) == OUT.read_bytes()


def test_the_selection_is_plain_json(s3_card: Bank) -> None:
    found = json.loads(json.dumps(select(s3_card, Recipe(pin=("200",))).as_dict(), allow_nan=False))
    assert list(found) == ["picks", "weights", "effective_members", "warnings"]
    assert found["picks"][0] == {
        "checkpoint": "200",
        "order": 1,
        "relevance": 27 / 57,
        "max_similarity": 0.0,
        "score": pytest.approx(0.7 * 27 / 57),
        "margin": None,
        "ties": [],
        "pinned": True,
    }


def test_uniform_weighting_ignores_tau(s3_card: Bank) -> None:
    for tau in (0.001, 1.0):
        chosen = select(s3_card, Recipe(k=4, tau=tau, weighting="uniform"))
        assert set(chosen.weights.values()) == {0.25}
        assert chosen.effective_members == pytest.approx(4)


def test_warnings_say_what_is_odd(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(np.array([[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 1, 0.0]]))
    said = select(bank, Recipe(k=4, lam=0.5)).warnings
    assert "Pick 1: c0 ties with c1, c3; the earlier in the bank was taken." in said
    assert any("c2 scores 0 on every task of dev" in one for one in said)
    assert not any("negative" in one for one in said)
    negative = select(bank, Recipe(k=2, similarity="pearson")).warnings
    assert any("negative, so they add to a score" in one for one in negative)


def test_an_all_zero_vector_is_like_nothing(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(np.array([[1, 1, 1], [0, 0, 0], [1, 1, 0.0]]))
    second = select(bank, Recipe(k=2, lam=0.3)).picks[1]
    assert (second.checkpoint, second.max_similarity, second.score) == ("c1", 0, 0)


def test_rows_are_kept_for_a_split_and_go_with_it(make_bank: Callable[..., Bank]) -> None:
    first, second = (make_bank(np.eye(3)).splits["dev"] for _ in range(2))
    assert similarity_rows(first, "cosine") is similarity_rows(first, "cosine")
    assert similarity_rows(first, "cosine") is not similarity_rows(second, "cosine")
    assert similarity_rows(first, "cosine") is not similarity_rows(first, "jaccard")


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (Recipe(k=12), "K is 12, but the pool has 11 checkpoints. Expected K of at most 11"),
        (Recipe(k=10, ban=("200", "210")), "11 checkpoints less 2 banned. Expected K of at most 9"),
        (Recipe(k=0), "k (K): expected a whole number, at least 1; found 0"),
        (Recipe(k=1, pin=("200", "210")), "K is 1, but 2 are pinned"),
        (Recipe(tau=0), "tau (τ): expected a number, above 0; found 0"),
        (Recipe(tau=-1.0), "tau (τ): expected a number, above 0; found -1.0"),
        (Recipe(tau=float("nan")), "found nan"),
        (Recipe(lam=1.01), "lam (λ): expected a number, at least 0, at most 1; found 1.01"),
        (Recipe(lam=float("nan")), "found nan"),
        (Recipe(density=0.0), "density: expected a number, above 0, at most 1; found 0.0"),
        (Recipe(density=1.5), "found 1.5"),
        (Recipe(scale=float("inf")), "scale: expected a number, any number; found inf"),
        (Recipe(split="test"), "unknown split 'test'. The bank 's3_card' has: dev"),
        (Recipe(pin=("2700",)), "pinned checkpoint '2700' is not in the bank 's3_card'. Did you mean '270'?"),
        (Recipe(ban=("x",)), "banned checkpoint 'x' is not in the bank"),
        (Recipe(pin=("200", "200")), "checkpoint '200' is pinned twice"),
        (Recipe(pin=("200",), ban=("200",)), "checkpoint '200' is both pinned and banned"),
        (Recipe(similarity="dot"), "similarity (sim): expected one of cosine"),  # type: ignore[arg-type]
    ],
)
def test_a_recipe_that_does_not_fit_is_refused(s3_card: Bank, recipe: Recipe, expected: str) -> None:
    with pytest.raises(RecipeError) as caught:
        select(s3_card, recipe)
    assert expected in str(caught.value)


@pytest.mark.parametrize("name", [one.name for one in PRESETS])
def test_every_preset_runs_on_any_bank(name: str, s3_card: Bank, make_bank: Callable[..., Bank]) -> None:
    for bank in (s3_card, make_bank(np.eye(2))):
        start = Recipe(pin=(bank.checkpoints[0].id,), ban=(bank.checkpoints[1].id, "gone"), density=0.5, k=2)
        recipe = preset(name).apply(bank, start)
        assert (recipe.density, recipe.pin, recipe.ban) == (0.5, (), (bank.checkpoints[1].id,))
        assert select(bank, recipe).picks


def test_presets_are_what_their_names_say(s3_card: Bank) -> None:
    def picks(name: str) -> list[str]:
        return [pick.checkpoint for pick in select(s3_card, preset(name).apply(s3_card)).picks]

    assert preset("s3").apply(s3_card) == Recipe()
    assert picks("two_strongest") == ["270", "300"]
    assert picks("best_single") == ["270"]
    assert sorted(picks("soup")) == list(IDS)
    assert picks("greedy") == ["270", "300", "280", "260", "250"]
    assert picks("diverse") != picks("s3")
    winner = select(s3_card, preset("winner").apply(s3_card))
    assert winner.effective_members == pytest.approx(2)
    with pytest.raises(KeyError):
        preset("nothing")
