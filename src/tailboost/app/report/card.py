"""A model card: what a model is for, what was measured of it, and what was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tailboost import LeakageError, certify
from tailboost.app.report import charts
from tailboost.app.report.html import page
from tailboost.core.pipelines import last_step
from tailboost.guarantees.certificates import Certificate
from tailboost.rates.bounds import clopper_pearson_interval

__all__ = ["Card", "Section"]

NOT_STATED = "Not stated."
# Points of a trade-off that are shown.
POINTS = 6
BY_ITSELF = 0.95


@dataclass(frozen=True)
class Section:
    """A part of a card."""

    title: str  # its heading
    lines: Sequence[str] = ()  # sentences
    # heads, rows: a table; none without headings.
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    code: str = ""  # a text that is shown as it stands


@dataclass(frozen=True)
class Card:
    """What a model is for, its data, its errors with certificates, its limits, and what was not tested.

    Attributes
    ----------
    title : str
        The heading.
    summary : str
        The first sentence.
    sections : list of Section
        The parts.
    """

    title: str
    summary: str
    sections: list[Section]

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        clusters: Any = None,
        max_error: Any = None,
        confidence: float = 0.95,
        equal_rows: Any = "copies",
        title: str = "Model card",
        purpose: str = "",
        rows_are: str = "the rows given",
        notes: Mapping[str, Any] | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> Self:
        """Measure a model on new rows, and describe it.

        Parameters
        ----------
        model : fitted classifier
            One of tailboost's, or a pipeline around one.
        X, y : array-like of shape (n, d), (n,)
            Rows that had no part in its making, and their labels.
        groups, clusters, max_error, confidence, equal_rows
            As in `tailboost.certify`.
        title, purpose, rows_are : str
            Heading; what the model is for, in the words of who is responsible; what the rows are called.
        notes, versions : mapping, optional
            What a model file says of how it was made (`tailboost.storage.read_notes`), and the versions
            of the libraries then.

        Returns
        -------
        Card

        Raises
        ------
        ValueError
            If an argument is not as in `tailboost.certify`.
        """
        notes, final = dict(notes or {}), last_step(model)
        certificate, rates, refused, missing = None, None, "", ""
        given = {"groups": groups, "confidence": confidence, "equal_rows": equal_rows}
        try:
            certificate = certify(model, X, y, clusters=clusters, max_error=max_error, rates=(), **given)
        except LeakageError as failure:
            refused = str(failure)
        if certificate is not None and getattr(final, "limits", None):
            try:
                rates = certify(model, X, y, clusters=clusters, **given)
            except ValueError as failure:
                missing = str(failure)
        sections = [
            Section("Purpose", [purpose or NOT_STATED]),
            _made(final, notes),
            _errors(certificate, refused, rows_are, clusters),
            _rates(rates),
            _tradeoff(final),
            _decides(final, notes),
            _limits(certificate, final),
            _not_tested(certificate, purpose, groups, missing),
            Section("Versions", [", ".join(f"{k} {v}" for k, v in (versions or {}).items()) or NOT_STATED]),
        ]
        kept = [section for section in sections if section.lines or section.rows or section.code]
        return cls(title, _summary(certificate, rows_are), kept)

    def to_markdown(self) -> str:
        """Return the card as Markdown."""
        parts = [f"# {_plain(self.title)}", _plain(self.summary)]
        for section in self.sections:
            parts.append(f"## {section.title}")
            if section.heads:
                rule = ["---"] + ["---:"] * (len(section.heads) - 1)
                table = [section.heads, rule, *section.rows]
                parts.append(
                    "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in table).replace("| \\--", "| --")
                )
            if section.code:
                parts.append(f"```text\n{section.code.replace('```', '` ` `')}\n```")
            parts.append("\n".join(f"* {_plain(line)}" for line in section.lines))
        return "\n\n".join(part for part in parts if part) + "\n"

    def to_html(self) -> str:
        """Return the card as one page, which fetches and runs nothing."""
        return page("card.html.j2", card=self, styles=charts.hues())


def _plain(text: str) -> str:
    """Return a text on one line that Markdown shows as it is."""
    line = " ".join(str(text).split())
    for mark in "\\`*_[]<>#":
        line = line.replace(mark, f"\\{mark}" if mark not in "<>" else {"<": "&lt;", ">": "&gt;"}[mark])
    return line


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _summary(certificate: Certificate | None, rows_are: str) -> str:
    if certificate is None:
        return f"Nothing is certified: {rows_are} had a part in making the model."
    classes = [b for b in certificate.bounds if b.kind == "class" and b.rule == "predict"]
    worst = max(classes, key=lambda b: (b.upper, b.estimate or 0.0))
    if worst.estimate is None:
        return f"Of {worst.name} there is no row among the {certificate.n_rows:,} of {rows_are}."
    return (
        f"On {certificate.n_rows:,} new rows ({rows_are}) the worst class, {worst.unit}, is wrong in "
        f"{100 * worst.estimate:.1f} % of its rows; with {100 * certificate.confidence:g} % confidence in at "
        f"most {np.ceil(1000 * worst.upper - 1e-9) / 10:.1f} %, if later rows are like these."
    )


def _made(final: Any, notes: Mapping[str, Any]) -> Section:
    lines = [f"Classifier: {type(final).__name__}."]
    if "rows" in notes:
        counts = notes.get("classes", {})
        each = ", ".join(f"{n:,} of class {label}" for label, n in counts.items())
        lines.append(f"Fitted on {notes['rows']:,} rows of {notes.get('data', 'a table')}: {each}.")
    else:
        lines.append("On which rows it was fitted was not noted.")
    said = {"created": "Made", "target": "Target", "group": "Groups at the fit", "weight": "Weights"}
    for key, words in said.items():
        if value := notes.get(key):
            lines.append(f"{words}: {', '.join(value) if isinstance(value, list) else value}.")
    if aside := notes.get("not_features"):
        lines.append(f"Columns that are no features: {', '.join(aside)}.")
    if hasattr(final, "feature_names_in_"):
        lines.append(f"Features: {', '.join(map(str, final.feature_names_in_))}.")
    elif hasattr(final, "n_features_in_"):
        lines.append(f"Features: {final.n_features_in_} columns.")
    return Section("How it was made", lines)


def _errors(certificate: Certificate | None, refused: str, rows_are: str, clusters: Any) -> Section:
    if certificate is None:
        return Section("Errors on new rows", [f"Not measured: {refused}."])
    targets = any(b.target is not None for b in certificate.bounds)
    counted = "rows" if clusters is None else "clusters"
    heads = ["error of", "rule", counted, "error", "95 % interval", "certified at most", "target", ""]
    width, rows = len(heads) if targets else -2, []
    for b in certificate.bounds:
        if b.kind == "worst":
            continue
        *about, most, _, target, verdict = b.cells.values()
        interval = "–"
        if b.estimate is not None and b.rule == "predict":
            low, high = clopper_pearson_interval(b.estimate, b.n, BY_ITSELF)
            interval = f"{float(low):.4f} – {float(high):.4f}"
        rows.append([*about, interval, most, target, verdict][:width])
    lines = [
        f"Counted on {rows_are}. Each interval holds by itself with 95 % confidence; what is “certified at "
        f"most” holds for all of this table together with {100 * certificate.confidence:g} %.",
        *certificate.notes,
    ]
    return Section("Errors on new rows", lines, heads[:width], rows)


def _rates(certificate: Certificate | None) -> Section:
    """Show the rates that the model was fitted for, where it was for any."""
    if certificate is None or not certificate.rates:
        return Section("Rates on new rows")
    lines = [f"All of this table holds together with {100 * certificate.confidence:g} % confidence."]
    return Section("Rates on new rows", [*lines, *certificate.notes], *certificate.cells())


def _tradeoff(final: Any) -> Section:
    if not hasattr(final, "tradeoff"):
        return Section("Trade-off")
    try:
        curve = final.tradeoff()
    except (AttributeError, ValueError) as failure:
        return Section("Trade-off", [f"Not known: {failure}."])
    lines = [f"On {curve.judged_on}; fresh rows differ. Another point of it needs no fit."]
    shown = np.unique(np.linspace(0, len(curve) - 1, min(len(curve), POINTS)).round().astype(int))
    rows = [[f"{curve[i].limited:.4f}", f"{curve[i].value:.4f}"] for i in shown.tolist()]
    return Section("Trade-off", lines, [str(curve.limited), str(curve.objective)], rows)


def _decides(final: Any, notes: Mapping[str, Any]) -> Section:
    told, aside = bool(getattr(final, "by_group", False)), notes.get("not_features", [])
    lines = ["The group of a row has to be told where it is answered."] if told else []
    for name in [] if told else notes.get("group", []):
        if name in aside:
            lines.append(
                f"{name} is no feature: answers do not look at it, though other columns may tell it."
            )
        else:
            lines.append(f"{name} is a feature too: answers may depend on it.")
    if hasattr(final, "rule_"):
        return Section("What decides", lines, code=f"{final.rule_}\n\n{final.rates_}")
    if (guarantee := getattr(final, "summary_", None)) is not None:
        lines.append(str(getattr(guarantee, "verdict", guarantee)))
    return Section("What decides", lines)


def _limits(certificate: Certificate | None, final: Any) -> Section:
    lines = []
    if certificate is not None:
        rows = {b.name: b.n for b in certificate.bounds if b.kind in ("class", "group", "cell")}
        if few := [name for name, n in rows.items() if 0 < n < 30]:
            lines.append(f"Fewer than 30 rows are behind: {', '.join(few[:20])}.")
        if empty := [name for name, n in rows.items() if not n]:
            lines.append(f"Nothing is known of: {', '.join(empty[:20])}, of which there was no row.")
        if loose := [b.name for b in certificate.bounds if b.target is not None and not b.certified]:
            lines.append(f"Targets that are not certified: {', '.join(loose[:20])}.")
    lines += [
        f"It answers one of {', '.join(map(str, final.classes_))}, to whatever row it is given.",
        "What was measured is about rows like those counted, not about later or other populations.",
    ]
    return Section("Limits", lines)


def _not_tested(certificate: Certificate | None, purpose: str, groups: Any, missing: str) -> Section:
    lines = [] if certificate is not None else ["Errors on new rows."]
    lines += [f"The rates of the fit: {missing}."] if missing else []
    if groups is None:
        lines.append("Errors by group: no column of groups was given.")
    if certificate is not None and not any(b.kind == "shift" for b in certificate.bounds):
        lines.append("How errors grow where the population shifts.")
    lines += [
        "Whether rows or labels were recorded rightly.",
        "Whether probabilities are calibrated.",
        "Rates that do not stand above, such as the share of each group that gets an answer.",
        "What the decisions lead to.",
    ]
    if not purpose:
        lines.append("Whether the model suits its purpose: none was stated.")
    return Section("What was not tested", lines)
