"""The ledger of attempts and used rows: recognised rows, copies with the ledger, and many writers at once."""

import copy
import itertools
import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import binom
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.classifiers.calibrating import certified_on_rest, selected_on_part
from tailboost.guarantees.fresh_rows import fresh_rows
from tailboost.guarantees.path import Path
from tailboost.guarantees.procedure import what_is_tested
from tailboost.rows.fingerprints import (
    MOST_HASHES,
    SHARED_LEVEL,
    RowCounts,
    RowHashes,
    UsedRows,
    chance_of_agreement,
    hash_rounded_rows,
    hash_rows,
    squeezed,
)
from tailboost.rows.given import Given
from tailboost.rows.ledger import Attempt, Ledger, attempts_of
from tailboost.storage.models import model_digest, read_ledger, read_notes, write_ledger

LIMIT = [rates.error(by="group") <= 0.26]


@pytest.fixture(scope="module")
def fitted():
    r = np.random.default_rng(0)
    X, groups = r.normal(size=(1400, 4)), r.choice(["a", "b"], 1400)
    y = (X[:, 0] + r.normal(size=1400) > 0.3).astype(int)
    model = LogisticRegression().fit(X[:400], y[:400])
    limits = [rates.error(by="group") <= 0.4]
    mix = tb.tune(model, X[400:1000], y[400:1000], groups=groups[400:1000], limits=limits)
    return mix, X[1000:], y[1000:], groups[1000:]


@pytest.fixture
def tuned(fitted):
    return copy.deepcopy(fitted[0]), *fitted[1:]


def scored(seed, n):
    r = np.random.default_rng(seed)
    ill = r.random(n) < 0.4
    scores = 1 / (1 + np.exp(-(r.normal(size=n) + 1.6 * ill - 0.8)))
    return pd.DataFrame({"s": scores}), np.where(ill, "yes", "no")


@pytest.fixture
def rule():
    return tb.tune(tb.Scores("s", "yes"), *scored(0, 800), limits=["miss(yes) <= .2"])


# -- which rows are the same -------------------------------------------------------------------------------


def counts(values):
    return RowCounts.from_hashes(hash_rows(np.asarray(values, dtype=float)[:, None]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 1, 2, 2, 3], [1, 1, 2, 2, 3]),
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]),
        ([1, 2, 3], [1, 2, 3, 4, 5, 6, 7]),
        ([1, 1, 1, 2, 2, 2], [1, 1, 2, 2]),
        ([1, 1, 1, 1], [2, 2, 1]),
    ],
)
def test_the_bound_on_chance_is_above_the_exact_probability(one, other):
    """All divisions of the pooled rows, listed one by one, are equally likely for independent tables."""
    pooled, n = one + other, len(one)

    def agreement(inside):
        here = [pooled[i] for i in inside]
        return sum(here.count(v) * (pooled.count(v) - here.count(v)) / pooled.count(v) for v in set(pooled))

    divisions = list(itertools.combinations(range(len(pooled)), n))
    values = np.array([agreement(inside) for inside in divisions])
    exact = np.mean(values >= agreement(range(n)) - 1e-12)
    bound = chance_of_agreement(counts(one), counts(other))
    assert exact <= bound + 1e-9
    assert bound <= 40 * exact


@pytest.mark.parametrize("totals", [(2, 2, 2), (4, 4), (1, 1, 3, 3), (6, 1, 1), (1, 1, 1, 2, 2, 2), (2,) * 6])
@pytest.mark.parametrize("power", [0, 1, -2])
def test_tables_of_two_populations_rarely_agree_more_than_their_chance_says(totals, power):
    """All divisions; the odds of a content with t rows are a power of t, times a random number."""
    t, content = np.array(totals), np.arange(len(totals))
    odds = t.astype(float) ** power * np.exp(np.random.default_rng(0).normal(size=len(t)))
    divisions = np.array(list(itertools.product(*(range(total + 1) for total in totals))))
    ways = np.array([[math.comb(total, k) for total, k in zip(totals, a, strict=True)] for a in divisions])
    probability = (ways * odds**divisions).prod(axis=1)
    for n in range(1, t.sum()):
        of_size = divisions.sum(axis=1) == n
        weight = probability[of_size] / probability[of_size].sum()
        chances = np.array(
            [
                chance_of_agreement(counts(np.repeat(content, a)), counts(np.repeat(content, t - a)))
                for a in divisions[of_size]
            ]
        )
        for chance in chances[chances < 1]:
            assert weight[chances <= chance + 1e-9].sum() <= 1.05 * chance


def test_equal_tables_of_different_rows_have_the_probability_of_one_division():
    n = 30
    exact = 2.0**n / math.comb(2 * n, n)
    assert chance_of_agreement(counts(range(n)), counts(range(n))) == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("values", [2, 5, 100, 10_000])
