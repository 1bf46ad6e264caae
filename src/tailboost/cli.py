"""The command line: ``tailboost demo | compare | fit | predict | reproduce | list``.

Exit codes: 0 done; 2 bad input, with one line that names the file, column, row or option; 130 stopped by
Ctrl-C; 1 anything else.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import json
import re
import shlex
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

try:
    import jinja2  # noqa: F401  (what the report needs: better missed now than after the fits)
    import pandas as pd
    import skops  # noqa: F401
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table
    from rich.text import Text
except ModuleNotFoundError as missing:
    raise SystemExit(
        f'The command line of tailboost needs {missing.name}: pip install "tailboost[app]"'
    ) from None

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.utils.class_weight import compute_class_weight

from tailboost import __version__, datasets
from tailboost._interrupts import ending_at_interrupts
from tailboost._output import is_same_file, write_output
from tailboost.io import TableEncoder, preparation
from tailboost.persistence import check_model_path, load_model, save_model
from tailboost.registry import METHODS, Method, get_method
from tailboost.report import Results, compare, render
from tailboost.report.comparison import checked_alphas, joint_groups
from tailboost.report.findings import comparison_table, findings
from tailboost.reproduce import EXPERIMENTS, Settings, get_experiment

__all__ = ["app", "main"]

# Chosen so that the demo ends within three minutes on two cores.
WINE_METHODS = (
    "worstclassboost",
    "erm", "forest", "forest-balanced", "forest-tuned", "xgboost", "xgboost-balanced", "xgboost-tuned",
)  # fmt: skip
CREDIT_METHODS = (
    "worstclassboost", "groupdroboost", "adalpboost",
    "erm", "forest", "forest-balanced", "xgboost", "xgboost-balanced", "xgboost-tuned", "xgboost-cells",
)  # fmt: skip
REPORT_FILES = ("results.json", "report.html")
DEMO_ROWS = 12000
DEMO_REPEATS = 5
LONGEST_LINE = 300
INTERRUPTED = 130  # the exit code shells give a process that Ctrl-C ended

app = typer.Typer(
    name="tailboost",
    help="Boosting classifiers that hold up on the worst samples, the worst class and the worst group.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _checked_jobs(jobs: int) -> int:
    if jobs == 0 or jobs < -1:
        raise typer.BadParameter(f"must be -1 (all cores) or at least 1, got {jobs}")
    return jobs


Data = Annotated[Path, typer.Argument(metavar="DATA", help="A CSV (also .gz, .bz2, .xz) or Parquet file.")]
Target = Annotated[str, typer.Option(metavar="COL", help="The column to predict.")]
Groups = Annotated[
    list[str] | None, typer.Option("--group", metavar="COL", help="A column of groups; may be repeated.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
# One by default: the tree library's threads spin while they wait for each other. On shared cores a fit on a
# table of a few thousand rows took fifty times as long with two threads.
Jobs = Annotated[
    int, typer.Option(callback=_checked_jobs, help="Processor cores per fit; -1 takes all: for large tables.")
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for results.json and report.html.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the traceback of an error.")]


class BadInput(Exception):
    """What the user gave cannot be used; the message is the one line to show."""


@app.callback(invoke_without_command=True)
def tailboost(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and end.")] = False,
) -> None:
    """Boosting classifiers that hold up on the worst samples, the worst class and the worst group."""
    if version:
        print(f"tailboost {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def demo(
    out: Out = Path("tailboost-demo"),
    rows: Annotated[int, typer.Option(min=200, max=30000, help="Rows to use of each table.")] = DEMO_ROWS,
    repeats: Annotated[int, typer.Option(min=1, help="Random splits.")] = DEMO_REPEATS,
    seed: Seed = 0,
    jobs: Jobs = 1,
    verbose: Verbose = False,
) -> None:
    """Compare ours with plain methods on two bundled tables: wine grades and credit default clients.

    The wines have five classes, two of them rare; the clients have two classes and groups (sex, age band,
    education). The reports are wine/report.html and credit/report.html in the folder.
    """
    with _exit_codes(verbose):
        command = _command_line("demo", out=out, rows=rows, repeats=repeats, seed=seed)
        wine, credit = datasets.load_wine_quality(), datasets.load_credit_default()
        for folder, name, table, groups, methods in (
            ("wine", "wine grades", wine, None, WINE_METHODS),
            ("credit", "credit default clients", credit, credit.groups, CREDIT_METHODS),
        ):
            _make_folder(out / folder)
            taken = table.data.index
            if rows < len(taken):
                taken, _ = train_test_split(taken, train_size=rows, stratify=table.target, random_state=seed)
            _say(f"{name.capitalize()}: {len(taken):,} of {len(table.data):,} rows, {repeats} random splits.")
            _compare(
                table.data.loc[taken],
                table.target_names[table.target.loc[taken]],
                None if groups is None else groups.loc[taken],
                methods=methods,
                alphas=(0.1, 0.3, 0.5),
                repeats=repeats,
                out=out / folder,
                seed=seed,
                jobs=jobs,
                data_name=name,
                command=command,
            )


@app.command(name="compare")
def compare_command(
    data: Data,
    target: Target,
    group: Groups = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Methods by name, see `tailboost list`; default all.")
    ] = None,
    alpha: Annotated[
        str, typer.Option(metavar="A,B,…", help="Tail masses in (0, 1]: 1 is the mean.")
    ] = "0.1,0.3,0.5",
    repeats: Annotated[int, typer.Option(min=1, help="Random splits.")] = 5,
    out: Out = Path("tailboost-compare"),
    seed: Seed = 0,
    jobs: Jobs = 1,
    verbose: Verbose = False,
) -> None:
    """Compare methods on a table: a table here, results.json and report.html in a folder."""
    with _exit_codes(verbose):
        with _bad_input("--methods: "):
            chosen = None if methods is None else [_installed(name) for name in _listed(methods)]
        alphas = _alphas(alpha)
        _refuse_inputs("--out", [out / name for name in REPORT_FILES], data)
        with _bad_input():
            table = datasets.load_table(data, target, group=group or (), text_labels=True)
        _make_folder(out)
        _compare(
            table.data,
            table.target,
            table.groups if group else None,
            methods=chosen,
            alphas=alphas,
            repeats=repeats,
            out=out,
            seed=seed,
            jobs=jobs,
            data_name=_printable(data.name),
            command=_command_line(
                "compare",
                data,
                target=target,
                group=group,
                methods=methods,
                alpha=alpha,
                repeats=repeats,
                out=out,
                seed=seed,
            ),
        )


@app.command()
def fit(
    data: Data,
    target: Target,
    method: Annotated[str, typer.Option(metavar="NAME", help="A method, see `tailboost list`.")],
    model: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the model, a skops file.")],
    group: Groups = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; may be repeated."),
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    verbose: Verbose = False,
) -> None:
    """Fit one method on a table and store it, preparation included.

    The model stores how each column was read and reads later tables in the same way: text stays the text of
    the file (zip code 01234), and a row gets the same answer alone and among others. Labels of a CSV file
    stay text.
    """
    with _exit_codes(verbose):
        with _bad_input("--method: "):
            chosen = _installed(method)
        classifier = _configured(chosen, settings or [], seed, jobs)
        if group and (not chosen.uses_groups or chosen.groups_at_prediction):
            able = ", ".join(m.name for m in METHODS.values() if m.uses_groups and not m.groups_at_prediction)
            lacks = "would need them at prediction too" if chosen.uses_groups else "does not train on groups"
            raise BadInput(f"--group: {chosen.name} {lacks}; leave it out, or take {able}")
        with _bad_input("--model: "):  # a name may be longer than the system takes
            if model.is_dir() or not model.parent.is_dir():
                raise BadInput(f"--model: {str(model)!r} is a folder, or is in one that is not there")
            _refuse_inputs("--model", [model], data)
            check_model_path(model)
        with _bad_input():
            table = datasets.load_table(data, target, group=group or (), text_labels=True)
        _name_labels(classifier, table.target_names)
        pipeline = Pipeline([*preparation(classifier, table.schema), ("classifier", classifier)])
        extra = {"classifier__groups": joint_groups(table.groups)} if group else {}
        _say(f"Fitting {chosen.title} on {len(table.data):,} rows, {len(table.target_names)} classes.")
        start = time.perf_counter()
        # A half-trained model must not be stored as if it were a whole one.
        with ending_at_interrupts(), _bad_input(), _warnings_as_lines():
            pipeline.fit(table.data, table.target, **extra)
        _say(f"Fitted in {time.perf_counter() - start:.1f} s.")
        with _bad_input("--model: "):
            save_model(pipeline, model)
        _say(f"Model: {model}")
        _describe(classifier)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model written by `tailboost fit`.")],
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The CSV file to write.")],
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas", help="Put ' before labels that a spreadsheet would run (=, +, -, @)."
        ),
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Predict the rows of a table: row (from 0), prediction, and a share or probability per class.

    A mixture gives shares, how often the randomised rule answers each class; they are no probabilities of
    the class. Columns are read as the model was fitted on them: values of another kind count as missing, new
    columns are ignored, and a warning says how many there are of each, and of categories not seen before.
    Labels are written as they were given; those that begin like a formula (=cmd) can harm in a spreadsheet,
    see --escape-formulas.
    """
    with _exit_codes(verbose):
        with _bad_input("--out: "):
            if out.is_dir() or not out.parent.is_dir():
                raise BadInput(f"--out: {str(out)!r} is a folder, or is in one that is not there")
            _refuse_inputs("--out", [out], model, data)
        with _bad_input():
            fitted = load_model(model)
            if not hasattr(fitted, "predict"):
                raise BadInput(f"{str(model)!r} holds a {type(fitted).__name__}, which cannot predict")
            table = datasets.read_raw(data) if _reads_text(fitted) else datasets.read_frame(data)
        if not len(table):
            raise BadInput(f"{str(data)!r} has no rows to predict")
        with _bad_input(f"{data}: "), _warnings_as_lines():
            last = fitted
            rows = table
            if isinstance(fitted, Pipeline) and len(fitted.steps) > 1:
                last, rows = fitted[-1], fitted[:-1].transform(table)
            labels = last.predict(rows)
            answers = {
                "row": range(len(table)),
                "prediction": _escaped(labels) if escape_formulas else labels,
            }
            if hasattr(last, "predict_proba"):
                word = "share" if hasattr(last, "reweight") else "probability"
                for label, column in zip(last.classes_, last.predict_proba(rows).T, strict=True):
                    answers[f"{word}_{label}"] = np.round(column, 9)
        with _bad_input("--out: "):
            write_output(out, pd.DataFrame(answers).to_csv(index=False))
        _say(f"{len(table):,} predictions: {out}")


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An experiment, see `tailboost list`.")],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of data sets that do not come with the package."),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Random splits; by default what the experiment says.")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for NAME.json, NAME.md and perhaps NAME.png.")
    ] = Path("tailboost-reproduce"),
    scale: Annotated[
        str, typer.Option(metavar="small|paper", help="For nets: cut to minutes on a CPU, or as published.")
    ] = "small",
    jobs: Jobs = 1,
    verbose: Verbose = False,
) -> None:
    """Run a published experiment; after an interrupt the same call continues it."""
    with _exit_codes(verbose):
        with _bad_input():
            experiment = get_experiment(name)
        if scale not in ("small", "paper"):
            raise BadInput(f"--scale must be small or paper, got {scale!r}")
        if experiment.needs_data and data is None:
            raise BadInput(f"--data: {name} needs a folder of data sets")
        if data is not None and not data.is_dir():
            raise BadInput(f"--data: {str(data)!r} is not a folder")
        if data is not None and is_same_file(data, out):
            raise BadInput(f"--out: {str(out)!r} is the folder of the data; results need one of their own")
        _make_folder(out)
        settings = Settings(
            out=out,
            data=data,
            repeats=repeats or experiment.repeats,
            n_jobs=jobs,
            scale=scale,
            say=_say_aside,
        )
        with ending_at_interrupts():  # finished cells are kept for the next call
            text = experiment.run(settings)
        print(text)
        written = [out / f"{name}{ending}" for ending in (".json", ".md", ".png")]
        _say_aside(f"Results: {', '.join(str(file) for file in written if file.exists())}")


