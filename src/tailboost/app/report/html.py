"""Self-contained HTML files, drawn from results documents alone."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from tailboost.app.report import charts
from tailboost.app.report.findings import comparison_table, findings, guarantees
from tailboost.app.report.reading import Reading, at
from tailboost.app.report.results import Results
from tailboost.app.report.verdict import as_difference, verdict
from tailboost.core.subgroups import GroupUse

__all__ = ["Chapter", "render", "render_overview"]

# Of a larger table of answers only the most frequent mistakes are shown.
_MOST_CONFUSED = 10


def render(results: Results | Mapping[str, Any]) -> str:
    """Render the report.

    Parameters
    ----------
    results : Results or dict
        What `compare` returned, or its document as read from JSON.

    Returns
    -------
    str
        HTML. It fetches nothing: pictures are drawn into it as SVG, and its content security policy forbids
        everything else. Of scripts it allows its own one alone, by its hash; without it only the marking of
        methods, the tips and the slider for α are missing.
    """
    reading = Reading(results)
    columns, rows = comparison_table(reading)
    found: dict[str, list[str]] = {}
    for finding in findings(reading):
        found.setdefault(finding.kind, []).append(finding.text)
    script = _asset("report.js")
    lines = script.replace("\r\n", "\n").replace("\r", "\n").encode()
    groups = reading.data["groups"]
    styles = charts.method_styles(reading)
    return page(
        "report.html.j2",
        d=reading.document,
        verdict=verdict(reading),
        columns=columns,
        rows=rows,
        found=found,
        matches=reading.matches,
        as_difference=as_difference,
        duels=_shown_duels(reading),
        randomised=_randomised(reading),
        class_errors=_errors(reading, reading.data["classes"], "class_errors"),
        classes_drawn=charts.classes_drawn(reading),
        group_errors={
            name: _errors(reading, list(counts), "group_errors", name) for name, counts in groups.items()
        },
        group_uses=_group_uses(reading),
        confusions=_confusions(reading),
        guarantees=guarantees(reading),
        styles=styles,
        charts=charts.pictures(reading, styles),
        script=script,
        # What the content security policy calls an inline script by.
        script_hash=f"'sha256-{base64.b64encode(hashlib.sha256(lines).digest()).decode()}'",
    )


@dataclass(frozen=True)
class Chapter:
    """One comparison of an overview.

    Attributes
    ----------
    results : Results or dict
        What `compare` returned, or its document as read from JSON.
    link : str
        Where its own report is, from the overview.
    about : str
        A sentence or two on the data, such as their source.
    """

    results: Results | Mapping[str, Any]
    link: str
    about: str = ""


def render_overview(title: str, chapters: Sequence[Chapter]) -> str:
    """Render one page with the verdicts and pictures of several comparisons, and links to their reports.

    Parameters
    ----------
    title : str
        The heading.
    chapters : sequence of Chapter
        At least one.

    Returns
    -------
    str
        HTML. It fetches nothing and runs nothing: its content security policy forbids both.
    """
    described = []
    for chapter in chapters:
        reading = Reading(chapter.results)
        styles = charts.method_styles(reading)
        described.append(
            {
                "d": reading.document,
                "link": chapter.link,
                "about": chapter.about,
                "verdict": verdict(reading),
                "styles": styles,
                "rows": reading.finished,
                "chart": charts.tradeoff_chart(reading, styles) if reading.finished else "",
                "trouble": [f.text for f in findings(reading) if f.kind == "trouble"],
            }
        )
    return page("overview.html.j2", title=title, chapters=described)


def page(template: str, **values: Any) -> str:
    """Return a page in the style of the reports, from a template by name and the values that it speaks of."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(css=_asset("report.css"), **values)


def _asset(name: str) -> str:
    return (files("tailboost.app.report") / "templates" / name).read_text(encoding="utf-8")


def _shown_duels(reading: Reading) -> list[Any]:
    """Duels between methods that are shown first; all of them have a part in the error of the family."""
    kept = [m["name"] for m in reading.shown_first(charts.MOST_SHOWN)]
    fought = [
        (measure, [d for d in row if d.ours["name"] in kept])
        for measure, row in reading.duels
        if row[0].plain["name"] in kept
    ]
    return [(measure, row) for measure, row in fought if row]


def _randomised(reading: Reading) -> list[dict[str, Any]]:
    """Every mixture at every α it was re-weighted to: errors of ``predict`` beside the expected ones."""
    return [
        {"title": method["title"], "alpha": alpha, "predict": figures, "drawn": figures["expected"]}
        for method in reading.finished
        if "expected" in method["figures"]
        for alpha, figures in method["figures"].get("at_alpha", {None: method["figures"]}).items()
    ]


def _errors(reading: Reading, names: list[str], *path: str) -> list[dict[str, Any]]:
    return [
        {
            "titles": [m["title"] for m in group],
            "cells": [at(group[0]["figures"], path).get(k) for k in names],
        }
        for group in reading.distinct
    ]


def _group_uses(reading: Reading) -> list[str]:
    """Say of each column of groups whether answers may depend on it; older documents do not know."""
    told = [m["title"] for m in reading.document["methods"] if m.get("by_group")]
    but = f"; but {', '.join(told)} is told it" if told else ""
    uses = reading.data.get("group_features", {})
    return [
        f"G{str(GroupUse(name, False, None if features is None else tuple(features)))[1:]}{but}"
        for name, features in uses.items()
    ]


def _confusions(reading: Reading) -> list[dict[str, Any]]:
    """Share of each class that ``predict`` answers with each, all splits together, per distinct method."""
    classes = reading.data["classes"]
    found = []
    for group in reading.distinct:
        tables = [r["confusion"] for r in group[0]["repeats"] if "confusion" in r]
        if not tables:
            continue
        counts = [[sum(cells) for cells in zip(*rows, strict=True)] for rows in zip(*tables, strict=True)]
        shares = [[n / max(sum(row), 1) for n in row] for row in counts]
        pairs = [
            (shares[i][j], classes[i], classes[j])
            for i in range(len(classes))
            for j in range(len(classes))
            if i != j and counts[i][j]
        ]
        found.append(
            {
                "title": group[0]["title"],
                "same": [m["title"] for m in group[1:]],
                "bounds": [f"{r['error_bound']:.3f}" for r in group[0]["repeats"] if "error_bound" in r],
                "shares": shares if len(classes) <= _MOST_CONFUSED else None,
                "pairs": sorted(pairs, reverse=True)[:_MOST_CONFUSED],
            }
        )
    return found
