"""Banks as people write them: what is read, and one clear message for each thing that is wrong.

Run: .venv/bin/python -m pytest tests/unit/bank
"""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.bank import (
    bank_files,
    list_banks,
    load_bank,
    load_more_scores,
    read_scores,
    replicate_scores,
    scores_of_task,
)
from core.errors import BankError
from core.evals.protocol import Protocol
from core.recipe import Recipe, compile_plan

ROOT = Path(__file__).resolve().parents[3]


def message_of(folder: Any) -> str:
    with pytest.raises(BankError) as caught:
        load_bank(folder.write())
    return str(caught.value)


def test_a_bank_is_read_whole(folder: Any) -> None:
    folder.yaml |= {"title": "Small", "kind": "illustrative", "facts": [{"label": "n", "value": 4, "source": "me"}]}
    bank = load_bank(folder.write())
    dev = bank.splits["dev"]
    assert (bank.name, bank.title, bank.kind, bank.base.id) == ("small", "Small", "illustrative", "base")
    assert [(one.id, one.step, one.path) for one in bank.checkpoints] == [
        ("a", 10, None),
        ("b", 20, None),
        ("c", 30, None),
    ]
    assert dev.tasks == ("t1", "t2", "t3", "t4")
    assert dev.scenarios == ("t0", "t0", "t1", "t1")
    np.testing.assert_array_equal(dev.scores, [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    assert dev.base_scores is not None
    np.testing.assert_array_equal(dev.base_scores, [1, 0, 1, 0])
    assert dev.samples == 1
    assert bank.facts == ({"label": "n", "value": 4, "source": "me"},)
    assert bank.index_of("c") == 2
    assert load_bank(folder.root / "bank.yaml").name == "small"
    with pytest.raises(ValueError, match="read-only"):
        dev.scores[0, 0] = 1


def test_the_order_of_rows_does_not_matter_and_the_task_files_order_does(folder: Any) -> None:
    folder.rows = [row | {"sample": s, "score": 0.1 * s + 0.3 * row["score"]} for row in folder.rows for s in range(5)]
    straight = load_bank(folder.write()).splits["dev"].scores
    random.Random(0).shuffle(folder.rows)
    np.testing.assert_array_equal(load_bank(folder.write()).splits["dev"].scores, straight)
    folder.tasks.reverse()
    turned = load_bank(folder.write()).splits["dev"]
    assert turned.tasks == ("t4", "t3", "t2", "t1")
    np.testing.assert_array_equal(turned.scores, straight[:, ::-1])
    assert turned.samples == 5


def test_without_a_task_file_tasks_come_from_the_scores_as_first_seen(folder: Any) -> None:
    del folder.yaml["splits"]["dev"]["tasks"]
    folder.rows.reverse()
    folder.rows[0]["scenario"] = "last"
    dev = load_bank(folder.write()).splits["dev"]
    assert dev.tasks == ("t4", "t3", "t2", "t1")
    assert dev.scenarios == ("last", "t3", "t2", "t1")
    assert dev.tasks_path is None


def test_a_base_without_scores_is_no_error(folder: Any) -> None:
    folder.rows = [row for row in folder.rows if row["checkpoint"] != "base"]
    assert load_bank(folder.write()).splits["dev"].base_scores is None


def test_ids_may_be_written_as_numbers(folder: Any) -> None:
    folder.yaml["checkpoints"][0]["id"] = 200
    for row in folder.rows:
        row["checkpoint"] = 200 if row["checkpoint"] == "a" else row["checkpoint"]
    assert load_bank(folder.write()).checkpoints[0].id == "200"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"score": 1.5}, ":1: score 1.5 is outside [0, 1]"),
        ({"score": -0.1}, ":1: score -0.1 is outside [0, 1]"),
        ({"score": float("nan")}, ":1: score is NaN"),
        ({"score": float("inf")}, ":1: score inf is outside"),
        ({"score": "1"}, ":1: score must be a number in [0, 1], found '1'"),
        ({"score": None}, ":1: score must be a number"),
        ({"task": "t9"}, ":1: unknown task 't9': not one of the 4"),
        ({"score": 10**400}, ":1: score 1000000"),
        ({"score": True, "task": "\ud800"}, ":1: task must be a non-empty text or a whole number, found '\\ud800'"),
        ({"task": ["t1"]}, ":1: task must be a non-empty text"),
        ({"task": ""}, ":1: task must be a non-empty text"),
        ({"checkpoint": "bb"}, ":1: unknown checkpoint 'bb'"),
        ({"checkpoint": None}, ":1: key 'checkpoint' is missing"),
        ({"sample": -1}, ":1: sample must be a whole number from 0, found -1"),
        ({"seed": "x"}, ":1: seed must be a whole number"),
    ],
)
def test_a_bad_row_names_the_file_the_line_and_the_value(folder: Any, change: dict[str, Any], expected: str) -> None:
    folder.rows[0] |= change
    message = message_of(folder)
    assert f"scores.jsonl{expected}" in message


