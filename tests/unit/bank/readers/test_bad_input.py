"""Whatever else may lie under a path: one clear message, bounded memory, and no way out of the folders named.

Run: .venv/bin/python -m pytest tests/unit/bank/readers/test_bad_input.py
"""

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.bank.align import find_problems
from core.bank.readers import FORMATS, ReadOptions, read_scores, sources, walk
from core.errors import BankError

GOOD = "checkpoint,task,score\na,t,1\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.json", b"", "it is empty"),
        ("x.jsonl", b"\n\n", "no known kind|not a table"),
        ("x.json", b'{"individual": {', "is not JSON"),
        ("x.json", b"[" * 100_000, "is not JSON"),
        ("x.json", b'{"a": ' + b"9" * 10_000 + b"}", "it is JSON, but not scores"),
        ("x.json", b"{}", "it is JSON, but not scores"),
        ("x.json", b"\xff\xfe\x00binary", "a binary file"),
        ("x.csv", b"\x00\x01\x02", "a binary file"),
        ("x.csv", "checkpoint,task,score\nä,t,1\n".encode("latin-1"), "a binary file"),
        ("x.csv", b"hello\nworld\n", "not a table of scores"),
        ("x.eval", b"PK\x03\x04" + b"\0" * 100, "not a whole zip"),
        ("x.pkl", b"\x80\x04cos\nsystem\n(S'true'\ntR.", "a binary file"),
    ],
)
def test_one_message_that_names_the_file(put: Any, name: str, content: bytes, said: str) -> None:
    with pytest.raises(BankError, match=said) as caught:
        read_scores(put(name, content))
    assert name in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_where_nothing_is_understood_the_formats_are_listed(put: Any, tmp_path: Path) -> None:
    put("a.json", {"x": 1})
    put("b.json", {"y": 1})
    put("c.safetensors", b"weights")
    with pytest.raises(BankError, match="no scores found in 3 files") as caught:
        read_scores(tmp_path)
    assert all(one.name in str(caught.value) for one in FORMATS)
    with pytest.raises(BankError, match="no scores found in 0 files"):
        (tmp_path / "empty").mkdir()
        read_scores(tmp_path / "empty")


def test_other_files_in_a_folder_are_skipped_and_said(put: Any, tmp_path: Path) -> None:
    put("good.csv", GOOD)
    put("bad.json", b'{"individual": {')
    put("aggregate.json", {"aggregate": {"task_goal_completion": 1.0}})
    put("empty.jsonl", b"")
    put("model/tokenizer.json", {"model": {}})
    found = read_scores(tmp_path)
    assert found.table() == {"a": {"t": 1}}
    said = " ".join(found.warnings)
    assert "bad.json: is not JSON" in said
    assert "aggregate only" in said
    assert "empty.jsonl: skipped, it is empty" in said
    assert "tokenizer" not in said


def test_long_lists_of_warnings_are_cut(put: Any, tmp_path: Path) -> None:
    put("good.csv", GOOD)
    for at in range(30):
        put(f"other{at}.json", {})
    found = read_scores(tmp_path)
    assert len(found.warnings) == 21
    assert found.warnings[-1] == "10 more files were skipped."


def test_links_out_of_the_folder_are_not_followed(put: Any, tmp_path: Path) -> None:
    put("outside/secret.csv", "checkpoint,task,score\nsecret,t,1\n")
    put("inside/good.csv", GOOD)
    inside = tmp_path / "inside"
    (inside / "file.csv").symlink_to(tmp_path / "outside" / "secret.csv")
    (inside / "folder").symlink_to(tmp_path / "outside")
    (inside / "gone").symlink_to(tmp_path / "nowhere")
    found = read_scores(inside)
    assert found.checkpoints == ("a",)
    assert sum("leads out of the folders" in one for one in found.warnings) == 3


