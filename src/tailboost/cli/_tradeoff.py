"""``tradeoff``: what a lower worst error costs in mean error, and the model of a point of that curve."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tailboost._output import write_output
from tailboost.cli import _options as given
from tailboost.cli._inspect import warn_of_seen
from tailboost.cli._models import StoredModel
from tailboost.cli._rates import read_limited, spelled
from tailboost.cli._shared import (
    BadInput,
    bad_input,
    check_output,
    plain_table,
    say,
    tell,
    tell_json,
    warnings_as_lines,
)
from tailboost.storage import check_model_path

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
            "by default the rate of the first --limit of `fit`.",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="With --limited: what is made small; 'error()' by default."),
    ] = None,
    passed_on: Annotated[
        list[float] | None,
        typer.Option(
            "--passed-on",
            parser=given.level,
            metavar="SHARE",
            help="With --limited: a curve for each share of the rows that may be passed on to a person, as "
            "5%; may be repeated.",
        ),
    ] = None,
    pick: Annotated[
        float | None,
        typer.Option(
            parser=given.level,
            metavar="X",
            help="Mean error to spend above the least of a member, or with --limited the limit.",
        ),
    ] = None,
    picked: Annotated[
        Path | None, typer.Option("--model", metavar="FILE", help="Where to write the model of --pick.")
    ] = None,
    sep: given.Sep = ",",
    as_json: given.Json = False,
) -> None:
    """Show what a lower worst error costs in mean error, or one rate in another; nothing is trained.

    The curve is exact on the rows the shares were chosen on, and about the rule that draws, or where one
    member alone answers about `predict`; with DATA there is also what `predict` does on its rows along the
    curve. --pick writes the model of one point.
    """
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
    if objective is not None and limited is None:
        raise BadInput("--objective: only with --limited, the other rate of the curve")
    if passed_on and (limited is None or pick is not None):
        raise BadInput("--passed-on: only with --limited, and without --pick; --limit of `fit` makes a model")
    asked = None if limited is None else read_limited("--limited", limited)
    other = read_limited("--objective", objective or "error()")
    stored = StoredModel.read(model)
    if passed_on and data is not None:
        raise BadInput(
            "[DATA]: curves of --passed-on are on the rows they were chosen on; `evaluate` measures"
        )
    if asked is not None:
        curve = _rate_curve(stored, asked, other, **({"passed_on": passed_on} if passed_on else {}))
    else:
        curve = _curve(stored)
    if asked is not None or hasattr(curve, "limited"):  # a curve of two rates
        curves = list(curve) if passed_on else [(None, curve)]
        seen = None if data is None else _on_rows(stored, curve, data, target, sep)
        _show_rates(curves, seen, data, as_json)
        if out is not None:
            with bad_input("--out: "):
                write_output(out, _rendered_rates(curves, seen, out.suffix))
            say(f"Curve{'s' if passed_on else ''}: {out}")
        if pick is not None and picked is not None:
            _write_point(stored, curve, pick, picked, "limit", f"{curve.limited} within {pick:g}")
        return
    table = _table(curve, None if data is None else _on_rows(stored, curve, data, target, sep))
    _show(curve, table, data, as_json)
    if out is not None:
        with bad_input("--out: "):
            write_output(out, _rendered(curve, table, out.suffix, type(stored.classifier).__name__))
        say(f"Curve: {out}")
    if pick is not None and picked is not None:
        words = f"mean error at most {pick:g} above the least of a member on {curve.judged_on}"
        _write_point(stored, curve, pick, picked, "mean_budget", words)


def _curve(stored: StoredModel) -> Any:
    if not hasattr(stored.classifier, "tradeoff"):
        raise BadInput(
            f"{str(stored.path)!r}: a {type(stored.classifier).__name__} has no shares to choose, so no "
            "curve; a mixture is needed, such as robustmixture"
        )
    with bad_input(f"{stored.path}: "), warnings_as_lines():
        return stored.classifier.tradeoff()


def _rate_curve(stored: StoredModel, limited: Any, objective: Any, **more: Any) -> Any:
    if not hasattr(stored.classifier, "limits"):
        raise BadInput(f"--limited: {str(stored.path)!r} holds no robustmixture, whose rates can be chosen")
    labels = stored.classifier.classes_.tolist()
    one, other = (spelled(rate, labels, stored.groups, None) for rate in (limited, objective))
    with bad_input(f"{stored.path}: "), warnings_as_lines():
        return stored.classifier.tradeoff(one, other, **more)


def _show_rates(curves: list[Any], seen: Any, data: Path | None, as_json: bool) -> None:
    """Show curves of two rates, each after the share that may be passed on, if that is limited."""
    tables = [_rate_table(share, curve, seen) for share, curve in curves]
    if as_json:
        tell_json(_about_rates(curves, seen))
        return
    one = curves[0][1]
    names = {
        "passed_on": "passed on at most",
        "limited": str(one.limited),
        "objective": str(one.objective),
        "predict_limited": "predict: first rate",
        "predict_objective": "predict: second rate",
    }
    rows = [
        [f"{x:g}" if name == "passed_on" else f"{x:.4f}" for name, x in zip(table, row, strict=True)]
        for table in tables
        for row in zip(*table.values(), strict=True)
    ]
    plain_table([names[name] for name in tables[0]], rows, left=0)
    hint = "" if curves[0][0] is not None else " --pick X writes the model at a limit."
    what = "All are" if data is None else "The first two columns are"
    tell(f"{what} counted on the rows the model was chosen on; fresh rows differ.{hint}")
    if data is not None:
        tell(f"predict: the same two rates on the rows of {data.name}.")


def _rate_table(share: float | None, curve: Any, seen: Any) -> dict[str, list[float]]:
    """Return the columns of a curve of two rates by name."""
    points = list(curve)
    table = {} if share is None else {"passed_on": [share] * len(points)}
    table |= {"limited": [p.limited for p in points], "objective": [p.value for p in points]}
    if seen is not None:
        table |= {"predict_limited": seen[0].tolist(), "predict_objective": seen[1].tolist()}
    return table


def _about_rates(curves: list[Any], seen: Any) -> Any:
    tables = [
        ({} if share is None else {"passed_on": share})
        | {"limited": str(curve.limited), "objective": str(curve.objective)}
        | {"curve": _rate_table(None, curve, seen)}
        for share, curve in curves
    ]
    return tables if curves[0][0] is not None else tables[0]


def _rendered_rates(curves: list[Any], seen: Any, suffix: str) -> str | bytes:
    limits, one = curves[0][0] is not None, curves[0][1]
    if suffix == ".json":
        return json.dumps(_about_rates(curves, seen), indent=1) + "\n"
    if suffix == ".csv":
        tables = [_rate_table(share, curve, seen) for share, curve in curves]
        rows = [row for table in tables for row in zip(*table.values(), strict=True)]
        return "\n".join([",".join(tables[0]), *(",".join(map(repr, row)) for row in rows)]) + "\n"
    pairs = [([p.value for p in curve], [p.limited for p in curve]) for _, curve in curves]
    names = {"value": str(one.objective), "limited": str(one.limited)}
    if limits:
        from tailboost.plotting import DeferralDisplay

        display = DeferralDisplay([share for share, _ in curves], pairs, **names)
        return _picture(lambda ax: display.plot(ax=ax), suffix)

    def draw(ax: Any) -> None:
        ax.plot(*pairs[0], marker=".", label="rows it was chosen on")
        if seen is not None:
            ax.plot(seen[1], seen[0], marker=".", label="predict on other rows")
        ax.set(xlabel=names["value"], ylabel=names["limited"])
        ax.legend()

    return _picture(draw, suffix)


def _picture(draw: Callable[[Any], Any], suffix: str) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    draw(figure.subplots())
    picture = io.BytesIO()
    figure.savefig(picture, format=suffix[1:])
    return picture.getvalue()


def _on_rows(stored: StoredModel, curve: Any, data: Path, target: str | None, sep: str) -> Any:
    """Return both numbers of `predict` along the curve, on the rows of a file."""
    with warnings_as_lines():
        later = stored.rows_of(data, sep, purpose="measure on", columns=stored.groups)
        y = stored.labels_of(later, target)
        with bad_input(f"{data}: "):
            warn_of_seen(stored.classifier, later.rows)
            return curve.predicted(later.rows, y, groups=later.groups)


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
    from tailboost.plotting import TradeOffDisplay

    chosen = {"chosen_mean": curve.mean, "chosen_worst": curve.worst} if "predict_mean" in table else {}
    display = TradeOffDisplay(
        table.get("predict_mean", table["mean"]),
        table.get("predict_worst", table["worst"]),
        name=f"{name} on new rows" if chosen else name,
        objective=curve.objective,
        stepped=not curve.shared,
        **chosen,
    )
    return _picture(lambda ax: display.plot(ax=ax), suffix)


def _write_point(stored: StoredModel, curve: Any, pick: float, path: Path, note: str, words: str) -> None:
    """Write the model of one point of a curve, with the preparation and the notes of the first one."""
    with bad_input("--pick: "), warnings_as_lines():
        classifier = curve.at(pick)
    with bad_input("--model: "):
        stored.save(classifier, path, **{note: pick})
    say(f"Model: {path}, {words}.")