def test_a_row_without_score_is_told_which_key_is_near(folder: Any) -> None:
    folder.rows[2]["scores"] = folder.rows[2].pop("score")
    assert "scores.jsonl:3: key 'score' is missing" in (message := message_of(folder))
    assert "Is 'scores' meant?" in message


def test_a_duplicated_score_names_both_lines(folder: Any) -> None:
    folder.rows.append(dict(folder.rows[1]))
    message = message_of(folder)
    assert ":17: duplicated score of checkpoint 'a' on task 't2', sample 0 (first on line 2)" in message
    folder.rows = [row | {"seed": 3} for row in folder.rows]
    assert "sample 0, seed 3 (first on line 2)" in message_of(folder)


def test_a_missing_score_names_checkpoint_and_task(folder: Any) -> None:
    del folder.rows[5]
    assert "missing score of checkpoint 'b' on task 't2'." in message_of(folder)
    del folder.rows[5]
    assert "1 more are missing" in message_of(folder)
    folder.rows = [row for row in folder.rows if row["checkpoint"] != "b"]
    assert "no scores for checkpoint 'b'" in message_of(folder)


def test_a_base_scored_in_part_is_an_error_too(folder: Any) -> None:
    del folder.rows[-1]
    assert "missing score of checkpoint 'base' on task 't4'" in message_of(folder)


def test_fewer_samples_for_one_checkpoint_are_named(folder: Any) -> None:
    folder.rows = [row | {"sample": sample} for row in folder.rows for sample in range(3)]
    del folder.rows[7]
    assert "checkpoint 'a' has 2 samples on task 't3', others have 3" in message_of(folder)


def test_samples_must_be_what_the_protocol_says(folder: Any) -> None:
    folder.yaml["splits"]["dev"]["protocol"] = {"samples": 8}
    assert "has 1 samples a task, but its protocol in bank.yaml says 8" in message_of(folder)


def test_a_task_used_twice_or_without_id_is_an_error(folder: Any) -> None:
    folder.tasks[2] = {"prompt": "no id"}
    assert "tasks.jsonl:3: a task's id must be" in message_of(folder)
    folder.tasks[2] = folder.tasks[0]
    assert "tasks.jsonl:3: task id 't1' is used twice" in message_of(folder)


def test_a_task_that_nobody_was_scored_on_is_a_missing_score(folder: Any) -> None:
    folder.tasks.append({"id": "t5"})
    assert "missing score of checkpoint 'a' on task 't5'" in message_of(folder)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("checkpoints:", "chekpoints:", ":4: unknown key 'chekpoints'. Did you mean 'checkpoints'?"),
        ("  scores:", "  score:", ":14: unknown key 'score' in 'splits.dev'. Did you mean 'scores'?"),
        ("step: 20", "stp: 20", ":8: unknown key 'stp' in 'checkpoints.1'. Did you mean 'step'?"),
        ("step: 20", "step: 'x'", ":8: 'checkpoints.1.step': input should be a valid integer; found 'x'"),
        ("name: small", "title: x", ":1: key 'name' is missing"),
        ("name: small", "name: small\nname: other", ":2: key 'name' is given twice (first on line 1)"),
        ("id: c", "id: a", ":9: checkpoint id 'a' is used twice"),
        ("id: c", "id: base", ":9: checkpoint id 'base' is used twice (also by the base)"),
        ("id: c", "id: ''", ":9: 'checkpoints.2.id'"),
        ("scores: scores.jsonl", "scores: none.jsonl", ":14: 'splits.dev.scores': no file at"),
        ("scores: scores.jsonl", "scores: ../x.jsonl", ":14: 'splits.dev.scores': '../x.jsonl' leads out of"),
        ("name: small", "name: !!python/object/apply:os.system ['true']", ":1: is not plain YAML"),
        ("name: small", "name: [", "is not plain YAML"),
        ("name: small", "name: \x07", "is not plain YAML"),
        (
            "name: small",
            "name: small\nkind: guessed",
            ":2: 'kind': input should be 'measured' or 'illustrative'; found 'guessed'",
        ),
    ],
)
def test_a_bad_yaml_names_the_line(folder: Any, old: str, new: str, expected: str) -> None:
    file = folder.write() / "bank.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(BankError) as caught:
        load_bank(folder.root)
    assert expected in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (b"- 1\n", "the file"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"a: " + b"[" * 5000, "is not plain YAML"),
        (b"x" * 4_000_001, "is 4,000,001 bytes"),
    ],
)
def test_a_file_that_is_no_bank_says_so(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "bank.yaml").write_bytes(content)
    with pytest.raises(BankError, match=expected):
        load_bank(tmp_path)


