"""CONTRIBUTING.md tells every file to touch: additions to a copy of the package, made as it says.

In a second copy each addition has a mistake, which the test of the right one has to see.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("typer")

from scipy.optimize import linprog
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates

PACKAGE = Path(tb.__file__).parent
PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")

# Addition: file: text at its end, or pairs of the text before and the text.
ADDED = {
    "A rate.": {
        "rates/rate.py": """
KINDS["false_discovery"] = Kind(
    "false discovery rate of {label}",
    lambda cells: (~cells.of_class & cells.answer, cells.answer),
    lowered=False,
)
KINDS["burden"] = Kind(
    "share of the errors", lambda cells: (cells.wrong, cells.wrong), lowered=False, across=True
)
""",
        "rates/make.py": """
def false_discovery(label, by=None):
    return Rate("false_discovery", checked_label(label), _checked_by(by))

def burden(by=None):
    return Rate("burden", by=_checked_by(by))
""",
        "rates/__init__.py": """
from tailboost.rates.make import burden, false_discovery
__all__ += ["burden", "false_discovery"]
""",
    },
    "A comparison.": {
        "rates/comparisons.py": """
from dataclasses import replace

COMPARISONS["deviation"] = replace(
    COMPARISONS[GAP],
    usual="above: deviation(...) <= 0.01",
    pair=lambda bound: (1.0, 2.0 * bound),
    value=lambda smallest, largest: (largest - smallest) / 2.0,
    of_difference=lambda difference: difference / 2.0,
)
""",
        "rates/make.py": """
def deviation(rate):
    return Spread("deviation", _family(rate, "deviation"))
""",
        "rates/__init__.py": """
from tailboost.rates.make import deviation
__all__ += ["deviation"]
""",
    },
    "A weight player with its classifier.": {
        "boosting/players/yours.py": """
from dataclasses import dataclass
from typing import Any
from tailboost.boosting.game import Player

@dataclass(frozen=True)
class Even(Player[Any]):
    def start(self, units):
        return units.base

    def weights(self, state):
        return state

    def update(self, state, losses):
        return state
""",
        "classifiers/yours.py": """
from dataclasses import dataclass
from tailboost.boosting.players.yours import Even
from tailboost.classifiers.cvar import CVaRBoostClassifier, RowPlayer
from tailboost.classifiers.input import preset

@dataclass(frozen=True)
class EvenOverRows(RowPlayer):
    def player(self, clf, units):
        return Even()

    def bounds(self, clf):
        return (), ()

@preset(player=EvenOverRows())
class EvenBoostClassifier(CVaRBoostClassifier):
    pass
""",
        "classifiers/__init__.py": """
