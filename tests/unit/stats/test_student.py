"""Student's t without scipy, against scipy and against values from tables.

Run: .venv/bin/python -m pytest tests/unit/stats/test_student.py
"""

import math

import pytest
from scipy.special import stdtrit

from core.errors import InputError
from core.stats.student import t_quantile


@pytest.mark.parametrize("freedom", [*range(1, 120), 999, 1000, 4999, 20_000])
@pytest.mark.parametrize("probability", [0.5, 0.8, 0.95, 0.975, 0.995])
def test_quantiles_are_scipys(freedom: int, probability: float) -> None:
    assert t_quantile(freedom, probability) == pytest.approx(float(stdtrit(freedom, probability)), rel=1e-11, abs=1e-12)


def test_quantiles_by_hand() -> None:
    # One degree of freedom is Cauchy's distribution: tan(π(p − 1/2)). Two: x√2/√(1 − x²) with x = 2p − 1.
    assert t_quantile(1) == pytest.approx(math.tan(math.pi * 0.475), rel=1e-13)
    assert t_quantile(2) == pytest.approx(0.95 * math.sqrt(2) / math.sqrt(1 - 0.95**2), rel=1e-13)
    assert t_quantile(18) == pytest.approx(2.10092, abs=5e-6)


@pytest.mark.parametrize(("freedom", "probability"), [(0, 0.975), (3, 0.4), (3, 1.0), (3, math.nan)])
def test_other_arguments_are_refused(freedom: int, probability: float) -> None:
    with pytest.raises(InputError, match="t quantile"):
        t_quantile(freedom, probability)
