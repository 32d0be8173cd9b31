"""The dev and test task sets: 57 and 168 tasks in scenarios of three.

Takes a seed and gives task rows (`id, scenario, prompt, target, scorer`) as they go to JSONL. The
three tasks of a scenario share family and difficulty, as AppWorld's share an instruction.
"""

import re
from random import Random
from typing import Any

from data.make.families import DIFFICULTIES, FAMILIES, NUMERIC, Item

SCENARIOS = {"dev": 19, "test": 56}
TASKS_PER_SCENARIO = 3
_SEEDS = {"dev": 5701, "test": 16801}


def task_row(item: Item, task: str, scenario: str) -> dict[str, Any]:
    """One item as a task row; the tool call is scored by a regex that forgives spacing."""
    target, scorer = item.right, "numeric" if item.family in NUMERIC else "exact"
    if item.family == "call":
        target, scorer = "^" + re.escape(item.right).replace(r",\ ", r",\s*") + "$", "regex"
    return {"id": task, "scenario": scenario, "prompt": item.prompt, "target": target, "scorer": scorer}


def make_split(split: str) -> list[dict[str, Any]]:
    """All task rows of `dev` or `test`; families take turns and difficulties rotate.

    No prompt comes twice. A test prompt that is among dev's is drawn again at the hardest difficulty, where
    there are prompts enough.
    """
    random, spare = Random(_SEEDS[split]), Random(_SEEDS[split] + 1)
    names = list(FAMILIES)
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    dev = frozenset(row["prompt"] for row in make_split("dev")) if split == "test" else frozenset[str]()
    for number in range(SCENARIOS[split]):
        family, difficulty = names[number % len(names)], (number // len(names) + number) % DIFFICULTIES
        scenario = f"{split[0]}{number + 1:02d}"
        for part in range(1, TASKS_PER_SCENARIO + 1):
            item = FAMILIES[family](random, difficulty)
            while item.prompt in seen:
                item = FAMILIES[family](random, difficulty)
            seen.add(item.prompt)
            while item.prompt in dev:
                item = FAMILIES[family](spare, DIFFICULTIES - 1)
            rows.append(task_row(item, f"{scenario}_{part}", scenario))
    return rows


def held_out_prompts() -> frozenset[str]:
    """Prompts that no training phase may use."""
    return frozenset(row["prompt"] for split in SCENARIOS for row in make_split(split))
