"""Model cards: the stated limits of a model and whether each is certified, data, rule, price and errors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.frozen import FrozenEstimator

from tailboost.app.page import page
from tailboost.app.report.charts import limits_chart
from tailboost.core.array_types import Column, FilePath, Groups, Model, Stated, Table
from tailboost.core.exceptions import LeakageError, warn_user
from tailboost.core.files import write_output
from tailboost.core.limit_lines import DEFERRED_OF_ALL, LimitLine, filled_columns
from tailboost.core.rate_words import bound_words, value_words
from tailboost.core.spelling import a_type_of, how_many, with_known_arguments
from tailboost.core.versions import versions as installed_versions
from tailboost.guarantees.certificates import (
    Cells,
    Certificate,
    bounds_table,
    certify,
    today,
)
from tailboost.guarantees.monitor import Monitor
from tailboost.guarantees.rate_bounds import CERTIFIED_WORDS, CertifiedBound, percent
from tailboost.guarantees.stated import as_model
from tailboost.rates import COMPARISONS, Limit
from tailboost.rates.bounds import clopper_pearson_interval
from tailboost.rates.strata import CELL, GROUP, names_in
from tailboost.rows.judged import judged, last_step, refuse_other_rule
from tailboost.rows.subgroups import DEFERRAL_COUNTED, HUMAN_REVIEW, without_cure

NOT_STATED = "Not stated."
FEW_ROWS = 30  # fewer rows of a class or group are marked, and listed among the limitations
NAMES_OF_SENTENCE = 20  # largest number of names in one sentence
UNCOMPARED = (
    "The training rows of the model are not known here, so these rows are not compared with "
    "them. On training rows errors are too small."
)
LIMITS = "Stated limits"
ERRORS = "Errors on new rows"
ERRORS_OF_CELLS = "Errors on new rows by label and group"
CALIBRATION_ROWS = "the calibration rows"  # unless notes name their file


@dataclass(frozen=True)
class Section:
    """Section of a card: a table (if ``heads`` is not empty), preformatted text, and sentences.

    A folded section opens by a click on a screen, and is not printed.
    """

    title: str
    lines: Sequence[str] = ()
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    code: str = ""
    is_folded: bool = False


@dataclass(frozen=True, repr=False)
class ModelCard:
    """Stated limits with certificates, purpose, data, rule, price, errors and limitations of a model.

    ``print`` shows the headline; `save` writes the page.

    Attributes
    ----------
    title : str
        Heading.
    summary : str
        First sentence: whether each stated limit is certified; without limits, the worst class. Whether
        further rows agree, and an alarm of the monitor, follow.
    origin : str
        Date, versions and digests.
    sections : list of Section
        Sections in order.
    limits : tuple of LimitLine
        The stated limits with their verdicts, which the page draws.
    """

    title: str
    summary: str
    origin: str
    sections: list[Section]
    limits: tuple[LimitLine, ...] = ()

    @classmethod
    @with_known_arguments()
    def of(
        cls,
        model: Model,
        X: Table,
        y: Column,
        *,
        groups: Groups = None,
        clusters: Column = None,
        max_error: Stated = None,
        confidence: float = 0.95,
        equal_rows: Any = None,
        training_rows: Table = None,
        title: str = "Model card",
        purpose: str = "",
        rows_are: str = "the test rows",
        notes: Mapping[str, Any] | None = None,
        versions: Mapping[str, str] | None = None,
        digests: Mapping[str, str] | None = None,
        monitor: Monitor | None = None,
    ) -> Self:
        """Measure a model on fresh rows and describe it.

        The headline is about the limits of a calibrated rule and their certificate, otherwise about the
        limits of the fit, certified from these rows.

        Parameters
        ----------
        model : fitted classifier or rule
            A classifier of tailboost, a pipeline around it, or a rule of `tailboost.load_rule`.
        X, y : array-like of shape (n, d), (n,)
            Fresh rows, not used in training or selection, and their labels.
        groups, clusters, max_error, confidence, equal_rows, training_rows
            As in `tailboost.certify`. Without ``training_rows`` of a model of another library the card says
            that nobody knows the training rows.
        title, purpose, rows_are : str
            Heading, intended use of the model, and a name for the rows in sentences ("the clients of May").
        notes, versions : mapping, optional
            Training record of a model file (`tailboost.storage.models.read_notes`), and versions of the
            libraries; by default the installed ones.
        digests : mapping of str to str, optional
            SHA-256 of the files of model and rows, by the words for them.
        monitor : Monitor, optional
            The monitor of the model.

        Returns
        -------
        ModelCard

        Raises
        ------
        ValueError
            If an argument is not as in `tailboost.certify`, or the certificate of the monitor is about
            another rule.
        """
        notes = dict(notes or {})
        model = as_model(model)
        final = last_step(model)
        if monitor is not None:
            refuse_other_rule(monitor.certificate, model, "the certificate of the monitor")
        if not hasattr(model, "predict"):
            raise TypeError(
                f"ModelCard.of: the first argument is the model, and {a_type_of(model)} "
                "is none; the order is model, X, y"
            )
        row_arguments = {"groups": groups, "clusters": clusters, "equal_rows": equal_rows}
        measured = _Measured.on(
            model,
            X,
            y,
            rows_are,
            str(notes.get("calibrated") or CALIBRATION_ROWS),
            max_error,
            confidence,
            row_arguments,
            training_rows,
        )
        all_sections = [
            _stated_limits(measured, judged(final).stated_limits),
            _price(measured),
            *_errors(measured),
            Section("Purpose", [purpose or NOT_STATED]),
            _rule(final, notes),
            _training(model, notes, measured),
            _attempts(judged(final)),
            _evidence(monitor),
            _limitations(measured.errors_certificate, final),
            _not_tested(measured, purpose, groups, monitor),
        ]
        sections = [
            section for section in all_sections if section.lines or section.rows or section.code
        ]
        if versions is None:
            versions = installed_versions()
        origin = _origin(judged(final), versions, digests or {})
        limits = tuple(_limits_of(measured.limits_certificate))
        return cls(title, _summary(measured, monitor), origin, sections, limits)

    def __repr__(self) -> str:
        return (
            f"{self.title}: {self.summary}\n"
            f"{how_many(len(self.sections), 'section')}, written by card.save('card.html') or "
            "card.save('card.md')"
        )

    def save(self, path: FilePath) -> None:
        """Write the card as a page, by the ending of the name: HTML (.html) or Markdown (.md).

        Parameters
        ----------
        path : path-like
            File to write; an older one is replaced.

        Raises
        ------
        ValueError
            If the name has another ending.
        OSError
            If the file cannot be written.
        """
        contents = {".html": self.to_html, ".md": self.to_markdown}
        ending = Path(path).suffix.lower()
        if ending not in contents:
            raise ValueError(f"{os.fspath(path)!r} must end in .html or .md")
        write_output(path, contents[ending]())

    def to_markdown(self) -> str:
        """Return the card as Markdown."""
        blocks = [f"# {_escaped(self.title)}", _escaped(self.summary), _escaped(self.origin)]
        for section in self.sections:
            blocks.append(f"## {section.title}")
            if section.heads:
                heads, *rows = [
                    [_escaped(cell).replace("|", "\\|") for cell in row]
                    for row in (section.heads, *section.rows)
                ]
                alignment = ["---"] + ["---:"] * (len(heads) - 1)
                lines = [" | ".join(cells) for cells in (heads, alignment, *rows)]
                blocks.append("\n".join(f"| {line} |" for line in lines))
            if section.code:
                blocks.append(f"```text\n{section.code.replace('```', '` ` `')}\n```")
            blocks.append("\n".join(f"* {_escaped(line)}" for line in section.lines))
        return "\n\n".join(filter(None, blocks)) + "\n"

    def to_html(self) -> str:
        """Return the card as an HTML page without requests and scripts; the limits are drawn."""
        drawing = limits_chart(self.limits, numbers=False) if self.limits else ""
        return page("card.html.j2", card=self, drawings={LIMITS: drawing})


@dataclass(frozen=True)
class _Measured:
    """The certificates of a card, and the reasons why some are absent."""

    rows_name: str  # name of the rows of the card
    calibration_rows: str  # name of the rows of a calibrated rule's certificate
    calibrated: Certificate | None  # of a calibrated rule, from its calibration rows
    errors_certificate: Certificate | None = None  # from these rows, also without limits
    leakage: str = ""  # message: why the rows certify nothing
    rates_certificate: Certificate | None = None  # of the limits of the fit, from these rows
    recheck: Monitor | None = None  # of the calibrated certificate on the rows of the card
    rates_failure: str = ""  # message: why the rows certify no limits

    @classmethod
    def on(
        cls,
        model: Model,
        X: Table,
        y: Column,
        rows_name: str,
        calibration_rows: str,
        max_error: Stated,
        confidence: float,
        row_arguments: dict[str, Any],
        training_rows: Table,
    ) -> Self:
        """Certify a model on fresh rows; a calibrated rule keeps its certificate, which is tested."""
        final = last_step(model)
        calibrated = judged(final).certificate
        measured = cls(rows_name, calibration_rows, calibrated)
        options = {"confidence": confidence, "training_rows": training_rows, **row_arguments}
        try:
            errors_certificate = certify(model, X, y, max_error=max_error, rates=(), **options)
        except LeakageError as failure:
            lacks = "certifies nothing"
            if calibrated is not None:
                lacks = "has its certificate, and no errors on these rows"
            warn_user(f"the card {lacks}: {failure}")
            # The fault; the rest of the message is advice to the writer of the card.
            fault = str(failure).removeprefix("X: ").partition(". ")[0]
            return replace(measured, leakage=fault)
        measured = replace(measured, errors_certificate=errors_certificate)
        without_groups = _without_groups(final, row_arguments["groups"])
        if calibrated is not None and without_groups:
            warn_user(f"the card does not compare these rows with the limits: {without_groups}")
            return replace(measured, rates_failure=without_groups)
        try:
            if calibrated is not None:
                names = ("groups", "clusters")
                given = {name: row_arguments.get(name) for name in names}
                return replace(measured, recheck=Monitor(model, calibrated).add(X, y, **given))
            if getattr(final, "limits", None):
                return replace(measured, rates_certificate=certify(model, X, y, **options))
        except ValueError as failure:
            return replace(measured, rates_failure=without_groups or str(failure))
        return measured

    @property
    def training_rows_are_unknown(self) -> bool:
        """Whether nobody compared the rows of the card with the training rows of a model."""
        return self.errors_certificate is not None and self.errors_certificate.as_stated

    @property
    def compared_rows(self) -> list[str]:
        """Names of the rows that were compared with the training rows of the model."""
        certificates = {
            self.calibration_rows: self.calibrated, self.rows_name: self.errors_certificate
        }  # fmt: skip
        return [
            name
            for name, certificate in certificates.items()
            if certificate is not None and not certificate.as_stated
        ]

    @property
    def limits_certificate(self) -> Certificate | None:
        """The first certificate with limits or targets; None without any."""
        certificates = [self.calibrated, self.rates_certificate, self.errors_certificate]
        return next(filter(_limits_of, certificates), None)

    @property
    def in_percent(self) -> bool:
        """Whether the card has rates in percent: as its limits, and without limits as its headline."""
        return self.limits_certificate is None or self.limits_certificate.in_percent


def _escaped(text: str) -> str:
    """Return a text on one line with Markdown's special characters escaped."""
    line = " ".join(str(text).split())
    for mark in "\\`*_[]#":
        line = line.replace(mark, f"\\{mark}")
    return line.replace("<", "&lt;").replace(">", "&gt;")


