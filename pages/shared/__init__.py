"""What every page needs: the live bank and recipe, the ledger of runs, and one way to draw a chart.

Import from here rather than from the modules below, so that all pages show the same things alike.
"""

from pages.shared.banks import current_bank, known_banks
from pages.shared.recipes import current_recipe, current_selection
from pages.shared.show import chart, is_dark, ledger, on_primary, plain, say, stop_with

__all__ = [
    "chart",
    "current_bank",
    "current_recipe",
    "current_selection",
    "is_dark",
    "known_banks",
    "ledger",
    "on_primary",
    "plain",
    "say",
    "stop_with",
]
