"""What a folder holds: checkpoints of every form, their base, scores and tasks; and where the search ends.

Run: .venv/bin/python -m pytest tests/unit/bank/test_discover.py
"""

import json
import os
from pathlib import Path

import pytest

from core.bank import discover as module
from core.bank.discover import discover
from core.errors import BankError
from tests.unit.bank.found_folder import write_csv, write_run, write_weights


def test_a_run_is_found_whole(tmp_path: Path) -> None:
    found = discover(write_run(tmp_path / "run"))
    assert [(one.id, one.step, one.dtype, one.parameters) for one in found.checkpoints] == [
        ("checkpoint-90", 90, "bfloat16", 6),
        ("checkpoint-100", 100, "bfloat16", 6),
        ("checkpoint-200", 200, "bfloat16", 6),
        ("base", None, "bfloat16", 6),
    ]
    assert found.bases == (("base", "3 of the others say in config.json that they were loaded from it"),)
    assert [(one.path.name, one.format) for one in found.scores] == [("dev.csv", "table")]
    assert [one.name for one in found.tasks] == ["tasks.jsonl"]
    assert (found.unreadable, found.banks, found.warnings) == ((), (), ())
    assert json.loads(json.dumps(found.as_dict()))["checkpoints"][0]["step"] == 90


def test_forms_that_cannot_be_merged_come_with_the_way_out(tmp_path: Path) -> None:
    actor = tmp_path / "global_step_20" / "actor"
    actor.mkdir(parents=True)
    (actor / "model_world_size_2_rank_0.pt").touch()
    (tmp_path / "iter_0000030").mkdir()
    (tmp_path / "iter_0000030" / "__0_0.distcp").touch()
    adapter = tmp_path / "lora"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    found = discover(tmp_path)
    assert found.checkpoints == ()
    assert [(one.id, one.step) for one in found.unreadable] == [("global_step_20", 20), ("iter_0000030", 30), ("lora", None)]  # fmt: skip  # noqa: E501
    said = " ".join(one.problem for one in found.unreadable)
    assert "verl.model_merger" in said and "accelerate merge-weights" in said and "merge_and_unload" in said


def test_a_readable_folder_inside_an_unreadable_one_is_taken(tmp_path: Path) -> None:
    actor = tmp_path / "global_step_20" / "actor"
    write_weights(actor / "huggingface")
    (actor / "model_world_size_2_rank_0.pt").touch()
    found = discover(tmp_path)
    assert [(one.id, one.folder) for one in found.checkpoints] == [
        ("global_step_20", "global_step_20/actor/huggingface")
    ]
    assert found.unreadable == ()


def test_the_trainer_knows_the_step_better_than_the_name(tmp_path: Path) -> None:
    for name, state in (("final", {"global_step": 70}), ("checkpoint-8", {"global_step": 9}), ("checkpoint-3", [])):
        (write_weights(tmp_path / name) / "trainer_state.json").write_text(json.dumps(state))
    found = discover(tmp_path)
    assert [(one.id, one.step) for one in found.checkpoints] == [
        ("checkpoint-3", 3),
        ("checkpoint-8", 9),
        ("final", 70),
    ]
    assert found.warnings == ("checkpoint-8: its name says step 8, its trainer_state.json 9; that is taken.",)


def test_equal_names_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for run in ("a", "b"):
        write_weights(tmp_path / run / "checkpoint-5")
    assert [one.id for one in discover(tmp_path).checkpoints] == ["a/checkpoint-5", "b/checkpoint-5"]


@pytest.mark.parametrize(
    ("names", "base", "reason"),
    [
        (("step-0", "step-10"), "step-0", "it is step 0"),
        (("sft", "step-10", "step-20"), "sft", "it is the only one without a step number"),
        (("pretrained", "step-10"), "pretrained", "its folder is called that"),
    ],
)
def test_what_looks_like_the_base_says_why(tmp_path: Path, names: tuple[str, ...], base: str, reason: str) -> None:
    for one in names:
        write_weights(tmp_path / one)
    assert discover(tmp_path).bases[0] == (base, reason)


def test_links_that_lead_out_are_never_followed(tmp_path: Path) -> None:
    secret = write_weights(tmp_path / "secret")
    write_csv(secret / "scores.csv", [("a", "t", 1)])
    run = write_weights(tmp_path / "run" / "checkpoint-1").parent
    (run / "checkpoint-2").symlink_to(secret)
    linked = run / "checkpoint-3"
    linked.mkdir()
    (linked / "model.safetensors").symlink_to(secret / "model.safetensors")
    (linked / "config.json").write_text("{}")
    (run / "again").symlink_to(run)
    found = discover(run)
    assert [one.id for one in found.checkpoints] == ["checkpoint-1"]
    assert found.scores == ()
    assert sum("a link that leads out" in one for one in found.warnings) == 2
    assert [one.id for one in discover(run, roots=[tmp_path]).checkpoints] == ["checkpoint-1", "checkpoint-2", "checkpoint-3"]  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("name", ["nowhere", "file", "nul\0"])
def test_what_is_no_folder_is_said_in_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BankError, match="no such folder"):
        discover(tmp_path / name)


def test_a_folder_outside_the_roots_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(BankError, match="outside the folders that may be read"):
        discover(tmp_path, roots=[tmp_path / "in"])


def test_the_search_is_bounded_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in range(6):
        write_weights(tmp_path / f"checkpoint-{step}")
    monkeypatch.setattr(module, "MAX_ENTRIES", 9)
    assert any("ended after 9 files" in one for one in discover(tmp_path).warnings)
    monkeypatch.undo()
    assert any("ended after 0 seconds" in one for one in discover(tmp_path, seconds=0).warnings)
    monkeypatch.setattr(module, "MAX_CHECKPOINTS", 2)
    assert len(discover(tmp_path).checkpoints) == 2
    deep = tmp_path.joinpath(*"abcdefghij")
    write_weights(deep)
    assert any("over 8 folders deep" in one for one in discover(tmp_path / "a").warnings)


def test_rubbish_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(os.urandom(64))
    (tmp_path / "x.jsonl").write_bytes(b'{"a": ' + b"[" * 5000)
    (tmp_path / "trainer_state.json").write_text("{")
    (tmp_path / "y.csv").write_bytes(b"\xff\xfe\0")
    found = discover(tmp_path)
    assert (found.checkpoints, found.scores, found.tasks) == ((), (), ())
    assert len(found.unreadable) == 1 and "model.safetensors" in found.unreadable[0].problem


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[int] = []
    discover(write_run(tmp_path / "run"), seen=lambda entries, _: told.append(entries))
    assert told == sorted(told) and told[-1] >= 10


def test_files_that_may_have_been_meant_as_scores_are_named_where_none_were_found(tmp_path: Path) -> None:
    (tmp_path / "scores.json").write_bytes(bytes(range(256)))
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("nothing")
    found = discover(tmp_path)
    (said,) = found.warnings
    assert said.startswith(f"{tmp_path / 'empty.jsonl'} and 1 more: empty, damaged, or in no format that is known")
    (tmp_path / "good.csv").write_text("checkpoint,task,score\nstep-1,a,1\n")
    assert discover(tmp_path).warnings == ()