@app.command(name="list")
def list_command() -> None:
    """Show methods, data sets and experiments."""
    table = Table(title="Methods", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("name", "takes", "what it is"):
        table.add_column(heading, no_wrap=heading == "name")
    for method in METHODS.values():
        takes = ["alpha"] * method.uses_alpha + ["groups"] * method.uses_groups
        table.add_row(method.name, ", ".join(takes), Text(f"{method.title}: {method.summary}"))
    console = _console()
    console.print(table)
    table = Table(
        title="\nData sets (tailboost.datasets)", title_justify="left", box=None, padding=(0, 2, 0, 0)
    )
    table.add_column("name", no_wrap=True)
    table.add_column("what it is")
    for name in filter(re.compile("(load|fetch|make)_").match, datasets.__all__):
        summary = (inspect.getdoc(getattr(datasets, name)) or "").splitlines()[0]
        table.add_row(name, Text(re.sub(r" \[\d+\]_|``", "", summary)))
    console.print(table)
    table = Table(
        title="\nExperiments (tailboost reproduce)", title_justify="left", box=None, padding=(0, 2, 0, 0)
    )
    for heading in ("name", "takes", "what it is"):
        table.add_column(heading, no_wrap=heading == "name")
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, "--data" * experiment.needs_data, Text(experiment.summary))
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code.

    Parameters
    ----------
    arguments : sequence of str, default=None
        The arguments after ``tailboost``; None takes those of the process.
    """
    # Typer brings its own copy of click, or uses the one installed: both call this UsageError.
    usage_error: type[Any] = typer.BadParameter.__bases__[0]
    try:
        code = app(args=arguments, prog_name="tailboost", standalone_mode=False)
    except usage_error as error:
        code = _fail(error.format_message(), 2)
    except (KeyboardInterrupt, typer.Abort):  # they may stand before or after the command
        code = _fail("stopped by Ctrl-C", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _exit_codes(verbose: bool) -> Iterator[None]:
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        raise typer.Exit(_fail("stopped by Ctrl-C", INTERRUPTED)) from None
    except Exception as error:
        if verbose:
            traceback.print_exc()
        if isinstance(error, BadInput):
            raise typer.Exit(_fail(str(error), 2)) from None
        hint = "" if verbose else " (--verbose shows where)"
        raise typer.Exit(_fail(f"{type(error).__name__}: {error}{hint}", 1)) from None


@contextmanager
def _bad_input(where: str = "") -> Iterator[None]:
    """Turn errors raised inside into `BadInput`: they are about what the user gave."""
    try:
        yield
    except (ValueError, TypeError, OSError, ImportError) as error:
        raise BadInput(f"{where}{error}") from error


def _fail(message: str, code: int) -> int:
    line = f"tailboost: {_printable(' '.join(message.split()))}"
    if len(line) > LONGEST_LINE:  # the start says what is wrong, the end often what to do
        line = f"{line[: LONGEST_LINE - 100]} … {line[-90:]}"
    print(line, file=sys.stderr)
    return code


def _printable(text: str) -> str:
    """Return a text that can be written as UTF-8: file names need not be UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    for message in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)):
        print(f"warning: {message}", file=sys.stderr)


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    # In a file or a pipe a table need not fit the width of a screen.
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=130)


