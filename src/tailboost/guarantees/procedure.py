"""The contract of a procedure of `calibrate`, its results, what it tests, and rows with scores and losses."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats, Hashes, Ints, Model
from tailboost.guarantees.fresh_rows import ERRORS, FreshRows
from tailboost.guarantees.rate_bounds import percent
from tailboost.rates import Limit, Objective, Rate, Strata
from tailboost.rows.fingerprints import hash_rows, hashes_of_pairs
from tailboost.rows.judged import judged
from tailboost.selection.data import ScoredRows, SelectionData, ThresholdFamily

# Part of the level of the simpler of two kinds of rules: one threshold, beside an inferred group or
# thresholds by group that move together. Most certified rules are of the simpler kind, and pay for the
# other kind with their level. In 162 pairs of `benchmarks/kinds.py` (``--part``) the error is .0056 ± .0036
# lower than with halves, and 135 are certified with both. With misses by two columns ≤ .2 (5 tables, 97
# draws of 3,000 rows) it is .011 ± .006 lower than that of one threshold with the whole level, and at most
# .004 ± .004 higher on a table; with halves, two tables have .010 more.
PART_OF_SIMPLER = 0.9


# Standard errors by which a more complex rule must be better than a simpler one: the rule of one standard
# error (Breiman et al., "Classification and Regression Trees", 1984, section 3.4.3).
PAYING_ERRORS = 1.0


@dataclass(frozen=True, eq=False)
class Certified:
    """A rule within all limits.

    Attributes
    ----------
    selection : Selection
        Its rule is certified.
    method : str
        Name of the procedure in the bounds.
    made : str
        Sentences on the making of the rule, for the certificate.
    """

    selection: Any
    method: str
    made: str


@dataclass(frozen=True, eq=False)
class Refused:
    """No rule is certified.

    Attributes
    ----------
    answered : FreshRows
        The fresh rows with the answers of one rule, for the table of the refusal.
    rule : str
        Name of this rule.
    why : str
        The reason, if these answers miss no limit.
    tested : bool
        Whether a limit was tested, or a label was read.
    parts : dict of (Rate, object) to float
        Part of the level for the test of a rate in a subgroup; the whole level for rates without an entry.
    """

    answered: FreshRows
    rule: str
    why: str
    tested: bool = True
    parts: Mapping[tuple[Rate, Any], float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Reference:
    """The answers with which a certified rule is compared: by default the answers of the given rule.

    Attributes
    ----------
    name : str
        Who answers.
    on : callable
        Returns fresh rows with these answers; None if there are none.
    """

    name: str = "the given rule"
    on: Callable[[FreshRows], FreshRows | None] = lambda fresh: fresh


# Draws of new rows for a chance: its standard error at .9 is .02.
N_DRAWS = 200


@dataclass(frozen=True, eq=False)
class Procedure(ABC):
    """A way to certify all limits of a selection on fresh rows.

    Attributes
    ----------
    selection : Selection
        Within the limits; of several labels `LabelPairs`, of boosting `Reweighted`.
    fresh : FreshRows
        Opened by the classifier, with its answers.
    level : float in (0, 1)
        Allowed probability of a broken limit.
    title : str
        Name among other procedures.
    takes_long : bool
        Whether many rules are selected and tested: then nothing is repeated for an estimate.
    """

    selection: Any
    fresh: FreshRows
    level: float

    title: ClassVar[str]
    takes_long: ClassVar[bool] = False

    @property
    @abstractmethod
    def applies(self) -> bool:
        """Whether the procedure serves these limits and rows.

        The answer depends on the selection data and on numbers of fresh rows alone. So the next procedure
        may have the whole level.
        """

    @abstractmethod
    def run(self) -> Certified | Refused:
        """Return the certified rule, or the rule of a refusal."""

    @property
    def may_keep_by_construction(self) -> bool:
        """Whether a limit may be kept without a test, by a group without the counted answer."""
        return False

    @property
    def may_fail(self) -> bool:
        """Whether other rows may refuse what these rows certify."""
        return True

    @property
    def out_of_reach(self) -> bool:
        """Whether a certificate is next to impossible by the selection data and the number of fresh rows."""
        return False

    @property
    def family_of_tests(self) -> ThresholdFamily | None:
        """The thresholds of the tests, of which each limited rate depends on one; None without them."""
        return None

    @property
    def chances(self) -> Any:
        """The chances that new rows certify limits, if the procedure draws new rows; otherwise None."""
        return None

    @property
    def chance(self) -> float | None:
        """The chance that as many new rows certify the limits with this selection; None if it is unknown."""
        return None

    @property
    def tests_pairs(self) -> bool:
        """Whether each gap or ratio of counts has the exact test of pairs at the whole level."""
        return False

    @property
    def level_of_test(self) -> float:
        """Level of the test of one rate."""
        return self.level

    @property
    def limits(self) -> Sequence[Limit]:
        """The limits of the selection's problem, each of which is tested."""
        return self.selection.problem.limits