def _limits_of(certificate: Certificate | None) -> list[LimitLine]:
    """Return the bounds of a certificate with a limit or target."""
    if certificate is None:
        return []
    return [line for line in certificate.limit_lines() if line.verdict]


def _summary(measured: _Measured, monitor: Monitor | None) -> str:
    """Return the sentences of a card: the verdict, whether further rows agree, an alarm of the monitor.

    The verdict is about the limits, or the reason why they are not certified. Without limits it is about the
    worst class.
    """
    sentences = []
    certificate = measured.limits_certificate
    if certificate is not None:
        sentences.append(_certified_limits(measured, certificate))
        sentences.extend(certificate.one_answer)  # for each group with a single answer
    elif measured.rates_failure:
        sentences.append(f"The stated limits are not certified: {measured.rates_failure}.")
    else:
        sentences.append(_worst_class(measured.errors_certificate, measured.rows_name))
    recheck = measured.recheck
    if recheck is not None:
        rows_name = measured.rows_name
        if measured.training_rows_are_unknown:
            rows_name += ", not compared with the training rows"
        outcome = "do not contradict the certificate"
        if recheck.alarms:
            titles = ", ".join(bound.title for bound in recheck.alarms)
            outcome = f"contradict the certificate: {titles}"
        sentences.append(f"Further rows ({rows_name}) {outcome}.")
    if monitor is not None and monitor.alarms:
        sentences.append(monitor.verdict)
    return " ".join(sentences)


