"""Comparisons and their reports: the numbers first (JSON), what is drawn from them second (HTML)."""

from tailboost.app.report.card import Card
from tailboost.app.report.comparison import compare
from tailboost.app.report.html import Chapter, render, render_overview
from tailboost.app.report.monitored import render_watch
from tailboost.app.report.results import Results

__all__ = ["Card", "Chapter", "Results", "compare", "render", "render_overview", "render_watch"]