@dataclass(frozen=True, eq=False)
class Reweighted:
    """The selection of a boosting classifier for the overall error within limits.

    The class has the members of `Selection` for procedures.

    Attributes
    ----------
    classifier : classifier
        Answers by the rule.
    """

    classifier: Any

    def within(self, limits: Sequence[Limit]) -> Reweighted:
        """Return the selection within other limits."""
        with warnings.catch_warnings():
            # Missed limits are no reason to skip a rule.
            warnings.simplefilter("ignore", UserWarning)
            return Reweighted(self.classifier.reweight(objective="error", limits=list(limits)))

    def placed_within(self, limits: Sequence[Limit]) -> Reweighted:
        """Return the selection within other limits: the rule has no thresholds to place."""
        return self.within(limits)

    @property
    def problem(self) -> Any:
        """The objective within limits."""
        return self.classifier.selection_.problem

    @property
    def n_rows(self) -> float:
        """Number of selection rows; of weighted rows the effective number."""
        return float(self.classifier.selection_.counts.strata.size.sum())

    @property
    def estimates(self) -> Any:
        """The rates of the objective and the limits on the selection data."""
        return judged(self.classifier).selected.estimates

    log_odds = None
    has_independent_cases = True

    def family(self, *, by_group: bool) -> None:
        """Return None: the rule has no thresholds."""


def losses_of(objective: Objective, strata: Strata) -> Floats | None:
    """Return the loss of each answer by stratum, shape (S, A); None if the objective is no sum of losses.

    Rows without labels have no loss if the objective needs labels.
    """
    rate = objective.rate
    if objective.worst or rate.is_ratio or rate.needs_costs or rate.by is not None:
        return None
    _, counted, _ = rate.by_subgroup(strata)
    return counted[0]  # of the only subgroup, all rows


def drawn_rows(rows: Floats, growth: float) -> Floats:
    """Return draws of ``growth`` times as many new rows, `N_DRAWS` arrays of the shape of ``rows``.

    A draw has a population, of which the rows are a sample (Bayesian bootstrap), and new rows of it.
    """
    rng = np.random.default_rng(0)
    filled = np.flatnonzero(rows)
    shares = rng.gamma(rows.ravel()[filled], size=(N_DRAWS, len(filled)))
    shares /= shares.sum(axis=1, keepdims=True)
    draws = np.zeros((N_DRAWS, rows.size))
    draws[:, filled] = rng.poisson(growth * rows.sum() * shares)
    return draws.reshape(N_DRAWS, *rows.shape)


def divided(level: float) -> list[float]:
    """Return the levels of a simpler and a more complex kind of rules, whose results then hold together."""
    level_of_simpler = PART_OF_SIMPLER * level
    return [level_of_simpler, level - level_of_simpler]


def two_rules(simpler: str, other: str) -> str:
    """Return how two rules divide the level, and which one is taken, see `simplest_certified`."""
    return (
        f"{simpler} had {percent(PART_OF_SIMPLER)} of the level, and {other} the rest. The "
        "second rule is taken if it alone is certified, or if it lowers the objective on these "
        "rows by more than one standard error, not counting the row that gains most."
    )