def _say(line: str) -> None:
    _console().print(Text(_printable(line)), soft_wrap=True)


def _say_aside(line: str) -> None:
    _console(stderr=True).print(Text(_printable(line)), soft_wrap=True)


def _refuse_inputs(option: str, outputs: Sequence[Path], *inputs: Path) -> None:
    for output in outputs:
        for given in inputs:
            if is_same_file(output, given):
                raise BadInput(
                    f"{option}: {str(output)!r} is read here; writing it would overwrite {str(given)!r}"
                )


def _make_folder(folder: Path) -> None:
    with _bad_input("--out: "):
        folder.mkdir(parents=True, exist_ok=True)


def _installed(name: str) -> Method:
    method = get_method(name)
    method.make()  # methods that need a missing package raise ImportError
    return method


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _alphas(text: str) -> list[float]:
    try:
        numbers = [float(item) for item in _listed(text)]
    except ValueError:
        raise BadInput(f"--alpha must be numbers in (0, 1] separated by commas, got {text!r}") from None
    with _bad_input():
        return checked_alphas("--alpha", numbers)


def _command_line(command: str, *arguments: Path, **options: Any) -> str:
    words = ["tailboost", command, *map(str, arguments)]
    for name, value in options.items():
        for item in value if isinstance(value, list) else [] if value is None else [value]:
            words += [f"--{name}", str(item)]
    return _printable(shlex.join(words))


