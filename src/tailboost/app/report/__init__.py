"""Comparisons of methods, HTML reports and model cards."""

from tailboost.app.report.card import ModelCard
from tailboost.app.report.comparison import compare
from tailboost.app.report.comparison_table import ComparisonTable
from tailboost.app.report.html import Chapter, render, render_monitor, render_overview
from tailboost.app.report.results import Results

__all__ = [
    "Chapter",
    "ComparisonTable",
    "ModelCard",
    "Results",
    "compare",
    "render",
    "render_monitor",
    "render_overview",
]