def test_independent_tables_are_not_refused(values):
    r = np.random.default_rng(values)

    def rows(n):
        return UsedRows.from_hashes(
            hash_rounded_rows(r.integers(values, size=(n, 1)) / values), r.integers(2, size=n)
        )

    sizes = (20, 60, 300, 2000)
    assert not any(rows(n).shared_with(rows(m)) for n in sizes for m in sizes for _ in range(6))


def used_scores(seed, n, shift=0.0, decimals=4, dense=0.0, repeats=1):
    """Rows by rounded scores: with a part in one dense cluster, or each score in several rows of a person."""
    rng = np.random.default_rng(seed)
    p, y = rounded_scores(rng.integers(2**32), shift, n, decimals)
    scores = np.where(rng.random(n) < dense, (0.3 + 0.01 * rng.normal(size=n)).round(decimals), p["p"])
    rows = np.arange(n) // repeats
    return scores[rows], y[rows]


def as_used(scores, y):
    return UsedRows.from_hashes(hash_rounded_rows(scores[:, None]), y)


@pytest.mark.parametrize("decimals", [2, 3, 4])
@pytest.mark.parametrize(
    "changed",
    [{"shift": -1.5}, {"shift": -0.8}, {"shift": 0.8}, {"shift": 1.5}, {"dense": 0.5}, {"repeats": 3}],
)
def test_independent_tables_of_two_populations_are_not_refused(decimals, changed):
    for seed, (n, m) in enumerate([(800, 8000), (8000, 300), (60, 200), (5, 40)] * 5):
        one = as_used(*used_scores([seed, 0], n, decimals=decimals))
        other = as_used(*used_scores([seed, 1], m, decimals=decimals, **changed))
        assert not other.shared_with(one)
        assert not one.shared_with(other)


@pytest.mark.parametrize(
    ("decimals", "n", "m", "copied"),
    [
        (9, 8000, 100, 0.2),
        (9, 100, 8000, 0.2),
        (4, 7200, 8000, 0.2),
        (4, 800, 8000, 1.0),
        (4, 8000, 300, 1.0),
        (3, 7200, 8000, 0.5),
        (2, 7200, 8000, 1.0),
        (2, 200, 200, 1.0),
    ],
)
@pytest.mark.parametrize("shift", [0.0, -0.8])
def test_copies_among_rows_of_another_population_are_recognised(decimals, n, m, copied, shift):
    """A part of the smaller table, in any order, is from the other one."""
    one = used_scores([0, n], n, decimals=decimals)
    scores, y = used_scores([1, m], m, shift, decimals)
    places = np.random.default_rng(2).permutation(n)[: round(copied * min(n, m))]
    scores[: len(places)], y[: len(places)] = one[0][places], one[1][places]
    assert as_used(scores, y).shared_with(as_used(*one))


def grouped_scores(seed, n, decimals, copied=None, shares=(0.4, 0.3, 0.15, 0.1, 0.05)):
    """Return rounded scores, labels and groups; the first rows are those of the table ``copied``."""
    rng = np.random.default_rng(seed)
    group, severity = rng.choice(len(shares), n, p=shares), rng.normal(size=n)
    noise = np.array([0.8, 1.0, 1.2, 1.3, 1.2])[group] * rng.normal(size=n)
    scores = expit(2.2 * (severity - 1.1) - 0.2 * group + noise).round(decimals)
    table = scores, (severity + 0.3 * rng.normal(size=n) > 1.1).astype(int), group.astype(str)
    for column, known in zip(table, copied or (), strict=False):
        column[: len(known)] = known
    return table


def used_with_groups(scores, y, group, name="lang"):
    hashes = hash_rounded_rows(scores[:, None])
    return UsedRows.from_table(RowHashes(hashes, {"p": hashes}).with_groups({name: group}), y)


@pytest.mark.parametrize(
    ("n", "m", "copied", "decimals"), [(300, 300, 60, 4), (6000, 300, 150, 4), (6000, 300, 300, 3)]
)
def test_copies_with_their_groups_are_recognised(n, m, copied, decimals):
    n_with_groups = n_without = n_by_name = 0
    for seed in range(8):
        one = grouped_scores([seed, 0], n, decimals)
        other = grouped_scores([seed, 1], m, decimals, copied=[column[:copied] for column in one])
        rows, earlier = used_with_groups(*other), used_with_groups(*one)
        n_with_groups += rows.shared_with(UsedRows.from_dict(earlier.to_dict())) > 0
        n_without += as_used(*other[:2]).shared_with(as_used(*one[:2])) > 0
        n_by_name += rows.shared_with(used_with_groups(*one, name="age")) > 0
    assert n_with_groups >= 7 > n_without
    assert n_by_name == n_without  # groups of another column say nothing


@pytest.mark.parametrize("decimals", [2, 3, 4])
def test_independent_rows_with_groups_are_not_refused(decimals):
    for seed, (n, m) in enumerate([(800, 8000), (8000, 300), (60, 200), (60, 60)] * 3):
        one = used_with_groups(*grouped_scores([seed, 0], n, decimals))
        for shares in ((0.4, 0.3, 0.15, 0.1, 0.05), (0.05, 0.1, 0.15, 0.2, 0.5)):
            other = used_with_groups(*grouped_scores([seed, 1], m, decimals, shares=shares))
            assert not other.shared_with(one)
            assert not one.shared_with(other)