def test_links_inside_are_read_once_and_circles_end(put: Any, tmp_path: Path) -> None:
    put("run/good.csv", GOOD)
    (tmp_path / "run" / "again").symlink_to(tmp_path)
    (tmp_path / "latest.csv").symlink_to(tmp_path / "run" / "good.csv")
    assert len(read_scores(tmp_path).rows) == 1
    assert len(read_scores([tmp_path, tmp_path / "run" / "good.csv"]).rows) == 1


def test_a_path_outside_the_allowed_roots_is_refused(put: Any, tmp_path: Path) -> None:
    outside = put("outside/x.csv", GOOD)
    put("inside/x.csv", GOOD)
    roots = [tmp_path / "inside"]
    assert read_scores(tmp_path / "inside" / "x.csv", roots=roots).checkpoints == ("a",)
    (tmp_path / "inside" / "link.csv").symlink_to(outside)
    for path in (outside, tmp_path / "inside" / ".." / "outside" / "x.csv", tmp_path / "inside" / "link.csv"):
        with pytest.raises(BankError, match="outside the folders that may be read"):
            read_scores(path, roots=roots)


def test_results_beside_are_not_read_through_a_link_that_leads_out(put: Any, tmp_path: Path) -> None:
    stamp = "2026-01-02T03-04-05.6"
    row = {"doc_id": 0, "filtered_resps": ["4"], "metrics": ["acc"], "acc": 1}
    put(f"in/samples_x_{stamp}.jsonl", [row])
    results = put("out/r.json", {"results": {}, "model_name": "secret", "n-shot": {}})
    (tmp_path / "in" / f"results_{stamp}.json").symlink_to(results)
    assert read_scores(tmp_path / "in").checkpoints == ("in",)


def test_paths_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none", "a\0b"):
        with pytest.raises(BankError, match="no such file or folder"):
            read_scores(path)
    with pytest.raises(BankError, match="at least one file"):
        read_scores([])
    with pytest.raises(BankError, match=r"unknown format 'x'. Expected one of appworld, lm-eval"):
        read_scores(tmp_path, ReadOptions(format="x"))


def test_a_pipe_is_not_waited_for(tmp_path: Path, put: Any) -> None:
    put("good.csv", GOOD)
    os.mkfifo(tmp_path / "pipe.json")
    assert read_scores(tmp_path).checkpoints == ("a",)
    with pytest.raises(BankError, match="neither a file nor a folder"):
        read_scores(tmp_path / "pipe.json")


