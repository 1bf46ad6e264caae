"""``tradeoff``: what a lower worst error costs in mean error, and the model of a point of that curve."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.pipeline import Pipeline

from tailboost._output import write_output
from tailboost.cli._inspect import warn_of_seen
from tailboost.cli._models import StoredModel
from tailboost.cli._shared import (
    BadInput,
    Json,
    Labels,
    MeanBudget,
    Model,
    Quiet,
    Sep,
    Verbose,
    bad_input,
    check_output,
    exit_codes,
    plain_table,
    say,
    tell,
    tell_json,
    warnings_as_lines,
)
from tailboost.persistence import check_model_path, save_model

PICTURES = (".png", ".svg", ".pdf")
MOST_LINES = 12


def tradeoff(
    model: Model,
    data: Annotated[
        Path | None,
        typer.Argument(metavar="[DATA]", help="Rows to measure predict on along the curve: CSV or Parquet."),
    ] = None,
    target: Labels = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The curve: .csv or .json, or a picture (.png, .svg, .pdf)."),
    ] = None,
    pick: MeanBudget = None,
    picked: Annotated[
        Path | None, typer.Option("--model", metavar="FILE", help="Where to write the model of --pick.")
    ] = None,
    sep: Sep = ",",
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Show what a lower worst error costs in mean error; nothing is trained.

    The curve is exact on the rows the shares were chosen on, and about the rule that draws, or where one
    member alone answers about `predict`; with DATA there is also what `predict` does on its rows along the
    curve. --pick writes the model of one point.
    """
    with exit_codes(verbose, quiet):
        if (pick is None) != (picked is None):
            raise BadInput("--pick and --model belong together: what to spend, and where to write the model")
        inputs = [model] if data is None else [model, data]
        if picked is not None:
            check_output("--model", picked, *inputs)
            with bad_input("--model: "):
                check_model_path(picked)
        if out is not None:
            check_output("--out", out, *inputs)
            if out.suffix not in (".csv", ".json", *PICTURES):
                raise BadInput(f"--out: {str(out)!r} must end in .csv, .json, {', '.join(PICTURES)}")
        stored = StoredModel.read(model)
        curve = _curve(stored)
        table = _table(curve, None if data is None else _on_rows(stored, curve, data, target, sep))
        _show(curve, table, data, as_json)
        if out is not None:
            with bad_input("--out: "):
                write_output(out, _rendered(curve, table, out.suffix, type(stored.classifier).__name__))
            say(f"Curve: {out}")
        if pick is not None and picked is not None:
            _write_point(stored, curve, pick, picked)


def _curve(stored: StoredModel) -> Any:
    if not hasattr(stored.classifier, "tradeoff"):
        raise BadInput(
            f"{str(stored.path)!r}: a {type(stored.classifier).__name__} has no shares to choose, so no "
            "curve; a mixture is needed, such as worstclassboost"
        )
    with bad_input(f"{stored.path}: "), warnings_as_lines():
        return stored.classifier.tradeoff()


def _on_rows(stored: StoredModel, curve: Any, data: Path, target: str | None, sep: str) -> Any:
    """Return mean and worst error of `predict` along the curve, on the rows of a file."""
    with warnings_as_lines():
        later = stored.rows_of(data, sep, purpose="measure on")
        y = stored.labels_of(later, target)
        groups = later.table_of_groups(stored.groups)
        with bad_input(f"{data}: "):
            warn_of_seen(stored.classifier, later.rows)
            return curve.predicted(later.rows, y, groups=groups)


def _table(curve: Any, measured: Any) -> dict[str, Any]:
    """Return the columns of the curve's table by name."""
    table = {"mean_budget": curve.mean_budget, "mean": curve.mean, "worst": curve.worst}
    if measured is not None:
        table |= {"predict_mean": measured.mean, "predict_worst": measured.worst}
    return {name: np.asarray(column).tolist() for name, column in table.items()}


def _show(curve: Any, table: dict[str, Any], data: Path | None, as_json: bool) -> None:
    if as_json:
        about = {name: getattr(curve, name) for name in ("objective", "judged_on", "least_mean", "gap")}
        tell_json(about | {"data": None if data is None else str(data), "curve": table})
        return
    n = len(curve)
    shown = np.unique(np.linspace(0, n - 1, min(n, MOST_LINES)).round().astype(int))
    headings = ["--pick", "mean error", "worst error"]
    headings += ["predict: mean", "predict: worst"] * (data is not None)
    rows = [[f"{column[i]:.4f}" for column in table.values()] for i in shown]
    plain_table(headings, rows, left=0)
    tell(f"Worst error: {curve.objective}.")
    of = "the rule that draws" if curve.shared else "predict"
    tell(f"Mean and worst error are of {of}, on {curve.judged_on}; fresh rows differ.")
    if curve.fitted:
        tell("Members were fitted on these rows: errors on them are lower than on others.")
    if data is not None:
        tell(f"predict: the label with the largest share, on the rows of {data.name}.")
    if len(shown) < n:
        say(f"{len(shown)} of {n} points are shown; --out FILE.csv has all.")


def _rendered(curve: Any, table: dict[str, Any], suffix: str, name: str) -> str | bytes:
    if suffix == ".json":
        return json.dumps(curve.to_dict(), indent=1) + "\n"
    if suffix == ".csv":
        lines = [",".join(table)]
        lines += [",".join(repr(float(x)) for x in row) for row in zip(*table.values(), strict=True)]
        return "\n".join(lines) + "\n"
    from matplotlib.figure import Figure

    from tailboost.plotting import TradeOffDisplay

    chosen = {"chosen_mean": curve.mean, "chosen_worst": curve.worst} if "predict_mean" in table else {}
    display = TradeOffDisplay(
        table.get("predict_mean", table["mean"]),
        table.get("predict_worst", table["worst"]),
        name=f"{name}, {'predict' if chosen or not curve.shared else 'randomised'}",
        objective=curve.objective,
        stepped=not curve.shared,
        **chosen,
    )
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    display.plot(ax=figure.subplots())
    picture = io.BytesIO()
    figure.savefig(picture, format=suffix[1:])
    return picture.getvalue()


def _write_point(stored: StoredModel, curve: Any, pick: float, path: Path) -> None:
    """Write the model of one point of the curve, with the preparation and the notes of the first one."""
    with bad_input("--pick: "), warnings_as_lines():
        classifier = curve.at(pick)
    model = classifier
    if isinstance(stored.whole, Pipeline):
        model = Pipeline([*stored.whole.steps[:-1], (stored.whole.steps[-1][0], classifier)])
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with bad_input("--model: "):
        save_model(model, path, notes={**stored.notes, "mean_budget": pick, "reweighted": now})
    say(f"Model: {path}, mean error at most {pick:g} above the least of a member on {curve.judged_on}.")
