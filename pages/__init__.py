"""The screens: one module a page, the frame around them, and the widgets they share.

A page reads the bank and the recipe, calls `core`, and draws what comes back. No arithmetic here.
"""
