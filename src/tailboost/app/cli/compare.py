"""Commands ``demo`` and ``compare``: methods on data sets, as tables and reports."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from tailboost import datasets, rates
from tailboost.app.baselines import TunedThresholdClassifier
from tailboost.app.cli import options, shared
from tailboost.app.cli.alerts import read_to_fit
from tailboost.app.cli.shared import BadInput
from tailboost.app.model_card import ModelCard
from tailboost.app.registry import Method, get_method
from tailboost.app.report import ComparisonTable, Results, compare, render, render_demo
from tailboost.app.report.comparison_table import Cell
from tailboost.app.report.demo import Demo, UseCase
from tailboost.core.array_types import Column, Groups, Seed, Table
from tailboost.core.versions import versions

# Methods of a comparison by default.
WITHOUT_GROUPS = (
    "robustmixture",
    "forest", "forest-balanced", "forest-tuned", "xgboost", "xgboost-balanced", "xgboost-tuned",
)  # fmt: skip
WITH_GROUPS = (
    "robustmixture", "groupdroboost", "adalpboost",
    "forest", "forest-balanced", "average-tuned",
    "xgboost", "xgboost-balanced", "xgboost-tuned", "xgboost-cells",
)  # fmt: skip
RESULTS_FILE = "results.json"
REPORT_FILE = "report.html"
DEMO_ROWS = 4000
DEMO_REPEATS = 7
PLAIN = Method(
    "today", "Plain model", "scikit-learn's HistGradientBoostingClassifier with its defaults",
    HistGradientBoostingClassifier,
)  # fmt: skip


def _tuned_plain(
    random_state: Seed = None, n_jobs: int | None = None
) -> TunedThresholdClassifier:
    plain = HistGradientBoostingClassifier(random_state=random_state)
    return TunedThresholdClassifier(plain, random_state=random_state, n_jobs=n_jobs)


TUNED_PLAIN = Method(
    "today-tuned", "Tuned plain model", "class weights tuned out of fold", _tuned_plain
)


DEMO_METHODS: dict[str, tuple[str | Method, ...]] = {
    "credit": (
        "robustmixture", "adalpboost", PLAIN, TUNED_PLAIN, "xgboost-balanced", "average-tuned"
    ),
    "wine": ("robustmixture", PLAIN, "xgboost-balanced", "forest-tuned"),
}  # fmt: skip

Repeats = Annotated[int, typer.Option(min=1, help="Random splits.")]


def demo(
    out: options.Out = Path("tailboost-demo"),
    rows: Annotated[
        int, typer.Option(min=200, max=30000, help="Rows to compare methods on.")
    ] = DEMO_ROWS,
    repeats: Repeats = DEMO_REPEATS,
    seed: options.Seed = 0,
    jobs: options.Jobs = 1,
) -> None:
    """Certify limits of a fitted model on bundled data, and compare methods on two tables.

    The use takes all credit default clients. The comparisons take samples of the clients and of wines of five
    grades. index.html in the folder shows the use and the curves, and links to the reports.
    """
    command = shared.command_line("demo", out=out, rows=rows, repeats=repeats, seed=seed)
    credit = datasets.load_credit_default()
    wine = datasets.load_wine_quality()
    for folder in ("credit", "wine"):
        shared.make_folder(out / folder)
    settings = {"repeats": repeats, "random_state": seed, "n_jobs": jobs, "command": command}
    # One thread: threads of small fits cost more than they save.
    with threadpool_limits(1):
        use = _credit_use(credit, out / "credit" / "card.html", seed)
        on_credit = _compare_sample(
            out / "credit", credit, rows, data_name="credit default", **settings
        )
        on_wine = _compare_sample(out / "wine", wine, rows, data_name="wine grades", **settings)
    page = Demo(use, ComparisonTable(on_credit), ComparisonTable(on_wine), command)
    shared.write_out(out / "index.html", render_demo(page))
    shared.tell(use.sentence)
    for name, lines in page.differences.items():
        shared.tell(f"{name}:")
        for line in lines:
            shared.tell(f"  {line.verdict} {line.name}: {line.numbers}")
    shared.say(f"Page: {out / 'index.html'}")


def _credit_use(credit: Any, card_path: Path, seed: int) -> UseCase:
    """Fit a plain model on the clients, and select and certify a rule within limits on misses.

    ``credit`` is the loaded table. The model card of the rule is written to ``card_path``.
    """
    data = credit.data.drop(columns="SEX").drop_duplicates()  # equal rows could be on two sides
    y = credit.target_names[credit.target.loc[data.index]]
    groups = credit.groups["age_band"].loc[data.index]
    limits = rates.checked_limits(["miss(defaulted, by=age_band) <= 50%", "miss(paid) <= 20%"])
    model = HistGradientBoostingClassifier(random_state=seed)
    use = UseCase(model, data, y, limits, "defaulted", "defaulters", seed, groups)
    purpose = "Shows limits, selection and certificate on bundled data; not for decisions."
    card = ModelCard.of(
        use.rule,
        **use.test,
        purpose=purpose,
        rows_are="the test clients",
        versions=versions(),
    )
    shared.write_out(card_path, card.to_html())
    return use


def _compare_sample(folder: Path, table: Any, rows: int, **settings: Any) -> Results:
    """Compare the methods of the demo on a sample of a loaded table; exit if a fit is missing.

    The name of the folder selects the methods.
    """
    distinct_rows = table.data.drop_duplicates().index  # no row is on both sides of a split
    labels = table.target.loc[distinct_rows]
    sample = _stratified_sample(distinct_rows, labels, rows, settings["random_state"])
    results = _compare(
        folder,
        table.data.loc[sample],
        table.target_names[table.target.loc[sample]],
        methods=DEMO_METHODS[folder.name],
        **settings,
    )
    _exit_if_incomplete(results)
    return results


# Options of `compare`.
Rows = Annotated[
    int | None, typer.Option(min=200, help="Rows to use, a stratified sample; by default all.")
]
Methods = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,…",
        help="Methods by name, see `tailboost list`, or all; by default those of the demo.",
    ),
]
Alphas = Annotated[
    str, typer.Option(metavar="A,B,…", help="Tail masses in (0, 1]: 1 is the mean.")
]


def compare_methods(
    context: typer.Context,
    data: options.Data,
    target: options.Target,
    group: options.Groups = None,
    drop: options.Drop = None,
    text: options.Text = None,
    cluster: options.FitCluster = None,
    keep: options.Keep = None,
    rows: Rows = None,
    methods: Methods = None,
    alpha: Alphas = "0.1,0.3,0.5",
    repeats: Repeats = 5,
    out: options.Out = Path("tailboost-compare"),
    csv: options.CsvFormat = options.CSV,
    seed: options.Seed = 0,
    jobs: options.Jobs = 1,
) -> None:
    """Compare methods on a table: a table here, results.json and report.html in a folder."""
    with shared.bad_input("--methods: "):
        selected_methods = _named_or_default_methods(methods, with_groups=bool(group))
    alphas = _tail_masses(alpha)
    shared.refuse_overwriting("--out", [out / RESULTS_FILE, out / REPORT_FILE], data)
    # The command line in the results has the options that change numbers.
    not_recorded = {"data", "jobs", "quiet", "verbose", "help"}
    if csv.sep == options.CSV.sep:
        not_recorded.add("sep")
    names = [str(parameter.name) for parameter in context.command.params]
    recorded = {name: context.params.get(name) for name in names if name not in not_recorded}
    command = shared.command_line("compare", data, **recorded)
    table = read_to_fit(data, target, group, drop, keep, cluster, csv, text=text)
    shared.make_folder(out)
    with shared.bad_input("--rows: "):
        sample = _stratified_sample(table.data.index, table.target, rows, seed)
    results = _compare(
        out,
        table.data.loc[sample],
        table.target[sample],
        table.groups.loc[sample] if group else None,
        clusters=None if table.clusters is None else table.clusters[sample],
        methods=selected_methods,
        alphas=alphas,
        repeats=repeats,
        random_state=seed,
        n_jobs=jobs,
        data_name=shared.printable(data.name),
        command=command,
    )
    _print_results(results)
    shared.say(f"Numbers: {out / RESULTS_FILE}")
    shared.say(f"Report:  {out / REPORT_FILE}")
    _exit_if_incomplete(results)


def _stratified_sample(index: Any, labels: Any, rows: int | None, seed: int) -> Any:
    """Return the index of a random sample of rows, stratified by label; all rows if they are no more."""
    if rows is None or rows >= len(index):
        return index
    return train_test_split(index, train_size=rows, stratify=labels, random_state=seed)[0]


def installed(name: str) -> Method:
    """Return a method by name; raise ImportError if a package is missing."""
    method = get_method(name)
    method.make()  # imports its package
    return method


def _named_or_default_methods(text: str | None, *, with_groups: bool) -> list[Method] | None:
    """Return the methods that --methods names; None for "all", as in `compare`.

    Without --methods these are the default methods that are installed, with a warning for the others.
    """
    if text is not None:
        names = _listed(text)
        if names == ["all"]:
            return None
        return [installed(name) for name in names]
    available = []
    for name in WITH_GROUPS if with_groups else WITHOUT_GROUPS:
        try:
            available.append(installed(name))
        except ImportError as error:
            shared.warn(f"{name} is left out: {error}")
    return available


def _tail_masses(text: str) -> list[float]:
    """Return the numbers of --alpha, tail masses in (0, 1]; raise `BadInput` for another text."""
    alphas = []
    with suppress(ValueError):  # an item that is no number: the same error as no item
        alphas = [float(item) for item in _listed(text)]
    if not alphas or not all(0 < alpha <= 1 for alpha in alphas):
        raise BadInput(f"--alpha must be numbers in (0, 1] separated by commas, got {text!r}")
    return alphas


def _listed(text: str) -> list[str]:
    """Return the items of a text that are separated by commas."""
    return [item.strip() for item in text.split(",") if item.strip()]


def _compare(out: Path, X: Table, y: Column, groups: Groups = None, **settings: Any) -> Results:
    """Compare methods on rows, and write results.json and report.html to the folder ``out``.

    The settings are as in `compare`. The results so far are written before each fit.
    """
    with shared.bad_input():
        results = compare(
            X,
            y,
            groups,
            on_progress=lambda so_far: so_far.save(out / RESULTS_FILE),
            **settings,
        )
    shared.write_out(out / REPORT_FILE, render(results))
    return results


def _exit_if_incomplete(results: Results) -> None:
    """Exit with an error code if a comparison was interrupted, or a method failed."""
    if results.document["status"] == "interrupted":
        raise typer.Exit(
            shared.fail("stopped by Ctrl-C; the finished fits are kept", shared.INTERRUPTED)
        )
    failed = [m["title"] for m in results.document["methods"] if m["failures"]]
    if failed:
        raise typer.Exit(shared.fail(f"{', '.join(failed)} failed, see above", 1))


def _print_results(results: Results) -> None:
    """Print the table of a comparison, its problems and warnings, and its result as a sentence."""
    comparison = ComparisonTable(results)
    rows = [[row.method["title"], *map(_cell_text, row.cells)] for row in comparison.rows]
    if rows:
        shared.plain_table(("method", *comparison.columns), rows)
        shared.tell(
            "Mean ± half the 95 % interval over the splits, which share rows, so it is too "
            "short for new data; lower is better; * lowest of the column; a random guess has "
            f"{comparison.random_error:.3f}; Δ: ours minus the baseline at the baseline's "
            "overall error."
        )
    for message in (*comparison.problems, *comparison.warnings):
        shared.tell(f"- {message}")
    shared.tell(comparison.sentence)


def _cell_text(cell: Cell | None) -> str:
    """Return a cell of the printed table, with a mark for the lowest number; None was not measured."""
    if cell is None:
        return "–"
    text = cell.text
    if cell.mark == "best":
        text = f"* {text}"
    if cell.half is not None:
        text += f"\n± {cell.half:.3f}"
    return text
