"""The page of a watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailboost.app.report import charts
from tailboost.app.report.html import page

if TYPE_CHECKING:
    from tailboost.guarantees.monitor import Monitor


def render_watch(watch: Monitor, title: str = "Monitor") -> str:
    """Draw what a watch found, batch by batch.

    Parameters
    ----------
    watch : Monitor
        With at least one batch.
    title : str
        The heading.

    Returns
    -------
    str
        HTML, one file; its content security policy forbids it to fetch or to run anything.
    """
    heads, rows = watch.cells()
    looks = [(batch.name, batch.evidence) for batch in watch.batches]
    short = [bound.short for bound in watch.certificate.tested]
    chart = charts.evidence_chart(short, looks, watch.threshold) if looks else ""
    return page(
        "watch.html.j2",
        title=title,
        watch=watch,
        heads=heads,
        rows=rows,
        names=[row[0] for row in rows],
        chart=chart,
        styles=charts.hues(),
    )