def simplest_certified(results: Sequence[Certified | Refused], fresh: FreshRows) -> int:
    """Return the index of the simplest certified rule, or of a more complex one that is clearly better.

    A rule is clearly better if its mean loss is smaller by more than noise, see `PAYING_ERRORS`. The row with
    the largest gain is not counted, because one row alone has a gain of one standard error. ``results`` are
    in the order from simple to complex rules. All of them hold together, so any choice among them is valid.
    Without a certified rule, the first refusal after a test has the index, or else number 0.
    """
    certified = []
    refused_after_test = []
    for index, result in enumerate(results):
        if isinstance(result, Certified):
            certified.append(index)
        elif result.tested:
            refused_after_test.append(index)
    if not certified:
        # The rows are used up by any test, so a refusal without a test would say too little.
        return min(refused_after_test, default=0)
    best, *more_complex = certified
    for index in more_complex:
        gains = losses_on(fresh, results[best]) - losses_on(fresh, results[index])
        if not len(gains):
            continue
        gain_of_other_rows = float(gains.sum() - gains.max())
        standard_error = float(gains.std()) * np.sqrt(len(gains))  # of the sum
        if gain_of_other_rows > PAYING_ERRORS * standard_error:
            best = index
    return best


def losses_on(fresh: FreshRows, result: Any) -> Floats:
    """Return the loss of each fresh row by a certified rule.

    The loss is the row's part of the objective, or the zero-one loss if the objective is no sum of losses.
    """
    answered = fresh.by(result.selection)
    objective = result.selection.problem.objective
    rate = objective.rate
    if losses_of(objective, answered.answered.strata) is None:
        rate = ERRORS["mean"]
    (sample,) = answered.samples(rate)
    return sample.values


def scored_fresh(
    selection: Any, family: ThresholdFamily, fresh: FreshRows, *, between_selected: bool = False
) -> ScoredRows:
    """Return the fresh rows with their scores, the numbers of their thresholds, and losses by the labels.

    ``between_selected`` tells whether thresholds are between scores of the selection data. Selections of one
    engine within other limits share the result.
    """
    thresholds = selection.thresholds(family)
    score = thresholds.scores
    if between_selected:
        score = thresholds.scores_between_selected
    losses = losses_of(selection.problem.objective, fresh.answered.strata)
    assert losses is not None

    def make() -> ScoredRows:
        scores = [score(part) for part in fresh.opened]
        places = [thresholds.places(part) for part in fresh.opened]
        return ScoredRows(
            np.concatenate(scores),
            np.concatenate(places),
            losses[fresh.answered.stratum],
        )

    return thresholds.once(fresh.opened[0], (losses.tobytes(), between_selected), make)


def scored_selection(
    selection: Any, family: ThresholdFamily, fresh: FreshRows, *, expected: bool
) -> tuple[ScoredRows, SelectionData]:
    """Return the selection data with their scores and weighted losses, and the data themselves.

    With ``expected``, losses are means by the model's probabilities of the strata; otherwise the labels give
    them. Selections of one engine share the result as long as there are these ``fresh`` rows.
    """
    thresholds = selection.thresholds(family)
    data = thresholds.data
    losses_by_stratum = losses_of(selection.problem.objective, data.strata)
    assert losses_by_stratum is not None

    def make() -> ScoredRows:
        scores, _ = thresholds.on_selection
        losses = losses_by_stratum[data.stratum]
        if expected:
            losses = data.probabilities.T.astype(np.float64) @ losses_by_stratum
        weights = data.weights * len(data)  # with mean 1
        places = family.place[data.stratum]
        return ScoredRows(scores, places, losses * weights[:, None])

    key = ("selection", losses_by_stratum.tobytes(), expected)
    return thresholds.once(fresh.opened[0], key, make), data


# -- what is tested, as bytes that are the same only for the same attempt -------------------------------


# Parameters of a selection: the same call for another rule is another attempt.
RULE_PARAMETERS = (
    "objective",
    "alpha",
    "limits",
    "error_budget",
    "max_error",
    "confidence",
    "by_group",
)
# Number of sums with random weights by which tested values are compared.
SUMS = 4
# The sums are rounded to this fraction of their size. Of 6,880 sums of random log-probabilities none changed
# by rounding errors of float64, and 1 by those of float32.
SUM_STEP = 1e-4
# Values that differ by less, as a fraction of the largest one, are equal but for rounding errors of float64.
TIE = 1e-12
# Decimals of confusion counts: later ones are rounding errors.
COUNT_DECIMALS = 9


