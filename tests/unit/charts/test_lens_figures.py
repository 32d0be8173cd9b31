"""The lens's figures and sentences, from a report of a change of known size.

Run: .venv/bin/python -m pytest tests/unit/charts/test_lens_figures.py
"""

import numpy as np
import pytest

from core.charts import lens as figures
from core.precision.lens import LensReport, lens
from tests.unit.merge.models import write_model


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> LensReport:
    """Four ones: two move by 1 ulp of bf16, one by ¼ ulp, one not at all."""
    root = tmp_path_factory.mktemp("pool")
    base = np.ones(4, np.float32)
    moved = base + np.array([1, 1, 0.25, 0], np.float32) / 128
    return lens(write_model(root / "base", {"w": base}, {}), write_model(root / "model", {"w": moved}, {}))


def test_the_curve_falls_at_half_the_scale(report: LensReport) -> None:
    figure = figures.survival_chart(report, dark=False)
    bf16 = figure.data[0]
    values = dict(zip(bf16.x, bf16.y, strict=True))
    assert (values[0.45], values[0.55], values[1.0]) == (0, pytest.approx(200 / 3), pytest.approx(200 / 3))
    assert (values[2.0], values[4.0]) == (pytest.approx(200 / 3), 100)
    assert len({one.line.dash for one in figure.data}) == len({one.marker.symbol for one in figure.data}) == 4
    assert figures.survival_table(report)["bf16 survives, %"].tolist()[-1] == 100


def test_the_sentences_have_the_numbers(report: LensReport) -> None:
    assert "66.7 % of the changed parameters survive at the present scale" in figures.cliff_sentence(report)
    assert "cliff near ½: between scales 0.625 and 0.375 it falls by 67 points" in figures.cliff_sentence(report)
    assert "bf16 0.0 % at 0.5, 66.7 % at 1, 66.7 % at 2" in figures.survival_alt(report)
    assert "fp16 would lose 0.0 % of the changed" in figures.saving_sentence(report)


def test_the_exact_files_come_first(report: LensReport) -> None:
    table = figures.files_table(report)
    assert table["file"].tolist()[:3] == ["fp32", "bf16 + residual file", "bf16"]
    assert table["lost, % of changed"].tolist()[:3] == [0, 0, pytest.approx(100 / 3)]
