"""``tradeoff``: the curve of two rates of a stored model, and the model of one of its points."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tailboost.app.cli import options as given
from tailboost.app.cli.inspect import warn_of_leakage
from tailboost.app.cli.models import StoredModel, check_model_output
from tailboost.app.cli.rates import read_curve_rate, spelled
from tailboost.app.cli.shared import (
    BadInput,
    bad_input,
    check_output,
    plain_table,
    say,
    tell,
    tell_json,
    warnings_as_lines,
)
from tailboost.core.output import write_output

PICTURES = (".png", ".svg", ".pdf")


def tradeoff(
    model: given.Model,
    data: Annotated[
        Path | None,
        typer.Argument(metavar="[DATA]", help="New rows, CSV or Parquet, on which predict is measured."),
    ] = None,
    target: given.Labels = None,
    out: Annotated[
        Path | None, given.option("FILE", "File of the curve: .csv, .json, .png, .svg or .pdf.")
    ] = None,
    limited: Annotated[
        str | None,
        given.option(
            "RATE",
            "Rate that is limited along the curve: 'gap(selected(yes, by=sex))', 'largest(error(by=cell))'. "
            "Default: the rate of the fit's first limit, or the overall error.",
        ),
    ] = None,
    objective: Annotated[
        str | None, given.option("RATE", "With --limited: rate to minimise; default: the overall error.")
    ] = None,
    deferred: Annotated[
        list[float] | None,
        given.option(
            "X",
            "Largest fraction of deferred rows, as 5%; may be repeated, for a curve each.",
            "--deferred",
            parser=given.level,
        ),
    ] = None,
    pick: Annotated[
        float | None, given.option("X", "Limit of the point that --model stores.", parser=given.level)
    ] = None,
    picked: Annotated[
        Path | None, given.option("FILE", "Model file to write, with --pick.", "--model")
    ] = None,
    sep: given.Sep = ",",
    as_json: given.Json = False,
) -> None:
    """Print the trade-off curve of two rates. Nothing is trained.

    The curve is exact on the selection data. With DATA, the rates of predict on these rows are added to each
    point. --pick stores the model of one point.
    """
    if (pick is None) != (picked is None):
        raise BadInput("--pick and --model belong together: the limit of a point, and its model file")
    if picked is not None:
        check_model_output(picked, model, data)
    if out is not None:
        check_output("--out", out, model, data)
        if out.suffix not in (".csv", ".json", *PICTURES):
            raise BadInput(f"--out: {str(out)!r} must end in .csv, .json, {', '.join(PICTURES)}")
    if objective is not None and limited is None:
        raise BadInput("--objective: only with --limited, the other rate of the curve")
    if deferred and (pick is not None or data is not None):
        raise BadInput(
            "--deferred: not with DATA or --pick; for a model of one limit: `fit --limit 'deferred() <= .05'`"
        )
    asked = [
        read_curve_rate(option, text)
        for option, text in (("--limited", limited), ("--objective", objective))
        if text is not None
    ]
    stored = StoredModel.read(model)
    classifier, name = stored.classifier, type(stored.classifier).__name__
    if not hasattr(classifier, "tradeoff"):
        raise BadInput(f"{str(model)!r}: a {name} has no trade-off curve; use a method such as robustmixture")
    labels = classifier.classes_.tolist()
    rates = [spelled(rate, labels, stored.group_columns) for rate in asked]
    with bad_input(f"{model}: "), warnings_as_lines():
        curve = classifier.tradeoff(*rates, **({"deferred": deferred} if deferred else {}))
    measured = None
    if data is not None:
        purpose, columns = "measure on", stored.group_columns
        with stored.labelled_rows(data, sep, target, purpose=purpose, columns=columns) as rows:
            warn_of_leakage(classifier, rows.features)
            measured = curve.predicted(rows.features, rows.y, groups=rows.groups)
    shown = _Curves(list(curve.items()) if deferred else [(None, curve)], measured)
    if as_json:
        tell_json(shown.document())
    else:
        shown.print(data)
    if out is not None:
        with bad_input("--out: "):  # matplotlib may be missing
            write_output(out, shown.rendered(out.suffix))
        say(f"Curve{'s' if deferred else ''}: {out}")
    if pick is not None and picked is not None:
        with bad_input("--pick: "), warnings_as_lines():
            point = curve.at(pick)
        stored.save(point, picked, limit=pick)
        say(f"Model: {picked}, {curve.limited} within {pick:g}.")


@dataclass(frozen=True)
class _Curves:
    """Curves of two rates, each with the largest fraction of deferred rows (None if that is not limited)."""

    curves: Sequence[tuple[float | None, Any]]
    measured: Any = None  # both rates of predict on new rows, by point

    def numbers(self, deferred: float | None, curve: Any) -> dict[str, list[float]]:
        """Return the numbers of a curve by name."""
        numbers = {} if deferred is None else {"deferred": [deferred] * len(curve)}
        numbers |= {"limited": [p.limited for p in curve], "objective": [p.value for p in curve]}
        if self.measured is not None:
            limited, objective = self.measured
            numbers |= {"predict_limited": limited.tolist(), "predict_objective": objective.tolist()}
        return numbers

    def columns(self) -> dict[str, list[float]]:
        """Return the numbers of all curves by name, one after the other."""
        tables = [self.numbers(*pair) for pair in self.curves]
        return {name: [x for table in tables for x in table[name]] for name in tables[0]}

    def document(self) -> Any:
        """Return the curves for JSON: a list if deferral is limited."""
        documents = []
        for deferred, curve in self.curves:
            numbers = self.numbers(deferred, curve)
            numbers.pop("deferred", None)
            names = {"limited": str(curve.limited), "objective": str(curve.objective), "curve": numbers}
            documents.append(names if deferred is None else {"deferred": deferred} | names)
        return documents[0] if self.curves[0][0] is None else documents

    def print(self, data: Path | None) -> None:
        """Print the points as a table."""
        first, columns = self.curves[0][1], self.columns()
        headings = {
            "deferred": "deferred at most",
            "limited": str(first.limited),
            "objective": str(first.objective),
            "predict_limited": "predict: first rate",
            "predict_objective": "predict: second rate",
        }
        cells = [[f"{x:g}" if name == "deferred" else f"{x:.4f}" for x in columns[name]] for name in columns]
        plain_table([headings[name] for name in columns], list(zip(*cells, strict=True)), left=0)
        hint = " --pick X stores the model of a limit." if self.curves[0][0] is None else ""
        which = "All columns are" if data is None else "The first two columns are"
        tell(f"{which} measured on the selection data; the rates on new rows differ.{hint}")
        if data is not None:
            tell(f"predict: the same two rates on the rows of {data.name}.")

    def rendered(self, suffix: str) -> str | bytes:
        """Return the content of a file with this suffix."""
        if suffix == ".json":
            return json.dumps(self.document(), indent=1) + "\n"
        if suffix == ".csv":
            columns = self.columns()
            rows = zip(*columns.values(), strict=True)
            lines = [",".join(columns), *(",".join(repr(float(x)) for x in row) for row in rows)]
            return "\n".join(lines) + "\n"
        from matplotlib.figure import Figure

        figure, picture = Figure(figsize=(6.4, 4.4), layout="constrained"), io.BytesIO()
        self.draw(figure.subplots())
        figure.savefig(picture, format=suffix[1:])
        return picture.getvalue()

    def draw(self, ax: Any) -> None:
        """Draw the curves on axes of matplotlib."""
        from tailboost.app.plotting import TradeOffDisplay

        for deferred, curve in self.curves:
            here, name = tuple(curve.values), None if deferred is None else f"at most {deferred:.3g} deferred"
            points, selection = (here, None) if self.measured is None else (self.measured, here)
            rates: dict[str, Any] = {"limited_name": str(curve.limited), "objective": str(curve.objective)}
            TradeOffDisplay(*points, selection=selection, name=name, **rates).plot(ax=ax)
