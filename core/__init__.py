"""Mergescope's engine room: everything that computes, usable without a browser.

Nothing below this package imports streamlit; a test enforces it. Importing `core` itself is
cheap: torch, transformers, numba and mergekit are imported only by the functions that need them.
"""

__version__ = "0.1.0"