from tailboost.classifiers.yours import EvenBoostClassifier
__all__ += ["EvenBoostClassifier"]
""",
        "app/registry.py": [(
            "METHODS: dict[str, Method] = {\n    m.name: m\n    for m in (\n",
            '        Method.of(classifiers.EvenBoostClassifier, "Even", "even weights", randomized=True),\n',
        )],
        "storage/reviewed.py": [('UNRESTRICTED = """\n',
            "tailboost.classifiers.yours: EvenOverRows\n")],
    },
    "A bound for certificates.": {
        "guarantees/rate_bounds.py": """
def _hoeffding(values, level):
    return min(1.0, float(values.mean()) + math.sqrt(math.log(1.0 / level) / (2.0 * len(values))))

MEAN_BOUNDS["Hoeffding"] = MeanBound("Hoeffding", _hoeffding)
OF_NUMBERS = MEAN_BOUNDS["Hoeffding"]
""",
    },
    "A command.": {
        "app/cli/yours.py": '''
from tailboost.app.cli import options, shared
from tailboost.core.table_files import read_raw

def count(data: options.Data, csv: options.CsvFormat = options.CSV) -> None:
    """Count the rows of a table."""
    shared.tell(f"{len(read_raw(data, *csv))} rows")
''',
        "app/cli/app.py": [
            ('    "Study": {\n', '        "count": ("yours.count", "Count the rows of a table."),\n')
        ],
    },
    "A ball of distributions.": {
        "solvers/worst_case.py": """
def _total_variation(d, p, radius):
    order = np.argsort(d, kind="stable")
    mass = np.cumsum(p[order])
    w = np.empty_like(p)
    w[order] = np.diff(np.maximum(mass - radius, 0.0), prepend=0.0)
    w[d == 0] += radius * p[d == 0] / p[d == 0].sum()
    eta = float(d[order][np.searchsorted(mass, radius)])
    return _Best(w, float(p @ np.maximum(d, eta)) - radius * eta, eta, "closed-form")

BALLS["made-up"] = Ball(_total_variation, lambda mass, share: share - mass)
""",
    },
    "A form of the rule.": {
        "selection/threshold_rule.py": [(
            f"    # -- other forms {'-' * 81}\n",
            """
    def to_ranges(self):
        if self.groups is not None:
            raise ValueError("ranges of a rule for each group are several tables")
        ends = ["" if low is None else repr(low) for low, _ in self.bands[0]]
        return "".join(f"{end},{action}\\n" for end, (_, action) in zip(ends, self.bands[0]))
""",
        )],
    },
    "An option of the shell.": {
        "app/cli/inspect.py": [
            ("    python: Annotated[\n        bool, typer.Option(\"--python\", "
             "help=\"Print a Python function without imports.\")\n    ] = False,\n",
             "    ranges: Annotated[bool, typer.Option(help=\"Print the ranges as CSV.\")] = False,\n"),
            ("    decision_rule = judged(classifier).rule\n",
             "    if ranges:\n        print(decision_rule.to_ranges(), end='')\n        return\n"),
        ],
    },
}  # fmt: skip
# Mistakes: a part of an addition, and what stands there instead.
MISTAKES = {
    "A rate.": ("(~cells.of_class & cells.answer, ", "(cells.answer, "),
    "A comparison.": ("(1.0, 2.0 * bound)", "(1.0, bound)"),
    "A weight player with its classifier.": (
        "        return state\n\n    def update",
        "        return state * (1.0 + (state.cumsum() > 0.5)) / 1.5\n\n    def update",
    ),
    "A bound for certificates.": ("(2.0 * len(values))", "len(values)"),
    "A command.": ("len(read_raw(data, *csv))", "len(read_raw(data, *csv).columns)"),
    "A ball of distributions.": ('    order =', '    radius *= 2.0\n    order ='),
    "A form of the rule.": ("repr(low)", "repr(round(low, 1))"),
    "An option of the shell.": ("    if ranges:\n", "    if not ranges:\n"),
}  # fmt: skip
CALLS = {
    "A rate.": """
rule = tb.tune(tb.Scores(0, 1), s[:600, None], y[:600], limits=["false_discovery(1) <= 20%"])
found["rule"] = rule.predict(s[600:, None]).tolist()
(bound,) = tb.certify(rule, s[600:, None], y[600:], rates=[rates.false_discovery(1) <= 0.3]).bounds
found["rate"] = str(bound.rate), bound.estimate, bound.upper
limits = ["burden(by=group) <= {f: 50%}"]
free = tb.tune(tb.Scores(0, 1), s[:600, None], y[:600], groups=g[:600], limits=limits, by_group=True)
found["shares"] = [
    (bound.subgroup, bound.n, bound.estimate, bound.upper)
    for bound in tb.certify(
        free, s[600:, None], y[600:], groups=g[600:], rates=["burden(by=group)"]
    ).bounds
]
found["answers"] = free.predict(s[600:, None], groups=g[600:]).tolist()
limits = ["burden(by=group) <= {f: 28%}"]
certified = tb.calibrate(free, s[600:, None], y[600:], groups=g[600:], limits=limits)
found["certified"] = certified.predict(s[600:, None], groups=g[600:]).tolist()
""",
    "A comparison.": """
for name, percent in {"gap": 20, "deviation": 10}.items():
    text = f"{name}(selected(1, by=group)) <= {percent}%"
    tuned = tb.tune(tb.Scores(0, 1), s[:600, None], y[:600], groups=g[:600], limits=[text], by_group=True)
    (line,) = [line for line in tuned.rates_ if line.subgroup == name]
    X, groups = s[600:, None], g[600:]
    stated = tb.certify(tuned, X, y[600:], groups=groups, limits=[text])
    rule = tb.calibrate(tuned, X, y[600:], groups=groups, limits=[text])
    later = np.where(g[:600] == "f", 1.0 - 1e-3 * s[:600], 0.999 * s[:600])[:, None]  # all of f selected
    watch = tb.Monitor.against(tuned, limits=[text])
    watch = watch.add(later, y[:600], groups=g[:600])
    found["compared by " + name] = {
        "tuned": tuned.predict(X, groups=groups).tolist(),
        "rule": rule.predict(X, groups=groups).tolist(),
        "interval": [line.value, line.low, line.high],
        "bound": [stated.bounds[-1].estimate, stated.bounds[-1].lower, stated.bounds[-1].upper],
        "certified": [stated.bounds[-1].certified, stated.bounds[-1].sufficient_rows],
        "evidence": watch.largest_evidence,
        "text": repr(rates.parse(text)),
    }
""",
    "A bound for certificates.": """
mean = tb.certify_losses(losses).bound("mean")
found["losses"] = mean.upper, mean.method
""",
    "A weight player with its classifier.": """
clf = get_method("evenboost").make(random_state=0).set_params(n_estimators=3).fit(s[:300, None], y[:300])
found["player"] = type(clf).__name__, clf.game_.trace.effective_size.tolist()
tb.save_model(clf, folder + "/even.model")
loaded = tb.load_model(folder + "/even.model")
found["stored"] = bool((loaded.predict(s[:, None]) == clf.predict(s[:, None])).all())
""",
    "A ball of distributions.": """
found["worst"] = worst_case_weights(losses, "made-up", radius=0.2, base=base).value
robust = tb.DROBoostClassifier(n_estimators=2, uncertainty="made-up", radius=0.05, random_state=0)
robust.fit(s[:300, None], y[:300])
found["weights"] = robust.worst_case_weights_.tolist()
try:
    robust.set_params(radius="auto").fit(s[:300, None], y[:300])
except ValueError as refusal:
    found["no radius"] = str(refusal)
""",
    "A form of the rule.": """
plain = tb.tune(tb.Scores("s", 1), pd.DataFrame({"s": s[:600]}), y[:600], limits=["miss(1) <= 20%"]).rule_
found["ranges"] = plain.to_ranges()
ends = np.array([low for low, _ in plain.bands[0] if low is not None])
found["scores"] = np.concatenate([s, ends, np.nextafter(ends, 0.0)]).tolist()
found["decided"] = plain.predict(np.array(found["scores"])).tolist()
""",
    "An option of the shell.": """
table = pd.DataFrame({"s": s[:600], "y": y[:600]})
table.to_csv(folder + "/scores.csv", index=False)
tune = ["tune", folder + "/scores.csv", "--score", "s", "--target", "y", "--limit", "miss(1) <= 20%"]
run([*tune, "--out", folder + "/rule.json"])
found["printed"] = run(["rule", folder + "/rule.json", "--ranges"])
""",
    "A command.": """
found["counted"] = run(["count", folder + "/rows.csv"])
""",
}
DRIVER = """
import json, sys, traceback, warnings
import numpy as np
import pandas as pd
from typer.testing import CliRunner
import tailboost as tb
from tailboost import rates
from tailboost.app import cli
from tailboost.app.registry import get_method
from tailboost.solvers import worst_case_weights

warnings.simplefilter("ignore")
folder, found = sys.argv[1], {}
data = np.load(folder + "/data.npz")
s, y, losses, g, base = (data[name] for name in ("s", "y", "losses", "g", "base"))
run = lambda words: CliRunner().invoke(cli.app, words).stdout
for heading, calls in json.load(open(folder + "/calls.json")).items():
    try:
        exec(calls, globals())
    except Exception:
        found["failed: " + heading] = traceback.format_exc()
json.dump(found, open(folder + "/found.json", "w"))
"""
RNG = np.random.default_rng(0)
S = RNG.random(1200)
DATA = {
    "s": S,
    "y": (RNG.random(1200) < S).astype(int),
    "losses": RNG.random(200),
    "g": RNG.choice(["f", "m"], 1200, p=[0.4, 0.6]),
    "base": RNG.dirichlet(np.ones(200)),
}


