"""The eleven commands."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import tailboost as tb
from tailboost.app.cli.frame import ALARM, app, command, file, say, say_aside
from tailboost.app.cli.stored import MODEL, RULE, Stored, calibrated, write
from tailboost.app.cli.tables import Reader, Roles, Rows, check_output, option
from tailboost.core.files import held, write_output

__all__ = ["app"]

REVIEW = "human review"
PICTURES = (".png", ".svg", ".pdf")


def _number(given: Any) -> float:
    """Return a number, which may be written in percent."""
    text = str(given)
    try:
        if text.endswith("%"):
            return float(text[:-1]) / 100
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number such as .3 or 30%") from None


def _rate(given: Any) -> float | dict[str, float]:
    """Return a number, or the number of each group from a text such as ``f=.2,m=18%``."""
    text = str(given)
    if "=" not in text:
        return _number(text)
    pairs = [part.rpartition("=") for part in text.split(",")]
    rates = {name.strip(): _number(number) for name, _, number in pairs}
    if len(rates) < len(pairs):
        raise typer.BadParameter(f"{text!r} names a group twice")
    return rates


def _fact(given: Any) -> tuple[str, str]:
    """Return the name and the value of a fact such as ``owner=Risk``."""
    name, _, value = str(given).partition("=")
    if not name.strip() or not value.strip():
        raise typer.BadParameter(f"{given!r} is no fact such as owner='Credit risk'")
    return name.strip().lower(), value.strip()


Data = Annotated[Path, file("DATA", "CSV or Parquet file.")]
Model = Annotated[
    Path,
    file("MODEL", "Model file (.model) or rule file (.json)."),
]
Target = Annotated[str | None, option("Column of the labels; by default that of the model.")]
Limits = Annotated[
    list[str] | None,
    option(
        "Limit such as 'miss(yes, by=sex) <= 10%'; may be repeated.", "--limit", metavar="LIMIT"
    ),
]
Groups = Annotated[
    list[str] | None, option("Column of groups; may be repeated.", "--group", metavar="COL")
]
ByGroup = Annotated[
    str | None,
    option("Column of groups that get thresholds of their own; of two columns make one."),
]
Cluster = Annotated[str | None, option("Column of persons or sites, whose rows stay together.")]
Scores = Annotated[
    list[str] | None,
    option("Column of a score; one for each label if repeated.", "--score", metavar="COL"),
]
Positive = Annotated[
    list[str] | None,
    option(
        "Label of high scores, once for each --score; by default the end of its name.",
        metavar="LABEL",
    ),
]
Kind = Annotated[
    Literal["probability", "percent", "logit", "number"],
    option("What the score is; of a number only the order matters."),
]
Missing = Annotated[
    float | None, option("Score of rows without one, which are refused otherwise.")
]
Objective = Annotated[str | None, option("Rate to minimise; by default the overall error.")]
Confidence = Annotated[
    float, option("Probability that all statements hold together.", parser=_number, metavar="P")
]
About = Annotated[
    list[Any] | None,
    option(
        "Fact for the card, such as owner=Risk or version=2, kept in the file; may be repeated.",
        "--about",
        metavar="KEY=VALUE",
        parser=_fact,
    ),
]
Out = Annotated[Path, option("File to write.")]
Json = Annotated[bool, option("Print JSON.", "--json")]


def _scores(
    names: list[str], positive: list[str] | None, rows: Rows, kind: Any, missing: Any
) -> tb.Scores:
    """Return the scores of options, with labels of the table."""
    from tailboost.core.checks import positions

    if positive is None:
        positive = [name.rpartition("_")[2] for name in names]
    if len(positive) != len(names):
        raise ValueError(f"--positive is needed once for each --score, got {len(positive)}")
    known = rows.labels.dropna().unique().tolist()
    fault = f"no label of {rows.roles.target!r}, and is the label of high scores"
    places = positions(positive, list(map(str, known)), "--positive", fault)
    labels = [known[place] for place in places]
    if len(names) == 1:
        return tb.Scores(names[0], labels[0], kind=kind, missing=missing)
    return tb.Scores(names, labels, kind=kind, missing=missing)


@command
def example(
    folder: Annotated[Path, typer.Argument(help="Folder for the files.")] = Path("."),
) -> None:
    """Write the bundled table of credit card clients as train.csv, tune.csv and test.csv."""
    import numpy as np

    data = tb.datasets.load_credit_default()
    answers = np.where(data.target == 1, "yes", "no")
    table = data.data.assign(SEX=data.groups["sex"].astype(str), default=answers)
    order = np.random.default_rng(0).permutation(len(table))
    parts = dict(
        zip(("train.csv", "tune.csv", "test.csv"), np.split(order, [15000, 22500]), strict=True)
    )
    for name in parts:
        if (folder / name).exists():
            raise ValueError(f"{str(folder / name)!r} exists; give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in parts.items():
        write_output(folder / name, table.iloc[rows].to_csv(index=False))
        say(f"{folder / name}: {len(rows):,} clients")


@command
def fit(
    data: Data,
    target: Annotated[str, option("Column to predict.")],
    out: Out,
    reader: Reader,
    limit: Limits = None,
    group: Groups = None,
    by_group: ByGroup = None,
    drop: Annotated[
        list[str] | None, option("Column that is no feature; may be repeated.", metavar="COL")
    ] = None,
    cluster: Cluster = None,
    objective: Objective = None,
    seed: Annotated[int, option("Seed of all random numbers.", min=0)] = 0,
    about: About = None,
) -> None:
    """Train models, select a rule within the limits, and write both."""
    check_output(out, [MODEL], data)
    groups = [*(group or []), by_group]
    roles = Roles(target).given(groups=groups, cluster=cluster, drop=drop)
    rows = reader.read(data, roles)
    labels = rows.labels
    features = rows.features
    reader.refuse_odd(features)
    model = tb.RobustMixtureClassifier(
        limits=limit or (),
        objective=objective,
        by_group=by_group or False,
        random_state=seed,
    )
    model.fit(features, labels, **rows.beside)
    trained = f"{rows.words}, {len(features.columns):,} columns"
    facts = [("training data", trained), *(about or [])]
    write(model, out, rows.roles.given(features=tuple(features), about=facts))
    say(model.rates_)


@command
def tune(
    data: Data,
    score: Scores,
    target: Annotated[str, option("Column of the labels.")],
    out: Out,
    reader: Reader,
    limit: Limits = None,
    positive: Positive = None,
    kind: Kind = "probability",
    missing: Missing = None,
    group: Groups = None,
    by_group: ByGroup = None,
    objective: Objective = None,
    about: About = None,
) -> None:
    """Select thresholds on a column of scores within limits; nothing is trained or certified."""
    check_output(out, [RULE], data)
    roles = Roles(target).given(groups=[*(group or []), by_group], features=score)
    rows = reader.read(data, roles)
    rule = tb.tune(
        _scores(score or [], positive, rows, kind, missing),
        rows.features,
        rows.labels,
        groups=rows.groups,
        limits=limit or (),
        objective=objective,
        by_group=by_group or False,
    )
    facts = [("rule selected on", rows.words), *(about or [])]
    write(rule, out, roles.given(about=facts))
    say(f"{rule.rates_}\n{rule.rule_}")


@command
def calibrate(
    model: Annotated[
        Path,
        file("MODEL", "Model or rule file; with --score the table."),
    ],
    out: Out,
    reader: Reader,
    data: Annotated[Path | None, file("[DATA]", "Table of fresh rows.")] = None,
    limit: Limits = None,
    score: Scores = None,
    target: Target = None,
    positive: Positive = None,
    kind: Kind = "probability",
    missing: Missing = None,
    group: Groups = None,
    by_group: ByGroup = None,
    objective: Objective = None,
    cluster: Cluster = None,
    confidence: Confidence = 0.95,
    about: About = None,
    as_json: Json = False,
) -> None:
    """Select the rule of least error whose limits are certified, on fresh rows.

    MODEL is a model file, a rule file, whose scores are calibrated, or with --score the table of fresh rows.
    """
    columns = {"target": target, "groups": [*(group or []), by_group], "cluster": cluster}
    selected: Any = ()
    settings: dict[str, Any] = {"limits": limit, "by_group": by_group, "objective": objective}
    if score:
        if data is not None:
            raise ValueError("--score: give one table and no model")
        check_output(out, [RULE], model)
        rows = reader.read(model, Roles().given(**columns, features=score))
        classifier: Any = _scores(score, positive, rows, kind, missing)
    else:
        if data is None:
            raise ValueError("give the table of fresh rows after MODEL, or name its --score")
        if positive or kind != "probability" or missing is not None:
            raise ValueError("--positive, --kind and --missing describe a --score")
        stored = Stored.read(model)
        check_output(out, [model.suffix], model, data)
        rows = stored.rows(reader, data, **columns)
        classifier = stored.classifier
        if stored.scores is not None:
            classifier = stored.scores
            tuned = stored.classifier
            selected = tuned.records_.used
            settings = {name: value or getattr(tuned, name) for name, value in settings.items()}
    settings = {name: value for name, value in settings.items() if value}
    rule = calibrated(classifier, rows, selected, confidence=confidence, **settings)
    facts = [("certified on", rows.words), *(about or [])]
    write(rule, out, rows.roles.given(about=facts))
    say(rule.certificate_, as_json)
    say_aside(f"Written: {out}. These rows are used up: other limits need other rows.")


@command
def certify(
    model: Model,
    data: Data,
    reader: Reader,
    limit: Limits = None,
    target: Target = None,
    group: Groups = None,
    cluster: Cluster = None,
    confidence: Confidence = 0.95,
    require: Annotated[bool, option("Exit with code 4 if a limit is not certified.")] = False,
    as_json: Json = False,
) -> None:
    """Compute confidence bounds on the rates of a rule from fresh rows."""
    stored = Stored.read(model)
    rows = stored.rows(reader, data, target=target, groups=group, cluster=cluster)
    certificate = tb.certify(
        stored.classifier,
        rows.features,
        rows.labels,
        **rows.beside,
        limits=limit or None,
        confidence=confidence,
    )
    say(certificate, as_json)
    if require and not certificate.certified:
        raise tb.NotCertifiedError("--require: not all limits are certified")


@command
def predict(
    model: Model,
    data: Data,
    reader: Reader,
    out: Annotated[
        Path | None, option("CSV or Parquet file to write; by default printed.")
    ] = None,
    id: Annotated[
        list[str] | None, option("Column to repeat; may be repeated.", metavar="COL")
    ] = None,
    default: Annotated[
        str | None, option("Answer to rows without a score or of an unknown group.")
    ] = None,
) -> None:
    """Answer new rows."""
    import pandas as pd

    if out is not None:
        check_output(out, [], model, data)
    stored = Stored.read(model)
    classifier = stored.classifier
    of_models = stored.scores is None
    rows = stored.rows(reader, data)
    options: dict[str, Any] = {}
    if getattr(classifier, "by_group", False):
        options["groups"] = rows.groups
    defers = hasattr(classifier, "defers")
    if defers and of_models:  # the rule of a file answers so by itself
        options["deferred"] = REVIEW
    if default is not None:
        if of_models:
            raise ValueError("--default: only a rule file (.json) answers such rows")
        by_text = {str(label): label for label in classifier.classes_}
        options["default"] = by_text.get(default, default)
    features = rows.features
    answers = pd.DataFrame({"row": range(len(features))})
    if id:
        rows.columns(id)
        answers[id] = reader.words(data, id)
    # A rule file also reads groups, to name those without a certificate.
    read = features if of_models else rows.table
    answers["prediction"] = classifier.predict(read, **options)
    if defers:
        answers["deferred"] = answers["prediction"] == REVIEW
    if of_models and hasattr(classifier, "predict_proba"):
        names = [f"probability_{label}" for label in classifier.classes_]
        answers[names] = classifier.predict_proba(features).round(9)
    if out is None:
        typer.echo(reader.csv(answers), nl=False)
    else:
        reader.write(answers, out)


@command
def rule(
    model: Model,
    sql: Annotated[bool, option("Print an SQL expression.")] = False,
    python: Annotated[bool, option("Print a Python function.")] = False,
    table: Annotated[
        str | None, option("Name of the table in SQL, before its columns.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the rule as text, SQL, Python or JSON."""
    if sql + python + as_json > 1:
        raise ValueError("--sql, --python and --json exclude each other")
    stored = Stored.read(model)
    found = stored.classifier.rule_
    if sql:
        typer.echo(found.to_sql(**stored.sql(), table=table))
    elif python:
        typer.echo(found.to_python(label=found.label))
    else:
        say(found, as_json)


