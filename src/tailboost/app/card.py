"""The model card: what is known of a model, its certificate, rule, further rows and monitor."""

import io
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Self

from tailboost.core import (
    Column,
    FilePath,
    Groups,
    Model,
    Stated,
    Table,
    frozen_value,
    html_table,
    listed,
    versions,
    write_output,
)
from tailboost.guarantees.certify import certify
from tailboost.guarantees.monitor import Monitor
from tailboost.learners.base import titles_of
from tailboost.plotting import LimitsDisplay

# What a card states of every model, or that nobody has stated it.
STATED = ("version", "owner", "purpose", "training data")
DRIFT = (
    "Test later rows with labels by a monitor, batch by batch. An alarm contradicts a bound "
    "for good: rely no longer on the certificate, and calibrate again on new rows."
)


@frozen_value
class ModelCard:
    """The card of a model, made by `of`.

    Attributes
    ----------
    title : str
        The title.
    verdicts : list of str
        What is certified, and whether further rows or a monitor contradict it.
    sections : dict of str to str
        Texts by heading.
    tables : dict of str to str
        The tables of these texts as HTML.
    picture : str
        The limits as SVG.
    facts : dict of str to str
        What is known of the model, by name.
    """

    title: str
    verdicts: list[str]
    sections: dict[str, str]
    tables: dict[str, str]
    picture: str
    facts: dict[str, str]

    @classmethod
    def of(
        cls,
        model: Model,
        X: Table,
        y: Column,
        *,
        groups: Groups = None,
        clusters: Column = None,
        rates: Stated = None,
        monitor: Monitor | None = None,
        purpose: str = "",
        about: Mapping[str, str] | None = None,
        title: str = "",
        rows_are: str = "",
    ) -> Self:
        """Return the card of a model, with its certificate compared with further fresh rows.

        A model without a certificate, or with ``rates``, is certified on these rows.

        Parameters
        ----------
        model : fitted classifier
            Of `tailboost.calibrate`, `tailboost.tune`, or any other.
        X, y : array-like of shape (n, d), (n,)
            Fresh rows and their labels.
        groups, clusters : optional
            As in `tailboost.certify`.
        rates : list of Rate, Limit or str, optional
            What is certified on these rows, as in `tailboost.certify`: a tail has no other certificate.
        monitor : Monitor, optional
            Of later batches.
        purpose : str, optional
            The purpose of the model.
        about : mapping of str to str, optional
            What else is known of the model, such as its name, version and owner, and the training data. The
            card says which of these nobody has stated.
        title, rows_are : str, optional
            The title of the card, by default with the name or class of the model, and the name of the rows.

        Examples
        --------
        >>> import numpy as np
        >>> import tailboost as tb
        >>> rng = np.random.default_rng(0)
        >>> p = rng.random((3000, 1))
        >>> y = (rng.random(3000) < p[:, 0]).astype(int)
        >>> rule = tb.calibrate(tb.Scores(0, 1), p[:2000], y[:2000], limits=["miss(1) <= 40%"])
        >>> about = {"name": "Example", "owner": "Nobody"}
        >>> card = tb.ModelCard.of(rule, p[2000:], y[2000:], purpose="To show a card.", about=about)
        >>> card.title
        'Model card of Example'
        >>> list(card.sections)
        ['Model', 'Certificate', 'Rule', 'Further rows', 'Assumptions', 'Not tested', 'If rows change']
        """
        # 1. The certificate is of these rows, or it is that of the model, and these rows are monitored.
        rows = {"groups": groups, "clusters": clusters}
        stated = dict(about or {})
        certificate = getattr(model, "certificate_", None)
        monitors = {}
        if certificate is None or rates is not None:
            certificate = certify(model, X, y, rates=rates, **rows)
            stated.pop("certified on", None)  # of a certificate that the model no longer has
        else:
            heading = f"Further rows ({rows_are})" if rows_are else "Further rows"
            monitors[heading] = Monitor(model).add(X, y, name=heading, **rows)
        if monitor:
            Monitor(model, monitor.certificate)  # raises ValueError if it is about another rule
            monitors["Monitor"] = monitor
        # 2. Their verdicts, texts and tables.
        verdicts = [certificate.title]
        tables = {"Certificate": html_table(*certificate.cells())}
        texts = {}
        for heading, each in monitors.items():
            verdict, _, texts[heading] = str(each).partition("\n\n")
            verdicts.append(f"{heading}: {verdict}")
            tables[heading] = html_table(*each.cells())
        # 3. What is stated, and what nobody has tested.
        if purpose:
            stated["purpose"] = purpose
        name = stated.pop("name", type(model).__name__)
        not_tested = (
            "Whether the recorded rows and labels are correct.\nRows unlike the measured ones.\n"
            "The consequences of the answers."
        )
        if monitor is None:
            not_tested += "\nLater rows: the card has no monitor."
        if not certificate.groups_named:
            not_tested += "\nGroups of rows: no limit is by group."
        if "purpose" not in stated:
            not_tested += "\nFitness for a purpose: none was stated."
        facts = _facts(model, certificate, stated)
        sections = {
            "Model": "\n".join(map(": ".join, facts.items())),
            "Certificate": str(certificate).partition("\n\n")[2],
            "Rule": str(getattr(model, "rule_", "")),
            **texts,
            "Assumptions": certificate.assumptions,
            "Not tested": not_tested,
            "If rows change": DRIFT,
        }
        return cls(
            title or f"Model card of {name}",
            verdicts,
            {heading: text for heading, text in sections.items() if text},
            tables,
            _picture(certificate),
            facts,
        )

    def __str__(self) -> str:
        sections = map("\n\n".join, self.sections.items())
        return "\n\n".join([self.title, "\n".join(self.verdicts), *sections])

    def to_html(self) -> str:
        """Return the card as a page without scripts and requests."""
        try:
            from jinja2 import Environment, PackageLoader
        except ImportError as error:
            raise ImportError("a card needs jinja2: pip install 'tailboost[app]'") from error
        pages = Environment(
            loader=PackageLoader("tailboost", "app"),
            autoescape=True,
            trim_blocks=True,
        )
        return pages.get_template("card.html.j2").render(card=self)

    def save(self, path: FilePath) -> None:
        """Write the card as an HTML page, completely or not at all.

        Parameters
        ----------
        path : str or path
            The file.
        """
        write_output(path, self.to_html())


