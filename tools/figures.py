"""Compare the figures on the pages with the recorded files.

    python tools/figures.py            print the sentences and rows with other figures than the files
    python tools/figures.py record     run the example of docs/tradeoff.md again and write docs/figures.json

A claim is a sentence or a table row of a page with ``{}`` for each figure, and the recorded figures. The files are
``benchmarks/*.json``, ``results/*.json`` and ``docs/figures.json``. A page fails if a claim is missing, or if a figure
belongs to no claim. Table rows of docs/field.md must occur in ``results/field-*.md``. The exit status is the number of failures.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "figures.json"

#: Pages with a claim for every figure. Not among them: pages whose figures are in executed code, and pages that quote
#: benchmarks/README.md.
PAGES = (
    "README.md", "docs/index.md", "docs/start.md", "docs/which.md", "docs/tradeoff.md", "docs/mixture.md",
    "docs/bank.md", "docs/hospital.md", "docs/guardrail.md", "docs/deferral.md", "docs/coming-from.md", "docs/curve.md",
    "docs/questions.md", "docs/reliability.md", "docs/row-order.md", "docs/guide/index.md",
    "docs/guide/tails.md", "docs/guide/classes-and-groups.md", "docs/guide/additive.md", "docs/guide/nets.md",
)  # fmt: skip
#: Errors as .123 or 12 %, with or without a sign. 95 % is a confidence level.
FIGURE = re.compile(r"(?<![\w.])[−+]?(?:0?\.\d{2,}|(?!95 %)\d+(?:\.\d+)? %)")
NUMBER = re.compile(r"[−+-]?\d*\.?\d+")


@dataclass(frozen=True)
class Claim:
    """A sentence or table row of a page.

    Parameters
    ----------
    page : str
        Path of the page in the repository.
    text : str
        The words, with ``{}`` for every figure.
    figures : tuple of str
        The recorded figures.
    """

    page: str
    text: str
    figures: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """The sentence with the recorded figures and single spaces."""
        return " ".join(self.text.format(*self.figures).split())

    def printed(self, page: str) -> str | None:
        """Return the sentence of the page with the same words and any figures."""
        parts = map(re.escape, " ".join(self.text.split()).split(r"{}"))
        match = re.search(r"[+−]?[\d.,]*\d".join(parts), page)
        return None if match is None else match.group()


def prose(page: str) -> str:
    """Return a page without code blocks, link targets and comments, with single spaces."""
    page = re.sub(r"```.*?```|<!--.*?-->", " ", page, flags=re.DOTALL)
    page = re.sub(r"^    .*$", " ", page, flags=re.MULTILINE)
    return " ".join(re.sub(r"\]\([^)]*\)", "]", page).split())


def problems(pages: dict[str, str], claims: Sequence[Claim]) -> Iterator[str]:
    """Yield one message for each missing claim and each figure without a claim."""
    for name, text in pages.items():
        page = rest = prose(text)
        for claim in sorted((c for c in claims if c.page == name), key=lambda c: -len(c.expected)):
            if claim.expected in page:
                rest = rest.replace(claim.expected, " ")
                continue
            printed = claim.printed(page)
            difference = "lacks" if printed is None else f"has “{printed}”, the files"
            yield f"{name} {difference} “{claim.expected}”"
            rest = rest.replace(printed, " ") if printed else rest
        rest = re.sub(r"`[^`]*`", " ", rest)
        for match in FIGURE.finditer(rest):
            around = " ".join(rest[max(match.start() - 60, 0) : match.end() + 30].split())
            yield f"{name}: no file has {match.group()} in “… {around} …”"


def rows_without_record(page: str, records: Sequence[str]) -> Iterator[str]:
    """Yield the table rows of a page whose figures occur, in this order, in no table row of the records."""
    recorded = [
        "|".join(["", *(f"{float(x.replace('−', '-')):g}" for x in NUMBER.findall(line.split("|", 2)[2])), ""])
        for record in records
        for line in record.splitlines()
        if line.startswith("| ")
    ]
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or not re.search(r"\.\d{3}", line):
            continue
        figures = [
            f"{float(x.replace('−', '-')):g}"
            for cell in cells if FIGURE.match(cell) or re.match(r"[01]\.\d{3}", cell)
            for x in NUMBER.findall(cell)
        ]  # fmt: skip
        pattern = re.compile(r"(?:\|.*)?".join(rf"\|{re.escape(x)}(?=\|)" for x in figures))
        if not any(pattern.search(row) for row in recorded):
            yield line


@cache
def read(name: str) -> Any:
    """Return the content of a JSON file of the repository."""
    return json.loads((ROOT / name).read_text(encoding="utf-8"))


def fraction(x: float, digits: int = 3) -> str:
    """Write an error as the pages do: .123."""
    return f"{x:.{digits}f}".lstrip("0") or "0"


def mean_and_half(values: Sequence[float]) -> tuple[str, str]:
    """Return a mean and half the length of its 95 % Student t interval."""
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return fraction(float(np.mean(values))), fraction(float(half))


def record() -> None:
    """Run the example of docs/tradeoff.md and write its figures to docs/figures.json."""
    import os

    os.environ["MPLBACKEND"] = "Agg"
    block = re.search(r"```python\n(.*?)```", (ROOT / "docs/tradeoff.md").read_text("utf-8"), re.DOTALL)
    assert block is not None
    credit: dict[str, Any] = {}
    exec(compile(block.group(1), "docs/tradeoff.md", "exec"), credit)

    def errors(model: Any) -> list[float]:
        labels = np.asarray(credit["y_new"])
        wrong = np.asarray(model.predict(credit["X_new"])) != labels
        return [float(wrong.mean()), float(max(wrong[labels == k].mean() for k in np.unique(labels)))]

    budgets = {"0": 0.0, "0.01": 0.01, "0.02": 0.02, "0.05": 0.05, "none": 1.0}
    recorded = {"forest": errors(credit["forest"])}
    recorded |= {name: errors(credit["clf"].reweight(error_budget=budget)) for name, budget in budgets.items()}
    contents = {"command": "python tools/figures.py record", "credit default": recorded}
    RECORD.write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")


def readme() -> Iterator[Claim]:
    """Yield the rows of the README's table."""
    splits = read("benchmarks/credit.json")["splits"]
    seconds = np.mean([split["seconds"]["ours"] for split in splits])
    yield Claim("README.md", "{} s of one processor", (f"{seconds:.1f}",))
    rows = {
        "XGBoost": "XGBoost",
        "ours, `error_budget=0`": "ours, 0.0",
        "XGBoost + forest averaged, tuned, budget 0": "XGBoost and a forest averaged, tuned, 0.0",
        "**ours, `error_budget=0.02`**": "ours, 0.02",
        "our trees and forest averaged evenly, tuned, budget .02": "our two models averaged, tuned, 0.02",
        "XGBoost + forest averaged, tuned, budget .02": "XGBoost and a forest averaged, tuned, 0.02",
        "**ours, no budget**": "ours, None",
        "scikit-learn's tuned threshold on XGBoost": "XGBoost, scikit-learn's tuned threshold",
    }
    for row, title in rows.items():
        errors = np.array([split["errors"][title] for split in splits])[:, :2].T
        figures = [x for values in errors for x in mean_and_half(values.tolist())]
        yield Claim("README.md", f"| {row} | {{}} ± {{}} | {{}} ± {{}} |", tuple(figures))


