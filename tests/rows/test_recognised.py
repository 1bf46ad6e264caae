"""Rows that were used before are recognised by one digest a row and two rules, and fresh rows rarely are."""

import json
from fractions import Fraction
from functools import partial
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from conftest import refused
from scipy.special import expit
from scipy.stats import binom
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.rows import Rows, fingerprints, refuse_copies
from tailboost.rows.fingerprints import hash_rows, random_numbers, selecting_numbers, voting_numbers
from tailboost.rows.recognised import MOST_DIGESTS, Seen


def scored(seed, n, decimals, shift=0.0):
    """Return rounded scores and labels."""
    rng = np.random.default_rng(seed)
    severity = rng.normal(size=n)
    scores = expit(2.2 * (severity - 1.1) + shift + rng.normal(size=n)).round(decimals)
    return scores, severity + 0.3 * rng.normal(size=n) > 1.1


def seen(scores, labels):
    """Return the rows of a table of scores as a model keeps them."""
    has_column = Rows.read(y=labels).has_column([True])
    return Seen.of(hash_rows(scores[:, None], rounded=True), has_column=has_column)


def with_copies(used, new, n_copies):
    """Return new rows, of which the first ones are rows of a used table."""
    places = np.random.default_rng(2).permutation(len(used[0]))[:n_copies]
    return [np.r_[old[places], fresh[n_copies:]] for old, fresh in zip(used, new, strict=True)]


SIZES = [(800, 8000), (7200, 300), (60, 200)]  # rows of the used and of the new table


@pytest.mark.parametrize("decimals", [2, 3, 4, 7])
@pytest.mark.parametrize("shift", [0.0, -0.8, 1.5])
def test_independent_tables_are_fresh(decimals, shift):
    n_refused = 0
    for seed, (n, m) in enumerate(SIZES * 3):
        used, new = seen(*scored([seed, 0], n, decimals)), seen(*scored([seed, 1], m, decimals, shift))
        n_refused += new.repeats(used) + used.repeats(new)
    assert n_refused == 0


@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize(("decimals", "share"), [(3, 1.0), (4, 1.0), (7, 1.0), (7, 0.5)])
def test_copies_are_recognised(decimals, share, n, m):
    """A part of the smaller table, in any order, is from the other one."""
    used = scored([0, n], n, decimals)
    new = seen(*with_copies(used, scored([1, m], m, decimals), round(share * min(n, m))))
    again = Seen.from_dict(json.loads(json.dumps(seen(*used).to_dict())))
    assert new.repeats(again)
    if share == 1.0:
        assert new.repeats(again, "natural")


@pytest.mark.parametrize(("n", "share"), [(5, 0.5), (20, 0.1), (400, 0.5), (400, 0.02), (400, 0.0)])
def test_equal_tables_of_two_values_are_chance_and_copies_in_their_order_are_not(n, share):
    """The rows of independent tables are in another order, and their counts equal by a binomial law."""
    share_refused = 0.0
    for k in range(n + 1):
        rows = np.arange(n) < k
        used, other, copy = (Seen.of(hash_rows(each[:, None])) for each in (rows, rows[::-1], rows))
        share_refused += binom.pmf(k, n, share) ** 2 * other.repeats(used)
        if n > 20 and 1 < k < n - 1:
            assert copy.repeats(Seen.from_dict(used.to_dict()), "natural")
    assert share_refused < 0.001


@pytest.mark.parametrize("share", [0.1, 0.9, 0.999])
def test_a_large_table_of_few_values_is_recognised_by_all_its_rows(share):
    """The kept rows are those of one or two of ten values."""
    rng = np.random.default_rng(0)
    draws = rng.choice(10, (2, 600_000), p=[share, *[(1 - share) / 9] * 9])
    tables = (*draws, rng.permutation(draws[0]))
    used, fresh, shuffled = (Seen.of(hash_rows(each[:, None])) for each in tables)
    assert len(np.unique(used.digests)) < 3
    assert not fresh.repeats(used)
    assert shuffled.repeats(Seen.from_dict(used.to_dict()), "natural")


def test_large_tables_are_recognised_by_a_sample():
    hashes = hash_rows(np.random.default_rng(0).random((130_000, 2)), rounded=True)
    used = Seen.of(hashes[:120_000])
    assert len(used.digests) == MOST_DIGESTS
    assert Seen.of(hashes).repeats(used)
    assert used.recognises(60) > used.recognises(40)  # 25 and 17 digests are expected
    assert not Seen.of(hashes[120_000:]).repeats(used)
    assert Seen.of(hashes).share_in(used) == pytest.approx(12 / 13, abs=0.01)


