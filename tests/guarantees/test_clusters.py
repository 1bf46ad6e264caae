"""Persons with several rows have one vote each in a certificate."""

from copy import deepcopy
from itertools import permutations

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.guarantees import chain, monitor, rate_bounds, sequence
from tailboost.guarantees.exact_tests import all_pairs_pass
from tailboost.guarantees.fresh import Fresh
from tailboost.rows.fingerprints import random_numbers
from tailboost.rows.rows import Rows, Votes

pytestmark = pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
RNG = np.random.default_rng(0)
PERSONS = 400
LABEL = RNG.integers(2, size=PERSONS)
X = np.c_[RNG.normal(size=PERSONS) + LABEL, RNG.normal(size=PERSONS)]
GROUP = RNG.choice(["a", "b"], PERSONS)


class Ruler:
    classes_ = np.array([0, 1])

    def predict(self, X):
        return (X[:, 0] > 0.5).astype(int)


class First:
    """Answers the first of three columns of two values each."""

    classes_ = np.array([0, 1])

    def __init__(self, low):
        self.low = low

    def predict(self, X):
        return (np.asarray(X)[:, 0] - self.low).astype(int)


def few_valued(rng, low, clusters=200, rows=10, continuous=False):
    """Rows of three columns with two values each; 60 % of the answers are wrong if the second is high."""
    z = rng.integers(0, 2, size=(clusters * rows, 3)).astype(float)
    wrong = (z[:, 1] == 1) & (rng.random(len(z)) < 0.6)
    X = np.c_[z + low, rng.normal(size=len(z))] if continuous else z + low
    return X, np.where(wrong, 1 - z[:, 0], z[:, 0]).astype(int), np.repeat(np.arange(clusters), rows)


def test_no_content_wins_the_votes():
    """Votes are fair draws for any coding: votes and rows have the same error."""
    rng = np.random.default_rng(0)
    for low in range(12):
        X, y, person = few_valued(rng, low)
        mean = np.mean(First(low).predict(X) != y)
        cert = tb.certify(First(low), X, y, clusters=person, equal_rows="natural")
        by_answers = tb.certify(First(low).predict(X), None, y, clusters=person)
        later = few_valued(rng, low)
        (n, found), *_ = tb.Monitor(First(low), cert).add(*later[:2], clusters=later[2]).batches[0].errors
        assert n == cert.bounds[0].n == by_answers.bounds[0].n == 200
        assert found == pytest.approx(mean, abs=4 * np.sqrt(0.21 / 200))
        for bound in (cert.bounds[0], by_answers.bounds[0]):
            assert bound.estimate == pytest.approx(mean, abs=4 * np.sqrt(0.21 / 200))


def test_random_numbers_belong_to_rows():
    """Random numbers follow their rows into any order; equal rows and other tables get different ones."""
    content, kind = np.repeat(np.arange(5), 200), np.tile([0, 1], 500)
    hashes = (2 * content + kind).astype(np.uint64)
    numbers, order = random_numbers(hashes), RNG.permutation(1000)
    again = random_numbers(hashes[order])
    for cell in np.ndindex(5, 2):
        own = numbers[(content == cell[0]) & (kind == cell[1])]
        moved = again[(content[order] == cell[0]) & (kind[order] == cell[1])]
        assert sorted(own) == sorted(moved)
        assert stats.kstest(own, "uniform").pvalue > 0.001
    assert len(np.unique(numbers)) == 1000
    # Two rows alone in a table: other rows change the order of their numbers.
    least = [random_numbers(np.array([1, 2, k], dtype=np.uint64))[:2].argmin() for k in range(3, 203)]
    assert 70 < sum(least) < 130


def test_the_order_of_rows_draws_no_other_votes():
    """The two rows of a person have the scores p and 1 - p, or one answer with different costs."""
    rng = np.random.default_rng(0)
    p, Q, rows = rng.random(PERSONS), rng.dirichlet([1, 1], 900), rng.permutation(2 * PERSONS)
    P, y, person = np.c_[p, 1 - p, 1 - p, p].reshape(-1, 2), np.repeat(LABEL, 2), np.arange(2 * PERSONS) // 2
    rule, costs = tb.tune(tb.Scores([0, 1], [0, 1]), Q, Q.argmax(axis=1)), rng.random((2 * PERSONS, 2))
    asked = {"rates": [rates.cost()], "cost_range": (0, 1)}
    first, second = (
        [tb.certify(rule, P[o], y[o], clusters=person[o]).bounds,
         tb.certify(y[o], None, y[o], clusters=person[o], costs=costs[o], **asked).bounds]
        for o in (rows, rows[::-1]))  # fmt: skip
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize(("clusters", "rows"), [(12, 2), (60, 5), (200, 10)])
def test_bounds_by_clusters_rarely_fail(clusters, rows, continuous):
    """The true error .3, overall and by class, is below the bounds in 95 % of tables."""
    rng, times, failed = np.random.default_rng(1), 1000, 0
    for k in range(times):
        low = k % 8
        X, y, person = few_valued(rng, low, clusters, rows, continuous)
        cert = tb.certify(First(low), X, y, clusters=person)
        failed += any(bound.upper < 0.3 for bound in cert.bounds)
    assert failed <= times * (0.05 + 2 * np.sqrt(0.05 * 0.95 / times))


