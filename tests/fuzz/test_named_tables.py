"""Tables with named columns in any order: equal answers. Tables with a wrong name: refused.

Problems differ in their labels and in their features, few-valued or continuous. The columns of every table
argument are shuffled, one table at a time and all together.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import metrics, rates
from tailboost.rows.judged import judged

pd = pytest.importorskip("pandas")

pytestmark = [pytest.mark.fuzz, pytest.mark.filterwarnings("ignore")]
PART = "named tables"
SEEDS = range(21)
LABELS = (["no", "yes"], [0, 1], [3, 1, 2], [False, True], ["1", "10", "2"], ["b", "a", "c"], [-1.0, 0.0])


class Problem:
    """A random problem with all its tables."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.labels = LABELS[seed % len(LABELS)]
        n, K = 360, len(self.labels)
        numbers = rng.normal(size=(n, 3)) if seed % 2 else rng.integers(0, 3, size=(n, 3)).astype(float)
        self.X = pd.DataFrame(numbers, columns=["age", "sum", "days"])
        score = numbers[:, [0]] * np.linspace(-1, 1, K) + rng.gumbel(size=(n, K))
        self.y = np.array(self.labels)[score.argmax(axis=1)]
        self.groups = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "site": rng.integers(3, size=n)})
        self.costs = pd.DataFrame(5 * rng.random((n, K)), columns=pd.Index(sorted(self.labels), dtype=object))
        self.model = LogisticRegression().fit(self.X[:120], self.y[:120])
        names = pd.Index(self.model.classes_.tolist(), dtype=object)
        self.P = pd.DataFrame(self.model.predict_proba(self.X), columns=names)
        self.tables = {"P": self.P, "groups": self.groups, "costs": self.costs}
        self.limits = [rates.error(by="sex") <= 0.8, rates.deferred() <= 0.1]
        self.mix = self.tuned(**self.tables)
        self.given = self.from_probabilities(**self.tables)

    def tuned(self, groups, costs, **_):
        rows = slice(120, 240)
        return tb.tune(self.model, self.X[rows], self.y[rows], groups=groups[rows], costs=costs[rows],
                       objective=rates.cost(), limits=self.limits)  # fmt: skip

    def from_probabilities(self, P, groups, costs):
        rows = slice(120, 240)
        return tb.RobustMixtureClassifier.from_probabilities(
            {"m": P[rows]}, self.y[rows], groups=groups[rows], costs=costs[rows], objective=rates.cost(),
            limits=self.limits)  # fmt: skip

    def asked(self, P, groups, costs):
        """Public calls, with their answers."""
        rows = slice(240, None)
        X, y = self.X[rows], self.y[rows]
        part = {"groups": groups[rows], "costs": costs[rows], "cost_range": (0, 5)}
        bounds = [rates.cost() <= 4.9, rates.error(by="sex") <= 0.95]
        ways = {
            "tune": lambda: self.tuned(groups, costs).predict(self.X).tolist(),
            "from_probabilities": lambda: self.from_probabilities(P, groups, costs).rates_.to_dict(),
            "reweight": lambda: self.given.reweight(
                {"m": P[rows]}, y, groups=part["groups"], costs=part["costs"]).rates_.to_dict(),
            "predict from P": lambda: self.given.predict({"m": P}, deferred="human").tolist(),
            "predict_distribution from P": lambda: self.given.predict_distribution({"m": P}).tolist(),
            "predict_proba from P": lambda: self.given.predict_proba({"m": P}).tolist(),
            "certify": lambda: tb.certify(
                self.mix, X, y, rates=bounds, equal_rows="natural", **part).to_dict(),
            "certify answers": lambda: tb.certify(P, None, self.y, groups=groups).to_dict(),
            "watch": lambda: tb.Monitor.against(self.mix, limits=bounds).add(
                self.mix, X, y, equal_rows="natural", **part).to_dict(),
            "measure": lambda: (
                rates.measure(rates.error(by=("sex", "site")), self.y, P, groups=groups),
                rates.measure(
                    rates.cost(by="site"), self.y, self.mix.predict(self.X), groups=groups, costs=costs),
            ),
            "cvar": lambda: metrics.cvar_zero_one_loss(self.y, P, 0.2),
            "group errors": lambda: metrics.group_errors(self.y, self.mix.predict(self.X), groups),
        }  # fmt: skip
        if not judged(self.mix).weighs_groups:
            ways["rule"] = lambda: self.given.rule_.predict({"m": P}).tolist()
        return ways


def answer(ask):
    try:
        return repr(ask())
    except ValueError as refusal:
        return refusal


def shuffled(table, rng):
    while len(table.columns) > 1:
        order = rng.permutation(len(table.columns))
        if (order != np.arange(len(order))).any():
            return table.iloc[:, order]
    return table


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_in_any_order(seed, tally):
    problem, rng = Problem(seed), np.random.default_rng(1000 + seed)
    want = {way: answer(ask) for way, ask in problem.asked(**problem.tables).items()}
    mixed = {name: shuffled(table, rng) for name, table in problem.tables.items()}
    for changed in (*([name] for name in mixed), list(mixed)):
        given = {**problem.tables, **{name: mixed[name] for name in changed}}
        for way, ask in problem.asked(**given).items():
            found = answer(ask)
            if isinstance(want[way], ValueError):
                tally.refused() if isinstance(found, ValueError) else tally.violation((seed, way))
            elif found == want[way]:
                tally.equal()
            else:
                tally.violation((seed, way, changed, found))


@pytest.mark.parametrize("seed", SEEDS)
def test_wrong_names(seed, tally):
    problem = Problem(seed)
    for name in ("P", "costs"):
        table = problem.tables[name]
        first, last = table.columns[0], table.columns[-1]
        wrong = {
            "unknown": table.rename(columns={last: "other"}),
            "missing": table.drop(columns=[last]),
            "twice": table.set_axis([*table.columns[:-1], first], axis=1),
            "one more": table.assign(other=0.5),
        }
        both = ("from_probabilities", "measure", "reweight")
        uses = {
            "P": ("predict from P", "certify answers", "cvar", *both),
            "costs": ("tune", "certify", "watch", *both),
        }
        for kind, bad in wrong.items():
            ways = problem.asked(**{**problem.tables, name: bad})
            for way in uses[name]:
                found = answer(ways[way])
                named = isinstance(found, ValueError) and (
                    "no class" in str(found) or "the class" in str(found)
                )
                tally.refused() if named else tally.violation((seed, name, kind, way, found))