@pytest.mark.parametrize("damage", [{"digests": "00"}, {"digests": "AgAAAAEAAAA="}, {"limit": "many"}])
def test_damaged_rows_are_refused(damage):
    state = Seen.of(hash_rows(np.arange(3.0)[:, None])).to_dict()
    refused(lambda: Seen.from_dict(state | damage), ".")


def test_rows_are_the_same_in_other_types():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.integers(5, size=200), "c": ["x", "y"] * 100})
    hashes = hash_rows(frame, rounded=True)
    assert len({*hash_rows([[1.0, 2.0], [2.0, 1.0]])}) == 2
    assert len({*hash_rows([[2.0**52], [2.0**52 + 1], [1.7e9 + 0.25], [1.7e9 + 300.25]], rounded=True)}) == 4
    for row in ([1, "a"], ["1", "a"], [True, "a", None], [0.5, 2]):  # NumPy makes text of numbers beside it
        assert hash_rows([row]) == hash_rows(np.array([row], object)) == hash_rows(pd.DataFrame([row]))
    for other in (frame.astype({"a": np.float32}), frame.astype(object), frame.astype({"c": "category"})):
        np.testing.assert_array_equal(hash_rows(other, rounded=True), hashes)
    written = hash_rows(frame.assign(a=frame["a"].map("{:.8g}".format)), rounded=True)
    assert (written == hashes).mean() > 0.98  # few numbers are at a border of the rounding
    assert len(np.unique(hashes)) == 200
    truths = rng.random(200) < 0.5
    hashes = hash_rows(frame.assign(c=truths), rounded=True)
    pairs = (("True", "False"), ("TRUE", "FALSE"), ("true", "false"), "10")
    words = [np.where(truths, *pair) for pair in pairs]
    for other in (*words, truths * 1.0, pd.Categorical(truths), pd.array(truths, "boolean")):
        np.testing.assert_array_equal(hash_rows(frame.assign(c=other), rounded=True), hashes)
    days = np.arange("1969-12-30", "1970-01-03", dtype="M8[D]")
    for times in (days, days + np.arange(4) * np.timedelta64(3601, "s")):
        forms = [times.astype(f"M8[{unit}]") for unit in ("s", "us", "ns")]
        series = pd.Series(forms[2])
        forms += [series, series.astype(str), forms[2][:, None], forms[1][:, None].astype(object)]
        assert len({tuple(hash_rows(form, rounded=True)) for form in forms}) == 1
    months = pd.period_range("2020", periods=3, freq="M")
    zoned = pd.date_range("2020-03-01", periods=3, tz="UTC")
    series = (zoned - zoned[1], months, zoned, zoned.tz_localize(None), pd.Categorical(zoned))
    for column in map(pd.Series, series):
        forms = [column.to_frame(), column.to_numpy()[:, None], [[each] for each in column]]
        forms += [column.astype(object), column.astype("category")]
        for rounded in (False, True):
            [found] = {tuple(hash_rows(each, rounded=rounded)) for each in forms}
            assert len({*found}) == 3


def test_rows_are_the_same_in_a_csv_file():
    texts = ["None", "NA", "null", "<NA>", " y ", "1/3", "", "-0", "inf", "False", "0:00:05"]
    objects = [Fraction(1, 3), None, np.float16(0.307), b"x", pd.NaT, pd.Timedelta(5).to_pytimedelta()]
    numbers = np.random.default_rng(0).normal(size=99).astype(np.float16)
    for values in (texts, objects, numbers, numbers.astype(np.float32) * 1e9):
        made = pd.DataFrame({"a": pd.Series(values), "b": 1})
        read = pd.read_csv(StringIO(made.to_csv(index=False)))
        np.testing.assert_array_equal(hash_rows(read, rounded=True), hash_rows(made, rounded=True))


def test_entries_without_a_hash_are_told_apart():
    long = np.zeros((3, 2000))
    long[1, 1000] = 1  # printed as the others
    for entries in ([*long], ["a", [1], "a"], [{1: 2}, {}, {1: 2}], [(1, [2]), (), (1, [2])]):
        for rounded in (False, True):
            first, other, again = hash_rows(pd.DataFrame({"a": entries}), rounded=rounded)
            assert first == again != other


