"""Comparisons of methods, HTML reports and model cards."""

from tailboost.app.report.card import Card
from tailboost.app.report.comparison import compare
from tailboost.app.report.comparison_table import ComparisonTable
from tailboost.app.report.html import Chapter, render, render_overview, render_watch
from tailboost.app.report.results import Results

__all__ = [
    "Card",
    "Chapter",
    "ComparisonTable",
    "Results",
    "compare",
    "render",
    "render_overview",
    "render_watch",
]
