"""The model card: one page of the texts of certificate, rule, further rows and monitor."""

from __future__ import annotations

import io
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Self

from tailboost.app.plotting import LimitsDisplay
from tailboost.core.array_types import Column, FilePath, Groups, Model, Stated, Table
from tailboost.core.files import write_output
from tailboost.guarantees.certify import certify
from tailboost.guarantees.monitor import Monitor


@dataclass(frozen=True)
class ModelCard:
    """The card of a rule, made by `of`.

    Attributes
    ----------
    title : str
        The title.
    verdicts : list of str
        What is certified, and whether further rows or a monitor contradict it.
    sections : dict of str to str
        Texts by heading.
    picture : str
        The limits as SVG.
    """

    title: str
    verdicts: list[str]
    sections: dict[str, str]
    picture: str

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
        title: str = "Model card",
        rows_are: str = "Further rows",
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
        purpose, title, rows_are : str, optional
            The purpose of the model, the title of the card, and the name of the rows.

        Examples
        --------
        >>> import numpy as np
        >>> import tailboost as tb
        >>> rng = np.random.default_rng(0)
        >>> p = rng.random((3000, 1))
        >>> y = (rng.random(3000) < p[:, 0]).astype(int)
        >>> rule = tb.calibrate(tb.Scores(0, 1), p[:2000], y[:2000], limits=["miss(1) <= 40%"])
        >>> card = tb.ModelCard.of(rule, p[2000:], y[2000:], purpose="An example.")
        >>> list(card.sections)
        ['Purpose', 'Certificate', 'Rule', 'Further rows', 'Assumptions', 'Not tested']
        """
        rows = {"groups": groups, "clusters": clusters}
        certificate = getattr(model, "certificate_", None)
        further = None
        if certificate is None or rates is not None:
            certificate = certify(model, X, y, rates=rates, **rows)
        else:
            further = Monitor(model).add(X, y, name=rows_are, **rows)
        headline, _, text = str(certificate).partition("\n\n")
        verdicts = [headline]
        sections = {
            "Purpose": purpose,
            "Certificate": text,
            "Rule": str(getattr(model, "rule_", "")),
        }
        for name, tested in ((rows_are, further), ("Monitor", monitor)):
            if tested is not None:
                verdicts.append(f"{name}: {tested.verdict}")
                sections[name] = str(tested).partition("\n\n")[2]
        sections["Assumptions"] = certificate.assumptions
        not_tested = [
            "whether the recorded rows and labels are correct",
            "rows unlike the measured ones",
            "the consequences of the answers",
        ]
        if monitor is None:
            not_tested.append("later rows: the card has no monitor")
        if groups is None:
            not_tested.append("groups of rows: the rows have none")
        if not purpose:
            not_tested.append("fitness for a purpose: none was stated")
        sections["Not tested"] = "\n".join(
            f"{line[0].upper()}{line[1:]}." for line in not_tested
        )
        present = {name: content for name, content in sections.items() if content}
        return cls(title, verdicts, present, _picture(certificate))

    def __str__(self) -> str:
        parts = [self.title, "\n".join(self.verdicts)]
        parts += [f"{name}\n\n{text}" for name, text in self.sections.items()]
        return "\n\n".join(parts)

    def to_html(self) -> str:
        """Return the card as a page without scripts and requests."""
        try:
            from jinja2 import Environment
        except ImportError as error:
            raise ImportError("a card needs jinja2: pip install 'tailboost[app]'") from error
        source = (files("tailboost.app") / "card.html.j2").read_text(encoding="utf-8")
        template = Environment(
            autoescape=True, trim_blocks=True, lstrip_blocks=True
        ).from_string(source)
        return template.render(card=self)

    def save(self, path: FilePath) -> None:
        """Write the card as an HTML page, completely or not at all.

        Parameters
        ----------
        path : str or path
            The file.
        """
        write_output(path, self.to_html())


def _picture(certificate: Any) -> str:
    """Return the limits of a certificate as SVG, in the colour of the text around it."""
    from matplotlib import style
    from matplotlib.figure import Figure

    lines = certificate.limit_lines()
    with style.context(["default", {"svg.fonttype": "none", "svg.hashsalt": "card"}]):
        figure = Figure(figsize=(5.4, 0.55 * len(lines) + 0.6), layout="constrained")
        LimitsDisplay(lines).plot(figure.subplots())
        text = io.StringIO()
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=no_metadata)
    svg = text.getvalue()
    return svg[svg.index("<svg") :].replace("#000000", "currentColor")
