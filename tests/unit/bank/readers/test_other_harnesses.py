"""HELM, OpenCompass, verl and ESOpt: small files with values worked out by hand.

Run: .venv/bin/python -m pytest tests/unit/bank/readers/test_other_harnesses.py
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.bank.align import find_problems
from core.bank.readers import ReadOptions, read_scores
from core.errors import BankError


def instance(name: str, value: float, *, trial: int = 0, metric: str = "exact_match", **more: Any) -> dict[str, Any]:
    stats = [
        {"name": {"name": metric, "split": "test"}, "count": 1, "sum": value, "mean": value},
        {"name": {"name": "num_bytes", "split": "test"}, "count": 1, "sum": 9, "mean": 9},
    ]
    return {"instance_id": name, "train_trial_index": trial, "stats": stats} | more


RUN = "benchmark_output/runs/suite/mmlu:subject=anatomy,model=org_step-200/per_instance_stats.json"


def test_helm_instances_without_the_perturbed(put: Any) -> None:
    rows = [instance("id1", 1), instance("id2", 0), instance("id1", 0, perturbation={"name": "typos"})]
    found = read_scores(put(RUN, rows))
    assert (found.format, found.table()) == ("helm", {"org_step-200": {"id1": 1, "id2": 0}})


def test_helm_trials_scenarios_and_the_run_spec(put: Any, tmp_path: Path) -> None:
    put(RUN, [instance("id1", 1), instance("id1", 0, trial=1)])
    other = RUN.replace("anatomy", "law")
    put(other, [instance("id1", 1)])
    for one in (RUN, other):
        spec = {"name": one.split("/")[-2], "adapter_spec": {"model": "org/step-200"}}
        put(one.replace("per_instance_stats", "run_spec"), spec)
    found = read_scores(tmp_path)
    assert found.table() == {"org/step-200": {"mmlu:subject=anatomy/id1": 0.5, "mmlu:subject=law/id1": 1}}


def test_helm_metrics(put: Any) -> None:
    file = put(RUN, [instance("id1", 0.5, metric="rouge_l")])
    with pytest.raises(BankError, match=r"--metric: rouge_l, num_bytes"):
        read_scores(file)
    assert read_scores(file, ReadOptions(metric="rouge_l")).table() == {"org_step-200": {"id1": 0.5}}
    with pytest.raises(BankError, match="no metric 'x'"):
        read_scores(file, ReadOptions(metric="x"))


def test_opencompass_details(put: Any, tmp_path: Path) -> None:
    details = {"type": "GEN", "0": {"correct": True}, "1": {"is_correct": False}, "2": {"correct": [True, False]}}
    file = put("work/results/step-200/gsm8k.json", {"accuracy": 50, "details": details})
    found = read_scores(file)
    assert (found.format, found.table()) == ("opencompass", {"step-200": {"0": 1, "1": 0, "2": 0.5}})
    put("work/results/step-200/math.json", {"accuracy": 100, "details": {"type": "GEN", "0": {"correct": True}}})
    assert list(read_scores(tmp_path).table()["step-200"]) == ["gsm8k/0", "gsm8k/1", "gsm8k/2", "math/0"]


def test_opencompass_without_details_is_refused(put: Any) -> None:
    with pytest.raises(BankError, match="--dump-eval-details"):
        read_scores(put("work/results/step-200/gsm8k.json", {"accuracy": 50}))
    with pytest.raises(BankError, match="expected correct or is_correct"):
        broken = {"0": {"correct": True}, "1": {"pred": "4"}}
        read_scores(put("work/results/step-200/gsm8k.json", {"accuracy": 50, "details": broken}))


def dumped(question: str, score: float, step: int, **more: Any) -> dict[str, Any]:
    return {"input": question, "output": "4", "gts": "4", "score": score, "step": step} | more


def test_verl_steps_are_checkpoints_and_questions_are_hashed(put: Any, tmp_path: Path) -> None:
    put("val/9.jsonl", [dumped("q1", 1, 9), dumped("q2", 0, 9)])
    put("val/10.jsonl", [dumped("q2", 1, 10), dumped("q1", 1, 10), dumped("q1", 0, 10, acc=1.0)])
    found = read_scores(tmp_path)
    assert (found.format, found.checkpoints, found.samples) == ("verl", ("9", "10"), 2)
    assert [list(one.values()) for one in found.table().values()] == [[1, 0], [0.5, 1]]
    # The first 12 digits of SHA-256 of "q1\0" + "4".
    assert found.tasks[0] == "255f523ad00f"
    assert {one.kind for one in find_problems(found)} == {"order", "samples"}
    with pytest.raises(BankError, match=r"9.jsonl:1: expected `input` and `acc`"):
        read_scores(tmp_path / "val" / "9.jsonl", ReadOptions(metric="acc"))


def test_verl_answers_belong_to_the_question_and_folders_are_kept_apart(put: Any, tmp_path: Path) -> None:
    put("a/val/9.jsonl", [dumped("q1", 1, 9), dumped("q1", 0, 9, gts=["5", "five"])])
    put("b/val/9.jsonl", [dumped("q1", 0, 9)])
    found = read_scores(tmp_path)
    assert found.checkpoints == ("a/val/9", "b/val/9")
    assert len(found.tasks) == 2


def eval16(scores: Mapping[str, Sequence[float]], start: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "key": f"{task}:sample{at:02}",
            "task_id": task,
            "row_index": row,
            "sample_index": at,
            "score": score,
            "termination_reason": "stop",
        }
        for row, (task, values) in enumerate(scores.items())
        for at, score in enumerate(values, start=start)
    ]


@pytest.mark.parametrize("shape", ["list", "lines", "object"])
def test_esopt_by_hand_in_all_three_shapes(put: Any, shape: str) -> None:
    records = eval16({"A": [1, 0, 0, 0], "B": [0, 0, 0, 0]}, start=12)
    name = "step-20_eval16" + (".jsonl" if shape == "lines" else ".json")
    found = read_scores(put(name, {"scores": records} if shape == "object" else records))
    assert (found.format, found.checkpoints, found.samples) == ("esopt", ("step-20",), 4)
    assert found.table() == {"step-20": {"A": 0.25, "B": 0}}
    figures = found.figures["step-20"]
    assert (figures["Mean4 12-15"], figures["Pass4 12-15"]) == (0.125, 0.5)
    assert "Mean4 0-3" not in figures
    assert "2 tasks lack some of the samples" in " ".join(found.warnings)


def test_esopt_all_groups(put: Any) -> None:
    scores = {"A": [1, 0, 0, 0] + [0] * 8 + [1, 1, 0, 0], "B": [0] * 4 + [1] * 4 + [0] * 8}
    figures = read_scores(put("x_eval16.json", eval16(scores))).figures["x"]
    expected = {"0-3": (1 / 8, 1 / 2), "4-7": (1 / 2, 1 / 2), "8-11": (0, 0), "12-15": (1 / 4, 1 / 2)}
    for group, (mean, best) in expected.items():
        assert (figures[f"Mean4 {group}"], figures[f"Pass4 {group}"]) == (mean, best)
    # 7 of 32; and pass@4 with 3 and 4 right of 16: 1 - 715/1820 and 1 - 495/1820, halved.
    assert figures["mean16"] == 7 / 32
    assert figures["pass@4"] == pytest.approx((2 - 715 / 1820 - 495 / 1820) / 2)


def test_esopt_negative_scores_are_reported_both_ways(put: Any) -> None:
    found = read_scores(put("x_eval16.json", eval16({"A": [1, -1, 0, 0], "B": [-1, -1, -1, -1]}, start=12)))
    figures = found.figures["x"]
    assert (figures["Mean4 12-15 clamp"], figures["Pass4 12-15 clamp"]) == (1 / 8, 1 / 2)
    assert (figures["Mean4 12-15 drop"], figures["Pass4 12-15 drop"]) == (1 / 3, 1)
    assert "5 scores are negative" in " ".join(found.warnings)
    assert [one.tasks for one in find_problems(found) if one.kind == "outside"] == [("A", "B")]


def test_esopt_broken_records(put: Any) -> None:
    records = eval16({"A": [1, 0]})
    with pytest.raises(BankError, match="sample_index to be a whole number"):
        read_scores(put("x_eval16.json", [records[0], records[1] | {"sample_index": -1}]))
    with pytest.raises(BankError, match="record 2: expected `task_id`"):
        read_scores(put("x_eval16.json", [records[0], 5]))