def _certified_limits(measured: _Measured, certificate: Certificate) -> str:
    """Return a sentence with the number of certified limits."""
    verdicts = [line.good for line in _limits_of(certificate)]
    n_certified = verdicts.count(True)
    start = f"{n_certified} of {len(verdicts)}"
    if n_certified == len(verdicts):
        start = "All"
    sentence = (
        f"{start} stated limits are certified with {percent(certificate.confidence)} confidence, "
        f"from {certificate.rows_in_words()} ({_certifying_rows(measured, certificate)})"
    )
    if certificate.certified is None:  # a class or group without rows
        sentence += ", for the classes and groups among these rows"
    return f"{sentence}."


def _certifying_rows(measured: _Measured, certificate: Certificate) -> str:
    """Return the name of the rows of a certificate."""
    if certificate is measured.calibrated:
        return measured.calibration_rows
    return measured.rows_name


def _stated_limits(measured: _Measured, limits: Sequence[Limit]) -> Section:
    """Return the stated limits with verdicts, estimates, rates of further rows, and their meanings."""
    certificate = measured.limits_certificate
    if certificate is None:
        return Section(LIMITS, ["No limit is stated or tested on fresh rows."])
    meanings = {limit.rate.words: limit.rate.meaning for limit in limits}
    notes = [f"{words}: {meaning}." for words, meaning in meanings.items() if meaning]
    tells_answered_error = bool(certificate.price_words)
    for remark in certificate.remarks:
        is_told = tells_answered_error and remark.startswith(DEFERRAL_COUNTED)
        notes.append(DEFERRAL_COUNTED if is_told else remark)
    if certificate is measured.rates_certificate:  # the others have their notes elsewhere
        notes += certificate.notes
    else:
        notes.append(f"{certificate.assumed}.")
    recheck = measured.recheck
    if recheck is not None:
        false_alarm = percent(
            round(1.0 - recheck.certificate.confidence, 12)
        )  # 1 − .95 is .050000000000000044
        notes.append(
            f"If all certified bounds are true, a contradiction by {measured.rows_name} has a "
            f"probability of at most {false_alarm}."
        )
    return Section(LIMITS, notes, *_limits_table(measured, certificate))


