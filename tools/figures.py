"""Compare the figures on the pages with the records of the measurements.

    python tools/figures.py            print the figures that no record contains
    python tools/figures.py record     run the examples of the pages again and write docs/figures.json

A row of a table is correct if one entry of a record contains all its figures. Another figure is correct if
any entry of the page's records contains it. The comparison uses the digits on the page. The exit status is
the number of faults.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXAMPLES = "docs/figures.json"
#: Records of pages. The other pages of docs/ have no figures of measurements, except the exempt ones.
RECORDS: dict[str, tuple[str, ...]] = {
    "README.md": ("benchmarks/credit.json", "benchmarks/age_bands.json"),
    "docs/which.md": ("benchmarks/credit.json",),
    "docs/coming-from.md": ("benchmarks/coming_from.json",),
    "docs/tradeoff.md": (EXAMPLES,),
    "docs/limits.md": ("benchmarks/confidence.json", "benchmarks/kinds.json"),
    "docs/power.md": ("benchmarks/power.json", "benchmarks/room.json", "benchmarks/ties.json"),
    "docs/unlabeled.md": ("benchmarks/counts.json",),
    "docs/mixture.md": (
        "results/field-strong.json",
        "benchmarks/averages.json",
        "benchmarks/capacity.json",
        "benchmarks/prediction.json",
        "benchmarks/sparse_tables.json",
    ),
    "docs/broken-limits.md": ("results/broken-limits.json",),
    "docs/field.md": (
        *(
            f"results/field-{name}.json"
            for name in (
                "published",
                "limits",
                "many",
                "curves",
                "oracle",
                "subgroups",
                "classes",
                "strong",
                "decomposition",
            )
        ),
        "benchmarks/averages.json",
        "benchmarks/bagged_selection.json",
        "benchmarks/beside_autogluon.json",
    ),
}
#: Their figures are definitions, are printed by code that tests run, or come from benchmarks/README.md,
#: results/given-scores.md (means of its record) or a test.
EXEMPT = (
    "docs/ten-tasks.md", "docs/certify.md", "docs/calibrate.md", "docs/monitor.md", "docs/decisions.md",
    "docs/glossary.md", "docs/weak-regions.md", "docs/published.md", "docs/guide/tails.md",
    "docs/guardrail.md", "docs/multi-label.md",
)  # fmt: skip
#: Settings and definitions: figures that no measurement produced.
SETTINGS = {".001", ".02", ".05", ".40", ".31", "65 %", "40 %", "20 %"}
#: An error as .123 or a percentage; 95 % is a confidence level. Text in backquotes is code.
FIGURE = re.compile(r"(?<![\w.])[−+]?(?:0?\.\d{2,}|(?!95 %)\d+(?:\.\d+)? %)")
#: Larger entries contain a match for almost any row by chance.
MOST_NUMBERS = 60


def numbers(node: Any) -> list[float]:
    """Return all numbers below a node of a JSON document."""
    if isinstance(node, dict):
        return [x for part in node.values() for x in numbers(part)]
    if isinstance(node, list):
        return [x for part in node for x in numbers(part)]
    return [float(node)] if isinstance(node, (int, float)) and not isinstance(node, bool) else []


def entries(node: Any) -> Iterator[frozenset[str]]:
    """Yield the numbers of each entry of a JSON document, as a page may write them."""
    parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    values = numbers(node) if parts else []
    if values and len(values) <= MOST_NUMBERS:
        yield frozenset(text for value in values for text in spellings(value))
    for part in parts:
        yield from entries(part)


def spellings(value: float) -> Iterator[str]:
    """Yield how a page may write a number: itself, its complement, and both as percentages."""
    for x in (value, 1 - value):
        for digits in (2, 3, 4):
            text = f"{abs(x):.{digits}f}".removeprefix("0")
            yield from (text, f"+{text}", f"−{text}")
        yield from (f"{100 * abs(x):.{digits}f} %" for digits in (0, 1))


def problems(page: str, records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the figures of a page's text that its records do not contain.

    Parameters
    ----------
    page : str
        Text in Markdown.
    records : sequence of dict
        JSON documents. Their values are the largest entries.
    """
    page = re.sub(r"```.*?```|<!--.*?-->|^    .*?$", " ", page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"\]\([^)]*\)|`[^`]*`", " ", page)
    known = [entry for record in records for part in record.values() for entry in entries(part)]
    anywhere = frozenset().union(*known) | SETTINGS
    for line in page.splitlines():
        is_row = line.startswith("|")
        # The first cells of a row name the method: ``budget 0.02`` is no measurement.
        parts = [cell for cell in line.split("|") if not re.sub(FIGURE, "", cell).strip(" *±/–")]
        text = "|".join(parts) if is_row else line
        figures = [re.sub(r"^([−+]?)0\.", r"\1.", figure) for figure in FIGURE.findall(text)]
        missing = [figure for figure in figures if figure not in anywhere]
        if missing:
            yield f"no record contains {', '.join(missing)}: {line.strip()}"
        elif is_row and len(figures) > 2 and not any(set(figures) <= entry for entry in known):
            yield f"no entry of a record contains all figures of the row {line.strip()}"


def faults() -> Iterator[str]:
    """Yield the faults of all pages, each with the name of its page."""
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("docs/guide/*.md"))):
        name = path.relative_to(ROOT).as_posix()
        if name not in EXEMPT:
            files = RECORDS.get(name, ())
            records = [json.loads((ROOT / file).read_text(encoding="utf-8")) for file in files]
            text = path.read_text(encoding="utf-8")
            yield from (f"{name}: {problem}" for problem in problems(text, records))


def record() -> None:
    """Run the example of the trade-off page and write the errors that the page quotes."""
    import os

    os.environ["MPLBACKEND"] = "Agg"
    block = re.search(r"```python\n(.*?)```", (ROOT / "docs/tradeoff.md").read_text("utf-8"), re.DOTALL)
    assert block is not None
    run: dict[str, Any] = {}
    exec(compile(block[1], "docs/tradeoff.md", "exec"), run)
    classifier = run["clf"]
    models = {f"error_budget={b}": classifier.reweight(error_budget=b) for b in (0.0, 0.01, 0.02, 0.05, 1.0)}
    models["forest"] = run["forest"]
    wrong = {name: model.predict(run["X_new"]) != run["y_new"] for name, model in models.items()}
    errors = {
        name: [float(w.mean()), float(max(w[run["y_new"] == k].mean() for k in (0, 1)))]
        for name, w in wrong.items()
    }
    document = {"command": "python tools/figures.py record", "credit default": errors}
    (ROOT / EXAMPLES).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Print the faults and return their number."""
    if list(arguments) == ["record"]:
        record()
        return 0
    found = list(faults())
    print(*found, sep="\n")
    return len(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