def what_is_tested(model: Model, fresh: FreshRows, arguments: str) -> Iterator[bytes]:
    """Yield the rows with labels, what is tested on them, and all arguments of a call.

    Tested are the answers of the given rule and of all rules with the same candidates: the values by which
    the candidates answer the fresh rows, the confusion counts on the selection data, and the parameters of
    the selection. So another model, score or number of base models is another test.

    The order of rows, rounding errors and the names of clusters have no effect. Labels, groups and clusters
    are hashed together with their row.

    Parameters
    ----------
    model : classifier
        Gives the candidates.
    fresh : FreshRows
        The fresh rows, opened by the model.
    arguments : str
        All arguments of the call.

    Yields
    ------
    bytes
    """
    rows = _hashes_with_labels(fresh)
    classifier = judged(model)
    # By part of the rows, then by candidate.
    values_by_part = [classifier.tested_values(part) for part in fresh.opened]
    values = [np.concatenate(parts) for parts in zip(*values_by_part, strict=True)]
    # A sum over rows has no order, and rounded it has no rounding errors. A weight of each row, from ½ to
    # 1½ by a hash of 64 bits, tells which row has which value.
    seeds = np.arange(1, SUMS + 1, dtype=np.uint64)
    weights = 0.5 + hashes_of_pairs(rows, seeds[:, None]).astype(np.float64) * 2.0**-64
    sums = [_weighted_sums(column, weights) for column in (fresh.answered.actions, *values)]
    counts = np.round(classifier.counts_on_selection, COUNT_DECIMALS) + 0.0  # −0 becomes 0
    parameters = model.get_params(deep=False)
    rule = repr([(name, parameters[name]) for name in RULE_PARAMETERS if name in parameters])
    for array in (np.sort(rows), *sums, counts):
        yield array.tobytes()
    yield f"{rule}{arguments}".encode()


def _hashes_with_labels(fresh: FreshRows) -> Hashes:
    """Return the hash of each row with its label, its groups and the rows of its cluster, shape (n,)."""
    assert fresh.hashes is not None
    strata = fresh.answered.strata
    texts = []
    for label, *groups in strata.names:
        by_column = sorted(zip(strata.columns, groups, strict=True), key=repr)
        texts.append(repr((label, by_column)))

    hashes_of_strata = hash_rows(np.array(texts, dtype=object)[:, None])
    hashes = hashes_of_pairs(fresh.hashes, hashes_of_strata[fresh.answered.stratum])
    if fresh.clusters is None:
        return hashes

    # The sum of its rows' hashes identifies a cluster, whatever its name.
    hashes_of_clusters = np.zeros(int(fresh.clusters.max()) + 1, dtype=np.uint64)
    np.add.at(hashes_of_clusters, fresh.clusters, hashes)
    return hashes_of_pairs(hashes, hashes_of_clusters[fresh.clusters])


def _mid_ranks(values: Floats) -> Floats:
    """Return the rank of each value as a fraction of their number; equal values have their mean rank."""
    _, place, n_equal = np.unique(values, return_inverse=True, return_counts=True)
    last_ranks = np.cumsum(n_equal)
    return (last_ranks - (n_equal - 1) / 2)[place] / len(values)


def _weighted_sums(values: NDArray[Any], weights: Floats) -> Ints:
    """Return sums of values and of their ranks with random weights, as multiples of a step.

    The weights, shape (`SUMS`, n), come from the hashes of the rows, so the order of rows has no effect.
    Ranks tell apart values that break ties, however little they differ: thresholds between them are other
    rules.
    The result has the shape (`SUMS` · 2 m,) for m columns of values.
    """
    columns = np.reshape(values, (len(values), -1)).T.astype(np.float64, order="C")
    np.nan_to_num(columns, copy=False)
    # A column without another value than 0 stays so.
    largest = np.abs(columns).max(axis=1, initial=0.0, keepdims=True)
    columns /= np.maximum(largest, np.finfo(np.float64).tiny)
    ranks = [_mid_ranks(np.rint(column / TIE)) for column in columns]
    columns = np.concatenate([columns, ranks])
    steps = SUM_STEP * np.maximum(np.sqrt((columns**2).sum(axis=1)), 1.0)
    return np.rint(weights @ columns.T / steps).astype(np.int64).ravel()