def _limits_table(measured: _Measured, certificate: Certificate) -> Cells:
    """Return the limits of a certificate with the rates on its rows, on them without limits, on further rows.

    Limits that are not certified come first.
    """
    bounds = [bound for bound in certificate.bounds if bound.target is not None]
    bounds.sort(key=lambda bound: bound.certified is not False)
    shows_bounds = not all(bound.is_limit for bound in bounds)
    of_reference = certificate.price[0].of if certificate.price else ""
    tested_bounds = {}
    if measured.recheck is not None:
        rates = measured.recheck.batches[-1].errors
        for bound, (n, rate) in zip(measured.recheck.tested, rates, strict=True):
            tested_bounds[bound] = replace(bound, n=n, estimate=rate)

    def cells_of(bound: CertifiedBound) -> dict[str, str]:
        price = certificate.price_of(bound)
        further_rate = {}
        if bound in tested_bounds:
            further_rate[f"on {measured.rows_name}"] = _further_rate(tested_bounds[bound])
        return {
            "result": CERTIFIED_WORDS[bound.certified],
            f"on {_certifying_rows(measured, certificate)}": _rate_of_rows(bound, bound),
            "bound": bound.bound_text if shows_bounds else "",
            DEFERRED_OF_ALL: bound.deferred_text,
            of_reference: "" if price is None else price.cells(certificate.in_percent)[2],
            **further_rate,
            "reason": bound.reason,
        }

    return bounds_table(bounds, cells_of)