def _configured(method: Method, settings: Sequence[str], seed: int, jobs: int) -> Any:
    """Make the method's classifier with ``--set`` applied, and have it check its own parameters."""
    classifier = method.make(random_state=seed, n_jobs=jobs)
    known = classifier.get_params(deep=False)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise BadInput(f"--set needs NAME=VALUE, got {setting!r}")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f", did you mean {near[0]!r}?" if near else ";"
            raise BadInput(
                f"--set: {method.name} has no parameter {name!r}{meant} It has {', '.join(sorted(known))}"
            )
        classifier.set_params(**{name: _literal(text)})
    if hasattr(classifier, "_parameter_constraints"):  # XGBoost's checks while it fits
        with _bad_input("--set: "):
            classifier._validate_params()
    return classifier


def _name_labels(classifier: Any, labels: Sequence[Any]) -> None:
    """Convert labels in parameters to those of the table: labels of a CSV file are text."""
    names = set(labels)
    for name, value in classifier.get_params(deep=False).items():
        if isinstance(value, dict):
            named = {str(k) if k not in names and str(k) in names else k: v for k, v in value.items()}
            if name == "class_weight" and not _is_class_weight(named, labels):
                continue
            classifier.set_params(**{name: named})


def _is_class_weight(weights: dict[Any, Any], labels: Sequence[Any]) -> bool:
    """Whether scikit-learn finds the labels in the weights: newer ones read text such as "1" as a number."""
    try:
        compute_class_weight(weights, classes=np.asarray(labels), y=np.asarray(labels))
    except ValueError:
        return False
    return True


