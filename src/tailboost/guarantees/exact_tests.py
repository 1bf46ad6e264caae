"""Exact tests of limits, on numbers of rows by stratum and answer.

A test counts the rows of a subgroup that are wrong: those that count against the limit. Its p-value is the
probability of so few wrong rows, or fewer, if their share in the population is the largest that is allowed.
The test passes if its p-value is at most the level. A gap or ratio has a test of each pair of subgroups.

A stratum is a label within a group. The answers are the first label, the second label, and deferral. A place
is a group with thresholds of its own, or all rows.

Axes of arrays: K rules, T subgroups of a limit, m places, S strata, 3 answers.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import permutations
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, log_ndtr, ndtr, ndtri
from scipy.stats import binom

from tailboost.core import Floats, Ints, Mask, frozen_object
from tailboost.guarantees.fresh import Fresh
from tailboost.rates import AT_LEAST, Limit, Strata, groups_in
from tailboost.rates.bounds import pair_p_value
from tailboost.selection.thresholds import Places

# A test with a predicted probit from this one on is taken to pass, and one of its negative to fail.
SURE = 9.0
# Rows at the rate of all subgroups that join those of each one: small subgroups resemble the others.
PRIOR = 3.0
# Quantiles of the number of fresh rows: otherwise the fewest rows of any passing test look like enough.
QUANTILES = ndtri(np.arange(0.1, 1.0, 0.2))[:, None, None]


# -- the two tests -----------------------------------------------------------------------------------------


def most_errors(n: ArrayLike, bound: float, level: float) -> Ints:
    """Return the largest number of wrong rows among n with which the exact test of a share passes.

    Parameters
    ----------
    n : int, or array-like
        Whole numbers of rows.
    bound : float in [0, 1]
        The largest rate allowed.
    level : float in (0, 1)
        Probability of a false certificate.

    Returns
    -------
    ndarray of int
        By number n of rows, the largest k with P(Bin(n, bound) ≤ k) ≤ level; −1 without one, n for a bound
        of 1.

    Examples
    --------
    >>> from tailboost.guarantees.exact_tests import most_errors
    >>> most_errors([59, 58], 0.05, 0.05).tolist(), int(most_errors(500, 0.25, 0.05))
    ([0, -1], 108)
    """
    n_rows = np.asarray(n, np.intp)
    if bound >= 1.0:
        return n_rows
    # Many rules have the same number.
    sizes, size_number = np.unique(n_rows, return_inverse=True)
    counts = binom.ppf(level, sizes, bound)  # the smallest with at least this probability
    return (counts - (bdtr(counts, sizes, bound) > level)).astype(np.intp)[size_number]


def all_pairs_pass(counts: Sequence[Sequence[int]], limit: Limit, level: float) -> bool:
    """Return whether the exact tests of a gap or ratio pass for all pairs of subgroups.

    ``counts`` has the counted rows and all rows of each subgroup. All pairs must pass, so each is tested at
    the whole level.
    """
    factor, gap = limit.factor_and_gap
    return all(
        pair_p_value((x1, x2), (n1, n2), factor=factor, gap=gap, level=level) <= level
        for (x1, n1), (x2, n2) in permutations(counts, 2)
    )


# -- the tests of a limit ----------------------------------------------------------------------------------


@frozen_object
class LimitedShare:
    """A limited share: of a fixed number of rows, few may get one answer. Ranks can keep such a limit.

    Attributes
    ----------
    strata : ndarray of bool, shape (S,)
        The strata of these rows.
    places : tuple of int
        The numbers of their thresholds.
    answer : int
        The answer.
    allowed : float
        The largest allowed share of the rows with this answer. Not read if shares are compared.
    """

    strata: Mask
    places: tuple[int, ...]
    answer: int
    allowed: float


class Counted(NamedTuple):
    """What the tests of a limit read of K rules: numbers of rows in its T subgroups, and possible answers.

    Attributes
    ----------
    n_wrong, n_rows : ndarray of shape (K, T)
        Wrong rows and all rows.
    possible : ndarray of shape (K, m, 3)
        1 for the answers that a rule can give in each place, whatever the scores.
    """

    n_wrong: Floats
    n_rows: Floats
    possible: Floats


@frozen_object
class LimitTests:
    """The tests of a limit: one for each limited subgroup. Those of a gap or ratio are `PairTests`.

    Attributes
    ----------
    limit : Limit
        The limit.
    wrong, among : ndarray of shape (T, S, 3)
        1 for strata and answers that count against the limit in each of T subgroups, and among which.
    allowed : ndarray of shape (T,)
        The largest allowed share of wrong rows. Not read if shares are compared.
    places : ndarray of bool, shape (T, m)
        The places whose thresholds answer the subgroup: the one that it names, otherwise all. So a subgroup
        that names no place has all, also where no given row is of it.
    """

    limit: Limit
    wrong: Floats
    among: Floats
    allowed: Floats
    places: Mask

    @staticmethod
    def of(limit: Limit, strata: Strata, places: Places) -> "LimitTests | None":
        """Return the tests of a limit; None for more than two labels, and rows that do not count whole."""
        terms = limit.rate.terms(strata)
        wrong = terms.top
        among = terms.bottom
        if strata.n_classes > 2 or not np.isin([wrong, among], [0.0, 1.0]).all():
            return None
        if limit.form == AT_LEAST:  # the other rows are wrong
            wrong = among - wrong
        # Without deferral the third answer is never wrong.
        padding = ((0, 0), (0, 0), (0, 3 - strata.n_actions))
        wrong = np.pad(wrong, padding)
        among = np.pad(among, padding, mode="edge")
        strata_of = among.max(axis=2) > 0  # of each subgroup, (T, S)
        # The places that answer a subgroup: that of its group, if it names a group with thresholds of its own
        # (no unknown group comes here); all places for any other subgroup, and for a representation, which
        # counts among the rows of all groups.
        answering = strata_of @ np.eye(places.n, dtype=bool)[places.of_strata]  # (T, m)
        for number, name in enumerate(terms.names):
            columns = dict(groups_in(name, limit.rate.by, strata.columns))
            if limit.rate.kind == "representation" or columns.keys().isdisjoint(places.columns):
                answering[number] = True
        allowed = limit.allowed(terms.names)
        limited = strata_of.any(axis=1) & ~np.isnan(allowed)
        tests = PairTests if limit.compares else LimitTests
        return tests(
            limit, wrong[limited], among[limited], allowed[limited], answering[limited]
        )

    # -- which rows they read --------------------------------------------------------------------------

    def at(self, places: Ints) -> Self:
        """Return the tests of the subgroups that some places answer."""
        own = self.places[:, places].any(axis=1)
        return replace(
            self,
            wrong=self.wrong[own],
            among=self.among[own],
            allowed=self.allowed[own],
            places=self.places[own][:, places],
        )

    @cached_property
    def shares(self) -> list[LimitedShare]:
        """The limited subgroups as shares of fixed rows with one answer; empty for another form."""
        strata = self.among.max(axis=2) > 0  # (T, S)
        answers = self.wrong.any(axis=1)  # (T, 3)
        of_fixed_rows = (self.among == strata[..., None]).all()
        of_one_answer = (answers.sum(axis=1) == 1).all()
        of_all_rows = (self.wrong.any(axis=2) == strata).all()
        if not (of_fixed_rows and of_one_answer and of_all_rows):
            return []
        places = [tuple(np.flatnonzero(own).tolist()) for own in self.places]
        answer = answers.argmax(axis=1).tolist()
        return list(map(LimitedShare, strata, places, answer, self.allowed.tolist()))

    @property
    def is_across(self) -> bool:
        """Whether the limit is on several places together."""
        return self.limit.compares or bool((self.places.sum(axis=1) > 1).any())

    # -- by construction -------------------------------------------------------------------------------

    def kept(self, possible: Floats) -> Mask:
        """Return which tests rules with these possible answers pass by construction, (K, T)."""
        return self.none_counts(self.wrong > 0.0, possible)

    def none_counts(self, counted: Mask, possible: Floats) -> Mask:
        """Return in which subgroups no row can count, whatever its score, (K, T); (T, S, 3) count."""
        return _sums(possible, self.places[..., None] * counted.any(axis=1, keepdims=True)) == 0

    # -- by numbers of rows ----------------------------------------------------------------------------

    def counted(self, answered: Floats, possible: Floats) -> Counted:
        """Return what the tests read of rows by stratum and answer, (K, S, 3)."""
        return Counted(_sums(answered, self.wrong), _sums(answered, self.among), possible)

    def passes(self, counted: Counted, level: float) -> Mask:
        """Return which rules pass all tests at a level, shape (K,): by construction, or by numbers of rows.

        A claim about several subgroups needs no correction: if it is false, one of them breaks its limit, and
        this test alone errs with a probability of at most the level (intersection–union, Berger 1982).
        """
        is_passed = self.kept(counted.possible) | self.by_numbers(counted, level)
        return np.asarray(is_passed.all(axis=1))

    def counted_votes(self, fresh: Fresh, possible: Floats) -> Counted:
        """Return what the tests read of fresh rows, in each of whose subgroups a cluster has one vote."""
        answered = fresh.answered.stratum, fresh.answered.actions
        n_wrong, n_rows = np.zeros((2, 1, len(self.among)))
        for number, (wrong, among) in enumerate(zip(self.wrong, self.among, strict=True)):
            rows = fresh.votes.among(np.flatnonzero(among[answered]))
            n_wrong[0, number] = wrong[answered][rows].sum()
            n_rows[0, number] = len(rows)
        return Counted(n_wrong, n_rows, possible)

    def by_numbers(self, counted: Counted, level: float) -> Mask:
        """Return which tests rules pass by their numbers of rows, (K, T)."""
        n_wrong, n_rows, _ = counted
        return (n_rows > 0) & (n_wrong <= self.most_wrong(n_rows, level))

    def most_wrong(self, n_rows: Floats, level: float) -> Floats:
        """Return the largest numbers of wrong rows with which tests pass, −1 for none, (..., T)."""
        most = np.zeros_like(n_rows)
        for share in np.unique(self.allowed).tolist():  # many subgroups have the same
            alike = self.allowed == share
            most[..., alike] = most_errors(n_rows[..., alike], share, level)
        return most

    # -- predicted power -------------------------------------------------------------------------------

    def log_power(self, counted: Counted, ratio: float, level: float) -> Floats:
        """Return the log of the predicted probability of passing all tests, shape (K,).

        ``ratio`` times as many fresh rows will be tested. The noise of both tables counts.
        """
        z = self.predicted(counted, ratio, level)
        log_power = log_ndtr(z)
        log_power[z <= -SURE] = -np.inf
        log_power[self.kept(counted.possible) | (z >= SURE)] = 0.0
        return log_power.sum(axis=1)

    def predicted(self, counted: Counted, ratio: float, level: float) -> Floats:
        """Return the probit of the probability of each test, (K, T): the mean over some numbers of rows."""
        n_wrong, n_rows, _ = counted
        shares = ((n_wrong.sum(axis=1) + 0.5) / (n_rows.sum(axis=1) + 1.0))[:, None]
        if n_rows.shape[1] > 1:
            shares = (n_wrong + PRIOR * shares) / (n_rows + PRIOR)
        # A number on ratio · n fresh rows, predicted from n rows, has the variance of such a number on
        # known rates times 1 + ratio: so do the rows of a subgroup (Poisson), and the wrong ones.
        inflation = 1.0 + ratio
        expected = ratio * n_rows
        n_fresh = expected + QUANTILES * np.sqrt(expected * inflation)
        n_fresh = np.maximum(n_fresh, 0.0).astype(np.intp)
        most = self.most_wrong(n_fresh, level)
        variances = n_fresh * shares * (1.0 - shares) * inflation
        z = (most + 0.5 - n_fresh * shares) / np.sqrt(np.maximum(variances, 1e-12))
        return ndtri(np.where(most < 0, 0.0, ndtr(z)).mean(axis=0))


class PairTests(LimitTests):
    """The tests of a gap or ratio, one for all pairs of its T subgroups: results have the shape (K, 1)."""

    def kept(self, possible: Floats) -> Mask:
        """Return which rules pass by construction, (K, 1): all shares are 0, or all are 1."""
        are_equal = [
            self.none_counts(counted, possible).all(axis=1)
            for counted in (self.wrong > 0.0, self.wrong < self.among)
        ]
        return np.any(are_equal, axis=0)[:, None]

    def by_numbers(self, counted: Counted, level: float) -> Mask:
        """Return which rules pass the exact tests of all pairs, (K, 1)."""
        counts = np.stack(counted[:2], axis=2).astype(np.intp).tolist()
        return np.array([[all_pairs_pass(rule, self.limit, level)] for rule in counts])

    def predicted(self, counted: Counted, ratio: float, level: float) -> Floats:
        """Return the probit of the probability of the pair with the least room, (K, 1), by normal deviations.

        A pair passes if its room on the fresh rows is at least −Φ⁻¹(level) of their deviations.
        """
        n_wrong, n_rows, _ = counted
        shares = (n_wrong + 0.5) / (n_rows + 1.0)
        noise = self.limit.deviations(shares * (1.0 - shares) / np.maximum(n_rows, 1.0))
        of_fresh = noise / np.sqrt(ratio)
        rooms = self.limit.rooms(shares, shares) + ndtri(level) * of_fresh
        z = rooms / np.maximum(np.hypot(noise, of_fresh), 1e-12)
        z[..., np.eye(n_rows.shape[1], dtype=bool)] = np.inf
        return z.min(axis=(-2, -1))[:, None]


def _sums(of_rules: Floats, of_tests: Floats | Mask) -> Floats:
    """Return the sums of products of (K, …, 3) and (T, …, 3) by rule and test, shape (K, T)."""
    return np.tensordot(of_rules, of_tests, ((1, 2), (1, 2)))