def _rate_of_rows(counted: CertifiedBound, bound: CertifiedBound) -> str:
    """Return an estimate and the number of its rows; a comparison of subgroups has no rows of its own."""
    if not counted.n or bound.subgroup in COMPARISONS:
        return counted.estimate_text
    return f"{counted.estimate_text} of {_marked(counted.n)}"


def _marked(n_rows: int) -> str:
    """Return a number of rows, with a mark if they are few."""
    return f"{n_rows:,} (few)" if 0 < n_rows < FEW_ROWS else f"{n_rows:,}"


def _further_rate(tested: CertifiedBound) -> str:
    """Return the rate of further rows, and whether it is beyond the certified bound."""
    if tested.estimate is None:
        return "not compared: no row"
    rate = _rate_of_rows(tested, tested)
    lower, upper = tested.sides
    if lower is not None and tested.estimate < lower:
        return f"{rate}: below"
    if upper is not None and tested.estimate > upper:
        return f"{rate}: above"
    return rate


def _origin(view: Any, versions: Mapping[str, str], digests: Mapping[str, str]) -> str:
    """Return the dates of card and certificate, the attempt, versions, and digests of model, rule and rows.

    ``view`` is the classifier as `judged` reads it.
    """
    parts = [today()]
    if view.certificate is not None and view.has_records:
        n_recorded = len(view.records.ledger.attempts)
        attempt = len(view.certificate.attempts) or n_recorded
        on_date = f" {view.certificate.date}" if view.certificate.date else ""
        if attempt:
            parts.append(f"certified{on_date} at attempt {attempt}")
        if n_recorded > attempt:
            parts.append(f"{n_recorded} attempts recorded")
    if versions:
        parts.append(", ".join(f"{name} {version}" for name, version in versions.items()))
    parts += [f"{name} {digest[:16]}" for name, digest in digests.items()]
    if view.rule_digest is not None:
        parts.append(f"rule {view.rule_digest[:16]}")
    return " · ".join(parts)


def _attempts(view: Any) -> Section:
    """Return the attempts to calibrate the fit, also the failed ones; an empty section is left out."""
    attempts = view.records.ledger.attempts if view.has_records else []
    told_in_the_head = len(attempts) == 1 and view.certificate is not None
    if not attempts or told_in_the_head:
        return Section("Attempts")
    rows = [
        [
            str(k),
            f"{attempt.rows.contents.n_rows:,}",
            value_words(attempt.spent, in_percent=True),
        ]
        for k, attempt in enumerate(attempts, start=1)
    ]
    lines = [
        "All attempts to calibrate this fit, certified or not. Their shares of the error "
        "probability sum to at most 100 %, so all certificates hold together."
    ]
    return Section(
        "Attempts", lines, ["attempt", "rows", "share of the error probability"], rows
    )


