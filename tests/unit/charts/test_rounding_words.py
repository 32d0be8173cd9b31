"""What is said of a merge's rounding, against reports whose figures are known.

Run: .venv/bin/python -m pytest tests/unit/charts/test_rounding_words.py
"""

import math

import pandas as pd
import pytest

from core.charts import rounding_words as words


def summary(changed: int = 100, lost: int = 83, cosine: float = 0.612) -> words.Summary:
    return words.Summary(2, 400, changed, lost, 0.9, cosine)


def test_the_headline_has_the_share_and_the_direction() -> None:
    said = words.headline(summary())
    assert (
        said == "bf16 would round away 83 % of this merge's changed parameters; the direction survives at cosine 0.61"
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (summary(changed=0, lost=0), "This merge changed no parameter of the base"),
        (summary(lost=100, cosine=0.0), "bf16 would round away 100 % of this merge's changed parameters; nothing"),
        (summary(lost=0, cosine=0.9996), "bf16 would round away none of this merge's changed parameters; the"),
        (summary(cosine=math.nan), "bf16 would round away 83 % of this merge's changed parameters"),
    ],
)
def test_the_headline_at_the_ends(found: words.Summary, said: str) -> None:
    assert words.headline(found).startswith(said)


def test_a_file_written_in_bf16_has_lost_it_already() -> None:
    assert words.headline(summary(), "uniform mean", done=True).startswith(
        "bf16 rounded away 83 % of this uniform mean's"
    )


def test_a_cosine_below_one_never_reads_one() -> None:
    assert [words.cosine_text(one) for one in (0.61, 0.9949, 0.9996, 1.0)] == ["0.61", "0.99", "0.9996", "1.00"]


def test_shares_near_the_ends_keep_their_digits() -> None:
    assert [words.percent(one) for one in (0.0, 0.0004, 0.5, 0.9963, 1.0)] == [
        "0 %",
        "0.04 %",
        "50 %",
        "99.63 %",
        "100 %",
    ]


def test_the_summary_takes_the_recorded_total_and_else_adds_squares() -> None:
    report = pd.DataFrame(
        {
            "elements": [10, 20], "changed": [4, 6], "lost": [1, 2], "merged_norm": [3.0, 4.0],
            "relative_l2": [1.0, 0.5], "cosine": [0.5, 0.5],
        }
    )  # fmt: skip
    alone = words.summary(report)
    assert (alone.elements, alone.changed, alone.lost) == (30, 10, 3)
    assert alone.relative_l2 == pytest.approx(math.sqrt(9 + 4) / 5)
    assert math.isnan(alone.cosine)
    recorded = words.summary(report, {"relative_l2": 0.25, "cosine": 0.75})
    assert (recorded.relative_l2, recorded.cosine) == (0.25, 0.75)


def test_what_a_larger_scale_would_lose_follows_from_the_sizes() -> None:
    counts = [0] * 24
    counts[9], counts[10], counts[11], counts[12] = 10, 20, 30, 40  # up to 1/4, 1/2, 1 and above half an ulp
    assert "about 30 % at twice the scale and 10 % at four times" in words.what_would_save(counts)
