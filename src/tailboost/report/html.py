"""One self-contained HTML file drawn from a results document alone."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from tailboost.report.charts import chart_data, method_styles
from tailboost.report.findings import FAMILY_ERROR, comparison_table, duels, findings, guarantees
from tailboost.report.results import Results

__all__ = ["render"]


def render(results: Results | Mapping[str, Any]) -> str:
    """Render the report.

    Parameters
    ----------
    results : Results or dict
        What `compare` returned, or its document as read from JSON.

    Returns
    -------
    str
        HTML. It fetches nothing: styles, data and the drawing library are in it, and its content security
        policy forbids everything else. Of scripts it allows these two alone, by their hashes.
    """
    import jinja2
    import markupsafe
    from plotly.offline import get_plotlyjs

    document = results.document if isinstance(results, Results) else results
    columns, rows = comparison_table(document)
    found: dict[str, list[str]] = {}
    for finding in findings(document):
        found.setdefault(finding.kind, []).append(finding.text)
    charts = chart_data(document)
    # "<" would end the script element from within a string.
    charts_json = json.dumps(charts, allow_nan=False).replace("<", "\\u003c")
    templates = files("tailboost.report") / "templates"
    asset = {
        name: markupsafe.Markup((templates / name).read_text(encoding="utf-8"))
        for name in ("report.css", "report.js")
    }
    plotly = get_plotlyjs()
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((templates / "report.html.j2").read_text(encoding="utf-8"))
    return template.render(
        d=document,
        columns=columns,
        rows=rows,
        found=found,
        duels=duels(document),
        family_error=FAMILY_ERROR,
        randomised=_randomised(document),
        class_errors=_errors(document, document["data"]["classes"], "class_errors"),
        group_errors={
            name: _errors(document, list(counts), "group_errors", name)
            for name, counts in document["data"]["groups"].items()
        },
        guarantees=guarantees(document),
        worst_cases=[
            (m["title"], r["worst_case"])
            for m in document["methods"]
            for r in m["repeats"][:1]
            if "worst_case" in r
        ],
        styles=method_styles(document),
        dots=charts["dots"],
        charts=markupsafe.Markup(charts_json),
        css=asset["report.css"],
        script=asset["report.js"],
        plotly=markupsafe.Markup(plotly),
        script_hashes=" ".join(_hash(script) for script in (plotly, asset["report.js"])),
    )


def _hash(script: str) -> str:
    """Return the name of an inline script in the content security policy: the hash of its text."""
    text = script.replace("\r\n", "\n").replace("\r", "\n")
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _randomised(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every mixture at every α it was re-weighted to: errors of ``predict`` beside the expected ones."""
    rows = []
    for method in document["methods"]:
        if not method["figures"] or "expected" not in method["figures"]:
            continue
        by_alpha = method["figures"].get("at_alpha", {None: method["figures"]})
        for alpha, figures in by_alpha.items():
            rows.append(
                {"title": method["title"], "alpha": alpha, "predict": figures, "drawn": figures["expected"]}
            )
    return rows


def _errors(document: Mapping[str, Any], names: list[str], *path: str) -> list[dict[str, Any]]:
    rows = []
    for method in document["methods"]:
        if method["figures"]:
            figures = method["figures"]
            for key in path:
                figures = figures[key]
            rows.append({"title": method["title"], "cells": [figures.get(name) for name in names]})
    return rows
