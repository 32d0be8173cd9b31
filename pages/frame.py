"""The frame around every page: which bank, which recipe, what is running; the knobs; the pages.

Runs on every rerun before the page. Reads the bank and recipe, draws, and hands over to the page.
"""

import sys
from pathlib import Path

import streamlit as st

PAGES = Path(__file__).resolve().parent
if str(PAGES.parent) not in sys.path:
    sys.path.insert(0, str(PAGES.parent))

from core.charts.pictures import wordmark  # noqa: E402
from core.errors import MergescopeError  # noqa: E402
from pages import launch  # noqa: E402
from pages.shared import banks, current_bank, current_recipe, is_dark, knobs, plain, recipes, say, topline  # noqa: E402

st.set_page_config(page_title="Mergescope", page_icon=str(PAGES / "icon.png"), layout="wide")
st.logo(wordmark(is_dark()), size="medium")
OTHERS = ("recipe", "whatif", "runs", "precision", "results")
TITLES = {"whatif": "What-if"}
# The first page answers at / and, for links that name it, at /bank.
page = st.navigation(
    [
        st.Page(PAGES / "bank.py", title="Bank", url_path="start", default=True),
        *(st.Page(PAGES / f"{one}.py", title=TITLES.get(one, one.capitalize()), url_path=one) for one in OTHERS),
        st.Page(PAGES / "bank.py", title="Bank", url_path="bank", visibility="hidden"),
    ],
    position="top",
)


def draw() -> None:
    """The frame, then the page in it."""
    not_found = banks.remember_asked()
    with st.container(key="topline"):
        bank_slot, recipe_slot = topline.bank_row()
    bank = current_bank()
    messages = [*knobs.read_address(bank), *knobs.fit_to_bank(bank)]
    with st.sidebar:
        knobs.draw_knobs(bank, current_recipe(), recipes.selection_or_none(bank, current_recipe()))
    recipe = current_recipe()
    recipes.note_recipe(recipe)
    with st.sidebar:
        launch.button(bank, recipe)
    topline.describe_bank(bank, bank_slot)
    topline.recipe_controls(bank, recipe, recipe_slot)
    topline.running_line()
    for said in (not_found, *(message() for message in messages)):
        if said:
            st.warning(plain(said), icon=":material/link_off:")
    page.run()


try:
    draw()
except (MergescopeError, OSError) as problem:
    say(problem)