def test_an_attempt_with_groups_is_recognised_with_and_without_them():
    X, y, group = grouped_scores(0, 400, 4)
    table, model = pd.DataFrame({"s": X, "lang": group}), tb.Scores("s", 1)
    first = tb.calibrate(model, table[["s"]], y, groups=table[["lang"]], limits=["miss(1, by=lang) <= .9"])
    (attempt,) = first.certificate_.attempts
    assert sorted(attempt.rows.read) == ["s", "s with groups ['lang']"]
    for groups in ({}, {"groups": table[["lang"]]}):
        with pytest.raises(tb.LeakageError, match="attempt"):
            tb.calibrate(model, table[["s"]], y, limits=["miss(1) <= .8"], previous=first, **groups)


def test_parts_supersets_and_other_orders_of_rows_are_recognised():
    X, y = scored(1, 6000)
    hashes = hash_rounded_rows(X)

    def rows(places):
        return UsedRows.from_hashes(hashes[places], y[places])

    spent = rows(np.arange(100))
    for places, shared in (
        (np.arange(100)[::-1], 100),
        (np.arange(150), 100),
        (np.arange(40), 40),
        (np.arange(50, 200), 50),
        (np.arange(6000), 100),  # one row in sixty
        (np.tile(np.arange(100), 2), 100),
        (np.arange(100, 6000), 0),
    ):
        assert rows(places).shared_with(spent) == pytest.approx(shared, abs=3)  # some scores are equal
        again = UsedRows.from_dict(spent.to_dict())
        assert again.shared_with(rows(places)) == pytest.approx(shared, abs=3)


def test_of_few_different_scores_only_whole_tables_are_recognised():
    r = np.random.default_rng(3)
    grades, y = r.integers(1, 6, size=(500, 1)), r.integers(2, size=500)
    hashes, mixed = hash_rounded_rows(grades), r.permutation(500)
    spent = UsedRows.from_hashes(hashes, y)
    assert UsedRows.from_hashes(hashes[mixed], y[mixed]).shared_with(spent) == 500
    assert UsedRows.from_hashes(hashes[1:], y[1:]).shared_with(spent) == 499
    assert UsedRows.from_hashes(hashes[:250], y[:250]).shared_with(spent) == 0
    assert chance_of_agreement(spent.contents, spent.contents) > SHARED_LEVEL / 2  # the labels decide


def test_large_tables_are_recognised_by_a_sample():
    r = np.random.default_rng(0)
    hashes, y = hash_rounded_rows(r.random((130_000, 1))), np.zeros(130_000)
    spent = UsedRows.from_hashes(hashes[:120_000], y[:120_000])
    assert len(spent.contents.contents) == 50_000
    assert UsedRows.from_hashes(hashes, y).shared_with(spent) == pytest.approx(120_000, rel=0.02)
    assert UsedRows.from_hashes(hashes[120_000:], y[120_000:]).shared_with(spent) == 0


# -- calls -------------------------------------------------------------------------------------------------


def test_a_call_is_named_by_rule_rows_labels_groups_and_clusters(tuned):
    mix, X, y, groups = tuned
    X, y, groups = X[:40], y[:40], groups[:40]
    of = np.repeat(np.arange(10), 4)

    def key(rows=slice(None), y=y, groups=groups, clusters=of, asked="asked", model=mix):
        given = Given(X[rows], y[rows], groups[rows], clusters=clusters[rows])
        fresh = fresh_rows(model, given, [LIMIT[0].rate], opens=True)
        records = replace(model.records_, ledger=Ledger())
        return records.spend(fresh.used, what_is_tested(model, fresh, asked))[-1].key

    first = key()
    mixed = np.random.default_rng(1).permutation(40)
    assert key(mixed) == first  # the order of rows does not matter
    assert key(clusters=9 - of) == first  # nor the names of clusters
    swapped = y.copy()
    i, j = np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]
    swapped[[i, j]] = y[[j, i]]  # as many of each label
    others = [
        key(y=swapped),
        key(groups=groups[mixed]),
        key(clusters=np.r_[of[1:], of[0]]),  # clusters of the same sizes
        key(asked="other"),
        key(model=mix.reweight(limits=[rates.error() <= 0.45])),
    ]
    assert len({first, *others}) == 6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_calibrate_changes_nothing_but_the_ledger(fitted):
    boosted = tb.WorstClassBoostClassifier("tree", n_estimators=2, random_state=0).fit(*fitted[1:3])
    r = np.random.default_rng(5)
    X, groups = r.normal(size=(400, 4)), r.choice(["a", "b"], 400)
    y = (X[:, 0] + r.normal(size=400) > 0.3).astype(int)
    for model, options in (
        (copy.deepcopy(fitted[0]), {"groups": groups, "limits": [rates.error(by="group") <= 0.6]}),
        (copy.deepcopy(fitted[0]), {"groups": groups, "limits": LIMIT}),  # fails
        (boosted, {"max_error": 0.9}),
        (boosted, {"max_error": 0.35}),
    ):

        def state(model=model):
            kept = {name: value for name, value in vars(model).items() if name != "records_"}
            records = model.records_
            kept["rows"] = records.trained, records.selected, records.tables
            parts = {name: id(value) for name, value in vars(model).items()}
            return joblib.hash(kept), model.get_params(), parts

        before, ledger = state(), model.ledger_
        n = len(ledger.attempts)
        with suppress(tb.NotCertifiedError):
            tb.calibrate(model, X + n, y, **options)
        assert state() == before
        assert model.ledger_ is ledger
        assert len(ledger.attempts) == n + 1


