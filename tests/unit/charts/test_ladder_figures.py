"""The ladder's chart and words, from a result worked out by hand.

Run: .venv/bin/python -m pytest tests/unit/charts/test_ladder_figures.py
"""

from typing import Any

import pytest

from core.charts import ladder as figures


def comparison(difference: float, low: float, high: float) -> dict[str, Any]:
    return {"n": 10, "difference": difference, "interval": [low, high], "noise_half_width": 0.12}


@pytest.fixture
def result() -> dict[str, Any]:
    def rung(name: str, title: str, group: str, *, model: str | None = None, seed: int | None = None) -> dict[str, Any]:
        told = {"name": name, "title": title, "group": group, "why": "Why.", "model": model, "seed": seed}
        return told | {"same_as": None}

    return {
        "rungs": [
            rung("recipe", "The recipe", "recipe"),
            rung("base", "Base", "null", model="base"),
            rung("best_single", "Best single", "null", model="290"),
            rung("random_1", "Random 2", "null", seed=1),
            rung("no_mmr", "No MMR", "ablation"),
        ],
        "means": {"dev": {"recipe": 0.7, "base": 0.2, "best_single": 0.7, "random_1": 0.75, "no_mmr": 1.0}},
        "families": {
            "dev": {
                "members": [
                    {"rival": "base", "comparison": comparison(0.5, 0.3, 0.7), "p_value": 0.001, "p_adjusted": 0.004,
                     "verdict": "better"},
                    {"rival": "best_single", "comparison": comparison(0, -0.1, 0.1), "p_value": 1.0, "p_adjusted": 1.0,
                     "verdict": "unresolved"},
                    {"rival": "random_1", "comparison": comparison(-0.05, -0.2, 0.1), "p_value": 0.6, "p_adjusted": 1.0,
                     "verdict": "unresolved"},
                    {"rival": "no_mmr", "comparison": comparison(-0.3, -0.5, -0.1), "p_value": 0.01,
                     "p_adjusted": 0.03, "verdict": "worse"},
                ]
            }
        },
    }  # fmt: skip


def test_rivals_are_in_tasks_the_strongest_first(result: dict[str, Any]) -> None:
    found = figures.rivals(result, "dev")
    assert [one.title for one in found] == ["No MMR", "Random 2, seed 1", "Best single, 290", "Base"]
    assert [one.difference for one in found] == pytest.approx([-3, -0.5, 0, 5])
    assert [one.tasks for one in found] == pytest.approx([10, 7.5, 7, 2])
    assert (found[0].low, found[0].high) == pytest.approx((-5, -1))


def test_the_words_count_what_holds(result: dict[str, Any]) -> None:
    said = "On dev the merge solves 7 of 10 tasks: better than 1 of 4 rivals, worse than 1, and not told from 2."
    assert figures.headline(result, "dev") == said
    found = figures.rivals(result, "dev")
    assert figures.sentence(found[0]) == (
        "The merge solves 3 fewer tasks than No MMR (95 % interval −5 to −1 on its own, p = 0.010; "
        "among all, p = 0.030): worse."
    )
    assert "as many tasks as Best single, 290" in figures.sentence(found[2])
    assert figures.alt(result, "dev", found) == f"{said} Strongest rival: {figures.sentence(found[0])}"


def test_unresolved_rivals_are_hollow_and_grey_and_the_noise_is_drawn(result: dict[str, Any]) -> None:
    found = figures.rivals(result, "dev")
    assert figures.noise_of(result, "dev") == pytest.approx(1.2)
    for dark in (False, True):
        drawn = figures.ladder_chart(found, 1.2, dark=dark)
        marks = [one.marker for one in drawn.data]
        assert [mark.color == marks[1].color for mark in marks] == [False, True, True, False]
        assert marks[1].line.color == marks[2].line.color == figures.GREY
        assert [mark.symbol for mark in marks] == ["square", "circle", "circle", "circle"]
        band = drawn.layout.shapes[0]
        assert (band.type, band.x0, band.x1) == ("rect", -1.2, 1.2)
        assert drawn.layout.xaxis.range[0] < -5 and drawn.layout.xaxis.range[1] > 7


def test_the_table_has_a_row_a_rival(result: dict[str, Any]) -> None:
    table = figures.ladder_table(figures.rivals(result, "dev"))
    assert table["verdict"].tolist() == ["worse", "unresolved", "unresolved", "better"]
    assert table["95 % interval"].tolist()[0] == "−5 to −1"