def _evidence(monitor: Monitor | None) -> Section:
    """Return the verdict of a monitor and its bounds; an empty section without a monitor.

    The page of the monitor itself has the evidence and draws the rates.
    """
    title = "Monitor"
    if monitor is None:
        return Section(title)
    # An alarm is in the headline.
    verdict = [] if monitor.alarms else [monitor.verdict]
    allowed_error = percent(round(1.0 - monitor.certificate.confidence, 12))
    meaning = (
        "If all bounds are true and the rows are independent draws, the probability of any "
        f"alarm, over all batches, is at most {allowed_error}."
    )
    return Section(title, [*verdict, meaning], *monitor.cells())


def _worst_class(certificate: Certificate | None, rows_name: str) -> str:
    """Return the headline of a card without limits: the class with the largest error, and a bound."""
    if certificate is None:
        return (
            f"Nothing is certified: {rows_name} are, or equal, rows of training or selection."
        )
    bounds = [bound for bound in certificate.bounds if bound.kind == "class"]
    for bound in bounds:
        if bound.estimate is None:
            return f"No row of {bound.name} is among the {certificate.n_rows:,} rows ({rows_name})."
    error, worst = max((bound.estimate or 0.0, bound.subgroup) for bound in bounds)
    # A rare class may have the largest bound without the largest error.
    largest = max(bounds, key=attrgetter("upper"))
    # Rounded up, since a bound must not shrink; 1e-9 absorbs the rounding of the product.
    upper_percent = np.ceil(1000 * largest.upper - 1e-9) / 10
    return (
        f"On {certificate.n_rows:,} new rows ({rows_name}) the worst class, {worst}, has an "
        f"error of {100 * error:.1f} %. With {percent(certificate.confidence)} confidence no "
        f"class has an error above {upper_percent:.1f} % on rows of the same distribution; "
        f"the largest bound is that of class {largest.subgroup}."
    )


def _kind(final: Model) -> str:
    """Return the class of a classifier; for a rule on fitted models their classes."""
    models = getattr(final, "estimators_", None) or []
    are_frozen = all(isinstance(model, FrozenEstimator) for model in models)
    if models and are_frozen and judged(final).rule is not None:
        names = [type(last_step(model.estimator)).__name__ for model in models]
        return f"decision rule on {' and '.join(dict.fromkeys(names))}"
    return type(final).__name__


def _training(model: Model, notes: Mapping[str, Any], measured: _Measured) -> Section:
    """Return the classifier, its training data according to the notes of a model file, and its features.

    Without notes it says which rows were compared with the training rows.
    """
    lines = [f"Classifier: {notes.get('classifier', _kind(last_step(model)))}."]
    if "rows" in notes:
        counts = [f"{n:,} of class {label}" for label, n in notes.get("classes", {}).items()]
        data = f"{notes['rows']:,} rows of {notes.get('data', 'a table')}"
        lines.append(f"Training data: {data}: {', '.join(counts)}.")
    elif measured.compared_rows:
        names = " and ".join(measured.compared_rows)
        lines.append(f"The training rows are not described. They were compared with {names}.")
    else:
        lines.append("The training data were not recorded.")
    recorded = {"created": "Date", "target": "Target", "group": "Groups", "weight": "Weights"}
    for key, name in recorded.items():
        value = notes.get(key)
        if isinstance(value, list):
            value = ", ".join(value)
        if value:
            lines.append(f"{name}: {value}.")
    excluded = notes.get("not_features")
    if excluded:
        lines.append(f"Columns that are no features: {', '.join(excluded)}.")
    # Of the whole pipeline: its last step has a column for each category.
    features = notes.get("features", getattr(model, "feature_names_in_", None))
    if features is not None:
        lines.append(f"Features: {', '.join(map(str, features))}.")
    elif hasattr(model, "n_features_in_"):
        lines.append(f"Features: {how_many(model.n_features_in_, 'column')} without names.")
    return Section("Training", lines)


