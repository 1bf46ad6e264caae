"""``tradeoff``: the curve of two rates of a stored model, and the model of one of its points."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
import typer

from tailboost.app.cli import options, shared
from tailboost.app.cli.inspect import warn_of_leakage
from tailboost.app.cli.models import Reading, StoredModel, check_model_output
from tailboost.app.cli.rates import in_table_terms, read_curve_rate
from tailboost.app.cli.shared import BadInput
from tailboost.app.plotting.tradeoff_curve import SELECTED_RULE, TradeOffDisplay, plain_models
from tailboost.core.spelling import a_type_of

PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html", ".htm")
MOST_POINTS = 20  # points of a curve in the printed table


# Options of `tradeoff`.
NewRows = Annotated[
    Path | None,
    typer.Argument(
        metavar="[DATA]", help="New rows, CSV or Parquet, on which predict is measured."
    ),
]
CurveFile = Annotated[
    Path | None, options.option("FILE", "File of the curve: .csv, .json, .png, .svg or .pdf.")
]
Page = Annotated[
    Path | None, options.option("FILE", "HTML file with a slider over the points of the curve.")
]
Limited = Annotated[
    str | None,
    options.option(
        "RATE",
        "Rate that is limited along the curve: 'gap(selected(yes, by=sex))', "
        "'largest(error(by=cell))'. Default: the rate of the fit's first limit (of a recall "
        "one minus it; never a precision), or the overall error.",
    ),
]
Objective = Annotated[
    str | None,
    options.option("RATE", "With --limited: rate to minimise; default: the overall error."),
]
Deferred = Annotated[
    list[float] | None,
    options.option(
        "X",
        "Largest fraction of deferred rows, as 5%; may be repeated, for a curve each.",
        "--deferred",
        parser=options.number_or_percent,
    ),
]
Pick = Annotated[
    float | None,
    options.option(
        "X", "Limit of the point that --model stores.", parser=options.number_or_percent
    ),
]
PickedModel = Annotated[
    Path | None, options.option("FILE", "Model file to write, with --pick.", "--model")
]


def tradeoff(
    model: options.Model,
    data: NewRows = None,
    target: options.Labels = None,
    out: CurveFile = None,
    page: Page = None,
    limited: Limited = None,
    objective: Objective = None,
    deferred: Deferred = None,
    pick: Pick = None,
    picked: PickedModel = None,
    csv: options.CsvFormat = options.CSV,
    as_json: options.Json = False,
) -> None:
    """Print the trade-off curve of two rates. Nothing is trained.

    The curve is exact on the selection data. With DATA, the rates of predict on these rows are added to each
    point. --pick stores the model of one point. Of many points some are printed; --out and --json have all.
    """
    if (pick is None) != (picked is None):
        raise BadInput(
            "--pick and --model belong together: the limit of a point, and its model file"
        )
    if objective is not None and limited is None:
        raise BadInput("--objective: only with --limited, the other rate of the curve")
    if deferred:
        _refuse_beside_deferred(data, page, pick)
    _check_outputs(out, page, picked, model, data)
    rates = []
    if limited is not None:
        rates.append(read_curve_rate("--limited", limited))
    if objective is not None:
        rates.append(read_curve_rate("--objective", objective))
    stored = StoredModel.read(model)
    curve = _curve(stored, rates, deferred)
    curves = _Curves(curve if deferred else {None: curve})
    if data is not None:
        curves = curves.measured_on(stored, data, csv, target)
    if as_json:
        shared.tell_json(curves.document())
    elif not shared.is_quiet() or (out is None and page is None):
        curves.print(data)
    if out is not None:
        with shared.bad_input("--out: "):  # matplotlib may be missing
            shared.write_out(out, curves.rendered(out.suffix, csv))
        shared.say(f"Curve{'s' if deferred else ''}: {out}")
    if page is not None:
        with shared.bad_input("--page: "):  # jinja2 may be missing
            from tailboost.app.plotting import curve_page

            content = curve_page(curve, curves.measured)
        shared.write_out(page, content, "--page")
        shared.say(f"Page: {page}")
    if pick is not None and picked is not None:
        with shared.bad_input("--pick: "), shared.warnings_as_lines():
            picked_rule = curve.at(pick)
        stored.save(picked_rule, picked, limit=pick)
        shared.say(f"Model: {picked}, {curve.limited} within {pick:g}.")


def _refuse_beside_deferred(data: Path | None, page: Path | None, pick: float | None) -> None:
    """Raise `BadInput` for what one curve has, and several curves by --deferred have not."""
    if pick is not None or data is not None:
        raise BadInput(
            "--deferred: not with DATA or --pick; for a model of one limit: `fit --limit "
            "'deferred <= 5%'`"
        )
    if page is not None:
        raise BadInput("--page: not with --deferred; a page shows one curve")


def _check_outputs(
    out: Path | None, page: Path | None, picked: Path | None, model: Path, data: Path | None
) -> None:
    """Raise `BadInput` if a file cannot be written."""
    if picked is not None:
        check_model_output("--model", picked, model, data)
    outputs = [("--out", out, (".csv", ".json", *PICTURES)), ("--page", page, PAGES)]
    for option, path, endings in outputs:
        if path is None:
            continue
        shared.check_output(option, path, model, data)
        if path.suffix not in endings:
            raise BadInput(f"{option}: {str(path)!r} must end in {' or '.join(endings)}")


def _curve(stored: StoredModel, rates: Sequence[Any], deferred: Sequence[float] | None) -> Any:
    """Return the curve of two rates of a model; with limits on deferral a dict of curves by limit.

    ``rates`` are the limited and the minimised one. Absent ones are those of the fit.
    """
    classifier = stored.classifier
    if not hasattr(classifier, "tradeoff"):
        raise BadInput(
            f"{str(stored.path)!r}: {a_type_of(classifier)} has no trade-off curve; use "
            "a method such as robustmixture"
        )
    rates = in_table_terms(rates, classifier.classes_, stored.group_columns)
    limits_on_deferral = {"deferred": deferred} if deferred else {}
    with shared.bad_input(f"{stored.path}: "), shared.warnings_as_lines():
        return classifier.tradeoff(*rates, **limits_on_deferral)


@dataclass(frozen=True)
class _Curves:
    """Curves of two rates by the largest fraction of deferred rows (None if that is not limited)."""

    curves: Mapping[float | None, Any]
    measured: Any = None  # both rates of predict on new rows, by point
    # Both rates of the fit and its plain model there.
    compared: Mapping[str, Any] = field(default_factory=dict)

    def measured_on(
        self, stored: StoredModel, data: Path, csv: options.CsvFormat, target: str | None
    ) -> Self:
        """Return the only curve with the rates of predict on new rows."""
        (curve,) = self.curves.values()
        classifier = stored.classifier
        reading = Reading("measure on", stored.group_columns)
        with stored.labelled_rows(data, csv, target, reading) as rows:
            warn_of_leakage(classifier, rows)
            classifiers = {SELECTED_RULE: classifier, **plain_models(classifier)}
            return replace(
                self,
                measured=curve.predicted(rows.features, rows.y, groups=rows.groups),
                compared=curve.measured(classifiers, rows.features, rows.y, groups=rows.groups),
            )

    @property
    def points(self) -> pd.DataFrame:
        """The numbers of all curves, one after the other.

        The column "deferred" is the largest allowed fraction of a curve, "share_deferred" the one of a point.
        """
        tables = []
        for most_deferred, curve in self.curves.items():
            limited, objective = curve.values
            table = pd.DataFrame({"limited": limited, "objective": objective})
            if curve.deferred is not None:
                table["share_deferred"] = curve.deferred
            if most_deferred is not None:
                table.insert(0, "deferred", most_deferred)
            tables.append(table)
        points = pd.concat(tables, ignore_index=True)
        if self.measured is not None:
            points["predict_limited"], points["predict_objective"] = self.measured
        return points

    def document(self) -> Any:
        """Return the curves for JSON: a list if deferral is limited."""
        documents: list[dict[str, Any]] = []
        for deferred, curve in self.curves.items():
            about: dict[str, Any] = {} if deferred is None else {"deferred": deferred}
            about |= {"limited": str(curve.limited), "objective": str(curve.objective)}
            points = replace(self, curves={None: curve}).points
            documents.append(about | {"curve": points.to_dict("list")})
        if None in self.curves:
            return documents[0]
        return documents

    def _evenly_spread(self) -> list[int]:
        """Return the rows of `points` to print: at most `MOST_POINTS` of each curve, evenly spread."""
        rows: list[int] = []
        first_row = 0
        for curve in self.curves.values():
            n_points = len(curve.values[0])
            places = np.linspace(0, n_points - 1, min(n_points, MOST_POINTS))
            rows += (first_row + places.round().astype(int)).tolist()
            first_row += n_points
        return rows

    def print(self, data: Path | None) -> None:
        """Print points of the curves as a table; ``data`` are the new rows, if there are some."""
        points = self.points
        any_curve = next(iter(self.curves.values()))  # all have the same rates
        headings = {
            "deferred": "deferred at most",
            "limited": str(any_curve.limited),
            "objective": str(any_curve.objective),
            "share_deferred": "share deferred",
            "predict_limited": "predict: first rate",
            "predict_objective": "predict: second rate",
        }
        cells = points.map("{:.4f}".format)
        if "deferred" in points:
            cells["deferred"] = points["deferred"].map("{:g}".format)
        printed = cells.iloc[self._evenly_spread()]
        shared.plain_table(
            [headings[name] for name in points], printed.to_numpy().tolist(), left=0
        )
        if len(printed) < len(points):
            shared.tell(
                f"{len(printed)} of {len(points)} points; --out FILE.csv and --json have all."
            )
        note = "All columns are" if data is None else "The columns before predict are"
        note += f" measured {any_curve.on_rows}; the rates on new rows differ."
        if None in self.curves:  # deferral is not limited
            note += " --pick X stores the model of a limit."
        shared.tell(note)
        if data is not None:
            shared.tell(f"predict: the same two rates on the rows of {data.name}.")

    def rendered(self, suffix: str, csv: options.CsvFormat) -> str | bytes:
        """Return the content of a file with this suffix: JSON, CSV, or a drawing of all curves."""
        if suffix == ".json":
            return json.dumps(self.document(), indent=1) + "\n"
        if suffix == ".csv":
            return csv.text_of(self.points)
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        picture = io.BytesIO()
        ax = figure.subplots()
        for deferred, curve in self.curves.items():
            if deferred is None:
                display = TradeOffDisplay.of(curve, self.measured, self.compared)
            else:
                display = TradeOffDisplay(
                    *curve.values,
                    name=f"at most {deferred:.3g} deferred",
                    limited_name=str(curve.limited),
                    objective=str(curve.objective),
                )
            display.plot(ax=ax)
        figure.savefig(picture, format=suffix[1:])
        return picture.getvalue()
