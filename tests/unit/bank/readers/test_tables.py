"""Tables of scores, long and wide, in every kind of file.

Run: .venv/bin/python -m pytest tests/unit/bank/readers/test_tables.py
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.bank.align import find_problems
from core.bank.readers import ReadOptions, common, read_scores, table_files
from core.errors import BankError

EXPECTED = {"a": {"t1": 1.0, "t2": 0.5}, "b": {"t1": 0.0, "t2": None}}
LONG = [("a", "t1", 1.0), ("a", "t2", 0.5), ("b", "t1", 0.0), ("b", "t2", None)]


def delimited(rows: list[tuple[Any, ...]], separator: str = ",") -> str:
    return "".join(separator.join("" if one is None else str(one) for one in row) + "\n" for row in rows)


def parquet(path: Path, columns: dict[str, list[Any]], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize(("name", "separator"), [("x.csv", ","), ("x.tsv", "\t"), ("x.csv", ";"), ("x.txt", ",")])
def test_delimited_tables(put: Any, tmp_path: Path, name: str, separator: str) -> None:
    put(name, delimited([("Checkpoint", "task_id", "Score"), *LONG], separator))
    long = read_scores(tmp_path)
    assert (long.format, long.table()) == ("table", EXPECTED)
    put(name, delimited([("model", "t1", "t2"), ("a", 1, 0.5), ("b", 0, None)], separator))
    assert read_scores(tmp_path).table() == EXPECTED
    put(name, delimited([("task", "a", "b"), ("t1", 1, 0), ("t2", 0.5, None)], separator))
    assert read_scores(tmp_path).table() == EXPECTED


def test_json_lines_and_lists(put: Any) -> None:
    long = [dict(zip(("checkpoint", "task", "score"), row, strict=True)) for row in LONG]
    assert read_scores(put("x.jsonl", long)).table() == EXPECTED
    assert read_scores(put("x.json", long)).table() == EXPECTED
    wide = [{"checkpoint": "a", "t1": 1, "t2": 0.5}, {"checkpoint": "b", "t1": 0}]
    assert read_scores(put("w.jsonl", wide)).table() == EXPECTED


def test_parquet(tmp_path: Path) -> None:
    columns = dict(zip(("checkpoint", "task", "score"), map(list, zip(*LONG, strict=True)), strict=True))
    texts = {"completion": ["x" * 1000] * 4}
    assert read_scores(parquet(tmp_path / "x.parquet", columns | texts)).table() == EXPECTED
    wide = {"checkpoint": ["a", "b"], "t1": [1, 0], "t2": [0.5, None]}
    assert read_scores(parquet(tmp_path / "w.parquet", wide)).table() == EXPECTED


def test_our_own_score_files_with_seeds_and_prompts(put: Any) -> None:
    rows = [
        {"checkpoint": 290, "task": "t1", "scenario": "s", "sample": 0, "score": score, "seed": seed, "prompt": "1+1"}
        for seed, score in ((100, 0.0), (101, 1.0))
    ]
    found = read_scores(put("dev.jsonl", rows))
    assert (found.checkpoints, found.samples, found.scenarios) == (("290",), 2, {"t1": "s"})
    assert found.table() == {"290": {"t1": 0.5}}
    assert find_problems(found) == []
    assert "1+1" not in repr(found.rows)


def test_prompts_that_differ_between_checkpoints_are_found(put: Any) -> None:
    rows = [{"checkpoint": who, "task": "t", "score": 1, "prompt": asked} for who, asked in (("a", "x"), ("b", "y"))]
    assert [(one.kind, one.checkpoint) for one in find_problems(read_scores(put("x.jsonl", rows)))] == [
        ("prompts", "b")
    ]


def test_without_a_checkpoint_column_the_file_or_folder_names_it(put: Any, tmp_path: Path) -> None:
    put("checkpoint-90/scores.csv", "task,score\nt1,1\n")
    put("checkpoint-200/scores.csv", "task,score\nt1,0\n")
    assert read_scores(tmp_path).table() == {"checkpoint-90": {"t1": 1}, "checkpoint-200": {"t1": 0}}
    assert read_scores(put("step-7.csv", "task,score\nt1,1\n")).checkpoints == ("step-7",)
    assert read_scores(put("x.csv", "step,task,score\n300,t1,1\n")).checkpoints == ("300",)


def test_samples_are_numbered_and_repetitions_without_numbers_are_duplicates(put: Any) -> None:
    numbered = read_scores(put("a.csv", "checkpoint,task,sample,score\na,t,0,1\na,t,1,0\n"))
    assert (numbered.samples, find_problems(numbered)) == (2, [])
    twice = read_scores(put("b.csv", "checkpoint,task,score\na,t,1\na,t,0\n"))
    assert [one.kind for one in find_problems(twice)] == ["duplicated"]
    columns = read_scores(put("c.csv", "checkpoint,t,t\na,1,0\n"))
    assert [one.kind for one in find_problems(columns)] == ["duplicated"]


def test_words_gaps_commas_quotes_and_unicode(put: Any) -> None:
    text = '\ufeffcheckpoint;task;score\n"Größe; ü";任务;0,5\n\nb;"t ""1""";true\nc;t;nan\n'
    found = read_scores(put("Ωmega.csv", text)).table()
    assert found["Größe; ü"]["任务"] == 0.5
    assert found["b"]['t "1"'] == 1.0
    assert found["c"]["t"] is None


