"""Self-contained HTML pages, drawn from results alone."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from tailboost.app.report import charts
from tailboost.app.report.comparison_table import ComparisonTable
from tailboost.app.report.demo import DIFFERENCES, Demo
from tailboost.app.report.results import LEAST_SPLITS, Results
from tailboost.guarantees.monitor import Monitor
from tailboost.rows.judged import judged

__all__ = ["render", "render_demo", "render_monitor"]


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


def page(template: str, script: str | None = None, **values: Any) -> str:
    """Return a page in the style of the reports, from a template and its variables.

    ``script`` names the script of the page. The security policy allows it by its hash, and no other.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Words begin at the left of a column, numbers end at the right.
    environment.globals["least_splits"] = LEAST_SPLITS
    environment.globals["is_words"] = lambda rows, j: any(row[j][:1].isalpha() for row in rows)
    values |= {"css": _asset("report.css"), "script_hash": "'none'"}
    if script is not None:
        values["script"] = _asset(script).replace("\r\n", "\n")
        digest = hashlib.sha256(values["script"].encode()).digest()
        values["script_hash"] = f"'sha256-{base64.b64encode(digest).decode()}'"
    return environment.get_template(template).render(**values)


def _asset(name: str) -> str:
    """Return the text of a template, style sheet or script of the package."""
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")
