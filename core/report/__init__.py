"""The report of a finished run: one HTML file that stands alone, for an appendix or a colleague."""

from core.report.build import report_html

__all__ = ["report_html"]
