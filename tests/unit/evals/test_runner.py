"""The runner: same seed, same bytes; rows in order; a file that is whole or not there.

Run: .venv/bin/python -m pytest tests/unit/evals/test_runner.py
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import Cancelled, CheckpointError, InputError, RunError, TaskError
from core.evals import Protocol, Task, evaluate, read_samples, score

TASKS = [
    Task("b", "s1", "1+1=", "2", "numeric"),
    Task("a", "s1", "reverse abc", "cba"),
    Task("c", "s2", "any letter?", "[a-z]", "regex"),
]
SHORT = Protocol(max_new_tokens=8)
KEYS = ["checkpoint", "task", "scenario", "sample", "score", "seed", "prompt", "completion", "scorer", "finish"]


def run(model: Path, out: Path, protocol: Protocol = SHORT, **options: Any) -> list[dict[str, Any]]:
    """Evaluate and read back the rows."""
    evaluate(model, TASKS, protocol, out=out, checkpoint="x", device="cpu", **options)
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_rows_are_complete_and_ordered_by_task_then_sample(model_folder: Path, tmp_path: Path) -> None:
    protocol = Protocol(temperature=1.0, samples=3, seed=4, max_new_tokens=8)
    rows = run(model_folder, tmp_path / "s.jsonl", protocol)
    assert [list(row) for row in rows] == [KEYS] * 9
    assert [(row["task"], row["sample"]) for row in rows] == [(t.id, i) for t in TASKS for i in range(3)]
    by_id = {task.id: task for task in TASKS}
    for row in rows:
        task = by_id[row["task"]]
        assert row["score"] == score(task, row["completion"]).score
        assert (row["checkpoint"], row["scenario"], row["seed"], row["prompt"]) == ("x", task.scenario, 4, task.prompt)
        assert row["finish"] in ("stop", "length")
    assert len({row["completion"] for row in rows}) > 3


def test_the_result_says_what_the_file_holds(model_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "s.jsonl"
    found = evaluate(model_folder, TASKS, Protocol(samples=2), out=out, checkpoint="x", device="cpu")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert (found.path, found.n_tasks, found.samples) == (out, 3, 2)
    assert found.mean == pytest.approx(sum(row["score"] for row in rows) / 6)
    assert found.seconds > 0
    json.dumps(found.as_dict(), allow_nan=False)


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(model_folder: Path, tmp_path: Path) -> None:
    protocol = Protocol(temperature=1.0, samples=4, max_new_tokens=8)
    paths = [tmp_path / f"{name}.jsonl" for name in "abcd"]
    run(model_folder, paths[0], protocol)
    run(model_folder, paths[1], protocol)
    run(model_folder, paths[2], protocol, batch_size=5)
    run(model_folder, paths[3], Protocol(temperature=1.0, samples=4, max_new_tokens=8, seed=1))
    first = paths[0].read_bytes()
    assert first == paths[1].read_bytes() == paths[2].read_bytes()
    assert [r["completion"] for r in map(json.loads, first.splitlines())] != [
        r["completion"] for r in map(json.loads, paths[3].read_bytes().splitlines())
    ]


def test_more_samples_leave_the_first_ones_as_they_were(model_folder: Path, tmp_path: Path) -> None:
    one = run(model_folder, tmp_path / "one.jsonl", Protocol(temperature=1.0, max_new_tokens=8))
    four = run(model_folder, tmp_path / "four.jsonl", Protocol(temperature=1.0, samples=4, max_new_tokens=8))
    assert one == [row for row in four if row["sample"] == 0]


def test_bf16_is_another_protocol(model_folder: Path, tmp_path: Path) -> None:
    rows = run(model_folder, tmp_path / "s.jsonl", Protocol(dtype="bfloat16", max_new_tokens=8))
    assert len(rows) == 3


def test_samples_are_read_back_by_task(model_folder: Path, tmp_path: Path) -> None:
    run(model_folder, tmp_path / "s.jsonl", Protocol(samples=2, max_new_tokens=8))
    found = read_samples(tmp_path / "s.jsonl")
    assert found.checkpoint == "x"
    assert {task: len(one) for task, one in found.scores.items()} == {"b": 2, "a": 2, "c": 2}
    assert found.scenarios == {"b": "s1", "a": "s1", "c": "s2"}


def test_progress_covers_every_sample_and_never_falls(model_folder: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, float, float, str]] = []
    run(model_folder, tmp_path / "s.jsonl", batch_size=1, progress=lambda *one: seen.append(one))
    done = [one for one in seen if one[0] == "generate"]
    assert [one[1] for one in done] == sorted(one[1] for one in done)
    assert done[-1] == ("generate", 3, 3, "samples")
    assert [one[0] for one in seen if one[0] != "generate"][:2] == ["load", "load"]


def test_cancelling_passes_through_and_leaves_the_old_file(model_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    out.write_text("old")

    def stop(stage: str, done: float, total: float, unit: str) -> None:
        if stage == "generate" and done >= 1:
            raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        run(model_folder, out, batch_size=1, progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]
    assert out.read_text() == "old"


def test_weights_with_nan_write_nothing_and_name_the_model(own_model: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(own_model / "model.safetensors")
    weights["model.norm.weight"][3] = float("nan")
    save_file(weights, own_model / "model.safetensors", {"format": "pt"})
    with pytest.raises(RunError, match=r"own: gave logits that are not finite"):
        run(own_model, tmp_path / "s.jsonl")
    assert not (tmp_path / "s.jsonl").exists()


def lose_a_tensor(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def cut_the_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def pickle_the_weights(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def change_a_shape(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"] = weights["model.norm.weight"][:5].clone()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


RANK_FILE = "model-rank-0-part-0.safetensors"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lose_a_tensor, "1 tensor is missing, model.layers.1.mlp.up_proj.weight"),
        (cut_the_weights, "is truncated|not a complete safetensors"),
        (pickle_the_weights, "pickle"),
        (change_a_shape, "cannot be loaded"),
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "bert"}'), "tensors are missing"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "no such"}'), "cannot be loaded"),
        (lambda folder: (folder / "model.safetensors").unlink(), "holds no weights that can be read"),
        (lambda folder: [path.unlink() for path in folder.glob("tokenizer*")], "no tokenizer"),
        (lambda folder: (folder / "model.safetensors").rename(folder / RANK_FILE), "core convert"),
    ],
)
def test_a_broken_model_is_refused_in_one_line(
    own_model: Path, tmp_path: Path, damage: Callable[[Path], Any], message: str
) -> None:
    damage(own_model)
    with pytest.raises(CheckpointError, match=message) as caught:
        run(own_model, tmp_path / "s.jsonl")
    assert str(own_model) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "s.jsonl").exists()


def test_code_in_a_folder_is_never_run(own_model: Path, tmp_path: Path) -> None:
    config = json.loads((own_model / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"}}
    (own_model / "config.json").write_text(json.dumps(config))
    (own_model / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nC = M = object\n")
    with pytest.raises(CheckpointError):
        run(own_model, tmp_path / "s.jsonl")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (Protocol(temperature=-1), "temperature"),
        (Protocol(temperature=float("nan")), "temperature"),
        (Protocol(samples=0), "samples"),
        (Protocol(max_new_tokens=0), "max_new_tokens"),
        (Protocol(dtype="int8"), "dtype"),  # type: ignore[arg-type]
    ],
)
def test_a_protocol_that_cannot_be_run_is_refused(tmp_path: Path, protocol: Protocol, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        run(tmp_path, tmp_path / "s.jsonl", protocol)


def test_no_tasks_no_such_device_and_no_place_to_write(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no tasks"):
        evaluate(model_folder, [], Protocol(), out=tmp_path / "s.jsonl", checkpoint="x")
    for device in ("tpu", "cuda:99", "cuda:x"):
        with pytest.raises(InputError, match="device"):
            evaluate(model_folder, TASKS, Protocol(), out=tmp_path / "s.jsonl", checkpoint="x", device=device)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        run(model_folder, tmp_path / "file" / "s.jsonl")