NAMES = np.array(["no", "yes"])
ASKED = [
    rates.gap(rates.selected("yes", by="group")) <= 0.9, rates.precision("yes", by="group"),
    rates.cost([[0, 1], [4, -1]]), rates.error(by="class") <= 0.9,
]  # fmt: skip


def test_rates_of_equal_copies_are_those_of_one_row():
    answers = NAMES[Ruler().predict(X)]
    once = tb.certify(answers, None, NAMES[LABEL], groups=GROUP, rates=ASKED)
    person = RNG.permutation(np.repeat(np.arange(PERSONS), RNG.integers(1, 6, PERSONS)))
    given = {"groups": GROUP[person], "rates": ASKED, "clusters": person}
    often = tb.certify(answers[person], None, NAMES[LABEL[person]], **given)
    assert often.bounds == once.bounds


@pytest.mark.parametrize("limit", [rates.selected("yes"), rates.precision("no"), rates.false_alarm("yes")])
@pytest.mark.slow
def test_false_limits_of_persons_are_rarely_certified(limit):
    """Each person has several equal rows: certificates by rows are false too often."""
    persons, delta, times, rng = 60, 0.1, 150, np.random.default_rng(2)
    found = {True: 0, False: 0}
    for _ in range(times):
        said = rng.random(persons) < 0.3  # truth and answer are independent
        truth, person = rng.random(persons) < 0.3, np.repeat(np.arange(persons), 6)
        stated = [limit >= 0.7 + 1e-9 if limit.kind == "precision" else limit <= 0.3 - 1e-9]
        for votes in found:
            cert = tb.certify(
                NAMES[said.astype(int)][person], None, NAMES[truth.astype(int)][person],
                rates=stated, confidence=1 - delta, clusters=person if votes else None,
            )  # fmt: skip
            found[votes] += bool(cert.certified)
    assert found[True] / times <= delta + 2 * np.sqrt(delta * (1 - delta) / times)
    assert found[False] / times > delta + 2 * np.sqrt(delta * (1 - delta) / times)


@pytest.mark.slow
def test_calibrated_limits_count_persons():
    rng = np.random.default_rng(4)

    def rows(n):
        y = rng.integers(2, size=n)
        return (rng.normal(size=n) + 2.0 * y)[:, None], NAMES[y]

    mix = tb.tune(LogisticRegression().fit(*rows(300)), *rows(600), limits=[rates.error(by="class") <= 0.3])
    many, y = rows(400)
    person = np.repeat(np.arange(400), 5)
    point = tb.calibrate(mix, many[person], y[person], clusters=person)
    assert [b.n for b in point.certificate_.bounds] == [int((y == k).sum()) for k in NAMES]
    few, y = rows(12)
    person = np.repeat(np.arange(12), 100)
    with pytest.raises(tb.NotCertifiedError):
        tb.calibrate(mix.reweight(), few[person], y[person], clusters=person)


def test_a_certificate_names_the_persons_that_count_before_their_rows():
    """400 persons with three rows each: the bound is that of 400 rows."""
    rows = np.repeat(X, 3, axis=0) + RNG.normal(scale=0.1, size=(3 * PERSONS, 2))
    y, person = np.repeat(LABEL, 3), np.repeat(np.arange(PERSONS), 3)
    by_person = tb.certify(Ruler(), rows, y, limits=["error <= 90%"], clusters=person)
    (bound,) = by_person.bounds
    k = round(bound.estimate * PERSONS)
    assert bound.estimate == pytest.approx(k / PERSONS)
    assert bound.upper == pytest.approx(stats.beta.ppf(0.95, k + 1, PERSONS - k))
    assert tb.Certificate.from_dict(by_person.to_dict()).title == by_person.title