# -- attempts ----------------------------------------------------------------------------------------------


def test_rows_of_a_failed_attempt_are_refused_with_other_groups(tuned, tmp_path):
    mix, X, y, groups = tuned
    with pytest.raises(tb.NotCertifiedError, match="save_model") as failed:
        tb.calibrate(mix, X, y, groups=groups, limits=LIMIT)
    assert failed.value.reason.endswith(".")
    assert "previous=" not in failed.value.reason
    tb.save_model(mix, tmp_path / "m.model")
    permuted = np.random.default_rng(0).permutation(groups)
    for model in (mix, tb.load_model(tmp_path / "m.model"), copy.deepcopy(mix), mix.reweight()):
        for of, limits in ((permuted, LIMIT), (groups, [rates.error(by="group") <= 0.6])):
            for how in ("copies", "natural"):
                with pytest.raises(tb.LeakageError, match="attempt"):
                    tb.calibrate(model, X, y, groups=of, limits=limits, equal_rows=how)
    with pytest.raises(tb.NotCertifiedError):  # the same call gives the same result
        tb.calibrate(mix, X, y, groups=groups, limits=LIMIT)
    assert len(mix.ledger_.attempts) == 1


def test_few_rows_of_each_of_several_attempts_are_refused(tuned, monkeypatch):
    monkeypatch.setattr(Path, "out_of_reach", False)  # attempts that are next to sure to fail
    mix, X, y, groups = tuned
    for part in (slice(0, 100), slice(100, 200), slice(200, 300)):
        with pytest.raises(tb.NotCertifiedError):
            tb.calibrate(mix, X[part], y[part], groups=groups[part], limits=LIMIT)
    rows = np.r_[0:7, 100:107, 200:207, 300:400]
    with pytest.raises(tb.LeakageError, match="attempt"):
        tb.calibrate(mix, X[rows], y[rows], groups=groups[rows], limits=LIMIT)


def test_spent_rows_of_scores_are_refused_with_further_rows(rule):
    X, y = scored(1, 150)
    with pytest.raises(tb.NotCertifiedError):
        tb.calibrate(rule, X[:100], y[:100], limits=["miss(yes) <= .1", "false_alarm(yes) <= .6"])
    for n, _shared in ((150, 100), (100, 100), (60, 60)):
        with pytest.raises(tb.LeakageError, match="attempt"):
            tb.calibrate(rule, X[:n], y[:n], limits=["miss(yes) <= .3"])
    with pytest.raises(tb.LeakageError, match="attempt"):  # with other labels
        tb.calibrate(rule, X[:100], np.roll(y[:100], 1), limits=["miss(yes) <= .3"])