def _errors(measured: _Measured) -> list[Section]:
    """Return the errors on new rows, with bounds unless the card has the certificate of a calibrated rule.

    Bounds of two certificates on other rows would not hold together. The errors of a class in a group are
    folded, unless they have a target.
    """
    certificate = measured.errors_certificate
    if certificate is None:
        return [Section(ERRORS, [f"Not measured: {measured.leakage}."])]
    with_bounds = measured.calibrated is None
    rows: list[dict[str, str]] = []
    rows_of_cells: list[dict[str, str]] = []
    for bound in certificate.bounds:
        if bound.kind == "worst":
            continue
        row = _error_row(replace(bound, in_percent=measured.in_percent), with_bounds)
        is_folded = bound.kind == "cell" and bound.target is None
        (rows_of_cells if is_folded else rows).append(row)
    counted = ""
    if certificate.counts_clusters:
        counted = f": at most one row of each of {certificate.rows_in_words('rows')} in a line"
    lines = [f"Measured on {measured.rows_name}{counted}. Each 95 % interval holds by itself."]
    if measured.training_rows_are_unknown and with_bounds:  # otherwise the headline says so
        lines.append(UNCOMPARED)
    if with_bounds:
        lines.append(
            f"The certified bounds hold simultaneously with {percent(certificate.confidence)} confidence."
        )
        stated = measured.rates_certificate
        said_before = () if stated is None else stated.notes
        lines += [note for note in certificate.notes if note not in said_before]
    return [
        Section(ERRORS, lines, *_filled(rows)),
        Section(ERRORS_OF_CELLS, [], *_filled(rows_of_cells), is_folded=True),
    ]


def _error_row(bound: CertifiedBound, with_bounds: bool) -> dict[str, str]:
    """Return an error with its interval, and if ``with_bounds`` its target and bound, as cells by heads."""
    interval = "–"
    if bound.estimate is not None:
        low, high = map(float, clopper_pearson_interval(bound.estimate, bound.n, 0.95))
        words = partial(bound_words, n_rows=bound.n, in_percent=bound.in_percent)
        interval = f"{words(low, above=False).removesuffix(' %')} to {words(high, above=True)}"
    return {
        "result": CERTIFIED_WORDS[bound.certified] if with_bounds else "",
        "error of": _rows_of(bound),
        "target": bound.limit if with_bounds else "",
        "rows": _marked(bound.n),
        "error": bound.estimate_text,
        "95 % interval": interval,
        "bound": bound.bound_text if with_bounds else "",
        "reason": bound.reason if with_bounds else "",
    }


def _rows_of(bound: CertifiedBound) -> str:
    """Return whose error a bound is about: all rows, a label, a group, or a label in a group."""
    name = bound.name.removeprefix(f"{bound.kind} ")
    return f"label {name}" if bound.kind == "class" else name


