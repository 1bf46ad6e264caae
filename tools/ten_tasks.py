"""Ten things a new user does, each by its command, with the seconds it took and what it printed, as a page.

Run in an empty folder: ``python tools/ten_tasks.py > docs/ten-tasks.md``. A command that ends otherwise than
expected ends this with its output.
"""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from sklearn.model_selection import train_test_split

import tailboost as tb

INTRODUCTION = """# Ten tasks

The first tasks of a new user: the commands, their output, and the seconds they take. `wines.csv`
and `new_wines.csv` are the two halves of the bundled wines, 2,660 rows each, without those that repeat
another: five grades, two of them rare. Seconds are processor seconds of one core, the start of the program
included ({start:.1f} s of each command); written by `tools/ten_tasks.py` with tailboost {version}.

| task | seconds |
|---|---|
{summary}
"""
MOST_LINES = 24


@dataclass(frozen=True)
class Task:
    """One thing to do.

    Attributes
    ----------
    title, words : str
        What it is, and what to know of it.
    steps : tuple of str
        Commands of the shell; a text of several lines is a Python program.
    first : str
        Lines before the one that begins so are left out of the page.
    """

    title: str
    words: str
    steps: tuple[str, ...]
    first: str = ""


TASKS = (
    Task(
        "Compare methods on my table",
        "Ours beside forests and XGBoost: as they are, balanced, and tuned for the worst class. The numbers "
        "are in `comparison/results.json`, the pictures in `comparison/report.html`.",
        ("tailboost compare wines.csv --target grade --out comparison --quiet",),
        "In short",
    ),
    Task(
        "Fit with targets",
        "At most 55 % of the best grade wrong, 65 % of the others; `--test` measures it on fresh rows.",
        (
            "tailboost fit wines.csv --target grade --max-error 'grade 8 or 9=.55,*=.65' --model aimed.model "
            "--test new_wines.csv",
        ),
    ),
    Task(
        "Pick a budget",
        "Without targets the rule minimises the error of the worst class. `tradeoff` shows the cost; "
        "`--pick` stores the model within a limit on the overall error, and trains nothing. With a file it "
        "also shows the errors of `predict` there; a point picked by that file needs another one to be "
        "certified on.",
        (
            "tailboost fit wines.csv --target grade --model m.model --quiet",
            "tailboost tradeoff m.model --out curve.png",
            "tailboost tradeoff m.model --pick .48 --model cheaper.model",
        ),
    ),
    Task(
        "Certify",
        "Bounds that hold together with 95 % confidence, from rows that took no part in the fit.",
        ("tailboost certify cheaper.model new_wines.csv --max-error 'grade 8 or 9=.9,*=.8'",),
    ),
    Task(
        "Predict",
        "A label for every row, and the label distribution of the rule, which is no probability.",
        ("tailboost predict cheaper.model new_wines.csv --out predictions.csv", "head -3 predictions.csv"),
    ),
    Task(
        "Explain it to a manager",
        "The first screen of `comparison/report.html` counts people, with one picture; for the selected "
        "model, `evaluate` lists the errors by class.",
        ("tailboost evaluate cheaper.model new_wines.csv",),
    ),
    Task(
        "Load the model in Python",
        "A model file is a pipeline of scikit-learn, read without pickle. It takes the table as it was in "
        "the file.",
        (
            """\
import pandas as pd
import tailboost as tb

model = tb.load_model("cheaper.model")
wines = pd.read_csv("new_wines.csv")
print(tb.metrics.class_errors(wines["grade"], model.predict(wines)))
""",
        ),
    ),
    Task(
        "Wrap my own models",
        "Any classifiers, as they are; models that are fitted already go to [`tb.tune`](limits.md).",
        (
            """\
import pandas as pd
import tailboost as tb
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

wines, new = pd.read_csv("wines.csv"), pd.read_csv("new_wines.csv")
mine = [
    ("forest", RandomForestClassifier(random_state=0)),
    ("logistic", make_pipeline(StandardScaler(), LogisticRegression())),
]
mix = tb.RobustMixtureClassifier(mine, error_budget=0.02, random_state=0)
mix.fit(wines.drop(columns="grade"), wines["grade"])
forest = RandomForestClassifier(random_state=0).fit(wines.drop(columns="grade"), wines["grade"])
for name, model in (("forest", forest), ("mixture", mix)):
    errors = tb.metrics.class_errors(new["grade"], model.predict(new.drop(columns="grade")))
    print(name, {grade: round(error, 3) for grade, error in errors.items()})
""",
        ),
    ),
    Task(
        "Find the right method",
        "[Which method?](which.md) is a table by what you fear for; `list` names all, and the parameters of "
        "one.",
        ("tailboost list --method worstclassboost",),
    ),
    Task(
        "Report a bug",
        "With the shortest code that shows it, and this output.",
        ("tailboost --version",),
    ),
)


def write_tables() -> None:
    """Write the two halves of the bundled wines."""
    wines = tb.datasets.load_wine_quality()
    table = wines.data.drop_duplicates()
    table = table.assign(grade=wines.target_names[wines.target.loc[table.index]])
    halves = train_test_split(table, test_size=0.5, stratify=table["grade"], random_state=0)
    for name, half in zip(("wines.csv", "new_wines.csv"), halves, strict=True):
        half.to_csv(name, index=False)


def run(step: str) -> tuple[str, float]:
    """Run a step; return what it printed, and its processor seconds."""
    if "\n" in step:
        command = [sys.executable, "-W", "ignore", "-c", step]
    else:
        words = shlex.split(step)
        program = [sys.executable, "-c", "from tailboost.app.cli import main; main()"]
        command = [*program, *words[1:]] if words[0] == "tailboost" else words
    before = _seconds()
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=one_thread
    )
    if done.returncode:
        raise SystemExit(f"{step}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout, _seconds() - before


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def described(number: int, task: Task) -> tuple[str, float]:
    """Run a task; return its part of the page and its seconds."""
    parts, total = [f"## {number}. {task.title}", task.words], 0.0
    for step in task.steps:
        start = time.perf_counter()
        printed, seconds = run(step)
        print(f"{task.title}: {seconds:.1f} s, {time.perf_counter() - start:.1f} s wall", file=sys.stderr)
        total += seconds
        lines = [line.rstrip() for line in printed.rstrip().splitlines()]
        first = (
            next((i for i, line in enumerate(lines) if line.startswith(task.first)), 0) if task.first else 0
        )
        shown = lines[first : first + MOST_LINES]
        shown = ["…"] * (first > 0) + shown + ["…"] * (len(lines) > first + MOST_LINES)
        fence = "```python" if "\n" in step else "```shell"
        parts.append(f"{fence}\n{step.rstrip()}\n```")
        if lines:
            parts.append("```text\n" + "\n".join(shown) + "\n```")
    return "\n\n".join(parts), total


def main() -> None:
    """Print the page."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tables()
        _, start = run("tailboost --version")
        found = [described(k, task) for k, task in enumerate(TASKS, 1)]
        os.chdir(Path(folder).parent)
    summary = "\n".join(
        f"| [{task.title}](#{_anchor(k, task)}) | {seconds:.0f} |"
        for k, (task, (_, seconds)) in enumerate(zip(TASKS, found, strict=True), 1)
    )
    print(INTRODUCTION.format(start=start, version=version("tailboost"), summary=summary))
    print("\n\n".join(text for text, _ in found))


def _anchor(number: int, task: Task) -> str:
    """Return the name that Markdown gives a heading."""
    return f"{number}-{task.title.lower().replace(' ', '-')}"


if __name__ == "__main__":
    main()
