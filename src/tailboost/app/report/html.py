"""Self-contained HTML pages, drawn from results alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailboost.app.page import page
from tailboost.app.report import charts
from tailboost.app.report.comparison_table import ComparisonTable
from tailboost.app.report.demo import DIFFERENCES, Demo
from tailboost.app.report.results import Results
from tailboost.guarantees.monitor import Monitor
from tailboost.rows.judged import judged


def render(results: Results | Mapping[str, Any]) -> str:
    """Return the report of a comparison as an HTML page; its security policy forbids requests and scripts.

    Parameters
    ----------
    results : Results or dict
        Returned by `compare`, or its document as read from JSON.
    """
    table = ComparisonTable(results)
    return page(
        "report.html.j2",
        table=table,
        charts=charts.comparison_charts(table),
        classes_drawn=charts.classes_drawn(table),
    )


def render_demo(demo: Demo) -> str:
    """Return the page of the demo: a use with its certificate, and curves against baselines.

    Parameters
    ----------
    demo : Demo
        The use and the comparisons of one run.

    Returns
    -------
    str
        The page. The content security policy forbids requests and scripts.
    """
    certificate = judged(demo.use.rule).certificate
    certified_chart = ""
    if certificate is not None:
        certified_chart = charts.limits_chart(certificate.limit_lines())
    groups_label = (
        "Bar chart: misses of each group before and after the limits, with 95 % intervals."
    )
    return page(
        "demo.html.j2",
        demo=demo,
        certificate=certificate,
        certified=certified_chart,
        groups=charts.display_chart(demo.use.display, groups_label),
        differences={
            name: charts.limits_chart(lines, DIFFERENCES)
            for name, lines in demo.differences.items()
        },
        credit=charts.tradeoff_chart(demo.credit, charts.looks_of(demo.credit)),
        wine=charts.tradeoff_chart(demo.wine, charts.looks_of(demo.wine)),
    )


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
    return page(
        "monitor.html.j2",
        title=title,
        monitor=monitor,
        heads=heads,
        rows=rows,
        in_percent=all(bound.in_percent for bound in monitor.certificate.tested),
        chart=charts.monitor_chart(monitor),
    )
