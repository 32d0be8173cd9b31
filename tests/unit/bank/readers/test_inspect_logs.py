"""Inspect AI logs: zips packed with Zstandard, JSON, grades, epochs, and zips that would fill the memory.

Run: .venv/bin/python -m pytest tests/unit/bank/readers/test_inspect_logs.py
"""

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from core.bank.align import find_problems
from core.bank.readers import ReadOptions, read_scores, zips
from core.errors import BankError
from tests.unit.bank.readers.zip_files import zip_bytes


def sample(name: Any, epoch: int, value: Any, **more: Any) -> dict[str, Any]:
    asked = [{"id": f"m{epoch}", "role": "user", "content": "2+2?"}]
    return {"id": name, "epoch": epoch, "input": asked, "scores": {"match": {"value": value}}, "error": None} | more


def log(samples: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    return {"version": 2, "status": "success", "eval": {"task": "sums", "model": "step-200"} | spec, "samples": samples}


def packed(whole: dict[str, Any], **options: Any) -> bytes:
    members = {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in whole["samples"]}
    header = {key: value for key, value in whole.items() if key != "samples"}
    everything = {"_journal/start.json": {}, **members, "summaries.json": [], "header.json": header}
    return zip_bytes({name: json.dumps(one).encode() for name, one in everything.items()}, **options)


GRADED = [sample("t1", 1, "C"), sample("t2", 1, "I"), sample("t3", 1, "P"), sample("t4", 1, "N"), sample(5, 1, 0.25)]
GRADES = {"step-200": {"t1": 1.0, "t2": 0.0, "t3": 0.5, "t4": 0.0, "5": 0.25}}


def test_grades_of_a_zip_and_of_json_are_the_same(put: Any) -> None:
    for file in (put("a.eval", packed(log(GRADED))), put("b.json", log(GRADED))):
        found = read_scores(file)
        assert (found.format, found.table(), found.warnings) == ("inspect", GRADES, ())


def test_plain_and_deflated_members_are_read_too(put: Any) -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as file:
            file.writestr("header.json", json.dumps({"eval": {"model": "step-200"}}))
            file.writestr("samples/t1_epoch_1.json", json.dumps(sample("t1", 1, "C")))
        assert read_scores(put(f"{method}.eval", buffer.getvalue())).table() == {"step-200": {"t1": 1.0}}


def test_epochs_are_samples_and_nan_is_unscored(put: Any) -> None:
    epochs = [sample("t1", 1, "C"), sample("t1", 2, "I"), sample("t1", 3, "I"), sample("t1", 4, "I")]
    failed = sample("t2", 2, 0) | {"scores": None, "error": {"message": "boom"}}
    found = read_scores(put("a.eval", packed(log([*epochs, sample("t2", 1, float("nan")), failed]))))
    assert found.samples == 4
    assert found.table() == {"step-200": {"t1": 0.25, "t2": None}}
    assert "1 samples ended in an error" in " ".join(found.warnings)
    assert {one.kind for one in find_problems(found)} == {"unscored", "samples"}


def test_the_same_question_has_the_same_hash_whatever_its_message_ids(put: Any) -> None:
    found = read_scores(put("a.json", log([sample("t1", 1, "C"), sample("t1", 2, "C")])))
    assert len({row.prompt_hash for row in found.rows}) == 1


def test_scorers_are_chosen(put: Any) -> None:
    one = sample("t1", 1, "C")
    one["scores"]["judge"] = {"value": {"style": 0.5, "facts": "I"}}
    file = put("a.json", log([one]))
    first = read_scores(file)
    assert first.table() == {"step-200": {"t1": 1.0}}
    assert "scorer 'match' is read, of match, judge/style, judge/facts" in " ".join(first.warnings)
    assert read_scores(file, ReadOptions(metric="judge/style")).table() == {"step-200": {"t1": 0.5}}
    with pytest.raises(BankError, match="no scorer 'x'"):
        read_scores(file, ReadOptions(metric="x"))


def test_a_limited_or_unfinished_run_and_several_task_sets_are_said(put: Any, tmp_path: Path) -> None:
    put("a.json", log([sample("t1", 1, "C")], config={"limit": 10}) | {"status": "cancelled"})
    put("b.eval", packed(log([sample("t1", 1, "I")], task="other")))
    found = read_scores(tmp_path)
    assert found.table() == {"step-200": {"sums/t1": 1.0, "other/t1": 0.0}}
    assert found.limited == {"step-200": "sums was run with limit 10"}
    assert "ended with status 'cancelled'" in " ".join(found.warnings)


def bomb(size: int, **options: Any) -> bytes:
    members = {"header.json": b'{"eval":{}}', "samples/a_epoch_1.json": b" " * size}
    return zip_bytes(members, **options)


def test_a_bomb_is_refused_before_it_is_unpacked(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BankError, match="more than 64,000,000"):
        read_scores(put("large.eval", bomb(65_000_000)))
    with pytest.raises(BankError, match="2,000 times its size"):
        read_scores(put("dense.eval", bomb(20_000_000)))
    monkeypatch.setattr(zips, "MAX_TOTAL_BYTES", 1_000)
    with pytest.raises(BankError, match="members come to 2,011 bytes, more than 1,000"):
        read_scores(put("total.eval", bomb(2_000)))


def test_a_member_that_lies_about_its_size_is_cut_off(put: Any) -> None:
    with pytest.raises(BankError, match="does not hold the 5 bytes"):
        read_scores(put("liar.eval", bomb(30_000_000, sizes={"samples/a_epoch_1.json": 5})))


def test_a_directory_that_lies_about_its_size_is_refused(put: Any) -> None:
    data = bytearray(bomb(10))
    data[-10:-6] = struct.pack("<I", 0xFFFFFFF0)
    with pytest.raises(BankError, match="directory of members says"):
        read_scores(put("liar.eval", bytes(data)))


@pytest.mark.parametrize("cut", [10, 60, 200])
def test_damaged_zips_are_refused(put: Any, cut: int) -> None:
    whole = packed(log(GRADED))
    with pytest.raises(BankError, match=r"is not a whole zip|is damaged|does not hold"):
        read_scores(put("cut.eval", whole[:-cut]))
    spoiled = bytearray(whole)
    spoiled[70:90] = b"\xff" * 20
    with pytest.raises(BankError, match=r"damaged|does not hold|is not JSON|zip file"):
        read_scores(put("spoiled.eval", bytes(spoiled)))


def test_names_of_members_lead_nowhere(put: Any, tmp_path: Path) -> None:
    members = {"header.json": b'{"eval":{"model":"m"}}', "samples/../../../out.json": json.dumps(GRADED[0]).encode()}
    put("in/a.eval", zip_bytes(members))
    assert read_scores(tmp_path / "in").table() == {"m": {"t1": 1.0}}
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["a.eval", "in"]


def test_odd_compression_and_a_zip_that_is_no_log_are_refused(put: Any) -> None:
    with pytest.raises(BankError, match="method 97"):
        read_scores(put("a.eval", packed(log(GRADED), method=97)))
    with pytest.raises(BankError, match="expected an Inspect log"):
        read_scores(put("b.eval", zip_bytes({"x.json": b"{}"})))