def test_summaries_and_steps_are_no_tasks(put: Any) -> None:
    found = read_scores(put("x.csv", "checkpoint,step,t1,mean\na,200,1,0.7\n"))
    assert found.table() == {"a": {"t1": 1}}
    assert "column 'mean' is left out" in " ".join(found.warnings)


def test_a_score_column_may_be_named(put: Any) -> None:
    file = put("x.csv", "checkpoint,task,acc,reward\na,t,1,0.25\n")
    assert read_scores(file).table() == {"a": {"t": 0.25}}
    assert "column 'reward' is read, of acc, reward" in " ".join(read_scores(file).warnings)
    assert read_scores(file, ReadOptions(metric="acc")).table() == {"a": {"t": 1}}
    with pytest.raises(BankError, match="no column 'f1'"):
        read_scores(file, ReadOptions(metric="f1"))


def test_a_training_log_in_a_folder_is_no_table_of_scores(put: Any, tmp_path: Path) -> None:
    put("log.csv", "step,loss,lr\n1,0.5,0.1\n")
    put("scores.csv", "checkpoint,task,score\na,t,1\n")
    found = read_scores(tmp_path)
    assert found.checkpoints == ("a",)
    assert "log.csv: skipped, it is text, but not a table of scores" in " ".join(found.warnings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("checkpoint,task,score\na,t,good\n", r"x.csv:2: expected a number as score, found 'good'"),
        ("checkpoint,task,score\na,t,1_0\n", r"expected a number"),
        ("checkpoint,task,score\na,t\n", r"x.csv:2: expected 3 cells"),
        ("checkpoint,task,score\na,,1\n", r"expected the name of a task, found ''"),
        ("checkpoint,task,sample,score\na,t,-1,1\n", r"sample to be a whole number from 0"),
        ('checkpoint,task,score\na,"t,1\n', r"is not a table as CSV has it"),
        ("checkpoint,t1,t2\na,1,0\nb,x,0\n", r"x.csv:3: column 't1': expected a number"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(put: Any, text: str, said: str) -> None:
    with pytest.raises(BankError, match=said):
        read_scores(put("x.csv", text))


def test_a_wide_row_without_its_checkpoint_is_named(put: Any) -> None:
    with pytest.raises(BankError, match=r"x.jsonl:2: expected a column checkpoint, found t1, t2"):
        read_scores(put("x.jsonl", [{"checkpoint": "a", "t1": 1}, {"t1": 1, "t2": 0}]))


def test_rows_and_row_groups_are_bounded(put: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "MAX_ROWS", 3)
    with pytest.raises(BankError, match="more than 3 scored samples, the most"):
        read_scores(put("x.csv", delimited([("checkpoint", "task", "score"), *LONG])))
    monkeypatch.setattr(table_files, "MAX_GROUP_BYTES", 1_000)
    columns: dict[str, list[Any]] = {
        "checkpoint": ["a"] * 500,
        "task": [f"t{at}" for at in range(500)],
        "score": [1.0] * 500,
    }
    with pytest.raises(BankError, match="smaller row groups"):
        read_scores(parquet(tmp_path / "x.parquet", columns))


def test_damaged_parquet(put: Any, tmp_path: Path) -> None:
    whole = parquet(tmp_path / "x.parquet", {"checkpoint": ["a"], "task": ["t"], "score": [1.0]}).read_bytes()
    for broken in (whole[:40], b"PAR1" + b"\0" * 200, whole[:4] + whole[-200:]):
        with pytest.raises(BankError, match="no whole Parquet file"):
            read_scores(put("y.parquet", broken))
    nested = parquet(tmp_path / "z.parquet", {"checkpoint": ["a"], "t1": [[1, 2]]})
    with pytest.raises(BankError, match="found the columns checkpoint, t1"):
        read_scores(nested)
