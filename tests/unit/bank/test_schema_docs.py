"""The page about bank.yaml is made from the schema and is up to date; its example is a bank.

Run: .venv/bin/python -m pytest tests/unit/bank/test_schema_docs.py
To write it again: paste `python -c "from core.bank.schema_docs import *; print(schema_markdown())"`.
"""

import re
from pathlib import Path
from typing import get_args

from core.bank import load_bank
from core.bank.schema import ProblemKind
from core.bank.schema_docs import SECTIONS, schema_markdown

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "bank.md").read_text()


def test_the_page_holds_the_tables_as_they_are_now() -> None:
    assert schema_markdown() in PAGE


def test_every_key_says_what_it_is_for() -> None:
    unsaid = [f"{title}: {name}" for title, model in SECTIONS for name, one in model.model_fields.items() if not one.description]  # fmt: skip  # noqa: E501
    assert unsaid == []


def test_every_kind_of_problem_is_explained() -> None:
    assert [kind for kind in get_args(ProblemKind) if f"| `{kind}` |" not in PAGE] == []


def test_the_example_is_a_bank(tmp_path: Path) -> None:
    (yaml,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (row,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "bank.yaml").write_text(yaml)
    (tmp_path / "dev.jsonl").write_text(row + row.replace('"200"', '"210"'))
    bank = load_bank(tmp_path)
    assert [one.id for one in bank.checkpoints] == ["200", "210"]
    assert bank.splits["dev"].scores.tolist() == [[1.0], [1.0]]
