"""ACSIncome and PublicCoverage on other people's test rows, compared with published results on the same rows.

Their models were trained on a larger file, in 10⁵ to 10⁶ seconds of the processor for each method (the study
of Aequitas Flow); ours on their validation file. Their answers to the income rows are public
row by row, and one function reads theirs and ours.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import VotingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments.field._opponents import Ours, Unreached
from experiments.field._rules import Case, Goal, reached
from experiments.field._scores import Scored, score
from experiments.field._tables import TABLES, Table

# Codes of categories without an order.
NAMES = ("OCCP", "POBP", "RELP", "COW", "MAR")
GOALS = (
    *(Goal("cell", budget) for budget in (0.001, 0.003, 0.005, 0.01, 0.02)),
    *(Goal("ratio", level) for level in (0.7, 0.8, 0.9)),
)
METHODS = {
    "lgbm": "LightGBM", "os": "LightGBM, oversampled", "us": "LightGBM, undersampled",
    "eg": "exponentiated gradient", "gt": "thresholds by race",
}  # fmt: skip
# Printed results of PublicCoverage: accuracy and the errors of the two classes.
COVERAGE = {
    "LightGBM": (0.7907, 0.068, 0.542), "reductions": (0.7883, 0.066, 0.554),
    "thresholds by race": (0.6870, 0.361, 0.200),
}  # fmt: skip


def named(X: Any) -> Any:
    """Return a frame with unordered codes as categories."""
    return X.assign(**{name: X[name].astype("category") for name in NAMES if name in X})


def two_boosters() -> VotingClassifier:
    """Return the mean of LightGBM, which reads names as such, and XGBoost, which reads them as numbers."""
    from lightgbm import LGBMClassifier
    from xgboost import XGBClassifier

    light = LGBMClassifier(
        n_estimators=300, num_leaves=31, learning_rate=0.08, cat_smooth=20, min_child_samples=50, n_jobs=1,
        verbose=-1,
    )  # fmt: skip
    extreme = XGBClassifier(
        n_estimators=400, max_depth=8, learning_rate=0.1, colsample_bytree=0.6, min_child_weight=10, n_jobs=1
    )
    by_name = make_pipeline(FunctionTransformer(named), light)
    return VotingClassifier([("light", by_name), ("extreme", extreme)], voting="soft")


def _measured(q: Any, scored: Scored) -> dict[str, Any]:
    """Return the rates by race, and the largest error of a (class, sex) cell and of each class."""
    y = scored.test.y
    found: dict[str, Any] = reached(q, y, scored.test.groups["race"])
    wrong = np.where(y == 1, 1 - q, q)
    women = scored.test.groups["sex"] == "female"
    found["sex cell"] = max(float(wrong[(y == k) & (women == w)].mean()) for k in (0, 1) for w in (0, 1))
    return found | {"classes": [float(wrong[y == k].mean()) for k in (0, 1)]}


def _theirs(settings: Settings, table: Table) -> dict[str, Any]:
    """Measure the published answers, row by row."""
    y, race = table.y[table.test], table.groups["race"][table.test]
    women = table.groups["sex"][table.test] == "female"
    found = {}
    with np.load(settings.folder / "field" / "acs_income.published.npz") as answers:
        for name in answers:
            q = np.unpackbits(answers[name])[: len(y)].astype(np.float64)
            wrong = np.where(y == 1, 1 - q, q)
            cells = [float(wrong[(y == k) & (women == w)].mean()) for k in (0, 1) for w in (0, 1)]
            classes = [float(wrong[y == k].mean()) for k in (0, 1)]
            found[name] = reached(q, y, race) | {"sex cell": max(cells), "classes": classes}
    return found


class _Fit:
    """The score of a table, and our rules, created at first use."""

    def __init__(self, settings: Settings, name: str, *, told: bool) -> None:
        self.settings, self.name, self.told = settings, name, told
        self._scored: Scored | None = None
        self._ours: dict[bool, Ours] = {}
        self.seconds = 0.0

    @property
    def scored(self) -> Scored:
        if self._scored is None:
            table = TABLES[self.name](self.settings.folder)
            assert table.test is not None
            parts = table.rows(np.flatnonzero(~table.test)), table.rows(np.flatnonzero(table.test))
            # Without the race if group-blind: the model must not read the race either.
            title, unseen = (f"{self.name} with race", ()) if self.told else (self.name, ("RAC1P",))
            self._scored = score(*parts, two_boosters, self.settings.out / "scores", title, unseen)
        return self._scored

    def plain(self) -> dict[str, Any]:
        """Return the results of the score at one half."""
        scored = self.scored
        return _measured((scored.Q[:, 1] > 0.5).astype(np.float64), scored) | {"seconds": scored.seconds}

    def goal(self, goal: Goal, randomized: bool) -> dict[str, Any]:
        """Return the results of our rules."""
        scored = self.scored
        if not self._ours:
            began = time.process_time()
            first = Ours(Case(scored, "race", 0), told=self.told, randomized=randomized)
            self._ours[randomized] = first
            self.seconds = time.process_time() - began
        ours = next(iter(self._ours.values()))
        ours.randomized = randomized
        began = time.process_time()
        try:
            found = _measured(ours(goal), scored)
        except Unreached as no:
            found = {"unreached": str(no)}
        return found | {"seconds": time.process_time() - began, "first": self.seconds}


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    cells = Cells(settings, name, 2 * (2 + 3 * len(GOALS)) + 1)
    tables = ("acs income", "acs coverage")
    table: list[Table] = []

    def theirs() -> dict[str, Any]:
        table.append(TABLES["acs income"](settings.folder))
        return _theirs(settings, table[0])

    published = cells.get({"what": "published"}, theirs)
    found: dict[str, Any] = {}
    for of in settings.only or tables:
        for told in (True, False):
            fit = _Fit(settings, of, told=told)
            title = f"{of}, {'told' if told else 'not told'}"
            key = {"table": of, "told": told, "what": "score"}
            if settings.late and key not in cells:
                continue
            found[title] = {"score": cells.get(key, fit.plain)}
            for goal in GOALS:
                for randomized in (False, True) if told else (False,):
                    key = {"table": of, "told": told, "goal": goal.title, "drawn": randomized}
                    if settings.late and key not in cells:
                        continue
                    got = cells.get(key, partial(fit.goal, goal, randomized))
                    found[title][goal.title + ", drawn" * randomized] = got
    return Report(
        _text(published, found),
        {"published": published, "ours": found, "published coverage": COVERAGE},
        partial(_picture, published, found),
    )  # fmt: skip


COLUMNS = ("error", "cell", "large cell", "sex cell", "recalls", "ratio")
HEADER = (
    "accuracy", "worst race × class cell", "of 500 rows and more", "worst sex × class cell",
    "least recall of a race by the largest", "approval ratio of races",
)  # fmt: skip


def _row(title: str, found: Mapping[str, Any]) -> list[str]:
    if "unreached" in found:
        return [title, "not reached", *([""] * (len(COLUMNS) - 1))]
    return [title, f"{1 - found['error']:.4f}", *(f"{found[name]:.3f}" for name in COLUMNS[1:])]


def _text(published: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    parts = []
    for title, runs in found.items():
        body = [[*_row(goal, run), f"{run['seconds']:.1f}"] for goal, run in runs.items()]
        parts.append(f"## {title}\n\n" + markdown(["ours", *HEADER, "seconds"], body))
        if title.startswith("acs income, told"):
            body = [_row(f"{METHODS[name.split('_')[0]]} ({name})", run) for name, run in published.items()]
            parts.append("## acs income, published answers\n\n" + markdown(["theirs", *HEADER], body))
    body = [[name, *(f"{x:.4f}" for x in run)] for name, run in COVERAGE.items()]
    parts.append(
        "## acs coverage, as the study prints it\n\n"
        + markdown(["theirs", "accuracy", "error of class 0", "of class 1"], body)
    )
    return "\n\n".join(parts)


def _picture(published: Mapping[str, Any], found: Mapping[str, Any], plt: Any) -> Any:
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
    kinds = (("worst cell", "cell", "worst race × class cell"),
        ("worst cell", "large cell", "worst cell of 500 test rows and more"),
             ("ratio", "ratio", "approval ratio of races"))  # fmt: skip
    for axis, (kind, what, label) in zip(axes, kinds, strict=True):
        for marker, (method, words) in zip("osv^D", METHODS.items(), strict=True):
            of = [run for name, run in published.items() if name.startswith(f"{method}_")]
            accuracy = [1 - run["error"] for run in of]
            axis.plot(accuracy, [run[what] for run in of], marker, color="0.45", label=words, ls="", ms=6)
        for colour, told in (("C0", "told"), ("C1", "not told")):
            runs = found.get(f"acs income, {told}", {})
            for drawn, style in ((False, "-"), (True, ":")):
                curve = _curve(runs, kind, drawn)
                if len(curve) > 1:
                    x, y = zip(*[(1 - run["error"], run[what]) for run in curve], strict=True)
                    words = f"ours, race {told}" + ", drawn" * drawn
                    axis.plot(x, y, f".{style}", color=colour, label=words)
        axis.set(xlabel="accuracy on the 332,900 test rows", ylabel=label)
    axes[2].axhline(0.8, color="0.8", lw=0.8)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize="small")
    return figure


def _curve(runs: Mapping[str, Any], kind: str, drawn: bool) -> Sequence[Any]:
    """Return the runs of one kind of goal, the score first, by accuracy."""
    of = [
        run for goal, run in runs.items()
        if goal.startswith(kind) and goal.endswith("drawn") == drawn and "unreached" not in run
    ]  # fmt: skip
    plain = [runs["score"]] if "score" in runs else []
    return sorted([*plain, *of], key=lambda run: run["error"])


EXPERIMENT = Experiment(
    "field-published", "ACSIncome and PublicCoverage on published test rows", play, has_jobs=True
)