def results(folder, mistakes):
    """Return the results of the calls in a copy of the package with all additions, or mistakes in them."""
    copy = folder / "src" / "tailboost"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for heading, files in ADDED.items():
        right, wrong = mistakes.get(heading, ("", ""))
        places = 0
        for name, added in files.items():
            old = (copy / name).read_text(encoding="utf-8") if (copy / name).exists() else ""
            for before, text in added if isinstance(added, list) else [(old, added)]:
                assert not before or old.count(before) == 1, (name, before)
                places += text.count(right) if right else 0
                new = before + (text.replace(right, wrong) if right else text)
                old = old.replace(before, new) if before else new
            (copy / name).parent.mkdir(exist_ok=True)
            (copy / name).write_text(old, encoding="utf-8")
        assert places == bool(right), heading
    np.savez(folder / "data.npz", **DATA)
    (folder / "rows.csv").write_text("a,b\n1,x\n2,y\n3,z\n")
    (folder / "calls.json").write_text(json.dumps(CALLS))
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(folder)],
        env=os.environ | {"PYTHONPATH": str(folder / "src")},
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text())


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """The results with all additions."""
    found = results(tmp_path_factory.mktemp("contributed"), {})
    failed = [words for name, words in found.items() if name.startswith("failed")]
    assert not failed, failed[0]
    return found


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory):
    """The results with a mistake in each addition."""
    return results(tmp_path_factory.mktemp("mistaken"), MISTAKES)