def test_numbers_are_the_same_in_every_order_and_others_in_another_table():
    rng = np.random.default_rng(0)
    hashes = hash_rows(rng.integers(40, size=(500, 1)))
    clusters = rng.permutation(np.arange(500) // 5)
    of_rows = [(numbers_of, [hashes]) for numbers_of in (random_numbers, selecting_numbers, voting_numbers)]
    of_clusters = [(numbers_of, [hashes, clusters]) for numbers_of in (selecting_numbers, voting_numbers)]
    for numbers_of, given in of_rows + of_clusters:
        numbers, order = numbers_of(*given), rng.permutation(500)
        again = numbers_of(*(each[order] for each in given))
        for content in np.unique(hashes):
            assert sorted(numbers[hashes == content]) == sorted(again[hashes[order] == content])
        without_one = numbers_of(*(each[1:] for each in given))
        assert not set(without_one) & set(numbers)  # no row stays on its side
    by_cluster = selecting_numbers(hashes, clusters)
    assert all(len(set(by_cluster[clusters == k])) == 1 for k in range(100))
    assert len(np.unique(by_cluster)) == 100


def test_numbers_of_equal_rows_are_uniform_and_new_in_each_table():
    """Of seven contents, the numbers below .3 in tables of one population are binomial, each time anew."""
    rng, counts = np.random.default_rng(0), []
    for _ in range(400):
        content = rng.integers(7, size=100)
        numbers = random_numbers(hash_rows(content[:, None]))
        counts += [(np.sum(numbers[content == k] < 0.3), np.sum(content == k)) for k in range(7)]
    selected, n = np.array(counts, dtype=float).reshape(400, 7, 2).transpose(2, 0, 1)
    z = (selected - 0.3 * n).sum(axis=0) / np.sqrt(0.21 * n.sum(axis=0))
    assert abs(z).max() < 4
    variance = np.square(selected - 0.3 * n).sum(axis=0) / (0.21 * n.sum(axis=0))
    assert abs(variance - 1).max() < 4 * np.sqrt(2 / 400)


def test_scores_that_selected_or_certified_are_refused_and_others_are_not():
    def rows(seed, n):
        scores, labels = scored(seed, n, 9)
        return pd.DataFrame({"s": scores}), np.where(labels, "yes", "no")

    first, second = rows(0, 800), rows(1, 1000)
    rule = tb.tune(tb.Scores("s", "yes"), *first, limits=["miss(yes) <= .35"])
    refused(lambda: tb.certify(rule, first[0][::-1], first[1][::-1]), "selected", tb.LeakageError)
    point = tb.calibrate(rule, *second, limits=["miss(yes) <= .4"])
    for copy in (point, rule, rule.reweight(limits=["miss(yes) <= .5"])):
        refused(lambda: tb.certify(copy, second[0][:80], second[1][:80]), "calibrated", tb.LeakageError)
    assert tb.certify(point, *rows(2, 2000)).n_rows == 2000


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.002, 0.05])
def test_a_handful_of_training_rows_is_chance_where_no_row_repeats(share):
    trained, fresh = np.random.default_rng(0).normal(size=(2, 4000, 3))
    fresh[: round(share * 4000)] = trained[: round(share * 4000)]
    y = (fresh[:, 0] > 0).astype(int)
    model = DecisionTreeClassifier(max_depth=2).fit(trained, trained[:, 0] > 0.1)
    assert "of these rows equal" not in tb.certify(y, None, y).assumptions  # nothing is compared
    if share < 0.001:
        notes = tb.certify(model, fresh, y, training_rows=trained).assumptions
        assert f"{100 * share:.3g} % of these rows" in notes
    else:
        words = f"trained on {100 * share:.3g} % of these rows"
        refused(lambda: tb.certify(model, fresh, y, training_rows=trained), words, tb.LeakageError)


@pytest.mark.parametrize("drawn", ["random", "standard_normal"])
@pytest.mark.parametrize(("n", "m"), [(1500, 1500), (1000, 2000), (300, 8000)])
def test_numbers_that_rounding_makes_equal_are_fresh(drawn, n, m):
    """Of 400 pairs of tables at most one in 1,000 is refused: three or more have a probability of .008."""
    draw = getattr(np.random.default_rng(0), drawn)
    pairs = (np.split(hash_rows(draw((n + m, 1)), rounded=True), [n]) for _ in range(400))
    assert sum(Seen.of(first).repeats(Seen.of(second)) for first, second in pairs) < 3


def test_rows_of_a_rare_label_are_not_taken_for_those_beside_copies():
    """Scores of a frequent label repeat where they are dense, and those of a rare one hardly do."""
    for seed in range(20):
        y = np.arange(100_000) < 200
        p = expit(np.where(y, 1.0, -5.0) + 1.3 * np.random.default_rng(seed).normal(size=y.size)).round(4)
        assert refuse_copies(hash_rows(np.c_[p, y]), y.astype(int)) == 0.0


@pytest.mark.parametrize("n_values", [2, 30, 300])
def test_rows_that_repeat_by_nature_are_fresh(n_values):
    for seed in range(20):
        rows = np.random.default_rng(seed).integers(n_values, size=(3000, 2))
        for n in (300, 1500, 2700):
            assert not Seen.of(hash_rows(rows[:n])).repeats(Seen.of(hash_rows(rows[n:])))