def rounded_scores(seed, shift=0.0, n=8000, decimals=4):
    """Rounded probabilities of texts, few of them severe, and labels; ``shift`` moves the mean logit."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=n)
    p = 1 / (1 + np.exp(-2.2 * (s - 1.1) - shift - rng.normal(size=n)))
    return pd.DataFrame({"p": p.round(decimals)}), np.where(s + 0.3 * rng.normal(size=n) > 1.1, "yes", "no")


@pytest.mark.parametrize("shift", [-0.8, 1.5])
def test_rounded_scores_of_another_population_are_fresh(shift, tmp_path):
    """The shift makes more of the new scores equal used ones than the used ones equal one another."""
    rule = tb.calibrate(tb.Scores("p", "yes"), *rounded_scores(3), limits=["miss(yes) <= .35"])
    tb.save_rule(rule, tmp_path / "rule.json")
    X, y = rounded_scores(5, shift)
    for known in (rule, tb.load_rule(tmp_path / "rule.json")):
        tb.certify(known, X, y)
        tb.Monitor(known).add(X, y)
    rule.certificate_.recheck(X, y)


def test_a_refusal_of_equal_scores_names_scores_with_more_digits():
    X, y = rounded_scores(3)
    rule = tb.calibrate(tb.Scores("p", "yes"), X, y, limits=["miss(yes) <= .35"])
    X_new, y_new = rounded_scores(5, -0.8)
    half = pd.concat([X[:4000], X_new[4000:]]), np.r_[y[:4000], y_new[4000:]]
    with pytest.raises(tb.LeakageError, match="another"):
        tb.certify(rule, *half)
    with pytest.raises(tb.LeakageError, match="fresh"):
        tb.certify(rule, X, y)


def test_certify_knows_selection_data_and_calibration_rows_of_scores(rule):
    X, y = scored(0, 800)
    with pytest.raises(tb.LeakageError, match="selection"):
        tb.certify(rule, X[::-1], y[::-1])
    X_cal, y_cal = scored(1, 400)
    point = tb.calibrate(rule, X_cal, y_cal, limits=["miss(yes) <= .35"])
    more = pd.concat([X_cal, scored(2, 300)[0]]), np.r_[y_cal, scored(2, 300)[1]]
    for given in (more, (X_cal[:80], y_cal[:80])):
        with pytest.raises(tb.LeakageError):
            tb.certify(point, *given)
    assert tb.certify(rule, X_cal, y_cal).certified is not None  # not used for this rule
    (bound,) = [b for b in tb.certify(point, *scored(3, 2000)).bounds if b.target is not None]
    assert bound.target == 0.35  # neither the limit of tune nor a tightened limit


def test_rows_that_only_equal_selection_data_are_not_counted_as_them():
    """Scores of two decimals: many of the other rows equal one of the 300 rows that selected."""
    r = np.random.default_rng(0)
    X = pd.DataFrame({"s": r.random(3000).round(2)})
    y = (r.random(3000) < X["s"]).astype(int)
    rule = tb.tune(tb.Scores("s", 1), X[:300], y[:300], limits=["miss(1) <= .6"])
    with pytest.raises(tb.LeakageError):
        tb.certify(rule, pd.concat([X[:300]] * 4), np.tile(y[:300], 4))


def test_rows_of_a_calibration_are_called_so():
    """Most rows of the batch certified the rule, some selected the rule; the message names no option."""
    r = np.random.default_rng(0)
    X = pd.DataFrame({"s": r.random(1000)})
    y = (r.random(1000) < X["s"]).astype(int)
    point = tb.calibrate(tb.Scores("s", 1), X, y, limits=["miss(1) <= .6"])
    words = (
        "^X: 900 of these 1,000 rows are calibration rows of the rule, and 100 are its selection data. "
        "Give fresh rows$"
    )
    with pytest.raises(tb.LeakageError, match=words):
        tb.certify(point, X, y)


def test_rows_equal_by_chance_are_not_called_rows_of_the_calibration(tmp_path):
    """The message has the number of equal rows and the argument. One statement of it serves a rule."""
    rng = np.random.default_rng(0)

    def rows(n):
        X = pd.DataFrame({"a": rng.integers(0, 6, n), "b": rng.integers(0, 5, n)})
        return X, (rng.random(n) < (X["a"] + X["b"]) / 10).astype(int)

    model = LogisticRegression().fit(*rows(1000))
    tuned = tb.tune(model, *rows(1500), limits=["miss(1) <= .4"])
    fresh = rows(1500)
    rule = tb.calibrate(tuned, *fresh, equal_rows="natural")
    X, y = rows(800)
    ways = {
        "certify": lambda **how: tb.certify(rule, X, y, **how),
        "calibrate": lambda **how: tb.calibrate(rule, X, y, **how),
    }
    words = "800 of these 800 rows equal calibration rows of the rule.*equal_rows='natural'"
    for way in ways.values():
        asks = pytest.raises(tb.LeakageError, match=f"^X: {words}")
        with asks:
            way(equal_rows="copies")
        way()  # as stated to calibrate
    path = tmp_path / "rule.model"
    tb.save_model(rule, path)
    loaded = tb.load_model(path)
    state = tb.Monitor(loaded).add(X[:400], y[:400]).to_dict()
    tb.Monitor.from_dict(state, loaded).add(X[400:], y[400:])
    for how in ("copies", "natural"):
        with pytest.raises(tb.LeakageError, match="calibration"):
            tb.certify(rule, *fresh, equal_rows=how)


def test_all_selection_data_of_scores_are_known(rule):
    X, y = scored(6, 500)
    again = rule.reweight(X=X, y=y, limits=["miss(yes) <= .25"])
    for given in ((X, y), scored(0, 800)):
        with pytest.raises(tb.LeakageError, match="selection"):
            tb.certify(again, *given)
    assert tb.certify(rule, X, y).certified is not None
    P = {"one": np.column_stack([1 - X.s, X.s])}
    mix = tb.RobustMixtureClassifier.from_probabilities(P, y, limits=["miss(yes) <= .25"])
    with pytest.raises(tb.LeakageError, match="selection"):
        tb.certify(mix, {"one": P["one"][::-1]}, y[::-1])


def test_an_attempt_is_recorded_before_its_test(tuned, monkeypatch):
    mix, X, y, groups = tuned

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tailboost.guarantees.calibration.limit_bounds", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tb.calibrate(mix, X, y, groups=groups, limits=LIMIT)
    assert len(mix.ledger_.attempts) == 1
    monkeypatch.undo()
    with pytest.raises(tb.LeakageError, match="attempt"):
        tb.calibrate(mix, X, y, groups=groups, limits=[rates.error(by="group") <= 0.6])


def test_eight_threads_lose_no_attempt(rule):
    parts = [scored(10 + k, 300) for k in range(8)]

    def attempt(part):
        try:
            return len(tb.calibrate(rule, *part, limits=["miss(yes) <= .4"]).certificate_.attempts)
        except tb.NotCertifiedError as error:
            return len(error.attempts)

    with ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(attempt, parts))
    assert sorted(numbers) == list(range(1, 9))
    assert len(rule.ledger_.attempts) == 8


# -- spent parts of the level: sums by hand ----------------------------------------------------------------


def numbered_attempt(k):
    """Return an attempt; attempts of different numbers have no row in common."""
    hashes = hash_rounded_rows(np.arange(30.0)[:, None] + 1000 * k)
    return Attempt(f"call {k}", UsedRows.from_hashes(hashes, np.arange(30) % 2))


def spent(ledger):
    return [attempt.spent for attempt in ledger.attempts]


def test_each_of_any_number_of_attempts_spends_nine_tenths_of_what_is_left():
    ledger = Ledger()
    for k in range(6):
        ledger.record(numbered_attempt(k))
    assert spent(ledger) == pytest.approx([0.9, 0.09, 0.009, 0.0009, 0.00009, 0.000009])
    assert sum(spent(ledger)) < 1


@pytest.mark.parametrize("declared", [1, 2, 3, 7])
def test_declared_attempts_spend_even_parts_of_one(declared):
    ledger = Ledger()
    for k in range(declared):
        ledger.record(numbered_attempt(k), attempts=declared)
    assert spent(ledger) == pytest.approx([1 / declared] * declared)
    with pytest.raises(ValueError, match=f"attempts={declared}: {declared} attempt"):
        ledger.record(numbered_attempt(declared), attempts=declared)
    assert len(ledger.attempts) == declared


def test_attempts_declared_later_divide_what_is_left():
    ledger = Ledger()
    ledger.record(numbered_attempt(0))
    for k in (1, 2):
        ledger.record(numbered_attempt(k), attempts=3)
    assert spent(ledger) == pytest.approx([0.9, 0.05, 0.05])


def test_the_same_call_again_spends_nothing():
    ledger = Ledger()
    for k in (0, 1, 0, 1, 0):
        ledger.record(numbered_attempt(k))
    assert spent(ledger) == pytest.approx([0.9, 0.09])


def test_attempts_of_other_models_that_the_caller_names_count():
    others = Ledger()
    for k in (0, 1):
        others.record(numbered_attempt(k))
    ledger = Ledger()
    recorded = ledger.record(numbered_attempt(2), attempts_of(others))
    assert [attempt.key for attempt in recorded] == ["call 0", "call 1", "call 2"]
    assert spent(ledger) == pytest.approx([0.9, 0.09, 0.009])


def test_a_ledger_from_a_file_goes_on_where_it_ended():
    ledger = Ledger()
    for k in (0, 1):
        ledger.record(numbered_attempt(k))
    again = Ledger.from_dict(json.loads(json.dumps(ledger.to_dict())))
    again.record(numbered_attempt(2))
    assert spent(again) == pytest.approx([0.9, 0.09, 0.009])
    with pytest.raises(tb.LeakageError, match="attempt"):
        again.record(Attempt("other call", numbered_attempt(0).rows))


def test_attempts_of_models_inside_are_attempts_of_the_model_and_of_all_of_them():
    inner = Ledger(), Ledger()
    inner[0].record(numbered_attempt(0))
    outer = Ledger(inner=inner)
    outer.record(numbered_attempt(1))
    for ledger in (outer, *inner):
        assert spent(ledger) == pytest.approx([0.9, 0.09])
    inner[1].record(numbered_attempt(2))
    outer.record(numbered_attempt(3))
    for ledger in (outer, *inner):
        assert spent(ledger) == pytest.approx([0.9, 0.09, 0.009, 0.0009])


def test_a_withdrawn_attempt_alone_leaves_the_ledger():
    ledger = Ledger()
    for k in range(3):
        ledger.record(numbered_attempt(k))
    ledger.withdraw(numbered_attempt(1))
    assert [attempt.key for attempt in ledger.attempts] == ["call 0", "call 2"]
    ledger.record(numbered_attempt(3))
    assert spent(ledger) == pytest.approx([0.9, 0.009, 0.9 * 0.091])


def test_a_withdrawn_attempt_leaves_those_of_models_inside():
    inner = Ledger()
    inner.record(numbered_attempt(0))
    outer = Ledger(inner=(inner,))
    outer.record(numbered_attempt(1))
    outer.withdraw(numbered_attempt(1))
    for ledger in (outer, inner):
        assert spent(ledger) == pytest.approx([0.9])
    outer.record(numbered_attempt(2))
    assert spent(inner) == pytest.approx([0.9, 0.09])


def test_attempts_of_a_classifier_are_attempts_of_the_rule_that_is_tuned_on_it(rule):
    asked = {"limits": ["miss(yes) <= .4"]}
    outer = tb.tune([rule], *scored(9, 600), **asked)
    tb.calibrate(rule, *scored(1, 400), **asked)
    tb.calibrate(outer, *scored(2, 400), **asked)
    tb.calibrate(rule, *scored(3, 400), **asked)
    assert spent(rule.ledger_) == pytest.approx([0.9, 0.09, 0.009])


@pytest.fixture
def average(rule):
    """Return an average of two rules, and both of them."""
    asked = {"limits": ["miss(yes) <= .4"]}
    other = tb.tune(tb.Scores("s", "yes"), *scored(8, 600), **asked)
    return tb.tune([rule, other], *scored(9, 600), **asked), (rule, other)


def test_attempts_of_each_of_two_models_inside_are_attempts_of_all(average):
    outer, (first, second) = average
    for k, model in enumerate((first, outer, second, outer)):
        tb.calibrate(model, *scored(20 + k, 400), limits=["miss(yes) <= .4"])
    for model in (outer, first, second):
        assert spent(model.ledger_) == pytest.approx([0.9, 0.09, 0.009, 0.0009])


@pytest.mark.parametrize("place", [0, 1])
def test_rows_of_an_attempt_of_each_model_inside_are_refused(average, place):
    outer, inner = average
    rows = scored(30, 400)
    tb.calibrate(inner[place], *rows, limits=["miss(yes) <= .4"])
    with pytest.raises(tb.LeakageError, match="attempt"):
        tb.calibrate(outer, *rows, limits=["miss(yes) <= .35"])


def test_attempts_of_models_inside_models_inside_count(average):
    middle, (_, innermost) = average
    outer = tb.tune([middle], *scored(10, 600), limits=["miss(yes) <= .4"])
    tb.calibrate(innermost, *scored(21, 400), limits=["miss(yes) <= .4"])
    tb.calibrate(outer, *scored(22, 400), limits=["miss(yes) <= .4"])
    for model in (outer, middle, innermost):
        assert spent(model.ledger_) == pytest.approx([0.9, 0.09])


def test_all_attempts_before_a_named_one_count(rule):
    """The named result is of the second attempt of a copy; the ledger of this rule lacks both attempts."""
    asked = {"limits": ["miss(yes) <= .4"]}
    other = copy.deepcopy(rule)
    for k in (1, 2):
        previous = tb.calibrate(other, *scored(k, 400), **asked)
    rows = scored(3, 400)
    calibrated = tb.calibrate(rule, *rows, **asked, previous=previous)
    assert spent(calibrated.ledger_) == pytest.approx([0.9, 0.09, 0.009])
    with pytest.raises(tb.LeakageError, match="attempt"):
        tb.calibrate(rule, *scored(1, 400), limits=["miss(yes) <= .3"])


def test_too_few_rows_for_a_test_leave_earlier_attempts_in_the_ledger(rule):
    tb.calibrate(rule, *scored(1, 400), limits=["miss(yes) <= .35"])
    with pytest.raises(tb.NotCertifiedError, match="attempt"):
        tb.calibrate(rule, *scored(2, 8), limits=["miss(yes) <= .35"])
    assert spent(rule.ledger_) == pytest.approx([0.9])
    calibrated = tb.calibrate(rule, *scored(3, 400), limits=["miss(yes) <= .35"])
    assert spent(calibrated.ledger_) == pytest.approx([0.9, 0.09])


def assert_tested_at(level, calibrated, rows):
    """Check that misses pass the exact test, with the fewest false alarms of all passing thresholds."""
    X, y = rows
    ill = y == "yes"

    def passes(missed):
        return binom.cdf(missed, ill.sum(), 0.3) <= level

    found = calibrated.predict(X) == "yes"
    assert passes((ill & ~found).sum())
    above = X["s"].to_numpy() > np.append(0.0, X["s"])[:, None]  # by threshold and row
    possible = above[passes((ill & ~above).sum(axis=1))]
    assert (found & ~ill).sum() == (possible & ~ill).sum(axis=1).min()


def test_each_attempt_is_tested_at_its_part_of_the_level(rule):
    """Of the thresholds with few enough misses, the certified one has the fewest false alarms."""
    asked = {"limits": ["miss(yes) <= .3"]}
    rule = rule.reweight(objective=rates.false_alarm("yes"))
    for k, level in enumerate([0.045, 0.0045, 0.00045], 1):
        rows = scored(k, 700)
        assert_tested_at(level, tb.calibrate(rule, *rows, **asked), rows)


def test_declared_attempts_are_tested_at_even_parts_of_the_level(rule):
    rule = rule.reweight(objective=rates.false_alarm("yes"))
    for k in (1, 2, 3):
        rows = scored(k, 700)
        calibrated = tb.calibrate(rule, *rows, limits=["miss(yes) <= .3"], attempts=3)
        assert_tested_at(0.05 / 3, calibrated, rows)


def test_attempts_of_one_batch_are_tested_at_what_the_named_ones_left():
    """The model has no ledger: the caller names the previous result, which knows all earlier attempts."""
    asked = {"limits": ["miss(yes) <= .3"], "objective": rates.false_alarm("yes"), "selection_share": 0.3}
    previous, levels = None, [0.045, 0.0045, 0.00045]
    for k, level in enumerate(levels, 1):
        X, y = scored(k, 1000)
        classifier, certifying, _ = selected_on_part(tb.Scores("s", "yes"), Given(X, y), **asked)
        previous = certified_on_rest(classifier, certifying, previous=previous)
        assert [attempt.spent for attempt in previous.certificate_.attempts] == pytest.approx(
            [0.9, 0.09, 0.009][:k]
        )
        assert_tested_at(level, previous, (certifying.X, certifying.y))


def test_contradicting_limits_on_rows_of_the_previous_attempt():
    X, y = scored(1, 1000)
    model, contradicting = tb.Scores("s", "yes"), ["miss(yes) <= .01", "false_alarm(yes) <= .01"]
    with pytest.raises(tb.InfeasibleLimitsError, match="batch"):
        tb.calibrate(model, X, y, limits=contradicting)
    first = tb.calibrate(model, X, y, limits=["precision(yes) >= .75"])
    with pytest.raises(tb.LeakageError, match="attempt"):
        tb.calibrate(model, X, y, limits=contradicting, previous=first)


# -- copies and files --------------------------------------------------------------------------------------


def test_what_a_copy_carries(rule, tmp_path):
    first = scored(1, 400)
    shallow, before = copy.copy(rule), copy.deepcopy(rule)
    point = tb.calibrate(rule, *first, limits=["miss(yes) <= .35"])
    assert shallow.ledger_ is rule.ledger_ is point.ledger_ is rule.reweight().ledger_
    assert before.ledger_.attempts == ()  # a copy lacks later attempts
    tb.save_model(point, tmp_path / "m.model")
    for other in (copy.deepcopy(rule), pickle.loads(pickle.dumps(rule)), tb.load_model(tmp_path / "m.model")):
        assert len(other.ledger_.attempts) == 1
        with pytest.raises(tb.LeakageError):
            tb.calibrate(other, *first, limits=["miss(yes) <= .3"])
        second = tb.calibrate(other, *scored(2, 500), limits=["miss(yes) <= .35"])
        assert len(second.certificate_.attempts) == 2
    assert len(rule.ledger_.attempts) == 1
    assert not hasattr(clone(rule), "ledger_")
    assert clone(rule).fit(*scored(0, 800)).ledger_.attempts == ()
    later = tb.calibrate(before, *scored(2, 500), limits=["miss(yes) <= .35"], previous=point)
    assert len(later.certificate_.attempts) == 2
    assert len(before.ledger_.attempts) == 2


def test_the_ledger_of_a_model_file_changes_alone(rule, tmp_path):
    path = tmp_path / "m.model"
    tb.save_model(rule, path, notes={"purpose": "test"})
    content, digest = path.read_bytes(), model_digest(path)
    assert read_ledger(path).attempts == ()
    write_ledger(
        path, Ledger((Attempt("key", UsedRows.from_hashes(hash_rounded_rows(np.ones((3, 1))), [0, 1, 1])),))
    )
    assert path.read_bytes() != content
    assert model_digest(path) == digest
    loaded = tb.load_model(path)
    assert [attempt.key for attempt in loaded.ledger_.attempts] == ["key"]
    assert loaded.predict(scored(5, 50)[0]).tolist() == rule.predict(scored(5, 50)[0]).tolist()
    assert read_notes(path)["notes"] == {"purpose": "test"}
    write_ledger(path, Ledger())
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "damaged",
    [
        {"gaps": "00", "repeats": "00", "limit": 1, "rows": 1},
        {"gaps": squeezed(np.array([2**32 - 1, 1])), "repeats": squeezed(np.zeros(2)), "limit": 1, "rows": 2},
        {"gaps": squeezed(np.array([1, 0])), "repeats": squeezed(np.zeros(2)), "limit": 1, "rows": 2},
        {"gaps": squeezed(np.zeros(MOST_HASHES + 1)), "repeats": "", "limit": 1, "rows": 2},
    ],
)
def test_damaged_counts_are_refused(damaged):
    with pytest.raises((KeyError, ValueError)):
        RowCounts.from_dict(damaged)


@pytest.mark.parametrize("n", [0, 1, 7, 4000])
def test_counts_of_rows_are_stored_in_few_bytes(n):
    rng = np.random.default_rng(n)
    counts = RowCounts.from_hashes(
        rng.integers(2**63, size=n, dtype=np.uint64).repeat(rng.integers(1, 3, size=n))
    )
    state = json.loads(json.dumps(counts.to_dict()))
    assert RowCounts.from_dict(state).equals(counts)
    assert len(json.dumps(state)) <= 200 + 4 * n