@pytest.mark.parametrize("heading", ADDED)
def test_the_page_tells_every_file(heading):
    (told,) = re.findall(rf"\*\*{re.escape(heading)}\*\* (.+?)\n\n", PAGE, flags=re.DOTALL)
    named = set(re.findall(r"`([\w/]+\.py)`", told))
    assert set(ADDED[heading]) <= named


def test_a_rate_has_limits_tables_text_and_certificates(extended):
    s, y = DATA["s"], DATA["y"]
    answers = np.array(extended["rule"])
    named, estimate, upper = extended["rate"]
    assert named == "false discovery rate of 1"
    assert estimate == pytest.approx((y[600:][answers == 1] == 0).mean())  # counted by hand
    assert 0 < (answers == 1).sum() < len(answers)
    assert estimate < upper < 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same = tb.tune(tb.Scores(0, 1), s[:600, None], y[:600], limits=[rates.precision(1) >= 0.8])
    np.testing.assert_array_equal(answers, same.predict(s[600:, None]))  # the same limit in other words


def test_a_rate_across_subgroups_is_certified_for_what_it_counts(extended):
    """Its rows are all errors; a certified rule passes the binomial test of these rows."""
    answers, g, y = np.array(extended["answers"]), DATA["g"][600:], DATA["y"][600:]
    assert [name for name, *_ in extended["shares"]] == ["f", "m"]
    for name, n, estimate, upper in extended["shares"]:
        assert n == (answers != y).sum() > 100
        assert estimate == pytest.approx((g[answers != y] == name).mean())
        # Clopper-Pearson by its definition, at the level of one of four bounds.
        assert binom.cdf(round(n * estimate), n, upper) == pytest.approx(0.05 / 4)
    wrong = np.array(extended["certified"]) != y
    assert binom.cdf((g[wrong] == "f").sum(), wrong.sum(), 0.28) <= 0.05
    assert (g[answers != y] == "f").mean() > 0.28


def test_a_comparison_has_limits_intervals_certificates_and_monitors(extended):
    """Half of a gap: at half the limit all answers, tests and bets are the same, all values the half."""
    gap, half = (extended["compared by " + name] for name in ("gap", "deviation"))
    for same in ("tuned", "rule", "certified", "evidence"):
        assert half[same] == pytest.approx(gap[same])
    for name in ("interval", "bound"):
        assert half[name] == pytest.approx(np.array(gap[name]) / 2)
    assert half["text"] == "deviation(selected(1, by='group')) <= 0.1"
    answers, g = np.array(half["rule"]), DATA["g"][600:]
    assert abs(answers[g == "f"].mean() - answers[g == "m"].mean()) < 0.2
    assert max(half["evidence"]) > 100


def test_a_player_has_a_classifier_for_comparisons_and_files(extended):
    name, sizes = extended["player"]
    assert name == "EvenBoostClassifier"
    assert sizes == pytest.approx([1.0] * len(sizes))  # even weights in each round
    assert extended["stored"]


def test_a_bound_is_used_by_certificates(extended):
    losses = DATA["losses"]
    upper, method = extended["losses"]
    assert method == "Hoeffding"
    assert upper == pytest.approx(losses.mean() + math.sqrt(math.log(20) / (2 * len(losses))))


def test_a_command_is_run(extended):
    assert extended["counted"] == "3 rows\n"


def test_a_ball_has_its_largest_loss_and_a_classifier(extended):
    """By a linear program over w, u ≥ |w − p|; the classifier's weights are in the ball."""
    losses, p = DATA["losses"], DATA["base"]
    n = len(p)
    eye = np.eye(n)
    found = linprog(
        np.r_[-losses, np.zeros(n)],
        A_ub=np.block([[eye, -eye], [-eye, -eye], [np.zeros((1, n)), np.full((1, n), 0.5)]]),
        b_ub=np.r_[p, -p, 0.2],
        A_eq=np.r_[np.ones(n), np.zeros(n)][None],
        b_eq=[1.0],
    )
    assert extended["worst"] == pytest.approx(-found.fun, abs=1e-9)
    w = np.array(extended["weights"])
    assert w.sum() == pytest.approx(1.0)
    assert np.abs(w - 1 / len(w)).sum() / 2 == pytest.approx(0.05)
    assert "for 'made-up' give a number" in extended["no radius"]