def coming_from() -> Iterator[Claim]:
    """Yield the rows of the page for users of other libraries."""
    page, means = "docs/coming-from.md", read("benchmarks/coming_from.json")["mean"]
    errors = ("mean error", "defaulters missed", "good clients refused")
    gaps = ("mean error", "gap of misses", "gap of refusals", "gap of selection")
    deferral = ("passed_on", "error_of_answered")
    rows = {
        "scikit-learn: `TunedThresholdClassifierCV`": ("TunedThresholdClassifierCV", errors),
        "`tune`, `miss(1) <= 0.35`": ("tune, miss(1)", errors),
        "the model alone": ("the model", gaps),
        "fairlearn, equalized odds, group-aware": ("ThresholdOptimizer, equalized_odds", gaps),
        "`tune`, odds, group-blind": ("tune, equalized_odds", gaps),
        "`tune`, odds, group-aware": ("tune, equalized_odds, told", gaps),
        "fairlearn, demographic parity, group-aware": ("ThresholdOptimizer, demographic_parity", gaps),
        "`tune`, parity, group-blind": ("tune, demographic_parity", gaps),
        "`tune`, parity, group-aware": ("tune, demographic_parity, told", gaps),
        "imbalanced-learn: `BalancedRandomForestClassifier`": ("BalancedRandomForestClassifier", errors),
        "imbalanced-learn: `EasyEnsembleClassifier`": ("EasyEnsembleClassifier", errors),
        "`RobustMixtureClassifier()`": ("RobustMixtureClassifier", errors),
        "the same fit, `error_budget=0.03`": ("the same fit, error_budget=0.03", errors),
        "MAPIE: `SplitConformalClassifier`": ("SplitConformalClassifier", deferral),
        "`tune`, MAPIE's deferral rate": ("tune, deferred", deferral),
    }
    for row, (method, columns) in rows.items():
        figures = tuple(fraction(means[method][column]) for column in columns)
        yield Claim(page, f"| {row} |" + " {} |" * len(columns), figures)
    yield Claim(page, "the accuracy if the recall is at least {} %", ("65",))