def _monitor_of(rule: Any, state: Path) -> tb.Monitor:
    """Return the monitor of a rule with its state of a file, or a new one."""
    if not state.exists():
        return tb.Monitor(rule)
    try:
        return tb.Monitor.from_dict(json.loads(state.read_text("utf-8")), rule)
    except ValueError as error:
        raise ValueError(f"{str(state)!r}: {error}") from None


@command
def monitor(
    model: Model,
    data: Data,
    reader: Reader,
    out: Annotated[
        Path | None,
        option("State of the monitor, read and replaced; by default MODEL.monitor.json."),
    ] = None,
    target: Target = None,
    cluster: Cluster = None,
    id: Annotated[str | None, option("Column of ids, which late labels need.")] = None,
    as_json: Json = False,
) -> None:
    """Test the certified limits on a later batch; exit code 3 is an alarm."""
    state = out or model.with_suffix(".monitor.json")
    check_output(state, [RULE], model, data)
    stored = Stored.read(model)
    rows = stored.rows(reader, data, target=target, cluster=cluster)
    labels = ids = None
    if id is None or rows.roles.target in rows.table:
        labels = rows.labels
    if id is not None:
        rows.columns([id])
        ids = reader.words(data, [id])[id]
    with held(state, 60.0):
        after = _monitor_of(stored.classifier, state).add(
            rows.features,
            labels,
            **rows.beside,
            id=ids,
            name=data.name.partition(".")[0],
        )
        write_output(state, json.dumps(after.to_dict()))
    say(after, as_json)
    if after.alarms:
        raise typer.Exit(ALARM)


