"""``tradeoff``: what a limit on one rate costs in another, and the model of a point of that curve."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tailboost.app.cli import options as given
from tailboost.app.cli.inspect import warn_of_seen
from tailboost.app.cli.models import StoredModel, check_model_output
from tailboost.app.cli.rates import read_limited, spelled
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
MOST_LINES = 12


def tradeoff(
    model: given.Model,
    data: Annotated[
        Path | None,
        typer.Argument(metavar="[DATA]", help="Rows to measure predict on along the curve: CSV or Parquet."),
    ] = None,
    target: given.Labels = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The curve: .csv or .json, or a picture (.png, .svg, .pdf)."),
    ] = None,
    limited: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="What is limited along the curve: 'gap(selected(yes, by=sex))', 'largest(error(by=cell))'; "
            "by default the rate of the first --limit of `fit`, without limits the overall error.",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="With --limited: what is made small; by default the overall error.",
        ),
    ] = None,
    passed_on: Annotated[
        list[float] | None,
        typer.Option(
            "--passed-on",
            parser=given.level,
            metavar="SHARE",
            help="A curve for each share of the rows that may be deferred, as 5%; may be repeated.",
        ),
    ] = None,
    pick: Annotated[
        float | None,
        typer.Option(
            parser=given.level,
            metavar="X",
            help="The limit of the point, on the rate that is limited.",
        ),
    ] = None,
    picked: Annotated[
        Path | None, typer.Option("--model", metavar="FILE", help="Where to write the model of --pick.")
    ] = None,
    sep: given.Sep = ",",
    as_json: given.Json = False,
) -> None:
    """Show what a limit on one rate costs in another; nothing is trained.

    The curve is exact on the selection data. With DATA there are also the rates of predict on its rows along
    the curve. --pick writes the model of one point.
    """
    if (pick is None) != (picked is None):
        raise BadInput("--pick and --model belong together: what to spend, and where to write the model")
    if picked is not None:
        check_model_output(picked, model, data)
    if out is not None:
        check_output("--out", out, model, data)
        if out.suffix not in (".csv", ".json", *PICTURES):
            raise BadInput(f"--out: {str(out)!r} must end in .csv, .json, {', '.join(PICTURES)}")
    if objective is not None and limited is None:
        raise BadInput("--objective: only with --limited, the other rate of the curve")
    if passed_on and pick is not None:
        raise BadInput("--passed-on: without --pick; --limit of `fit` makes a model")
    asked = None if limited is None else read_limited("--limited", limited)
    other = None if objective is None else read_limited("--objective", objective)
    stored = StoredModel.read(model)
    classifier, named = stored.classifier, type(stored.classifier).__name__
    if passed_on and data is not None:
        raise BadInput(
            "[DATA]: curves of --passed-on are on the rows they were chosen on; `evaluate` measures"
        )
    if not hasattr(classifier, "tradeoff"):
        raise BadInput(
            f"{str(model)!r}: a {named} has no shares to choose, so no curve; a mixture is needed, such as "
            "robustmixture"
        )
    labels = classifier.classes_.tolist()
    rates = [spelled(rate, labels, stored.groups, None) for rate in (asked, other) if rate is not None]
    with bad_input(f"{model}: "), warnings_as_lines():
        curve = classifier.tradeoff(*rates, **({"passed_on": passed_on} if passed_on else {}))
    curves = list(curve.items()) if passed_on else [(None, curve)]
    seen = None
    if data is not None:
        with stored.judging(data, sep, target, purpose="measure on", columns=stored.groups) as (later, y):
            warn_of_seen(classifier, later.rows)
            seen = curve.predicted(later.rows, y, groups=later.groups)
    found = _of_rates(curves, seen, data)
    if as_json:
        tell_json(found.about)
    else:
        plain_table(found.headings, found.rows, left=0)
        for note in found.notes:
            tell(note)
        if len(found.rows) < (n := len(next(iter(found.columns.values())))):
            say(f"{len(found.rows)} of {n} points are shown; --out FILE.csv has all.")
    if out is not None:
        with bad_input("--out: "):  # a picture may lack what draws it
            write_output(out, found.rendered(out.suffix))
        say(f"Curve{'s' if passed_on else ''}: {out}")
    if pick is not None and picked is not None:
        with bad_input("--pick: "), warnings_as_lines():
            point = curve.at(pick)
        stored.save(point, picked, limit=pick)
        say(f"Model: {picked}, {curve.limited} within {pick:g}.")


@dataclass(frozen=True)
class _Shown:
    """A curve as it is printed and written."""

    columns: dict[str, list[float]]  # its numbers by name
    headings: list[str]
    rows: list[list[str]]  # what is printed of them
    notes: list[str]
    about: Any  # what --json prints
    document: Any  # what a .json file holds
    draw: Callable[[Any], Any]  # on axes of matplotlib

    def rendered(self, suffix: str) -> str | bytes:
        if suffix == ".json":
            return json.dumps(self.document, indent=1) + "\n"
        if suffix == ".csv":
            rows = zip(*self.columns.values(), strict=True)
            lines = [",".join(self.columns), *(",".join(repr(float(x)) for x in row) for row in rows)]
            return "\n".join(lines) + "\n"
        from matplotlib.figure import Figure

        figure, picture = Figure(figsize=(6.4, 4.4), layout="constrained"), io.BytesIO()
        self.draw(figure.subplots())
        figure.savefig(picture, format=suffix[1:])
        return picture.getvalue()


def _of_rates(curves: list[Any], seen: Any, data: Path | None) -> _Shown:
    """Show curves of two rates, each after the share that may be passed on, if that is limited."""
    one, by_share = curves[0][1], curves[0][0] is not None
    tables, abouts = [], []
    for share, curve in curves:
        points = list(curve)
        table = {"limited": [p.limited for p in points], "objective": [p.value for p in points]}
        if seen is not None:
            table |= {"predict_limited": seen[0].tolist(), "predict_objective": seen[1].tolist()}
        about = {"limited": str(curve.limited), "objective": str(curve.objective), "curve": table}
        abouts.append({"passed_on": share} | about if by_share else about)
        tables.append({"passed_on": [share] * len(points)} | table if by_share else table)
    columns = {name: [x for table in tables for x in table[name]] for name in tables[0]}
    headings = {
        "passed_on": "passed on at most",
        "limited": str(one.limited),
        "objective": str(one.objective),
        "predict_limited": "predict: first rate",
        "predict_objective": "predict: second rate",
    }
    rows = [
        [f"{x:g}" if name == "passed_on" else f"{x:.4f}" for name, x in zip(columns, row, strict=True)]
        for row in zip(*columns.values(), strict=True)
    ]
    hint = "" if by_share else " --pick X writes the model at a limit."
    what = "All are" if data is None else "The first two columns are"
    notes = [f"{what} counted on the rows the model was chosen on; fresh rows differ.{hint}"]
    notes += [] if data is None else [f"predict: the same two rates on the rows of {data.name}."]

    def draw(ax: Any) -> None:
        pairs = [(table["objective"], table["limited"]) for table in tables]
        names = {"value": str(one.objective), "limited": str(one.limited)}
        if by_share:
            from tailboost.app.plotting import DeferralDisplay

            DeferralDisplay([share for share, _ in curves], pairs, **names).plot(ax=ax)
            return
        from tailboost.app.plotting import TradeOffDisplay

        here = tables[0]["limited"], tables[0]["objective"]
        words: dict[str, Any] = {"limited_name": names["limited"], "objective": names["value"]}
        if seen is None:
            TradeOffDisplay(*here, **words).plot(ax=ax)
        else:
            TradeOffDisplay(*seen, selection=here, **words).plot(ax=ax)

    said: Any = abouts if by_share else abouts[0]
    return _Shown(columns, [headings[name] for name in columns], rows, notes, said, said, draw)