def test_folders_are_bounded_in_depth_and_number(put: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put("good.csv", GOOD)
    put("/".join("d" * 20) + "/deep.csv", GOOD)
    assert "more than 16 folders deep" in " ".join(read_scores(tmp_path).warnings)
    monkeypatch.setattr(walk, "MAX_FILES", 10)
    for at in range(10):
        put(f"{at}.csv", GOOD)
    with pytest.raises(BankError, match="more than 10 files"):
        read_scores(tmp_path)


@pytest.mark.parametrize("name", ["x.csv", "x.json", "x.jsonl", "x.eval", "x.parquet"])
def test_a_gigabyte_of_anything_is_refused_in_little_memory(tmp_path: Path, name: str) -> None:
    heads = {"x.csv": b"checkpoint,task,score\n", "x.json": b'{"individual": {', "x.jsonl": b'{"task": "'}
    path = tmp_path / name
    path.write_bytes(heads.get(name, b"PK\x03\x04" if name == "x.eval" else b"PAR1"))
    os.truncate(path, 1_000_000_000)
    tracemalloc.start()
    with pytest.raises(BankError):
        read_scores(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000_000


def test_large_json_is_refused_with_what_to_do(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_JSON_BYTES", 100)
    with pytest.raises(BankError, match="Write one object a line"):
        read_scores(put("x.json", {"individual": {f"t_{at}": {"success": True} for at in range(10)}}))


def test_two_formats_in_one_folder_are_said_and_one_can_be_named(put: Any, tmp_path: Path) -> None:
    put("good.csv", GOOD)
    put("m.r.json", {"resolved_ids": ["x-1"]})
    both = read_scores(tmp_path)
    assert both.format == "swe-bench + table"
    assert "several formats are read together" in " ".join(both.warnings)
    assert read_scores(tmp_path, ReadOptions(format="table")).checkpoints == ("a",)


STATS = [{"name": {"name": "exact_match", "split": "test"}, "count": 1, "mean": 1.0}]
VALID: list[Any] = [
    {
        "individual": {
            "a_1": {"success": True, "difficulty": 1, "num_tests": 2, "passes": [1]},
            "a_2": {"success": False},
        }
    },
    {
        "doc_id": 0,
        "filtered_resps": ["4"],
        "filter": "x",
        "metrics": ["acc"],
        "acc": 1,
        "doc_hash": "d",
        "prompt_hash": "p",
    },
    {"results": {"x": {}}, "n-samples": {"x": {"original": 2, "effective": 1}}, "config": {"model_args": "a=b"}},
    {
        "eval": {"model": "m", "task": "t", "config": {"limit": 1}},
        "status": "success",
        "samples": [
            {"id": 1, "epoch": 1, "input": [{"role": "user"}], "scores": {"m": {"value": {"a": "C"}}}, "error": None}
        ],
    },
    {"submitted_ids": ["a-1"], "resolved_ids": ["a-1"], "error_ids": ["a-2"]},
    {"a-1": {"resolved": True}},
    {"eval": {"T/0": [{"base_status": "pass", "plus_status": "fail"}]}},
    [{"instance_id": "id1", "train_trial_index": 0, "stats": STATS}],
    {"accuracy": 50, "details": {"type": "GEN", "0": {"correct": True}, "1": {"is_correct": [True]}}},
    {"input": "q", "output": "a", "gts": ["4"], "score": 1, "step": 9},
    {"scores": [{"task_id": "A", "sample_index": 0, "score": -1.0}, {"task_id": "A", "sample_index": 1, "score": 1}]},
    {"humaneval": {"pass@1": 0.3}, "config": {}},
    {"checkpoint": "a", "task": "t", "scenario": "s", "sample": 0, "score": 1, "seed": 1, "prompt": "q"},
    {"checkpoint": "a", "t1": 1, "t2": 0.5},
]
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        -1,
        1e999,
        float("nan"),
        10**50,
        0.5,
        "",
        "x",
        "\ud800",
        "x" * 600,
        [],
        [[]],
        {},
        {"a": []},
        [1, "2", None],
    ]
)


def spoil(value: Any, draw: Any) -> Any:
    """The value with one part of it, or all of it, made odd."""
    inner = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if not inner or draw(st.integers(0, 5)) == 0:
        return draw(ODD)
    at = draw(st.sampled_from(inner))
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[at] = spoil(value[at], draw)
    return copy


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from(VALID), st.sampled_from(["x.json", "x.jsonl", "results/m/x.json"]), st.booleans())
def test_a_file_with_one_odd_part_gives_scores_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, data: Any, valid: Any, name: str, soft: bool
) -> None:
    path = tmp_path_factory.mktemp("odd") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    odd = spoil(valid, data.draw)
    path.write_text("\n".join(json.dumps(one) for one in ([valid, odd] if name.endswith("l") else [odd])))
    try:
        found = read_scores(path, ReadOptions(soft=soft))
    except BankError as problem:
        assert str(problem)
        return
    found.table()
    find_problems(found)
    json.dumps([list(found.checkpoints), list(found.tasks), list(found.warnings)], ensure_ascii=False).encode()


@pytest.mark.parametrize("at", range(len(VALID)))
def test_the_files_that_are_spoilt_above_are_understood_whole(put: Any, at: int) -> None:
    try:
        assert read_scores(put("results/m/x.json", VALID[at])).rows
    except BankError as problem:
        assert "aggregates only" in str(problem) or "over all tasks only" in str(problem)
