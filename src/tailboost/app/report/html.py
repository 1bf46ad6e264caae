"""Self-contained HTML pages, drawn from results alone."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from tailboost.app.report import charts
from tailboost.app.report.comparison_table import ComparisonTable
from tailboost.app.report.results import Results

if TYPE_CHECKING:
    from tailboost import Monitor

__all__ = ["render", "render_monitor", "render_overview"]

MOST_CLASSES = 10  # classes in a confusion matrix


def render(results: Results | Mapping[str, Any]) -> str:
    """Return the report of a comparison as an HTML page.

    Parameters
    ----------
    results : Results or dict
        Returned by `compare`, or its document as read from JSON.

    Returns
    -------
    str
        The page. The content security policy forbids requests and allows only the included script. Without
        scripts the page lacks marking, tooltips and the slider for α.
    """
    table = ComparisonTable(results)
    styles = charts.method_styles(table)
    script = _asset("report.js").replace("\r\n", "\n")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return page(
        "report.html.j2",
        table=table,
        styles=styles,
        charts=charts.comparison_charts(table, styles),
        classes_drawn=charts.classes_drawn(table),
        confusions=_confusions(table),
        script=script,
        script_hash=f"'sha256-{digest}'",
    )


def render_overview(title: str, comparisons: Sequence[tuple[Results | Mapping[str, Any], str, str]]) -> str:
    """Return one page with the sentence and the chart of each comparison, and links to the reports.

    Parameters
    ----------
    title : str
        Heading.
    comparisons : sequence of (results, link, about)
        Results of `compare`, address of the report relative to the overview, and a sentence about the data.

    Returns
    -------
    str
        The page. The content security policy forbids requests and scripts.
    """
    chapters = []
    for results, link, about in comparisons:
        table = ComparisonTable(results)
        styles = charts.method_styles(table)
        chart = charts.tradeoff_chart(table, styles) if table.finished else ""
        chapters.append({"table": table, "link": link, "about": about, "styles": styles, "chart": chart})
    return page("overview.html.j2", title=title, chapters=chapters)


def render_monitor(monitor: Monitor, title: str = "Monitor") -> str:
    """Return the page of a monitor.

    Parameters
    ----------
    monitor : Monitor
        With at least one batch.
    title : str
        Heading.

    Returns
    -------
    str
        The page. The content security policy forbids requests and scripts.
    """
    heads, rows = monitor.cells()
    evidence = [(batch.name, batch.evidence) for batch in monitor.batches]
    names = [bound.short for bound in monitor.certificate.tested]
    return page(
        "monitor.html.j2",
        title=title,
        monitor=monitor,
        heads=heads,
        rows=rows,
        chart=charts.evidence_chart(names, evidence, monitor.threshold) if evidence else "",
        styles=charts.line_styles(),
    )


def page(template: str, **values: Any) -> str:
    """Return a page in the style of the reports, from a template and its variables."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(css=_asset("report.css"), **values)


def _asset(name: str) -> str:
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


def _confusions(table: ComparisonTable) -> list[dict[str, Any]]:
    """Return, per method, the fraction of each class that gets each answer, over all splits."""
    confusions = []
    for method in table.finished if len(table.data["classes"]) <= MOST_CLASSES else ():
        counts = np.sum([record["confusion"] for record in method["repeats"]], axis=0)
        rates = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        confusions.append({"method": method, "rates": rates.tolist()})
    return confusions
