"""The page about the knobs is made from the table of knobs, and is up to date.

Run: .venv/bin/python -m pytest tests/unit/recipe/test_knob_docs.py
To write it again: paste `python -c "from core.recipe.knobs import *; print(knob_table_markdown())"`.
"""

from pathlib import Path

from core.recipe.knobs import KNOBS, knob_table_markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "knobs.md"


def test_the_page_holds_the_table_as_it_is_now() -> None:
    assert knob_table_markdown() in PAGE.read_text()


def test_the_readme_leads_to_it_and_every_knob_is_in_it() -> None:
    assert "docs/knobs.md" in (PAGE.parents[1] / "README.md").read_text()
    assert all(f"`{one.name}`" in PAGE.read_text() for one in KNOBS)
