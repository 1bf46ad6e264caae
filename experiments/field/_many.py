"""Goals without another method: parity of many classes, costs within limits, two families of groups at once.

Ours on an out-of-fold score, compared with the most probable label and the label of smallest cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

import tailboost as tb
from experiments._experiment import Cells, Experiment, Report, Settings, markdown
from experiments._regret import corrected_half_width
from experiments.field._limits import TEST_ROWS, TRAIN_ROWS, learner, with_half
from experiments.field._scores import Scored, drawn, score
from experiments.field._tables import TABLES
from tailboost import rates
from tailboost.learners import HistBoostClassifier
from tailboost.rates import InfeasibleLimitsError

Found = dict[str, float]
Rates = Mapping[str, Callable[["Ahead"], float]]

# Cost of a missed defaulter, in false alarms.
MISSED = 5
TITLES = ("wine", "letter", "credit", "credit, amounts", "two families")
# Bands of the credit limit with equal numbers of clients.
BANDS = 10


class Ahead:
    """The test rows and the shares of each class among the answers to them.

    Parameters
    ----------
    scored : Scored
    shares : ndarray of shape (n, K)
    """

    def __init__(self, scored: Scored, shares: Any) -> None:
        self.scored, self.shares = scored, shares

    def of(self, rate: rates.Rate) -> dict[Any, float]:
        """Return a rate by subgroup: every row is K rows, weighted by its label distribution."""
        test, K = self.scored.test, self.shares.shape[1]
        found: dict[Any, float] = rates.measure(
            rate,
            np.repeat(test.y, K),
            np.tile(np.arange(K), len(test.y)),
            groups={name: np.repeat(values, K) for name, values in test.groups.items()},
            sample_weight=self.shares.ravel(),
            labels=np.arange(K),
        )
        return found

    def one(self, rate: rates.Rate) -> float:
        """Return a rate of all rows."""
        return float(self.of(rate)[None])

    def gap(self, *families: rates.Rate) -> float:
        """Return the largest spread of a family."""
        return float(max(np.ptp([*self.of(family).values()]) for family in families))


def _error(ahead: Ahead) -> float:
    return ahead.one(rates.error())


def _parity(column: str, K: int) -> tuple[Rates, dict[str, dict[str, Any]]]:
    families = [rates.selected(k, by=column) for k in range(K)]
    return (
        {"mean error": _error, "largest gap": lambda ahead: ahead.gap(*families)},
        {"parity 0.02 of each class": {"limits": [rates.gap(family) <= 0.02 for family in families]}},
    )


def _costs(missed: Any, by_row: bool) -> tuple[Rates, dict[str, dict[str, Any]]]:
    """Return the measure of costs, and the goals: of a cost matrix, or of amounts by row.

    ``missed`` has the cost of each missed defaulter of the test rows. The amount of a row is inferred
    from its features, like any group: limits without effect make bands of amounts strata.
    """
    cost = rates.cost() if by_row else rates.cost([[0, 1], [MISSED, 0]])
    odds = rates.miss(1, by="sex"), rates.false_alarm(1, by="sex")
    measures: Rates = {
        "cost": lambda ahead: float(np.where(ahead.scored.test.y == 1, ahead.shares[:, 0] * missed,
                                             ahead.shares[:, 1]).mean()),
        "gap of the odds": lambda ahead: ahead.gap(*odds),
        "share selected": lambda ahead: ahead.one(rates.selected(1)),
    }  # fmt: skip
    kept = [rates.cost(by="amount") <= 100 * MISSED] if by_row else []
    limits = [*kept, *(rates.gap(family) <= 0.02 for family in odds), rates.selected(1) <= 0.35]
    return measures, {
        "least cost": {"objective": cost, "limits": kept},
        "least cost, equalised odds 0.02, selected 0.35": {"objective": cost, "limits": limits},
    }


def _families() -> tuple[Rates, dict[str, dict[str, Any]]]:
    worst = rates.error(by="race of 4")
    odds = rates.miss(1, by="sex"), rates.false_alarm(1, by="sex")
    measures: Rates = {
        "mean error": _error,
        "worst race": lambda ahead: float(max(ahead.of(worst).values())),
        "gap of the odds of sexes": lambda ahead: ahead.gap(*odds),
        "missed": lambda ahead: ahead.one(rates.miss(1)),
        "false alarms": lambda ahead: ahead.one(rates.false_alarm(1)),
    }
    limits = [*(rates.gap(family) <= 0.02 for family in odds), rates.miss(1) <= 0.27]
    limits.append(rates.false_alarm(1) <= 0.2)
    return measures, {"both families": {"objective": rates.largest(worst), "limits": limits}}


def _points(settings: Settings, title: str, seed: int) -> dict[str, Found]:
    table = {"two families": "acs income", "credit, amounts": "credit"}.get(title, title)
    make: Callable[[], Any] = learner
    if title == "letter":
        make = partial(HistBoostClassifier, n_estimators=60, max_depth=5)
    unseen = {"acs income": ("RAC1P",), "credit": ("SEX",)}.get(table, ())
    train, test = drawn(TABLES[table](settings.folder), seed, TRAIN_ROWS, TEST_ROWS, 0.4)
    named = table if table == "credit" else title
    scored = score(train, test, make, settings.out / "scores", f"{named} many", unseen)
    groups = {name: values for name, values in train.groups.items() if name not in ("race", "race of 6")}
    K = scored.P.shape[1]
    more: dict[str, Any] = {}
    plain = {"the score's likeliest": np.eye(K)[scored.Q.argmax(axis=1)]}
    if table == "credit":
        of_train, of_test = (part.X["LIMIT_BAL"].to_numpy() for part in (train, test))
        by_row = title != table
        missed = MISSED * (of_test / of_train.mean() if by_row else np.ones(len(of_test)))
        measures, goals = _costs(missed, by_row)
        plain["the score's least cost"] = np.eye(2)[(scored.Q[:, 1] * missed > scored.Q[:, 0]).astype(int)]
        if by_row:
            cuts = np.quantile(of_train, np.arange(1, BANDS) / BANDS)
            groups["amount"] = np.searchsorted(cuts, of_train)
            each = MISSED * of_train / of_train.mean()
            more["costs"] = np.where(train.y[:, None] == 1, np.column_stack([each, 0 * each]), [0.0, 1.0])
    elif title == "two families":
        measures, goals = _families()
    else:
        measures, goals = _parity(next(iter(groups)), K)
    of_goals = _found(scored, measures, goals, groups=groups, random_state=seed, **more)
    return dict([*_measured(scored, measures, plain), *of_goals])


def _measured(scored: Scored, measures: Rates, answers: Mapping[str, Any]) -> Iterator[tuple[str, Found]]:
    for title, shares in answers.items():
        ahead = Ahead(scored, shares)
        yield title, {name: measure(ahead) for name, measure in measures.items()}


def _found(
    scored: Scored, measures: Rates, goals: Mapping[str, dict[str, Any]], **params: Any
) -> Iterator[tuple[str, Found]]:
    mix: Any = None
    for title, goal in goals.items():
        for randomized in (False, True):
            began = time.process_time()
            try:
                if mix is None:
                    mix = tb.tune(
                        scored.model, scored.train.X, scored.train.y,
                        **params, randomized=randomized, **list(goals.values())[-1],
                    )  # fmt: skip
                mix.randomized = randomized
                chosen = mix.reweight(**{"objective": "error", **goal})
            except InfeasibleLimitsError:
                yield title + ", drawn" * randomized, {}
                continue
            seconds = time.process_time() - began
            drawn_by = {title + ", drawn" * randomized: chosen.predict_distribution(scored.test.X)}
            [(words, found)] = _measured(scored, measures, drawn_by)
            yield words, found | {"seconds": seconds}


def play(settings: Settings, name: str) -> Report:
    """Compute missing cells and read all cells."""
    cells = Cells(settings, name, len(TITLES) * settings.repeats)
    found: dict[str, dict[str, Any]] = {}
    for title in TITLES:
        if settings.only and title not in settings.only:
            continue
        runs = [
            cells.get({"case": title, "seed": seed}, partial(_points, settings, title, seed))
            for seed in range(settings.repeats)
            if not settings.late or {"case": title, "seed": seed} in cells
        ]
        for point in runs[0] if runs else ():
            of = [run[point] for run in runs if len(run[point]) > 1]
            own: dict[str, Any] = {"splits": len(runs), "unreached": len(runs) - len(of)}
            for rate in of[0] if of else ():
                values = [run[rate] for run in of if rate in run]
                share = TEST_ROWS / TRAIN_ROWS if title == "two families" else 0.4 / 0.6
                own[rate] = [float(np.mean(values)), corrected_half_width(values, share)]
            found.setdefault(title, {})[point] = own
    return Report(_text(found), {"cases": found})


def _text(found: Mapping[str, Mapping[str, Any]]) -> str:
    parts = []
    for title, points in found.items():
        names = dict.fromkeys(name for own in points.values() for name in own)
        header = [name for name in names if name not in ("splits", "unreached")]
        body = [
            [point, *(with_half(own[n]) if n in own else "" for n in header),
             str(own["splits"]), str(own["unreached"] or "")]
            for point, own in points.items()
        ]  # fmt: skip
        parts.append(f"## {title}\n\n" + markdown(["", *header, "splits", "not reached"], body))
    return "\n\n".join(parts)


EXPERIMENT = Experiment(
    "field-many", "Many classes, costs, two families at once", play, repeats=5, has_jobs=True
)
