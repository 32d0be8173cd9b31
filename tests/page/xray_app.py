"""The X-ray alone on a page, for its tests: draws it for the bank at MERGESCOPE_BANK."""

import os

import streamlit as st

from core.bank import load_bank
from core.recipe import select
from core.recipe.model import Recipe
from pages.shared import xray

bank = load_bank(os.environ["MERGESCOPE_BANK"])
recipe = Recipe(k=int(os.environ.get("XRAY_K", "2")), density=float(os.environ.get("XRAY_DENSITY", "0.5")))
st.set_page_config(layout="wide")
xray.draw(bank, recipe, select(bank, recipe))
