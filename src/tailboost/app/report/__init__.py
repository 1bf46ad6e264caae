"""Comparisons of methods and HTML reports."""

from tailboost.app.report.comparison import compare
from tailboost.app.report.comparison_table import ComparisonTable
from tailboost.app.report.html import render, render_demo, render_monitor
from tailboost.app.report.results import Results

__all__ = ["ComparisonTable", "Results", "compare", "render", "render_demo", "render_monitor"]
