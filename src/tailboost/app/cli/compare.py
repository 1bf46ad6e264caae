"""Commands ``demo`` and ``compare``: methods on one data set, as a table and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from sklearn.model_selection import train_test_split

from tailboost import datasets
from tailboost.app.cli import options as given
from tailboost.app.cli.alerts import read_to_fit
from tailboost.app.cli.shared import (
    INTERRUPTED,
    BadInput,
    bad_input,
    command_line,
    console,
    fail,
    is_quiet,
    make_folder,
    printable,
    progress,
    refuse_overwriting,
    say,
    tell,
    warn,
    write_out,
)
from tailboost.app.registry import Method, get_method
from tailboost.app.report import ComparisonTable, Results, compare, render, render_overview

# Methods of the demo, which ends within minutes.
WITHOUT_GROUPS = (
    "robustmixture",
    "forest", "forest-balanced", "forest-tuned", "xgboost", "xgboost-balanced", "xgboost-tuned",
)  # fmt: skip
WITH_GROUPS = (
    "robustmixture", "groupdroboost", "adalpboost",
    "forest", "forest-balanced", "average-tuned",
    "xgboost", "xgboost-balanced", "xgboost-tuned", "xgboost-cells",
)  # fmt: skip
REPORT_FILES = ("results.json", "report.html")
WINE = (
    "Red and white wines of five grades by taste, two of the grades rare. UCI Machine Learning Repository, "
    "set 186 (Cortez and others, 2009), CC BY 4.0."
)
CREDIT = (
    "Clients of a credit card who pay next month or default, with groups by sex, age and education. UCI "
    "Machine Learning Repository, set 350 (Yeh and Lien, 2009), CC BY 4.0."
)
DEMO_ROWS = 8000
DEMO_REPEATS = 8


def demo(
    out: given.Out = Path("tailboost-demo"),
    rows: Annotated[int, typer.Option(min=200, max=30000, help="Rows to use of each table.")] = DEMO_ROWS,
    repeats: Annotated[int, typer.Option(min=1, help="Random splits.")] = DEMO_REPEATS,
    seed: given.Seed = 0,
    jobs: given.Jobs = 1,
) -> None:
    """Compare tailboost with baselines on two bundled tables: wine grades and credit default clients.

    The wines have five classes, two of them rare. The clients have two classes and groups (sex, age band,
    education). index.html in the folder summarises both and links to the reports.
    """
    command = command_line("demo", out=out, rows=rows, repeats=repeats, seed=seed)
    wine, credit = datasets.load_wine_quality(), datasets.load_credit_default()
    chapters: list[tuple[Results, str, str]] = []
    for folder, name, table, groups, methods, about in (
        ("wine", "wine grades", wine, None, WITHOUT_GROUPS, WINE),
        ("credit", "credit default clients", credit, credit.groups, WITH_GROUPS, CREDIT),
    ):
        make_folder(out / folder)
        taken = table.data.drop_duplicates().index  # a row listed twice must not be on both sides
        taken = _drawn(taken, table.target.loc[taken], rows, seed)
        say(f"{name.capitalize()}: {len(taken):,} of {len(table.data):,} rows, {repeats} random splits.")
        results = _compare(
            out / folder,
            table.data.loc[taken],
            table.target_names[table.target.loc[taken]],
            None if groups is None else groups.loc[taken],
            methods=methods,
            alphas=(0.1, 0.3, 0.5),
            repeats=repeats,
            random_state=seed,
            n_jobs=jobs,
            data_name=name,
            command=command,
        )
        chapters.append((results, f"{folder}/{REPORT_FILES[1]}", about))
        write_out(out / "index.html", render_overview("tailboost demo: two tables", chapters))
        _end(results)
    say(f"Overview of both: {out / 'index.html'}")


def compare_methods(
    data: given.Data,
    target: given.Target,
    group: given.Groups = None,
    drop: given.Drop = None,
    cluster: given.FitCluster = None,
    keep: given.Keep = None,
    rows: Annotated[
        int | None, typer.Option(min=200, help="Rows to use, a stratified sample; by default all.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Methods by name, see `tailboost list`, or all; by default those of the demo.",
        ),
    ] = None,
    alpha: Annotated[
        str, typer.Option(metavar="A,B,…", help="Tail masses in (0, 1]: 1 is the mean.")
    ] = "0.1,0.3,0.5",
    repeats: Annotated[int, typer.Option(min=1, help="Random splits.")] = 5,
    out: given.Out = Path("tailboost-compare"),
    sep: given.Sep = ",",
    seed: given.Seed = 0,
    jobs: given.Jobs = 1,
) -> None:
    """Compare methods on a table: a table here, results.json and report.html in a folder."""
    with bad_input("--methods: "):
        chosen = _chosen(methods, grouped=bool(group))
    try:
        alphas = [float(item) for item in _listed(alpha)]
    except ValueError:
        alphas = []
    if not alphas or not all(0 < a <= 1 for a in alphas):
        raise BadInput(f"--alpha must be numbers in (0, 1] separated by commas, got {alpha!r}")
    refuse_overwriting("--out", [out / name for name in REPORT_FILES], data)
    table, _, clusters = read_to_fit(data, target, group, drop, keep, cluster, sep)
    make_folder(out)
    with bad_input("--rows: "):
        taken = _drawn(table.data.index, table.target, rows, seed)
    results = _compare(
        out,
        table.data.loc[taken],
        table.target[taken],
        table.groups.loc[taken] if group else None,
        clusters=None if clusters is None else clusters[taken],
        methods=chosen,
        alphas=alphas,
        repeats=repeats,
        random_state=seed,
        n_jobs=jobs,
        data_name=printable(data.name),
        command=command_line(
            "compare",
            data,
            target=target,
            group=group,
            drop=drop,
            cluster=cluster,
            keep=keep,
            rows=rows,
            methods=methods,
            alpha=alpha,
            repeats=repeats,
            out=out,
            sep=None if sep == "," else sep,
            seed=seed,
        ),
    )
    _end(results)


def _drawn(index: Any, labels: Any, rows: int | None, seed: int) -> Any:
    """Return a stratified random sample of the rows, or all rows."""
    if rows is None or rows >= len(index):
        return index
    return train_test_split(index, train_size=rows, stratify=labels, random_state=seed)[0]


def installed(name: str) -> Method:
    """Return a method by name; raise ImportError if a package is missing."""
    method = get_method(name)
    method.make()
    return method


def _chosen(names: str | None, *, grouped: bool) -> list[Method] | None:
    """Return the named methods, None for all, or by default the methods of the demo that are installed."""
    if names is not None and _listed(names) == ["all"]:
        return None
    if names is not None:
        return [installed(name) for name in _listed(names)]
    available = []
    for name in WITH_GROUPS if grouped else WITHOUT_GROUPS:
        try:
            available.append(installed(name))
        except ImportError as error:
            warn(f"{name} is left out: {error}")
    return available


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _compare(out: Path, X: Any, y: Any, groups: Any, **settings: Any) -> Results:
    """Compare methods, write the results and the report, and print the table."""
    results_file, report_file = (out / name for name in REPORT_FILES)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    terminal = console(stderr=True)
    with progress(*columns) as bar:
        task = bar.add_task("starting")

        def keep(results: Results, done: int, total: int, what: str) -> None:
            results.save(results_file)
            bar.update(task, completed=done, total=total, description=what)
            if done < total and not terminal.is_terminal and not is_quiet():
                terminal.print(Text(f"{done + 1}/{total} {what}"))

        with bad_input():
            results = compare(X, y, groups, on_progress=keep, **settings)
    write_out(report_file, render(results))
    _print_results(results)
    say(f"Numbers: {results_file}\nReport:  {report_file}")
    return results


def _end(results: Results) -> None:
    """Exit with an error code if the comparison is incomplete."""
    if results.document["status"] == "interrupted":
        raise typer.Exit(fail("stopped by Ctrl-C; the finished fits are kept", INTERRUPTED))
    if failed := [m["title"] for m in results.document["methods"] if m["failures"]]:
        raise typer.Exit(fail(f"{', '.join(failed)} failed, see above", 1))


def _print_results(results: Results) -> None:
    comparison = ComparisonTable(results)
    table = Table(
        caption="mean ± half the 95 % interval over the splits; lower is better; * lowest of the column; "
        f"a random guess has {comparison.random_error:.3f}; "
        "Δ: ours minus the baseline at the baseline's overall error"
    )
    for column in ("method", *comparison.columns):
        table.add_column(Text(printable(column)), justify="left" if column == "method" else "right")
    for row in comparison.rows:
        name = Text(row.method["title"], style="bold" if row.method["ours"] else "")
        cells = [name]
        for cell in row.cells:
            text = Text("–")
            if cell is not None:
                mark = "* " * (cell.mark == "best")
                text = Text(f"{mark}{cell.text}", style="bold" if cell.mark else "")
                if cell.half is not None:
                    text.append(f"\n± {cell.half:.3f}", style="not bold dim")
            cells.append(text)
        table.add_row(*cells)
    if comparison.rows:
        console().print(table)
    for message in (*comparison.problems(), *comparison.warnings()):
        tell(f"- {message}")
    tell(comparison.sentence)
