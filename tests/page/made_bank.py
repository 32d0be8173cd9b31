"""A small bank of scores with prompts, two protocols and replicates, and the frame opened on it.

Made from a seed, so that every page test sees the same numbers; it holds no weights.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
IDS = ("100", "110", "120", "130")
TASKS = 12


def write_bank(folder: Path, *, replicates: bool = True) -> Path:
    """Write the bank and give its folder."""
    generator = np.random.default_rng(7)
    easiness = np.linspace(0.95, 0.15, TASKS)
    tasks = _tasks()
    _write(folder / "tasks.jsonl", tasks)

    def rows(ids: tuple[str, ...], samples: int, seed: int, harder: float = 0.0) -> list[dict[str, object]]:
        return [
            {
                "checkpoint": one, "task": task["id"], "scenario": task["scenario"], "sample": sample, "seed": seed,
                "score": int(generator.random() < easiness[n] - harder), "completion": f"answer of {one}",
                "finish": "stop",
            }
            for one in ids for n, task in enumerate(tasks) for sample in range(samples)
        ]  # fmt: skip

    _write(folder / "own.jsonl", rows(IDS, 1, 0) + rows(("base",), 1, 0, 0.4))
    _write(folder / "more.jsonl", rows((*IDS, "base"), 4, 1))
    _write(folder / "held.jsonl", rows((*IDS, "base"), 1, 2))
    _write(folder / "again.jsonl", [row for seed in range(20) for row in rows(("130",), 1, seed)])
    again = "    replicates: again.jsonl\n" if replicates else ""
    members = "".join(f'  - {{id: "{one}", step: {one}}}\n' for one in IDS)
    (folder / "bank.yaml").write_text(
        "name: made\ntitle: A made bank\ndescription: Four made checkpoints.\nbase: {id: base}\n"
        f"checkpoints:\n{members}splits:\n  dev:\n    tasks: tasks.jsonl\n    scores: own.jsonl\n"
        "    protocol: {temperature: 0.5, samples: 1}\n    more_scores:\n"
        f"      - {{path: more.jsonl, protocol: {{temperature: 0.9, samples: 4}}}}\n{again}"
        "  test:\n    tasks: tasks.jsonl\n    scores: held.jsonl\n"
        "facts:\n  - {label: Made from, value: a seed, source: this file}\n"
    )
    return folder


def _tasks() -> list[dict[str, object]]:
    return [
        {
            "id": f"t{n:02d}",
            "scenario": f"s{n // 3}",
            "prompt": f"add {n} and 2 =",
            "target": str(n + 2),
            "scorer": "exact",
        }
        for n in range(TASKS)
    ]


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def open_frame(
    monkeypatch: pytest.MonkeyPatch, home: Path, *, named: Path | None = None, **address: str | list[str]
) -> AppTest:
    """The frame, not yet run, with its own folder of runs and the given address."""
    monkeypatch.setenv("MERGESCOPE_HOME", str(home))
    monkeypatch.setenv("MERGESCOPE_BANK", str(named) if named else "")
    test = AppTest.from_file(str(ROOT / "pages" / "frame.py"), default_timeout=60)
    for key, value in address.items():
        test.query_params[key] = value
    return test


def texts(test: AppTest) -> str:
    """Everything the page says in words, in order."""
    kinds = (test.title, test.header, test.markdown, test.caption, test.warning, test.error, test.info)
    return "\n".join(str(one.value) for kind in kinds for one in kind).replace("\\", "")


def warnings(test: AppTest) -> list[str]:
    """What the page warns of, without the escapes that Markdown needs."""
    return [str(one.value).replace("\\", "") for one in test.warning]
