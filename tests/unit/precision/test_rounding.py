"""Rounding loss of finished folders: by hand, against the merge's own pass, and what is refused.

Run: .venv/bin/python -m pytest tests/unit/precision/test_rounding.py
"""

import math
from pathlib import Path

import numpy as np
import pytest

from core.errors import Cancelled, CheckpointError
from core.merge import parse_plan, read_report, run_merge
from core.merge.blocks import SUB_BLOCK
from core.precision import rounding_report
from core.precision.figures import RoundingSums
from tests.unit.merge.models import random_tensors, ties_config, write_model, write_pool


def test_by_hand(tmp_path: Path) -> None:
    # At 1 a bf16 ulp is 2^-7: a step of 2^-9 is lost, one of 2^-7 survives, one of 2^-6 + 2^-9 loses 2^-9.
    base = write_model(tmp_path / "base", {"w": np.ones(4, np.float32)})
    merged = write_model(tmp_path / "m", {"w": np.array([1, 1 + 2**-9, 1 + 2**-7, 1 + 2**-6 + 2**-9], np.float32)})
    report = rounding_report(base, merged)
    (row,) = report.tensors
    assert (row.elements, row.changed, row.lost) == (4, 3, 1)
    assert row.lost_fraction == pytest.approx(1 / 3)
    moved = [2**-9, 2**-7, 2**-6 + 2**-9]
    kept = [0, 2**-7, 2**-6]
    norm = math.sqrt(sum(one**2 for one in moved))
    assert row.merged_norm == pytest.approx(norm)
    assert row.base_norm == 2.0
    assert row.relative_l2 == pytest.approx(math.sqrt(2 * 2**-18) / norm)
    product = sum(a * b for a, b in zip(moved, kept, strict=True))
    assert row.cosine == pytest.approx(product / (norm * math.sqrt(sum(one**2 for one in kept))))
    assert row.histogram == (*[0] * 11, 1, 0, 1, 1, *[0] * 9)
    assert report.total.lost == 1
    assert report.as_dict()["tensors"][0]["name"] == "w"


def test_nothing_changed_and_everything_lost(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", {"w": np.ones(3, np.float32)})
    same = rounding_report(base, base).total
    assert (same.changed, same.lost_fraction, same.relative_l2, same.cosine) == (0, 0.0, 0.0, 1.0)
    merged = write_model(tmp_path / "m", {"w": np.full(3, 1 + 2**-20, np.float32)})
    lost = rounding_report(base, merged).total
    assert (lost.changed, lost.lost, lost.lost_fraction, lost.relative_l2, lost.cosine) == (3, 3, 1.0, 1.0, 0.0)


@pytest.mark.parametrize("density", [1.0, 0.3])
def test_the_figures_are_those_of_the_merges_own_pass(tmp_path: Path, density: float) -> None:
    base, members = write_pool(tmp_path, 3)
    text = ties_config(base, members, [0.456, 0.456, 0.088], density=density)
    result = run_merge(parse_plan(text, tmp_path), tmp_path / "out")
    report = rounding_report(base, tmp_path / "out")
    assert {key: value for key, value in report.total.as_dict().items() if key != "name"} == result.rounding
    rows = read_report(tmp_path / "out").set_index("name")
    for row in report.tensors:
        for name, value in row.as_dict().items():
            if name != "name":
                assert np.array_equal(rows.loc[row.name, name], value), (row.name, name)


def test_block_size_changes_no_figure(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    start = (rng.standard_normal(3 * SUB_BLOCK + 5) * 0.02).astype(np.float32)
    base = write_model(tmp_path / "base", {"w": start})
    drift = (rng.standard_normal(start.size) * 1e-5).astype(np.float32)
    merged = write_model(tmp_path / "m", {"w": start + drift})
    rows = {rounding_report(base, merged, block=block).total for block in (1, 2 * SUB_BLOCK, 1 << 22)}
    assert len(rows) == 1


def test_small_drifts_of_fp32_weights_mostly_vanish_in_bf16(tmp_path: Path) -> None:
    # The published simulation (σ = 0.02, drift 1e-5, fp32 inputs) loses 80 to 86 % of the changes.
    rng = np.random.default_rng(1)
    start = (rng.standard_normal(400_000) * 0.02).astype(np.float32)
    base = write_model(tmp_path / "base", {"w": start})
    drift = (rng.standard_normal(start.size) * 1e-5).astype(np.float32)
    merged = write_model(tmp_path / "m", {"w": start + drift})
    assert 0.78 < rounding_report(base, merged).total.lost_fraction < 0.88


def test_models_that_do_not_match_are_refused_unless_asked(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", {"w": np.ones(3, np.float32), "v": np.ones(2, np.float32)})
    merged = write_model(tmp_path / "m", {"w": np.ones(3, np.float32), "v": np.ones(4, np.float32)})
    with pytest.raises(CheckpointError, match="tensor v is not in"):
        rounding_report(base, merged)
    report = rounding_report(base, merged, partly=True)
    assert ([row.name for row in report.tensors], report.skipped) == (["w"], ("v",))
    nothing = rounding_report(base, write_model(tmp_path / "other", {"x": np.ones(1, np.float32)}), partly=True)
    assert (nothing.tensors, nothing.total.elements) == ([], 0)


def test_nan_is_refused(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", {"w": np.ones(3, np.float32)})
    merged = write_model(tmp_path / "m", {"w": np.array([1, np.nan, np.inf], np.float32)})
    with pytest.raises(CheckpointError, match="tensor w has 2 values that are NaN or infinite"):
        rounding_report(base, merged)


def test_a_tied_head_is_not_counted_twice(tmp_path: Path) -> None:
    start = random_tensors(0)
    twice = {**start, "lm_head.weight": start["model.embed_tokens.weight"]}
    one, two = write_model(tmp_path / "one", start), write_model(tmp_path / "two", twice)
    assert rounding_report(one, two).total.elements == rounding_report(one, one).total.elements


def test_it_can_be_cancelled(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", random_tensors(0))

    def stop(*_: object) -> None:
        raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        rounding_report(base, base, stop)


def test_a_cosine_never_passes_one() -> None:
    sums = RoundingSums(1, 1, 0, (1e-8, 0.0, 1.0000000000000002e-8, 1e-8, 1.0), np.zeros(24, np.int64))
    assert sums.row("w").cosine == 1.0