@command
def card(
    model: Model,
    data: Data,
    out: Out,
    reader: Reader,
    purpose: Annotated[str, option("Purpose of the model, in your words.")] = "",
    target: Target = None,
    cluster: Cluster = None,
    monitor: Annotated[
        Path | None, option("State of `tailboost monitor`.", exists=True)
    ] = None,
    about: About = None,
) -> None:
    """Write the model card, measured on further fresh rows."""
    check_output(out, [".html", ".htm"], model, data, monitor)
    stored = Stored.read(model)
    rows = stored.rows(reader, data, target=target, cluster=cluster)
    file = f"sha256sum {model.name} gives {hashlib.sha256(model.read_bytes()).hexdigest()}"
    tb.ModelCard.of(
        stored.classifier,
        rows.features,
        rows.labels,
        **rows.beside,
        purpose=purpose,
        about={"name": model.stem, **stored.roles.about, **dict(about or ()), "file": file},
        rows_are=data.name,
        monitor=None if monitor is None else _monitor_of(stored.classifier, monitor),
    ).save(out)
    say(f"Card: {out}")


@command
def tradeoff(
    model: Annotated[
        Path,
        file("MODEL", "Model file (.model) of fit."),
    ],
    reader: Reader,
    limited: Annotated[
        str | None,
        option("Rate that is limited along the curve; by default that of the first limit."),
    ] = None,
    objective: Objective = None,
    pick: Annotated[
        float | None,
        option(
            "Limit of the point whose model --out stores, such as 5%.",
            parser=_number,
            metavar="X",
        ),
    ] = None,
    out: Annotated[
        Path | None, option("Picture, or CSV file of the curve; with --pick the model file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the trade-off of two rates on the rows that selected the rule; nothing is trained."""
    if pick is not None and out is None:
        raise ValueError("--pick needs --out, the model file to write")
    if objective is not None and limited is None:
        raise ValueError("--objective needs --limited, the other rate of the curve")
    if out is not None:
        check_output(out, [*PICTURES, ".csv"] if pick is None else [MODEL], model)
    stored = Stored.read(model)
    if stored.scores is not None or not hasattr(type(stored.classifier), "rates_"):
        raise ValueError(
            f"{str(model)!r} has no trade-off curve: the command needs a model of fit"
        )
    rates = [tb.rates.parse(text) for text in (limited, objective) if text is not None]
    curve = stored.classifier.tradeoff(*rates)
    if pick is not None and out is not None:
        write(curve.at(pick), out, stored.roles)
    elif out is not None and out.suffix == ".csv":
        reader.write(curve.to_dict()["curve"], out)
    elif out is not None:
        picture = io.BytesIO()
        tb.plotting.TradeOffDisplay.from_curve(curve).figure_.savefig(
            picture, format=out.suffix[1:]
        )
        write_output(out, picture.getvalue())
    say(curve, as_json)


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
) -> None:
    """Count the rows that certificates need."""
    say(tb.rows_needed(limit, rate, power=power, confidence=confidence), as_json)
