"""SWE-bench, EvalPlus and BigCode: what a run resolved, what it passed, and what says too little.

Run: .venv/bin/python -m pytest tests/unit/bank/readers/test_code_benchmarks.py
"""

from pathlib import Path
from typing import Any

import pytest

from core.bank.readers import ReadOptions, read_scores
from core.errors import BankError

REPORT = {
    "schema_version": 2,
    "submitted_ids": ["a__a-1", "a__a-2", "b__b-3", "b__b-4"],
    "resolved_ids": ["a__a-1"],
    "unresolved_ids": ["a__a-2"],
    "empty_patch_ids": ["b__b-3"],
    "error_ids": ["b__b-4"],
    "incomplete_ids": ["c__c-5"],
}


def test_resolved_among_submitted_and_errors_count_0_unless_masked(put: Any) -> None:
    file = put("org__step-200.run1.json", REPORT)
    found = read_scores(file)
    assert found.format == "swe-bench"
    assert found.table() == {"org__step-200": {"a__a-1": 1, "a__a-2": 0, "b__b-3": 0, "b__b-4": 0}}
    assert "1 instances failed to run, counted as 0" in " ".join(found.warnings)
    assert found.scenarios["a__a-2"] == "a__a"
    masked = read_scores(file, ReadOptions(mask_errors=True)).table()["org__step-200"]
    assert masked == {"a__a-1": 1, "a__a-2": 0, "b__b-3": 0, "b__b-4": None}


def test_a_report_without_submitted_ids_takes_them_all(put: Any) -> None:
    without = {key: value for key, value in REPORT.items() if key != "submitted_ids"}
    assert list(read_scores(put("m.r.json", without)).table()["m"]) == ["a__a-1", "a__a-2", "b__b-3", "b__b-4"]


def test_two_runs_of_a_model_are_samples(put: Any, tmp_path: Path) -> None:
    put("m.r1.json", REPORT)
    put("m.r2.json", REPORT | {"resolved_ids": ["a__a-1", "a__a-2"]})
    found = read_scores(tmp_path)
    assert found.samples == 2
    assert found.table()["m"] == {"a__a-1": 1, "a__a-2": 0.5, "b__b-3": 0, "b__b-4": 0}
    assert "2 runs are read as samples: r1, r2" in " ".join(found.warnings)


def test_the_tree_of_instances(put: Any, tmp_path: Path) -> None:
    tree = "logs/run_evaluation/r1/step-200"
    put(f"{tree}/a__a-1/report.json", {"a__a-1": {"resolved": True, "patch_exists": True}})
    put(f"{tree}/a__a-2/report.json", {"a__a-2": {"resolved": False}})
    put(f"{tree}/b__b-4/run_instance.log", "it broke")
    assert read_scores(tmp_path).table() == {"step-200": {"a__a-1": 1, "a__a-2": 0, "b__b-4": 0}}
    assert read_scores(tmp_path, ReadOptions(mask_errors=True)).table()["step-200"]["b__b-4"] is None
    put("step-200.r1.json", REPORT)
    both = read_scores(tmp_path)
    assert (both.samples, both.table()["step-200"]["a__a-1"]) == (1, 1)
    assert "2 reports of instances skipped" in " ".join(both.warnings)


def test_evalplus_base_and_plus(put: Any) -> None:
    samples = {
        "H/0": [{"base_status": "pass", "plus_status": "fail"}, {"base_status": "pass", "plus_status": "pass"}],
        "H/1": [{"base_status": "fail", "plus_status": "pass"}, {"base_status": "timeout", "plus_status": "fail"}],
    }
    file = put("humaneval/step-200_vllm_temp_0.8.eval_results.json", {"eval": samples})
    found = read_scores(file)
    name = "step-200_vllm_temp_0.8"
    assert (found.format, found.samples) == ("evalplus", 2)
    assert found.table() == {name: {"H/0": 0.5, "H/1": 0}}
    assert found.figures == {name: {"base": 0.5, "plus": 0.25}}
    assert read_scores(file, ReadOptions(metric="base")).table() == {name: {"H/0": 1, "H/1": 0}}
    with pytest.raises(BankError, match="base and plus"):
        read_scores(file, ReadOptions(metric="pass@1"))


@pytest.mark.parametrize(
    ("file", "name"),
    [("step-9/eval_results.json", "step-9"), ("x/step-8_eval_results.json", "step-8")],
)
def test_evalplus_names_and_base_only(put: Any, file: str, name: str) -> None:
    path = put(file, {"eval": {"H/0": [{"base_status": "pass", "plus_status": None}]}})
    found = read_scores(path)
    assert found.table() == {name: {"H/0": 1}}
    assert "the base tests alone count" in " ".join(found.warnings)
    with pytest.raises(BankError, match="--base-only"):
        read_scores(path, ReadOptions(metric="plus"))


def test_bigcode_is_refused_with_the_reason(put: Any) -> None:
    with pytest.raises(BankError, match=r"keeps pass@k over all tasks only"):
        read_scores(put("evaluation_results.json", {"humaneval": {"pass@1": 0.3}, "config": {"model": "m"}}))


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({"resolved_ids": []}, "no submitted instances"),
        ({"resolved_ids": "a"}, "list of instance ids"),
        ({"resolved_ids": [1]}, "list of instance ids"),
    ],
)
def test_broken_reports(put: Any, report: Any, said: str) -> None:
    with pytest.raises(BankError, match=said):
        read_scores(put("m.r.json", report))
