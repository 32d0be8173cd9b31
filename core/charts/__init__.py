"""Plotly figures from data: every function takes arrays and plain values and gives one figure.

Knows nothing about streamlit, files or jobs; colours and fonts come from `theme.py` alone.
"""
