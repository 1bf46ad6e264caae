"""Self-contained HTML pages, drawn from results alone."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from tailboost.app.report import charts
from tailboost.app.report.comparison_table import ComparisonTable
from tailboost.app.report.demo import DIFFERENCES, TAILS, TODAY, Demo
from tailboost.app.report.results import LEAST_SPLITS, Results
from tailboost.guarantees.monitor import Monitor
from tailboost.rows.judged import judged

__all__ = ["render", "render_demo", "render_monitor"]

MOST_CLASSES = 10  # classes in a confusion matrix


def render(results: Results | Mapping[str, Any]) -> str:
    """Return the report of a comparison as an HTML page.

    The content security policy forbids requests and allows only the included script. Without scripts the
    page lacks marking, tooltips and the slider for α.

    Parameters
    ----------
    results : Results or dict
        Returned by `compare`, or its document as read from JSON.
    """
    table = ComparisonTable(results)
    styles = charts.method_styles(table)
    return page(
        "report.html.j2",
        table=table,
        styles=styles,
        charts=charts.comparison_charts(table, styles),
        classes_drawn=charts.classes_drawn(table),
        confusions=_confusions(table),
        **inline_script("report.js"),
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
    use = demo.use
    credit = demo.credit
    wine = demo.wine
    credit_styles = charts.method_styles(credit)
    wine_styles = charts.method_styles(wine)
    curves = []
    for style in credit_styles:
        if style["method"]["name"] == TODAY:
            style = style | {"title": "what you use today"}
        curves.append(style)
    tails = [style for style in credit_styles if style["method"]["name"] in TAILS]
    certificate = judged(use.rule).certificate
    certified_chart = ""
    if certificate is not None:
        certified_chart = charts.limits_chart(certificate.limit_lines())
    return page(
        "demo.html.j2",
        demo=demo,
        certificate=certificate,
        certified=certified_chart,
        groups=charts.groups_chart(use.display),
        differences={
            name: charts.limits_chart(lines, DIFFERENCES)
            for name, lines in demo.differences.items()
        },
        styles=[credit_styles, wine_styles],
        credit=charts.tradeoff_chart(credit, curves, title=f"missed {use.cases}"),
        wine=charts.tradeoff_chart(wine, wine_styles),
        tails=tails,
        cvar=charts.cvar_chart(credit, tails),
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
        chart=charts.monitor_chart(monitor),
    )


def page(template: str, **values: Any) -> str:
    """Return a page in the style of the reports, from a template and its variables."""
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
    return environment.get_template(template).render(css=_asset("report.css"), **values)


def inline_script(name: str) -> dict[str, str]:
    """Return a script as variables of a page, with the hash by which its security policy allows it."""
    script = _asset(name).replace("\r\n", "\n")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"script": script, "script_hash": f"'sha256-{digest}'"}


def json_block(document: Any) -> str:
    """Return JSON for a script element; no text in it can end the element."""
    text = json.dumps(document, allow_nan=False)  # ASCII alone
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _asset(name: str) -> str:
    """Return the text of a template, style sheet or script of the package."""
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


def _confusions(table: ComparisonTable) -> list[dict[str, Any]]:
    """Return the fraction of each class that gets each answer, by method, over the test rows of all splits.

    ``rates`` has a row for each true class. With more than `MOST_CLASSES` classes there are no fractions.
    """
    if len(table.data["classes"]) > MOST_CLASSES:
        return []
    confusions = []
    for method in table.finished:
        counts = np.sum([record["confusion"] for record in method["repeats"]], axis=0)
        n_of_class = counts.sum(axis=1, keepdims=True)
        rates = counts / np.maximum(n_of_class, 1)  # 0 for a class without test rows
        confusions.append({"method": method, "rates": rates.tolist()})
    return confusions