def test_the_share_deferred_counts_clusters_as_its_limit_does():
    """Only persons with ten rows have scores that are deferred."""
    votes = Votes(np.array([0, 0, 1]), np.array([0.1, 0.2, 0.3]), same_everywhere=True)
    assert votes.among(np.array([1, 2])).tolist() == [2]  # row 1 has no vote in any subgroup
    rng = np.random.default_rng(0)
    person = np.r_[np.arange(3000), np.repeat(np.arange(3000, 3600), 10)]
    p = np.where(person < 3000, rng.random(9000), 0.45 + 0.1 * rng.random(9000)).round(4)
    y = (rng.random(9000) < p).astype(int)
    limits = ["answered_error() <= 35%", "deferred() <= 40%"]
    rule = tb.calibrate(tb.Scores(0, 1), p[:, None], y, clusters=person, limits=limits)
    bound = rule.certificate_.bounds[1]
    assert rule.certificate_.deferred == pytest.approx(bound.estimate)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_across", [False, True])
def test_pairs_are_tested_where_no_cluster_is_in_two_groups(is_across, watched):
    rng, n = np.random.default_rng(0), 3000
    y, g, cluster = rng.integers(0, 2, n), rng.integers(0, 2, n), np.arange(n) // 2
    cluster += 0 if is_across else n * g
    p = np.clip(0.5 * y + 0.5 * rng.random(n), 0, 1)[:, None]
    limits, certified = [tb.rates.parse("gap(error(by=g)) <= 20%")], watched(sequence, "certified")
    tb.calibrate(tb.Scores(0, 1), p, y, groups={"g": g}, clusters=cluster, limits=limits)
    assert (certified[0][1] is None) == is_across
    given = Rows.read(y=y, groups={"g": g}, clusters=cluster)
    answered = Fresh.of_answers((p[:, 0] > 0.5).astype(int), given, [limits[0].rate])
    pairs = watched(rate_bounds, "all_pairs_pass")
    assert rate_bounds.all_pass(limits, answered, 0.05)
    assert len(pairs) == (not is_across)


@pytest.mark.filterwarnings("ignore")
def test_ranks_and_tests_count_a_vote_for_each_cluster(watched):
    rng, certified = np.random.default_rng(0), watched(chain, "certified")
    y = rng.integers(0, 2, 2000)
    p = np.clip(0.4 * y + 0.6 * rng.random(2000), 0, 1)[:, None]
    limits = ["miss(1) <= 20%", "deferred <= 50%"]
    rule = tb.calibrate(tb.Scores(0, 1), p, y, clusters=np.arange(2000) // 4, limits=limits)
    (((case, _), _),) = certified
    counted = case.counted(np.ones(len(case.fresh), bool)).rows
    assert counted.sum() == rule.certificate_.n_clusters


@pytest.mark.filterwarnings("ignore")
def test_copies_of_a_person_have_the_rank_of_one_row_and_no_gap_by_ranks():
    """Six equal rows of each person move no threshold. Ranks of a gap need independent rows."""
    rng = np.random.default_rng(0)
    s = rng.random((1200, 1))
    y, g = (rng.random(1200) < s[:, 0]).astype(int), rng.choice(["a", "b"], 1200)
    rows = np.repeat(np.arange(800, 1200), 6)
    for limit, by_rank in (("miss(1) <= 15%", True), ("gap(selected(1, by=group)) <= 40%", False)):
        options = {"limits": [limit], "by_group": not by_rank}
        rule = tb.tune(tb.Scores(0, 1), s[:800], y[:800], groups=g[:800], **options)
        one = tb.calibrate(deepcopy(rule), s[800:], y[800:], groups=g[800:])
        many = tb.calibrate(rule, s[rows], y[rows], groups=g[rows], clusters=rows)
        assert one.certificate_.bounds[0].method == "ranks"
        assert (many.certificate_.bounds[0].method == "ranks") == by_rank
        assert not by_rank or many.rule_.bands == one.rule_.bands


def test_each_pair_of_groups_is_tested():
    counts, limit = [(50, 500), (50, 500), (150, 500)], tb.rates.parse("gap(error(by=g)) <= .1")
    assert not any(all_pairs_pass(order, limit, 0.05) for order in permutations(counts))
    assert all_pairs_pass(counts[:1] * 3, limit, 0.05)


def test_votes_on_a_gap_come_in_an_order_without_the_sizes_of_clusters(watched):
    rng, added = np.random.default_rng(0), watched(monitor.Bets, "add")
    person = np.repeat(np.arange(2000), np.where(wrong := rng.random(2000) < 0.5, 20, 1))
    of, batches = {"groups": {"g": person % 2}, "clusters": person}, rng.normal(size=(2, len(person), 2))
    (X, y), later = ((rows, Ruler().predict(rows) ^ wrong[person]) for rows in batches)
    tb.Monitor(Ruler(), tb.certify(Ruler(), X, y, limits=["gap(error(by=g)) <= 50%"], **of)).add(*later, **of)
    assert all(abs(np.diff(each.values.reshape(2, -1).mean(axis=1))) < 0.15 for each in added[-1][0][1])