def _filled(rows: Sequence[Mapping[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Return the heads and cells of a table without its empty columns."""
    heads = list(rows[0]) if rows else []
    return filled_columns(heads, [list(row.values()) for row in rows])


def _price(measured: _Measured) -> Section:
    """Return the price of the limits of `calibrate`; an empty section without a price."""
    title = "Price of the limits"
    certificate = measured.calibrated
    if certificate is None:
        return Section(title)
    notes = list(certificate.price_words)
    if certificate.forced_by is not None:
        notes.append(certificate.forced_by.without_cures)
    # "These rows" would be the further rows of the card.
    notes = [note.replace("these rows", measured.calibration_rows) for note in notes]
    return Section(title, notes, *certificate.other_prices)


def _rule(final: Model, notes: Mapping[str, Any]) -> Section:
    """Return the decision rule as text, and whether it depends on groups.

    A classifier without a rule has the summary of its fit.
    """
    view = judged(final)
    features = set(notes.get("group", [])) - set(notes.get("not_features", []))
    lines = []
    for title in view.group_titles:
        column = "the group" if title is None else title
        if view.reads(title):
            lines.append(f"The rule reads {column}: an answer needs it.")
        elif title in features:
            lines.append(f"{column} is a feature: answers may depend on it.")
        else:
            lines.append(f"The rule does not read {column}; its inputs may still depend on it.")
    rule = view.rule
    if rule is not None:
        return Section("Decision rule", lines, code=without_cure(str(rule)))
    summary = getattr(final, "summary_", None)
    if summary is not None:
        lines.append(str(getattr(summary, "verdict", summary)))
    return Section("Decision rule", lines)


def _limitations(certificate: Certificate | None, final: Model) -> Section:
    """Return the subgroups with few rows or without a certified target, and the limits of any measurement."""
    lines = []
    bounds = certificate.bounds if certificate is not None else ()
    by_subgroup = [bound for bound in bounds if bound.kind in ("class", "group", "cell")]
    few = [_rows_of(bound) for bound in by_subgroup if 0 < bound.n < FEW_ROWS]
    none = [_rows_of(bound) for bound in by_subgroup if bound.n == 0]
    open_targets = [
        bound.name for bound in bounds if bound.target is not None and not bound.certified
    ]
    for limitation, names in (
        (f"Few rows (fewer than {FEW_ROWS})", few),
        ("No rows, and therefore no estimate", none),
        ("Targets that are not certified", open_targets),
    ):
        different_names = list(dict.fromkeys(names))  # a subgroup may have several bounds
        if names:
            lines.append(f"{limitation}: {', '.join(different_names[:NAMES_OF_SENTENCE])}.")
    answers = [str(label) for label in final.classes_]
    if judged(final).can_defer:
        answers.append(HUMAN_REVIEW)
    lines += [
        f"Each row gets one of the answers {', '.join(answers)}, also a row unlike all others before.",
        "The measurements hold for rows like the measured ones, not for later rows or other populations.",
    ]
    return Section("Limitations", lines)


def _without_groups(final: Model, groups: Groups) -> str:
    """Return a reason for a failure: the limits need groups, which are not given; empty if this is not so.

    The text names the columns of groups in the limits.
    """
    rates = [limit.rate for limit in judged(final).stated_limits if limit.rate.needs_groups]
    if groups is not None or not rates:
        return ""
    divisions = dict.fromkeys(name for rate in rates for name in names_in(rate.by))
    columns = [str(name) for name in divisions if name not in (GROUP, CELL)]
    list_of_columns = f" ({', '.join(columns)})" if columns else ""
    return f"the groups of the rows{list_of_columns} were not given"


def _not_tested(
    measured: _Measured, purpose: str, groups: Groups, monitor: Monitor | None
) -> Section:
    """Return the open questions of the card."""
    lines = []
    if measured.errors_certificate is None:
        lines.append("Errors on new rows.")
    if measured.training_rows_are_unknown:
        lines.append(
            f"Whether the models were trained on {measured.rows_name}; on training rows errors are too small."
        )
    if measured.rates_failure:
        lines.append(f"The stated limits on these rows: {measured.rates_failure}.")
    if groups is None:
        lines.append("Errors by group: the rows have no groups.")
    if monitor is None:
        lines.append("Later rows: the card has no monitor.")
    lines.append(
        "Correctness of the recorded rows and labels, calibration of the probabilities, "
        "consequences of the decisions."
    )
    if not purpose:
        lines.append("Fitness for the purpose: no purpose was stated.")
    return Section("Not tested", lines)
