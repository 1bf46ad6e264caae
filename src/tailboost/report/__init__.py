"""Comparisons of methods, HTML reports and model cards."""

from tailboost.report.card import Card
from tailboost.report.comparison import compare
from tailboost.report.comparison_table import ComparisonTable
from tailboost.report.html import Chapter, render, render_overview, render_watch
from tailboost.report.results import Results

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
