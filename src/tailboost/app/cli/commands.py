"""The eleven commands."""

from __future__ import annotations  # help loads no part that an annotation names

import hashlib
import io
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import tailboost as tb
from tailboost.app.cli.attempts import held
from tailboost.app.cli.frame import ALARM, Printed, command, file_argument, say_aside
from tailboost.app.cli.stored import MODEL, RULE, Stored, write
from tailboost.app.cli.tables import (
    TABLES,
    FileRows,
    Form,
    Reader,
    Roles,
    check_output,
    option,
    several,
)
from tailboost.core import Arguments, as_known, frozen_value, write_output


def _number(given: Any) -> float:
    """Return a number, which may be written in percent."""
    text = str(given)
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number such as .3 or 30%") from None
    if text.endswith("%"):
        number /= 100
    return number


def _rate(given: Any) -> float | dict[str, float]:
    """Return a number, or the number of each group from a text such as ``f=.2,m=18%``."""
    if "=" not in given:
        return _number(given)
    pairs = [part.rpartition("=") for part in given.split(",")]
    rates = {name.strip(): _number(number) for name, _, number in pairs}
    if len(rates) < len(pairs):
        raise typer.BadParameter(f"{given!r} names a group twice")
    return rates


def _fact(given: Any) -> tuple[str, str]:
    """Return the name and the value of a fact such as ``owner=Risk``."""
    name, _, value = (part.strip() for part in given.partition("="))
    if not name or not value:
        raise typer.BadParameter(f"{given!r} is no fact such as owner='Credit risk'")
    return name.lower(), value


Data = Annotated[Path, file_argument("DATA", "CSV or Parquet file.")]
Model = Annotated[Path, file_argument("MODEL", "Model file (.model) or rule file (.json).")]
Limits = Annotated[
    list[str], several("LIMIT", "Limit such as 'miss(yes, by=sex) <= 10%'; may be repeated.")
]
Groups = Annotated[list[str], several("COL", "Column of groups; may be repeated.")]
Cluster = Annotated[str | None, option("Column of persons or sites, whose rows stay together.")]
Objective = Annotated[
    str | None,
    option("Rate to minimise; by default error beside limits, otherwise worst_class."),
]
Confidence = Annotated[
    float, option("Probability that all statements hold together.", parser=_number)
]
About = Annotated[
    list[Any],
    several(
        "KEY=VALUE",
        "Fact for the card, such as owner=Risk, kept in the file; may be repeated.",
        parser=_fact,
    ),
]
Out = Annotated[Path, option("File to write.")]
#: `command` reads it.
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@frozen_value
class RowColumns:
    """The columns of labels and clusters."""

    target: Annotated[
        str | None, option("Column of the labels; by default that of the model.")
    ] = None
    cluster: Cluster = None


@frozen_value
class Aims:
    """What a rule is selected for."""

    limit: Limits
    group: Groups
    by_group: Annotated[
        str | None,
        option("Column of groups that get thresholds of their own; of two columns make one."),
    ] = None
    objective: Objective = None

    @property
    def groups(self) -> list[str | None]:
        """All columns of groups."""
        return [*self.group, self.by_group]

    def settings(self) -> Arguments:
        """Return the stated ones as arguments of the library."""
        stated = {"limits": self.limit, "by_group": self.by_group, "objective": self.objective}
        return {name: given for name, given in stated.items() if given}


@frozen_value
class ScoreColumns:
    """The columns of scores, and what they mean; false if there are none."""

    score: Annotated[
        list[str], several("COL", "Column of a score; one for each label if repeated.")
    ]
    positive: Annotated[
        list[str],
        several(
            "LABEL",
            "Label of high scores, once for each --score; by default the end of its name.",
        ),
    ]
    kind: Annotated[
        Literal["probability", "percent", "logit", "number"],
        option("What the score is; of a number only the order matters."),
    ] = "probability"
    missing: Annotated[
        float | None, option("Score of rows without one, which are refused otherwise.")
    ] = None

    def __bool__(self) -> bool:
        return bool(self.score)

    def of(self, rows: FileRows) -> tb.Scores:
        """Return the scores, with labels of the table."""
        positive = self.positive or [name.rpartition("_")[2] for name in self.score]
        if len(positive) != len(self.score):
            raise ValueError(f"--positive is needed once for each --score, got {len(positive)}")
        labels = as_known(positive, rows.labels.dropna().unique())
        return tb.Scores(self.score, labels, kind=self.kind, missing=self.missing)


