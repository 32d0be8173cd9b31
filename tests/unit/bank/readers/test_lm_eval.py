"""lm-evaluation-harness samples: filters, metrics, tasks, limits, names.

Run: .venv/bin/python -m pytest tests/unit/bank/readers/test_lm_eval.py
"""

from pathlib import Path
from typing import Any

import pytest

from core.bank.align import find_problems
from core.bank.readers import ReadOptions, read_scores
from core.errors import BankError

STAMP = "2026-01-02T03-04-05.678901"


def sample(doc: int, score: Any, *, metric: str = "exact_match", **more: Any) -> dict[str, Any]:
    row = {"doc_id": doc, "doc": {"q": "?"}, "target": "4", "resps": [["4"]], "filtered_resps": ["4"]}
    hashes = {"doc_hash": f"d{doc}", "prompt_hash": f"p{doc}", "target_hash": "t"}
    return row | {"filter": "none", "metrics": [metric], metric: score} | hashes | more


def results(model: str, **more: Any) -> dict[str, Any]:
    return {"results": {"gsm8k": {"exact_match,none": 0.5}}, "n-shot": {"gsm8k": 0}, "model_name": model} | more


def test_one_filter_is_read_and_the_others_are_named(put: Any) -> None:
    rows = [
        row
        for doc, (strict, loose) in enumerate([(0, 1), (1, 1)])
        for row in (sample(doc, strict, filter="strict-match"), sample(doc, loose, filter="flexible-extract"))
    ]
    file = put(f"ckpt/samples_gsm8k_{STAMP}.jsonl", rows)
    first = read_scores(file)
    assert first.format == "lm-eval"
    assert first.table() == {"ckpt": {"gsm8k/0": 0, "gsm8k/1": 1}}
    assert "filter 'strict-match' is read, of strict-match, flexible-extract" in " ".join(first.warnings)
    assert read_scores(file, ReadOptions(filter="flexible-extract")).table() == {"ckpt": {"gsm8k/0": 1, "gsm8k/1": 1}}
    with pytest.raises(BankError, match=r"no filter 'x'. It has: strict-match, flexible-extract"):
        read_scores(file, ReadOptions(filter="x"))


def test_the_models_name_the_limit_and_several_tasks(put: Any, tmp_path: Path) -> None:
    put(f"out/m/samples_gsm8k_{STAMP}.jsonl", [sample(0, 1.0)])
    put(f"out/m/samples_leaderboard_math_hard_{STAMP}.jsonl", [sample(0, 0.0), sample(1, 1.0)])
    counts = {"gsm8k": {"original": 1319, "effective": 1}, "leaderboard_math_hard": {"original": 2, "effective": 2}}
    put(f"out/m/results_{STAMP}.json", results("org/step-200", **{"n-samples": counts}))
    found = read_scores(tmp_path / "out")
    assert found.table() == {"org/step-200": {"gsm8k/0": 1, "leaderboard_math_hard/0": 0, "leaderboard_math_hard/1": 1}}
    assert found.limited == {"org/step-200": "gsm8k was run on 1 of its 1,319 documents (--limit)"}
    assert [one.kind for one in find_problems(found)] == ["limited"]
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"model_name": "/models/run7/checkpoint-200"}, "checkpoint-200"),
        ({"model_name": "", "config": {"model_args": "pretrained=org/step-9,dtype=float32"}}, "org/step-9"),
        ({"model_name": None, "config": {"model_args": {"pretrained": "step-8"}}}, "step-8"),
        ({"model_name": None}, "folder"),
    ],
)
def test_where_the_name_comes_from(put: Any, named: Any, expected: str) -> None:
    put(f"folder/results_{STAMP}.json", results("") | named)
    file = put(f"folder/samples_gsm8k_{STAMP}.jsonl", [sample(0, 1)])
    assert read_scores(file).checkpoints == (expected,)


def test_names_that_are_paths_keep_what_tells_them_apart(put: Any, tmp_path: Path) -> None:
    for step in (200, 300):
        put(f"{step}/results_{STAMP}.json", results(f"/models/step-{step}/hf"))
        put(f"{step}/samples_gsm8k_{STAMP}.jsonl", [sample(0, 1)])
    assert read_scores(tmp_path).checkpoints == ("step-200/hf", "step-300/hf")


def test_documents_and_prompts_that_differ_are_found(put: Any, tmp_path: Path) -> None:
    put("a/samples_gsm8k.jsonl", [sample(0, 1), sample(1, 1)])
    put("b/samples_gsm8k.jsonl", [sample(0, 1), sample(1, 1)])
    put("c/samples_gsm8k.jsonl", [sample(0, 1, doc_hash="else"), sample(1, 1, prompt_hash="template")])
    problems = find_problems(read_scores(tmp_path))
    assert [(one.kind, one.checkpoint, one.tasks) for one in problems] == [
        ("prompts", "c", ("gsm8k/0",)),
        ("prompts", "c", ("gsm8k/1",)),
    ]
    assert "asked something else" in problems[0].sentence
    assert "in other words" in problems[1].sentence


def test_metrics_are_chosen_and_lower_is_turned_round(put: Any) -> None:
    rows = [sample(0, 0.25, metric="brier") | {"metrics": ["brier", "acc"], "acc": 1.0}]
    file = put(f"m/samples_x_{STAMP}.jsonl", rows)
    put(f"m/results_{STAMP}.json", results("m", higher_is_better={"x": {"brier": False, "acc": True}}))
    assert read_scores(file).table() == {"m": {"x/0": 1.0}}
    assert read_scores(file, ReadOptions(metric="brier")).table() == {"m": {"x/0": 0.75}}
    assert "lower is better for brier" in " ".join(read_scores(file, ReadOptions(metric="brier")).warnings)
    with pytest.raises(BankError, match=r"no metric 'f1'. It has: brier, acc"):
        read_scores(file, ReadOptions(metric="f1"))


def test_of_two_runs_the_later_is_read(put: Any, tmp_path: Path) -> None:
    put(f"m/samples_x_{STAMP}.jsonl", [sample(0, 0)])
    put("m/samples_x_2026-05-02T03-04-05.678901.jsonl", [sample(0, 1)])
    found = read_scores(tmp_path)
    assert found.table() == {"m": {"x/0": 1}}
    assert f"samples_x_{STAMP}.jsonl: skipped" in " ".join(found.warnings)


def test_nan_is_unscored_and_a_document_twice_is_a_duplicate(put: Any) -> None:
    found = read_scores(put("m/samples_x.jsonl", [sample(0, float("nan")), sample(1, 1), sample(1, 0)]))
    assert found.table() == {"m": {"x/0": None, "x/1": 0.5}}
    assert [(one.kind, one.tasks) for one in find_problems(found)] == [("duplicated", ("x/1",)), ("unscored", ("x/0",))]


def test_results_without_samples_are_refused_with_the_way_out(put: Any, tmp_path: Path) -> None:
    file = put(f"m/results_{STAMP}.json", results("m"))
    with pytest.raises(BankError, match="--log_samples"):
        read_scores(file)
    with pytest.raises(BankError, match="--log_samples"):
        read_scores(tmp_path)


def test_a_broken_line_is_named(put: Any) -> None:
    file = put("m/samples_x.jsonl", b'{"doc_id":0,"filtered_resps":[],"metrics":["acc"],"acc":1}\n{"doc_id":1,"fil')
    with pytest.raises(BankError, match=r"samples_x.jsonl:2: is not JSON"):
        read_scores(file)
