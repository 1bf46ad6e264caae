"""Comparisons and their reports: the numbers first (JSON), what is drawn from them second (HTML)."""

from tailboost.report.card import Card
from tailboost.report.comparison import compare
from tailboost.report.html import Chapter, render, render_overview
from tailboost.report.results import Results
from tailboost.report.watched import render_watch

__all__ = ["Card", "Chapter", "Results", "compare", "render", "render_overview", "render_watch"]