def _describe(classifier: Any) -> None:
    """Print the guarantee; if this fails, the model that is already stored stays."""
    try:
        if hasattr(classifier, "guarantee_"):
            _say(str(classifier.guarantee_))
    except Exception as error:  # the model is stored: a fault in describing it must not fail the command
        print(f"warning: no guarantee can be given ({type(error).__name__}: {error})", file=sys.stderr)


def _reads_text(model: Any) -> bool:
    """Whether a model has a schema of its columns, so that it reads a CSV file's text itself."""
    return isinstance(model, Pipeline) and isinstance(model.steps[0][1], TableEncoder)


def _escaped(labels: Sequence[Any]) -> list[Any]:
    """Put an apostrophe before labels that spreadsheets would run as formulas."""
    marks = ("=", "+", "-", "@", "\t", "\r")
    return [
        f"'{x}" if isinstance(x, str) and x.startswith(marks) and not _is_number(x) else x for x in labels
    ]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _literal(text: str) -> Any:
    """Read a Python or JSON literal; anything else is the text itself, so that words need no quotes."""
    for read in (ast.literal_eval, json.loads):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    return text


def _compare(
    X: Any,
    y: Any,
    groups: Any,
    *,
    methods: Sequence[str | Method] | None,
    alphas: Sequence[float],
    repeats: int,
    out: Path,
    seed: int,
    jobs: int,
    data_name: str,
    command: str,
) -> None:
    results_file, report_file = (out / name for name in REPORT_FILES)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = _console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting")

        def keep(results: Results, done: int, total: int, what: str) -> None:
            results.save(results_file)
            progress.update(task, completed=done, total=total, description=what)

        with _bad_input():
            results = compare(
                X,
                y,
                groups,
                methods=methods,
                alphas=alphas,
                repeats=repeats,
                random_state=seed,
                n_jobs=jobs,
                data_name=data_name,
                command=command,
                on_progress=keep,
            )
    page = render(results)
    with _bad_input("--out: "):
        write_output(report_file, page)
    _print_results(results)
    _say(f"Numbers: {results_file}\nReport:  {report_file}")
    if results.document["status"] == "interrupted":
        raise typer.Exit(_fail("stopped by Ctrl-C; the finished fits are kept", INTERRUPTED))
    if failed := [m["title"] for m in results.document["methods"] if m["failures"]]:
        raise typer.Exit(_fail(f"{', '.join(failed)} failed, see above", 1))


def _print_results(results: Results) -> None:
    columns, rows = comparison_table(results.document)
    table = Table(
        caption="mean ± half the 95 % interval over the splits; lower is better, * lowest of the column and "
        "below the coin flip; = the same numbers on every split"
    )
    table.add_column("method")
    for column in columns:
        table.add_column(Text(column.title), justify="right")
    for row in rows:
        name = Text(row.method["title"], style="bold" if row.method["ours"] else "")
        for title in row.same:
            name.append(f"\n= {title}", style="not bold dim")
        cells = [name]
        for cell in row.cells:
            if cell is None:
                cells.append(Text("–"))
                continue
            mark, style = ("* ", "bold green") if cell.best else ("", "")
            text = Text(f"{mark}{cell.mean:.3f}", style=style)
            if cell.half is not None:
                text.append(f"\n± {cell.half:.3f}", style="not bold dim")
            cells.append(text)
        table.add_row(*cells)
    console = _console()
    if rows:
        console.print(table)
    for finding in findings(results.document):
        _say(f"- {finding.text}")