@command
def example(
    folder: Annotated[Path, typer.Argument(help="Folder for the files.")] = Path("."),
) -> Printed:
    """Write the bundled table of credit card clients as train.csv, tune.csv and test.csv."""
    import numpy as np

    data = tb.datasets.load_credit_default()
    table = data.data.assign(
        SEX=data.groups["sex"].astype(str), default=np.where(data.target == 1, "yes", "no")
    )
    paths = [folder / name for name in ("train.csv", "tune.csv", "test.csv")]
    for path in paths:
        if path.exists():
            raise ValueError(f"{str(path)!r} exists; give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(0).permutation(len(table))
    for path, rows in zip(paths, np.split(order, [15000, 22500]), strict=True):
        write_output(path, table.iloc[rows].to_csv(index=False))
        yield f"{path}: {len(rows):,} clients"


@command
def fit(
    *,
    data: Data,
    target: Annotated[str, option("Column to predict.")],
    out: Out,
    aims: Aims,
    drop: Annotated[list[str], several("COL", "Column that is no feature; may be repeated.")],
    cluster: Cluster = None,
    seed: Annotated[int, option("Seed of all random numbers.", min=0)] = 0,
    about: About,
    reader: Reader,
) -> Printed:
    """Train models, select a rule within the limits, and write both."""
    check_output(out, [MODEL], data)
    rows = reader.read(
        data, Roles(target).given(groups=aims.groups, cluster=cluster, drop=drop)
    )
    features = rows.features
    reader.refuse_odd(features)
    model = tb.RobustMixtureClassifier(**aims.settings(), random_state=seed)
    model.fit(**rows.given)
    facts = [("training data", f"{rows}, {len(features.columns):,} columns"), *about]
    write(model, out, rows.roles.given(features=tuple(features), about=facts))
    yield model.rates_


@command
def tune(
    *,
    data: Data,
    target: Annotated[str, option("Column of the labels.")],
    out: Out,
    scores: ScoreColumns,
    aims: Aims,
    about: About,
    reader: Reader,
) -> Printed:
    """Select thresholds on a column of scores within limits; nothing is trained or certified."""
    if not scores:
        raise ValueError("name the column of the scores by --score")
    check_output(out, [RULE], data)
    roles = Roles(target).given(groups=aims.groups, features=scores.score)
    rows = reader.read(data, roles)
    rule = tb.tune(
        scores.of(rows), rows.features, rows.labels, groups=rows.groups, **aims.settings()
    )
    write(rule, out, roles.given(about=[("rule selected on", f"{rows}"), *about]))
    yield rule.rates_
    yield rule.rule_


@command
def calibrate(
    *,
    model: Annotated[
        Path, file_argument("MODEL", "Model or rule file; with --score the table.")
    ],
    data: Annotated[Path | None, file_argument("[DATA]", "Table of fresh rows.")] = None,
    out: Out,
    scores: ScoreColumns,
    columns: RowColumns,
    aims: Aims,
    confidence: Confidence = 0.95,
    about: About,
    as_json: Json = False,
    reader: Reader,
) -> Printed:
    """Select the rule of least error whose limits are certified, on fresh rows.

    MODEL is a model file, a rule file, whose scores are calibrated, or with --score the table of fresh rows.
    """
    roles = {"groups": aims.groups, **vars(columns)}
    if scores:
        if data:
            raise ValueError("--score: give one table and no model")
        check_output(out, [RULE], model)
        rows = reader.read(model, Roles().given(**roles, features=scores.score))
        stored = Stored(scores.of(rows), rows.roles)
    else:
        if not data:
            raise ValueError("give the table of fresh rows after MODEL, or name its --score")
        if scores != ScoreColumns([], []):
            raise ValueError("--positive, --kind and --missing describe a --score")
        stored = Stored.read(model)
        check_output(out, [RULE if model.suffix == RULE else MODEL], model, data)
        rows = stored.rows(reader, data, **roles)
    rule = stored.calibrated(rows, confidence=confidence, **aims.settings())
    write(rule, out, rows.roles.given(about=[("certified on", f"{rows}"), *about]))
    yield rule.certificate_
    say_aside(f"Written: {out}. These rows are used up: other limits need other rows.")


@command
def certify(
    *,
    model: Model,
    data: Data,
    limit: Limits,
    columns: RowColumns,
    group: Groups,
    confidence: Confidence = 0.95,
    require: Annotated[bool, option("Exit with code 4 if a limit is not certified.")] = False,
    as_json: Json = False,
    reader: Reader,
) -> Printed:
    """Compute confidence bounds on the rates of a rule from fresh rows."""
    stored = Stored.read(model)
    rows = stored.rows(reader, data, groups=group, **vars(columns))
    stored.recall_attempts(data)
    certificate = tb.certify(
        stored.classifier, **rows.given, limits=limit or None, confidence=confidence
    )
    if require and certificate.certified is None:
        raise ValueError("--require: the rule has no limits; state each by --limit")
    yield certificate
    if require and not certificate.certified:
        raise tb.NotCertifiedError("--require: not all limits are certified")


@command
def predict(
    *,
    model: Model,
    data: Data,
    out: Annotated[
        Path | None, option("CSV or Parquet file to write; by default printed.")
    ] = None,
    id: Annotated[list[str], several("COL", "Column to repeat; may be repeated.")],
    default: Annotated[
        str | None, option("Answer to rows without a score or of an unknown group.")
    ] = None,
    reader: Reader,
) -> Printed:
    """Answer new rows."""
    import pandas as pd

    check_output(out, TABLES, model, data)
    stored = Stored.read(model)
    if default is not None and not stored.scores:
        raise ValueError("--default: only a rule file (.json) answers such rows")
    columns = ["row", "prediction", "deferred", *stored.probabilities, *id]
    if len({*columns}) < len(columns):
        raise ValueError(
            f"--id {' '.join(id)}: a column is named twice, or as one of the answers"
        )
    rows = stored.rows(reader, data, ids=id)
    answers = pd.DataFrame({"row": range(len(rows.table))})
    if id:
        answers[id] = rows.written(id)
    answers = answers.join(stored.answers(rows, default))
    if not out:
        yield reader.content(answers).removesuffix("\n")
    else:
        write_output(out, reader.content(answers, out))


@command
def rule(
    model: Model,
    sql: Annotated[bool, option("Print an SQL expression.")] = False,
    python: Annotated[bool, option("Print a Python function.")] = False,
    table: Annotated[
        str | None, option("Name of the table in SQL, before its columns.")
    ] = None,
    as_json: Json = False,
) -> Printed:
    """Print the rule as text, SQL, Python or JSON."""
    if sql + python + as_json > 1:
        raise ValueError("--sql, --python and --json exclude each other")
    if table and not sql:
        raise ValueError("--table: name a table with --sql")
    stored = Stored.read(model)
    if not isinstance(stored.classifier, tb.TunedClassifier):
        raise ValueError(f"{str(model)!r} has no rule: calibrate selects one on fresh rows")
    found = stored.classifier.rule_
    if sql:
        columns = {}
        if stored.scores and isinstance(found, tb.Rule):  # which knows no columns
            columns = {
                "columns": stored.scores.column_list,
                "label": stored.scores.label_list,
                "group": stored.classifier.by_group or None,
            }
        yield found.to_sql(**columns, table=table)
    elif python:
        yield found.to_python(label=found.label)
    else:
        yield found


def _monitor_of(rule: Any, state: Path) -> tb.Monitor:
    """Return the monitor of a rule with its state of a file, or a new one."""
    try:
        return tb.Monitor.from_dict(json.loads(state.read_text("utf-8")), rule)
    except FileNotFoundError:
        return tb.Monitor(rule)
    except ValueError as error:
        raise ValueError(f"{str(state)!r} is no state of its monitor: {error}") from None


@command
def monitor(
    *,
    model: Model,
    data: Data,
    out: Annotated[
        Path | None,
        option("State of the monitor, read and replaced; by default MODEL.monitor.json."),
    ] = None,
    columns: RowColumns,
    id: Annotated[str | None, option("Column of ids, which late labels need.")] = None,
    as_json: Json = False,
    reader: Reader,
) -> Printed:
    """Test the certified limits on a later batch; exit code 3 is an alarm."""
    state = out or model.with_suffix(".monitor.json")
    check_output(state, [RULE], model, data)
    stored = Stored.read(model)
    rows = stored.rows(reader, data, ids=[id], **vars(columns))
    given = rows.unlabelled  # by --id, labels may come in a later file
    if not id or columns.target or rows.roles.target in rows.table:
        given = rows.given
    with held(state, 20):
        after = _monitor_of(stored.classifier, state).add(
            **given, id=rows.written(id), name=data.stem
        )
        write_output(state, json.dumps(after.to_dict()))
    yield after
    if after.alarms:
        raise typer.Exit(ALARM)


@command
def card(
    *,
    model: Model,
    data: Data,
    out: Out,
    purpose: Annotated[str, option("Purpose of the model, in your words.")] = "",
    columns: RowColumns,
    monitor: Annotated[
        Path | None, option("State of `tailboost monitor`.", exists=True)
    ] = None,
    about: About,
    reader: Reader,
) -> Printed:
    """Write the model card, measured on further fresh rows."""
    check_output(out, [".html", ".htm"], model, data, monitor)
    stored = Stored.read(model)
    rows = stored.rows(reader, data, **vars(columns))
    stored.recall_attempts(data)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    tb.ModelCard.of(
        stored.classifier,
        **rows.given,
        purpose=purpose,
        about={
            "name": model.stem,
            **stored.roles.about,
            **dict(about),
            "file": f"sha256sum {model.name} gives {digest}",
        },
        rows_are=data.name,
        monitor=None if monitor is None else _monitor_of(stored.classifier, monitor),
    ).save(out)
    yield f"Card: {out}"


@command
def tradeoff(
    *,
    model: Annotated[Path, file_argument("MODEL", "Model file (.model) of fit.")],
    limited: Annotated[
        str | None,
        option("Rate that is limited along the curve; by default that of the first limit."),
    ] = None,
    objective: Objective = None,
    pick: Annotated[
        float | None,
        option("Limit of the point whose model --out stores, such as 5%.", parser=_number),
    ] = None,
    out: Annotated[
        Path | None, option("Picture, or CSV file of the curve; with --pick the model file.")
    ] = None,
    as_json: Json = False,
    form: Form,
) -> Printed:
    """Print the trade-off of two rates on the rows that selected the rule; nothing is trained."""
    if pick is not None and not out:
        raise ValueError("--pick needs --out, the model file to write")
    if form != Form() and (not out or out.suffix != ".csv"):
        raise ValueError("--sep and --decimal need --out, the CSV file of the curve")
    check_output(out, [".png", ".svg", ".pdf", ".csv"] if pick is None else [MODEL], model)
    stored = Stored.read(model)
    if stored.scores or not hasattr(stored.classifier, "tradeoff"):
        raise ValueError(
            f"{str(model)!r} has no trade-off curve: the command needs a model of fit"
        )
    curve = stored.classifier.tradeoff(limited, objective)
    if out and pick is not None:
        write(curve.at(pick), out, stored.roles)
    elif out and out.suffix == ".csv":
        import pandas as pd

        write_output(out, form.content(pd.DataFrame(curve.to_dict()["curve"])))
    elif out:
        picture = io.BytesIO()
        display = tb.plotting.TradeOffDisplay.from_curve(curve)
        display.figure_.savefig(picture, format=out.suffix[1:])
        write_output(out, picture.getvalue())
    yield curve


@command
def rows_needed(
    limit: Annotated[list[str], option("Limit to certify; may be repeated.", metavar="LIMIT")],
    rate: Annotated[
        list[Any],
        option(
            "True rate that you expect, such as 7% or f=7%,m=.1; once for each --limit.",
            parser=_rate,
            metavar="X",
        ),
    ],
    power: Annotated[float, option("Probability of the certificates.", parser=_number)] = 0.8,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> Printed:
    """Count the rows that certificates need."""
    yield tb.rows_needed(limit, rate, power=power, confidence=confidence)