def test_a_small_file_that_grows_when_read_stays_small(tmp_path: Path) -> None:
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))
    (tmp_path / "bank.yaml").write_text(f"a0: &a0 [x]\n{levels}\n")
    with pytest.raises(BankError, match="unknown key") as caught:
        load_bank(tmp_path)
    assert len(str(caught.value)) < 2000


def test_no_bank_there(tmp_path: Path) -> None:
    with pytest.raises(BankError, match="no bank here"):
        load_bank(tmp_path / "nowhere")


def test_paths_stay_inside_unless_written_absolute(folder: Any, tmp_path: Path) -> None:
    outside = tmp_path / "weights"
    outside.mkdir()
    folder.write()
    (folder.root / "link").symlink_to(outside)
    folder.yaml["checkpoints"][0]["path"] = "link"
    assert "leads out of the bank's folder" in message_of(folder)
    folder.yaml["checkpoints"][0]["path"] = str(outside)
    folder.yaml["checkpoints"][1]["path"] = "checkpoint-20"
    bank = load_bank(folder.write())
    assert bank.checkpoints[0].path == outside
    assert bank.checkpoints[1].path == folder.root / "checkpoint-20"
    assert any(one.startswith("b: no folder of weights at") for one in bank.warnings)
    assert any("No folder of weights for base, c" in one for one in bank.warnings)
    assert not bank.has_weights


def test_a_bank_reached_through_a_link_is_at_home(folder: Any, tmp_path: Path) -> None:
    (tmp_path / "door").symlink_to(folder.write())
    assert load_bank(tmp_path / "door").splits["dev"].scores.shape == (3, 4)


def test_warnings_name_what_is_odd(folder: Any) -> None:
    for row in folder.rows:
        row["score"] = {"a": 0, "b": 1, "c": 1}.get(row["checkpoint"], 0) if row["task"] != "t1" else 0
    said = "\n".join(load_bank(folder.write()).warnings)
    assert "Scores only" in said
    assert "dev: checkpoint a scores 0 on every task" in said
    assert "dev: 1 of 4 tasks have the same score for every checkpoint" in said
    assert "dev: c scored exactly as an earlier checkpoint" in said


def more_rows(folder: Any, samples: int) -> list[dict[str, Any]]:
    return [row | {"sample": s, "score": int(s == 0)} for row in folder.rows for s in range(samples)]


def test_scores_under_another_protocol_are_found_by_it(folder: Any) -> None:
    protocol = {"temperature": 0.9, "samples": 4, "seed": 1}
    dev = folder.yaml["splits"]["dev"]
    dev |= {"protocol": {"samples": 1}, "more_scores": [{"path": "more.jsonl", "protocol": protocol}]}
    folder.write()
    (folder.root / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in more_rows(folder, 4)))
    bank = load_bank(folder.root)
    found = load_more_scores(bank, "dev", Protocol(temperature=0.9, samples=4, seed=1))
    assert found.samples == 4
    assert found.base is not None
    np.testing.assert_array_equal(found.scores, np.full((3, 4), 0.25))
    np.testing.assert_array_equal(load_more_scores(bank, "dev", Protocol()).scores, bank.splits["dev"].scores)
    with pytest.raises(BankError, match=r"T=1 n=1 fp32 seed 0. The bank has: T=0.5 n=1 fp32, T=0.9 n=4 fp32"):
        load_more_scores(bank, bank.splits["dev"], Protocol(temperature=1.0))


