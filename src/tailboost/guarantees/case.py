"""What a procedure of `calibrate` gets, a selection and fresh rows, and what it returns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints
from tailboost.guarantees.fresh import Fresh
from tailboost.guarantees.tests import Tests, losses_of
from tailboost.rates import Limit, Strata
from tailboost.rows.judged import judged
from tailboost.selection.data import ScoredRows, ThresholdFamily

ONE_ANSWER = (
    "the rule with the least loss within the limits gives every row the same answer; check "
    "that the scores belong to these rows and labels, or state a limit that this answer breaks"
)


@dataclass(frozen=True, eq=False)
class Certified:
    """A selection whose rule is within all limits, the name of the procedure, and how it was made."""

    selection: Any
    method: str
    made: str


@dataclass(frozen=True, eq=False)
class Refused:
    """Fresh rows with the answers of a rule that is not certified.

    Attributes
    ----------
    answered : Fresh
        For the table of the refusal.
    why : str
        The reason, if these answers miss no limit.
    levels : dict of (Limit, object) to float
        Level of the test of a limit in a subgroup, if it is not the whole level.
    """

    answered: Fresh
    why: str = ""
    levels: Mapping[tuple[Limit, Any], float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Case:
    """A selection within limits, the fresh rows, and the allowed probability of a broken limit.

    Which procedure applies depends on the selection data and on numbers of fresh rows alone. So the next one
    may have the whole level.
    """

    selection: Any
    fresh: Fresh
    level: float

    @property
    def limits(self) -> Sequence[Limit]:
        """The limits of the selection's problem."""
        return self.selection.problem.limits

    @cached_property
    def tests(self) -> list[Tests] | None:
        """The tests of all limits on the selection data; None if one has no counts."""
        return self.tests_on(self.odds.data.strata)

    @cached_property
    def fresh_tests(self) -> list[Tests]:
        """The tests of all limits on the fresh rows."""
        tests = self.tests_on(self.fresh.answered.strata)
        assert tests is not None
        return tests

    def tests_on(self, strata: Strata) -> list[Tests] | None:
        """Return the tests of all limits on strata."""
        tests = [Tests.of(limit, strata) for limit in self.limits]
        return None if None in tests else tests  # type: ignore[return-value]

    @cached_property
    def odds(self) -> Any:
        """The score of two labels on the selection data, `LogOdds`; None without a single score."""
        return self.selection.log_odds

    @cached_property
    def losses(self) -> Floats | None:
        """The loss of each answer by stratum of the selection data, (S, 3); None for no sum over rows."""
        strata = self.odds.data.strata
        losses = losses_of(self.selection.problem.objective, strata)
        if losses is None:
            return None
        return np.pad(losses, ((0, 0), (0, 3 - strata.n_actions)))

    @property
    def defers(self) -> bool:
        """Whether rows may be deferred."""
        return bool(self.fresh.answered.strata.defers)

    @property
    def ratio(self) -> float:
        """Fresh rows, or clusters with a vote each, by selection rows."""
        n_votes = self.fresh.n_clusters or len(self.fresh)
        return float(n_votes / self.odds.n_rows)

    def scored_fresh(self, family: ThresholdFamily) -> ScoredRows:
        """Return the fresh rows with their scores, the numbers of their thresholds, and losses."""
        thresholds = self.selection.thresholds(family)
        losses = losses_of(self.selection.problem.objective, self.fresh.answered.strata)
        assert losses is not None
        return ScoredRows(
            thresholds.scores(self.fresh.table),
            thresholds.places(self.fresh.table),
            losses[self.fresh.answered.stratum],
        )

    def scored_selection(self, family: ThresholdFamily, *, expected: bool) -> ScoredRows:
        """Return the selection data with their scores and weighted losses, by labels or ``expected`` ones."""
        thresholds = self.selection.thresholds(family)
        data = thresholds.data
        by_stratum = losses_of(self.selection.problem.objective, data.strata)
        assert by_stratum is not None
        scores, _ = thresholds.on_selection
        losses = by_stratum[data.stratum]
        if expected:
            losses = data.probabilities.T.astype(np.float64) @ by_stratum
        weights = data.weights * len(data)  # with mean 1
        return ScoredRows(scores, family.place[data.stratum], losses * weights[:, None])

    def counted(self, answered: Fresh, tests: Tests) -> tuple[Floats, Floats]:
        """Return wrong rows and all rows of each test on answered fresh rows, shape (1, m) each.

        A cluster has one vote in a test.
        """
        stratum, actions = answered.answered.stratum, answered.answered.actions
        counts = []
        for wrong, among in zip(tests.wrong, tests.among, strict=True):
            voters = answered.voters(np.flatnonzero(among[stratum, actions] > 0))
            counts.append((wrong[stratum[voters], actions[voters]].sum(), len(voters)))
        numbers = np.array(counts, dtype=np.float64).reshape(1, -1, 2)
        return numbers[..., 0], numbers[..., 1]

    def voters_of(self, strata: Any) -> Ints:
        """Return the fresh rows of some strata, shape (S,), of each cluster one."""
        return self.fresh.voters(np.flatnonzero(strata[self.fresh.answered.stratum]))


@dataclass(frozen=True, eq=False)
class Reweighted:
    """The selection of a boosting classifier for the overall error within limits.

    The class has the members of `Selection` for `tailboost.guarantees.tightened`.
    """

    classifier: Any

    def within(self, limits: Sequence[Limit]) -> Reweighted:
        """Return the selection within other limits."""
        with warnings.catch_warnings():
            # Missed limits are no reason to skip a rule.
            warnings.simplefilter("ignore", UserWarning)
            return Reweighted(self.classifier.reweight(objective="error", limits=list(limits)))

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

    def family(self, *, by_group: bool) -> None:
        """Return None: the rule has no thresholds."""