def _facts(model: Any, certificate: Any, stated: Mapping[str, str]) -> dict[str, str]:
    """Return what is known of a model, each fact and its name in a line."""
    facts = {"class": type(model).__name__, **dict.fromkeys(STATED, "not stated"), **stated}
    with suppress(AttributeError, ValueError):  # a rule of a file has no selection data
        facts["rule selected on"] = model.rates_.words
    columns = titles_of(model)
    if columns:
        facts["columns"] = f"{len(columns):,}: {listed(columns)}"
    facts["certificate"] = f"{certificate.date} (UTC), digest {certificate.to_dict()['digest']}"
    if certificate.rule:
        facts["digest of the rule"] = certificate.rule
    facts["card"] = f"{datetime.now(UTC):%Y-%m-%d} (UTC)"
    facts["libraries"] = ", ".join(f"{name} {version}" for name, version in versions().items())
    lines = {
        " ".join(name.split()): " ".join(f"{fact}".split()) for name, fact in facts.items()
    }
    return {f"{name[:1].upper()}{name[1:]}": fact for name, fact in lines.items() if name}


def _picture(certificate: Any) -> str:
    """Return the limits of a certificate as SVG, in the colour of the text around it."""
    from matplotlib import style
    from matplotlib.figure import Figure

    lines = certificate.limit_lines()
    with style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "card"}]):
        figure = Figure(figsize=(5.4, 0.55 * len(lines) + 0.6), layout="constrained")
        LimitsDisplay(lines).plot(figure.subplots())
        text = io.StringIO()
        figure.savefig(
            text,
            format="svg",
            transparent=True,
            metadata=dict.fromkeys(["Creator", "Date", "Format", "Type"]),
        )
    svg = text.getvalue()
    return svg[svg.index("<svg") :].replace("stroke: #000000", "stroke: currentColor")