def tradeoff() -> Iterator[Claim]:
    """Yield the table of the page on the trade-off, and its summary."""
    page, credit = "docs/tradeoff.md", read("docs/figures.json")["credit default"]
    rows = {"forest": "forest", "no budget": "none"}
    rows |= {f"`error_budget={b}`": b for b in ("0", "0.01", "0.02", "0.05")}
    for row, name in rows.items():
        yield Claim(page, f"| {row} | {{}} | {{}} |", tuple(map(fraction, credit[name])))
    forest, budget = credit["forest"], credit["0.02"]
    yield Claim(
        page,
        "the forest misses {} % of the defaulters; for {} points more overall error `error_budget=0.02` misses {} %",
        (f"{100 * forest[1]:.0f}", f"{100 * (budget[0] - forest[0]):.1f}", f"{100 * budget[1]:.0f}"),
    )


def tails() -> Iterator[Claim]:
    """Yield the CVaR of three classifiers with errors on different rows."""
    from tailboost.solvers import minimize_cvar_mixture

    losses = np.zeros((3, 10))
    losses[np.arange(3), np.arange(3)] = 1.0
    text = "each err on another 10 % of the rows, K = 2, the CVaR at α = .15 is {}"
    yield Claim("docs/guide/tails.md", text, (fraction(minimize_cvar_mixture(losses, 0.15).value),))


#: Settings and definitions, with the words around them.
SETTINGS = {
    "docs/bank.md": ("at most 70 % approved", "at least 80 % of the approved clients"),
    "docs/hospital.md": ("at least 40 % of the alarms",),
}


def claims() -> list[Claim]:
    """Return all claims, settings included."""
    computed = [claim for make in (readme, coming_from, tradeoff, tails) for claim in make()]
    return computed + [Claim(page, text) for page, texts in SETTINGS.items() for text in texts]


def failures() -> list[str]:
    """Return the messages of all pages."""
    pages = {name: (ROOT / name).read_text(encoding="utf-8") for name in PAGES}
    records = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "results").glob("field-*.md"))]
    field = (ROOT / "docs" / "field.md").read_text(encoding="utf-8").partition("## Where we lose")[0]
    return [*problems(pages, claims()), *rows_without_record(field, records)]


def main(arguments: Sequence[str]) -> int:
    """Print the failures and return their number."""
    if list(arguments) == ["record"]:
        record()
        return 0
    messages = failures()
    print(*messages, sep="\n")
    return len(messages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