def test_a_form_of_the_rule_answers_as_predict_does(extended):
    """Also at the thresholds, and at the numbers just below them."""
    lines = [line.split(",") for line in extended["ranges"].splitlines()]
    ends = [float(end or "-inf") for end, _ in lines]
    place = np.searchsorted(ends, extended["scores"], side="right") - 1
    assert [int(lines[k][1]) for k in place] == extended["decided"]
    assert len(set(extended["decided"])) == 2


def test_an_option_is_read_by_its_command(extended):
    assert extended["printed"] == extended["ranges"]


SEEN_BY = {
    "A comparison.": test_a_comparison_has_limits_intervals_certificates_and_monitors,
    "A rate.": test_a_rate_has_limits_tables_text_and_certificates,
    "A weight player with its classifier.": test_a_player_has_a_classifier_for_comparisons_and_files,
    "A bound for certificates.": test_a_bound_is_used_by_certificates,
    "A command.": test_a_command_is_run,
    "A ball of distributions.": test_a_ball_has_its_largest_loss_and_a_classifier,
    "A form of the rule.": test_a_form_of_the_rule_answers_as_predict_does,
    "An option of the shell.": test_an_option_is_read_by_its_command,
}


@pytest.mark.slow
@pytest.mark.parametrize("heading", ADDED)
def test_a_mistake_in_an_addition_is_seen(heading, mistaken):
    with pytest.raises((AssertionError, KeyError)):
        SEEN_BY[heading](mistaken)


class Frame:
    """A table of another library, which makes pandas' tables; its columns are lists."""

    def __init__(self, columns):
        self.data = columns

    @property
    def columns(self):
        return list(self.data)

    @property
    def shape(self):
        return len(next(iter(self.data.values()))), len(self.data)

    def __len__(self):
        return self.shape[0]

    def to_pandas(self):
        return pd.DataFrame(self.data)


def frames(library):
    """Return the function that makes a table of a library from columns."""
    if library == "stand-in":
        return Frame
    pytest.importorskip("pyarrow")  # by which polars makes pandas' tables
    return pytest.importorskip("polars").DataFrame


@pytest.mark.parametrize("library", ["stand-in", "polars"])
def test_a_data_frame_library_works_in_all_steps(library):
    """`fit`, `tune`, `certify`, `calibrate` and `Monitor` answer as for pandas, also for text and gaps."""
    make, r, n = frames(library), np.random.default_rng(1), 1600
    age = r.uniform(18, 80, n)
    job = r.choice(["a", "b", "c"], n)
    y = np.where(r.random(n) < 1 / (1 + np.exp(-(age - 45) / 8 - (job == "a"))), "yes", "no")
    age[::17] = np.nan
    sex = r.choice(["f", "m"], n)

    def answers(table):
        def part(rows, **columns):
            return table({name: column[rows].tolist() for name, column in columns.items()})

        def given(rows):
            X = part(rows, age=age, job=job)
            return X, y[rows], part(rows, sex=sex)

        fit, select, calibrate, later = (slice(400 * k, 400 * (k + 1)) for k in range(4))
        X, labels, groups = given(fit)
        limits = [rates.gap(rates.selected("yes", by="sex")) <= 0.3]
        clf = tb.RobustMixtureClassifier(
            [("logistic", pipeline())], limits=limits, random_state=0
        ).fit(X, labels, groups=groups)  # fmt: skip
        X, labels, groups = given(select)
        tuned = tb.tune(clf, X, labels, groups=groups, limits=limits)
        X, labels, groups = given(calibrate)
        certificate = tb.certify(tuned, X, labels, groups=groups)
        rule = tb.calibrate(tuned, X, labels, limits=[rates.miss("yes") <= 0.6])
        X, labels, groups = given(later)
        monitor = tb.Monitor.of(certificate).add(tuned, X, labels, groups=groups)
        return *(each.predict(X).tolist() for each in (clf, tuned, rule)), str(certificate), str(monitor)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert answers(make) == answers(pd.DataFrame)


def pipeline():
    """Return a model of the columns of the table."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    columns = make_column_transformer((SimpleImputer(), ["age"]), (OneHotEncoder(), ["job"]))
    return make_pipeline(columns, LogisticRegression(max_iter=1000))
