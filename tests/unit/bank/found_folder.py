"""A folder such as people have: checkpoints of a run with real headers, and score files beside them."""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_weights(folder: Path, *, config: Mapping[str, Any] | None = None) -> Path:
    """A Hugging Face folder with one small bfloat16 tensor."""
    folder.mkdir(parents=True, exist_ok=True)
    header = json.dumps({"w": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(12))
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "qwen3"}))
    return folder


def write_csv(path: Path, rows: Sequence[Sequence[object]], head: str = "checkpoint,task,score") -> Path:
    """A long table of scores."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def write_run(folder: Path) -> Path:
    """Base and steps 90, 100, 200; scores by step, in which step 200 lacks a task and 100 has one twice."""
    write_weights(folder / "base")
    for step in (90, 100, 200):
        write_weights(folder / f"checkpoint-{step}", config={"_name_or_path": "base"})
    rows: list[tuple[object, ...]] = [(who, f"t{n}", (n + at) % 2) for at, who in enumerate((90, 100, 200, "base")) for n in range(4)]  # fmt: skip  # noqa: E501
    write_csv(folder / "evals" / "dev.csv", [one for one in rows if one[:2] != (200, "t3")] + [(100, "t0", 1)])
    tasks = [{"id": f"t{n}", "scenario": "s", "prompt": f"{n}?", "target": "1"} for n in range(5)]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(one) + "\n" for one in tasks))
    return folder