def copied(how):
    """Return rows, of which some are copies of others."""
    rng = np.random.default_rng(0)
    X = rng.random((1000, 1))
    y = (rng.random(1000) < X[:, 0]).astype(int)
    ones = np.flatnonzero(y)
    rows = {
        "once": np.arange(1000), "five times, but two rows": np.r_[np.repeat(np.arange(998), 5), 998, 999],
        "one label twice": np.r_[0:1000, ones], "one label drawn anew": np.r_[0:1000, rng.choice(ones, 700)],
        "a third twice": np.r_[0:1000, 0:333], "few values": np.arange(1000),
    }[how]  # fmt: skip
    return (X.round(1) if how == "few values" else X)[rows], y[rows]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("how", "words"), [
    ("once", ""), ("few values", ""), ("five times, but two rows", "occur 5 times"),
    ("one label twice", "of a label occur 2 times"), ("one label drawn anew", "rows of one label repeat"),
    ("a third twice", "50 % of these rows equal another one"),
])  # fmt: skip
def test_copies_are_refused_or_named_and_the_cure_is_true(how, words):
    X, y = copied(how)
    scores, asked = tb.Scores(0, 1), {"limits": ["false_alarm(1) <= 90%"]}
    if "occur" in words or "repeat" in words:
        for certify in (partial(tb.calibrate, scores), partial(tb.certify, Threshold())):
            certify = partial(certify, X, y, **asked)
            refused(certify, words, tb.LeakageError)
            certify(clusters=np.arange(len(X)))
        return
    first = tb.certify(Threshold(), X, y, **asked)
    again = tb.Certificate.from_dict(first.to_dict())
    for certificate in (tb.calibrate(scores, X, y, **asked).certificate_, first, again):
        assert words in certificate.title
        assert bool(words) == ("equal another" in certificate.title)


class Threshold:  # answers 1 above a half
    classes_ = np.array([0, 1])

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0.5).astype(int)


@pytest.mark.parametrize(("times", "contents"), [(14, 1), (5, 10), (2, 100)])
def test_a_batch_of_independent_rows_is_divided_row_by_row_also_where_rows_are_equal(times, contents):
    # With equal rows on one side the others lack a usual row in some draws, and certify beyond its share.
    rng = np.random.default_rng(times)
    p = rng.random(1500)
    p[: times * contents] = np.repeat(p[:contents], times)
    limited = {"limits": ["error() <= 60%"], "selection_share": 0.5}
    rule = tb.calibrate(tb.Scores(0, 1), p[:, None], (p > rng.random(1500)) | 0, **limited)
    n_whole = (np.unique_counts(rule.selection_.engine.family.score).counts == times).sum()
    # A content is wholly among the selecting rows with probability 2 ** -times; labels divide some more.
    assert abs(n_whole / contents - 0.5**times) <= 0.25


def test_a_rule_of_scores_inside_a_model_of_other_columns_knows_none_of_its_rows():
    rng = np.random.default_rng(0)
    p = rng.random(600)
    y, model = (rng.random(600) < p).astype(int), Threshold()
    model.inside = tb.tune(tb.Scores("s", 1), pd.DataFrame({"s": p}), y, limits=["miss(1) <= 60%"])
    with pytest.warns(UserWarning, match="not checked"):
        certificate = tb.certify(model, np.c_[p / 2, p], y, limits=["miss(1) <= 99%"])
    assert certificate.n_rows == 600
    refused(lambda: tb.certify(model, pd.DataFrame({"s": p}), y), "selected", tb.LeakageError)


def test_digests_are_a_sample_of_both_tables_and_draws_for_two_purposes_are_independent():
    hashes = np.random.default_rng(0).integers(0, 2**63, 5000).astype(np.uint64) * np.uint64(2)
    assert Seen.of(hashes[:80]).share_in(Seen.of(hashes, most=100)) == 1.0
    assert abs(np.corrcoef(selecting_numbers(hashes), voting_numbers(hashes))[0, 1]) < 0.06


@pytest.mark.parametrize(("weight", "first"), [(1.0, {5, 7}), (3.0, {7})])
def test_equal_rows_of_two_strata_count_for_the_heavier_one(weight, first):
    hashes, strata = np.array([5, 5, 7, 9], np.uint64), np.array([0, 1, 0, 1])
    turns = fingerprints.stratified_turns(hashes, strata, np.array([2.0, weight, 1.0, 1.0]))
    assert {*hashes[turns < len(first)].tolist()} == first
