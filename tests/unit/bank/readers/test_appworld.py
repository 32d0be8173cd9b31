"""AppWorld reports: new and old keys, the order of tasks, soft scores, scenarios, seeds, and what is refused.

Run: .venv/bin/python -m pytest tests/unit/bank/readers/test_appworld.py
"""

from pathlib import Path
from typing import Any

import pytest

from core.bank.readers import ReadOptions, read_scores
from core.errors import BankError

SECRET = "never to be published"


def result(passed: int, tests: int, key: str = "success") -> dict[str, Any]:
    passes = [{"requirement": SECRET, "label": None}] * passed
    failures = [{"requirement": SECRET, "trace": SECRET, "label": None}] * (tests - passed)
    return {key: passed == tests, "difficulty": 2, "num_tests": tests, "passes": passes, "failures": failures}


def report(key: str = "success") -> dict[str, Any]:
    """Scenario b: 1 and 1 of 4; scenario a: 1 and 1."""
    return {
        "aggregate": {"task_goal_completion": 75.0, "scenario_goal_completion": 50.0},
        "individual": {
            "bbbbbbb_2": result(1, 4, key),
            "bbbbbbb_1": result(4, 4, key),
            "aaaaaaa_1": result(2, 2, key),
            "aaaaaaa_2": result(3, 3, key),
        },
    }


EXPERIMENT = "root/experiments/outputs/rl/step_200/evaluations/dev.json"


@pytest.mark.parametrize("key", ["success", "passes_fully"])
def test_new_and_old_keys_give_the_same_scores(put: Any, key: str) -> None:
    put(EXPERIMENT, report(key))
    found = read_scores(put(EXPERIMENT, report(key)).parents[4])
    assert found.format == "appworld"
    assert found.table() == {"rl/step_200": {"bbbbbbb_2": 0, "bbbbbbb_1": 1, "aaaaaaa_1": 1, "aaaaaaa_2": 1}}
    assert found.figures == {"rl/step_200": {"task_goal_completion": 0.75, "scenario_goal_completion": 0.5}}
    assert found.scenarios["bbbbbbb_2"] == "bbbbbbb"


def test_tasks_are_in_the_order_of_the_datasets_list(put: Any, tmp_path: Path) -> None:
    put("root/data/datasets/dev.txt", "aaaaaaa_2:tag\naaaaaaa_1\n\nbbbbbbb_1\nbbbbbbb_2\nccccccc_1\n")
    file = put(EXPERIMENT, report())
    for given in (file, tmp_path / "root" / "experiments", tmp_path):
        found = read_scores(given)
        assert found.tasks == ("aaaaaaa_2", "aaaaaaa_1", "bbbbbbb_1", "bbbbbbb_2", "ccccccc_1")
        assert found.table()["rl/step_200"]["ccccccc_1"] is None
        assert "no result for 1 of the 5 tasks in dev.txt" in " ".join(found.warnings)


def test_where_reading_is_confined_nothing_above_is_looked_for(put: Any, tmp_path: Path) -> None:
    put("root/data/datasets/dev.txt", "aaaaaaa_2\naaaaaaa_1\nbbbbbbb_1\nbbbbbbb_2\n")
    outputs = put(EXPERIMENT, report()).parents[3]
    assert read_scores(outputs, roots=[outputs]).tasks[0] == "bbbbbbb_2"
    assert read_scores(outputs, roots=[tmp_path]).tasks[0] == "aaaaaaa_2"


def test_soft_scores_are_the_share_of_tests_passed(put: Any) -> None:
    found = read_scores(put(EXPERIMENT, report()), ReadOptions(soft=True))
    assert found.table()["rl/step_200"]["bbbbbbb_2"] == 0.25
    # (1/4 + 1 + 1 + 1) / 4, and the least of each scenario: (1/4 + 1) / 2.
    assert found.figures["rl/step_200"] == {"task_goal_completion": 0.8125, "scenario_goal_completion": 0.625}


def test_texts_of_requirements_are_dropped(put: Any) -> None:
    found = read_scores(put(EXPERIMENT, report()))
    assert SECRET not in repr(found)
    assert found.rows[0].extra == {"difficulty": 2}


def test_seeds_are_samples(put: Any, tmp_path: Path) -> None:
    one = report()
    put("runs/ckpt-9/seed_0/evaluations/dev.json", one)
    other = report()
    other["individual"]["bbbbbbb_2"] = result(4, 4)
    put("runs/ckpt-9/seed_1/evaluations/dev.json", other)
    found = read_scores(tmp_path / "runs")
    assert found.checkpoints == ("ckpt-9",)
    assert found.samples == 2
    assert found.table()["ckpt-9"]["bbbbbbb_2"] == 0.5
    # The mean of 0.5 and 1.
    assert found.figures["ckpt-9"]["scenario_goal_completion"] == 0.75


def test_a_rerun_of_one_task_does_not_count_beside_the_whole_report(put: Any, tmp_path: Path) -> None:
    put(EXPERIMENT, report())
    only = put(EXPERIMENT.replace("dev.json", "on_only_bbbbbbb_2.json"), {"individual": {"bbbbbbb_2": result(4, 4)}})
    found = read_scores(tmp_path)
    assert found.table()["rl/step_200"]["bbbbbbb_2"] == 0
    assert "on_only_bbbbbbb_2.json: skipped" in " ".join(found.warnings)
    assert read_scores(only).table() == {"rl/step_200": {"bbbbbbb_2": 1}}


def test_a_file_outside_the_layout_is_named_by_itself_or_its_folder(put: Any) -> None:
    assert read_scores(put("ckpt-200.json", report())).checkpoints == ("ckpt-200",)
    assert read_scores(put("ckpt-300/dev.json", report())).checkpoints == ("ckpt-300",)


@pytest.mark.parametrize(
    "bare", [{"aggregate": {"task_goal_completion": 66.7}}, {"strict": 1.0, "grouped_strict": 0.5}]
)
def test_a_bare_aggregate_is_refused_with_the_reason(put: Any, bare: Any) -> None:
    with pytest.raises(BankError, match=r"aggregate only.*no score for each task"):
        read_scores(put(EXPERIMENT, bare))


def test_what_does_not_fit_is_named_without_its_texts(put: Any) -> None:
    broken = report()
    broken["individual"]["bbbbbbb_1"] = {"success": SECRET, "passes": []}
    with pytest.raises(BankError, match=r"bbbbbbb_1': expected `success`") as caught:
        read_scores(put(EXPERIMENT, broken))
    assert SECRET not in str(caught.value)
    broken["individual"]["bbbbbbb_1"] = result(4, 4) | {"num_tests": 3}
    with pytest.raises(BankError, match="soft score"):
        read_scores(put(EXPERIMENT, broken), ReadOptions(soft=True))