def test_replicates_come_by_seed(folder: Any) -> None:
    folder.yaml["splits"]["dev"]["replicates"] = "again.jsonl"
    rows = [
        {"checkpoint": "b", "task": task, "seed": seed, "score": int(task == "t1" or seed == 5)}
        for seed in (5, 2)
        for task in ("t4", "t1", "t2", "t3")
    ]
    folder.write()
    file = folder.root / "again.jsonl"

    def read(changed: list[dict[str, Any]]) -> Any:
        file.write_text("".join(json.dumps(row) + "\n" for row in changed))
        return replicate_scores(load_bank(folder.root).splits["dev"])

    found = read(rows)
    assert found.checkpoint == "b"
    np.testing.assert_array_equal(found.scores, [[1, 0, 0, 0], [1, 1, 1, 1]])
    for changed, expected in (
        (rows[:-1], "missing score of task 't3' under seed 2"),
        ([*rows, rows[0]], ":9: duplicated score of task 't4' under seed 5"),
        (rows[:4], "at least two of them, found 1"),
        ([*rows[:-1], rows[-1] | {"checkpoint": "c"}], "rows of one checkpoint, found 2: b, c"),
        ([*rows, rows[0] | {"task": "t9"}], ":9: unknown task 't9'"),
    ):
        with pytest.raises(BankError, match=expected):
            read(changed)


def test_no_replicates_is_none(folder: Any) -> None:
    assert replicate_scores(load_bank(folder.write()).splits["dev"]) is None


def test_banks_are_listed_by_folder(folder: Any, tmp_path: Path) -> None:
    folder.write()
    (tmp_path / "not_a_bank").mkdir()
    assert list_banks([tmp_path, folder.root, tmp_path / "nowhere"]) == [folder.root]


def test_importing_banks_and_recipes_is_light() -> None:
    code = (
        "import sys, core.bank, core.recipe\n"
        "print([one for one in ('torch', 'transformers', 'mergekit', 'numba', 'scipy') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_banks_files_are_named_without_reading_them(folder: Any) -> None:
    folder.yaml["splits"]["dev"]["replicates"] = "again.jsonl"
    root = folder.write()
    names = ("bank.yaml", "tasks.jsonl", "scores.jsonl", "again.jsonl")
    assert bank_files(root) == tuple(root.resolve() / name if at else root / name for at, name in enumerate(names))
    (root / "bank.yaml").write_text("splits: [")
    assert bank_files(root) == (root / "bank.yaml",)


@pytest.mark.parametrize("task", ["t1", "é", 'quo"te', "tab\t", "7"])
def test_the_rows_of_one_task_are_those_of_the_whole_file(task: str, tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    names: list[Any] = ["t1", "t10", "é", 'quo"te', "tab\t", 7, 70]
    texts = [json.dumps({"task": name, "score": 1}, ensure_ascii=at % 2 == 0) for at in range(2) for name in names]
    path.write_text("\n".join(texts))
    found = scores_of_task(path, task)
    assert len(found) == 2 and found == [row for row in read_scores(path) if row.task == task]


ALIGNMENT = {
    "problems": [{"kind": "missing", "checkpoints": 1, "tasks": 2, "choice": "intersect"}],
    "tasks_found": 6,
    "tasks_dropped": 2,
    "dropped": ["t5", "t6"],
    "matched": {"run/a": "a"},
}


def test_the_alignment_is_kept_and_said_in_the_plan(folder: Any) -> None:
    folder.yaml["splits"]["dev"]["alignment"] = ALIGNMENT
    bank = load_bank(folder.write())
    kept = bank.splits["dev"].alignment
    assert kept is not None
    assert kept.problems == (("missing", 1, 2, "intersect"),)
    assert (kept.dropped, dict(kept.matched)) == (("t5", "t6"), {"run/a": "a"})
    assert kept.sentence == "missing: intersect; 2 of 6 tasks dropped"
    assert "# scores aligned: missing: intersect; 2 of 6 tasks dropped\n" in compile_plan(bank, Recipe(k=2))


def test_a_wrong_key_in_the_alignment_is_named_with_its_line(folder: Any) -> None:
    folder.yaml["splits"]["dev"]["alignment"] = {**ALIGNMENT, "problems": [{"kind": "missing", "choise": "mask"}]}
    with pytest.raises(BankError, match=r"bank.yaml:\d+: unknown key 'choise' .* Did you mean 'choice'"):
        load_bank(folder.write())
