"""Limits on every group: a group or combination without rows has the bounds 0 and 1."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.guarantees.limited_rates import LimitedFamily
from tailboost.guarantees.rate_bounds import MEAN_BOUNDS, RateFamily
from tailboost.rates import ABOVE, BELOW, Sample, Strata
from tailboost.rates.bounds import (
    betting_upper,
    clopper_pearson_interval,
    clopper_pearson_upper,
    most_reached,
    tail_band,
)
from tailboost.rates.pair_test import pair_p_value, pair_passes
from tailboost.rows.ledger import Records
from tailboost.selection.threshold_rule import ThresholdRule
from tailboost.storage.rule_classifier import RuleClassifier

LISTED = {"group": [("g", "a"), ("g", "b"), ("s", "m"), ("s", "f")], "class": [0, 1]}
CROSSED = rates.error(by=("g", "s"))


def rare_group(seed, n=60):
    """Answers with errors on all rows of a group of 3 %."""
    r = np.random.default_rng(seed)
    g, y = r.choice(["a", "b", "c"], n, p=[0.49, 0.48, 0.03]), r.integers(0, 2, n)
    return np.where(r.random(n) < np.where(g == "c", 1.0, 0.05), 1 - y, y), y, g, r


def rare_combination(seed):
    """Answers with errors on all rows of the combination (b, m), 3 % of the population."""
    a, y, g, r = rare_group(seed)
    s = np.where(g == "c", "m", np.where(g == "b", "f", r.choice(["m", "f"], len(g))))
    return a, y, pd.DataFrame({"g": np.where(g == "c", "b", g), "s": s})


def without(make):
    """Return the first draw without rows of the rare subgroups."""
    for seed in range(100):
        a, y, g, *_ = make(seed)
        if (a == y).mean() > 0.9 and not (np.unique(g, axis=0) == "c").any():
            return a, y, g
    raise AssertionError


def test_a_limit_on_every_group_is_certified_for_those_seen_alone():
    a, y, g = without(rare_group)
    for asked in (
        {"rates": [rates.error(by="group") <= 0.6]},
        {"max_error": 0.6},
        {"max_error": {None: 0.6}},
    ):
        cert = tb.certify(a, None, y, groups=g, **asked)
        assert all(b.certified for b in cert.bounds if b.target is not None)
        assert cert.certified is None
        assert cert.to_dict()["certified"] is None
        assert any("The labels or groups of the population are not listed" in note for note in cert.notes)
        listed = {"group": ["a", "b"], "class": [0, 1]}
        assert tb.certify(a, None, y, groups=g, subgroups=listed, **asked).certified is True
        listed["group"] += ["c"]
        assert tb.certify(a, None, y, groups=g, subgroups=listed, **asked).certified is False
    for asked in ({"rates": [rates.error(by="group") <= {"a": 0.6}]}, {"max_error": {"a": 0.6}}):
        assert tb.certify(a, None, y, groups=g, **asked).certified is True  # no limit on the others


def test_combinations_of_listed_groups_without_rows_are_subgroups():
    a, y, groups = rare_combination(0)
    keep = ~((groups.g == "b") & (groups.s == "m")).to_numpy()
    given = a[keep], None, y[keep]
    cert = tb.certify(*given, groups=groups[keep], rates=[CROSSED <= 0.6], subgroups=LISTED)
    assert [b.subgroup for b in cert.bounds] == [("a", "m"), ("a", "f"), ("b", "m"), ("b", "f")]
    empty = cert.bounds[-2]
    assert (empty.n, empty.lower, empty.upper, empty.certified) == (0, 0.0, 1.0, False)
    assert cert.certified is False
    by_class = tb.certify(
        *given, groups=groups[keep], rates=[rates.error(by=("class", "g", "s"))], subgroups=LISTED
    )
    assert len(by_class.bounds) == 2 * 4
    gap = tb.certify(*given, groups=groups[keep], rates=[rates.gap(CROSSED) <= 0.9], subgroups=LISTED)
    assert gap.certified is False
    seen = tb.certify(*given, groups=groups[keep], rates=[CROSSED <= 0.6])
    assert (len(seen.bounds), seen.certified) == (3, None)


def tuned(n=3000, by=None):
    r = np.random.default_rng(0)
    X = r.normal(size=(n, 4))
    groups = pd.DataFrame(
        {"g": r.choice(["a", "b", "c"], n, p=[0.5, 0.4, 0.1]), "s": r.choice(["m", "f"], n)}
    )
    y = (X[:, 0] + r.normal(size=n) > 0.3).astype(int)
    model = LogisticRegression().fit(X[:400], y[:400])
    limits = [(CROSSED if by is None else rates.error(by=by)) <= 0.6]
    groups = groups if by is None else groups[[by]]
    mix = tb.tune(model, X[400:1200], y[400:1200], groups=groups[400:1200], limits=limits)
    return mix, X[1200:], y[1200:], groups[1200:]


@pytest.mark.slow
def test_combinations_of_the_fit_are_subgroups(tmp_path):
    mix, X, y, groups = tuned()
    assert set(mix.group_combinations_) == {(g, s) for g in "abc" for s in "fm"}
    tb.save_model(mix, tmp_path / "m.model")
    keep = ~((groups.g == "c") & (groups.s == "m")).to_numpy()
    for model in (mix, tb.load_model(tmp_path / "m.model")):
        for of in (groups, groups[["s", "g"]]):
            cert = tb.certify(model, X[keep], y[keep], groups=of[keep])
            assert cert.certified is False
            assert [b.subgroup for b in cert.bounds if not b.n and b.target] == [("c", "m")]
        assert tb.certify(model, X, y, groups=groups).certified is True
        with pytest.raises(tb.NotCertifiedError, match="target") as error:
            tb.calibrate(model, X[keep], y[keep], groups=groups[keep])
        assert error.value.attempts == ()  # no answers were tested
    assert tb.calibrate(mix, X, y, groups=groups).certificate_.certified is True


def test_groups_of_the_fit_are_known_in_an_array_too():
    mix, X, y, groups = tuned(by="g")
    keep = (groups.g != "c").to_numpy()
    limit = [rates.error(by="group") <= 0.6]
    assert tb.certify(mix, X[keep], y[keep], groups=groups[keep], rates=limit).certified is False
    assert tb.certify(mix, X[keep], y[keep], groups=groups.g[keep].to_numpy(), rates=limit).certified is False
    other = groups.g[keep].to_numpy() + "x"  # these may not be all
    assert tb.certify(mix, X[keep], y[keep], groups=other, rates=limit).certified is None


@pytest.mark.slow
def test_false_certificates_of_rare_groups_are_rare():
    n, wrong = 1000, np.zeros(4)
    for seed in range(n):
        a, y, g, _ = rare_group(seed)
        limit = [rates.error(by="group") <= 0.6]
        wrong[0] += bool(tb.certify(a, None, y, groups=g, rates=limit).certified)
        known = {"group": ["a", "b", "c"], "class": [0, 1]}
        wrong[1] += bool(tb.certify(a, None, y, groups=g, rates=limit, subgroups=known).certified)
        a, y, crossed = rare_combination(seed)
        limit = [CROSSED <= 0.6]
        wrong[2] += bool(tb.certify(a, None, y, groups=crossed, rates=limit).certified)
        wrong[3] += bool(tb.certify(a, None, y, groups=crossed, rates=limit, subgroups=LISTED).certified)
    assert (wrong / n <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n)).all()


def identity(X):
    """Probabilities that the table holds."""
    return np.asarray(X, dtype=float)


@pytest.mark.parametrize("answer", [0, 1])
@pytest.mark.parametrize("n_positive", [6, 60])
def test_a_group_without_positives_in_the_selection_gets_a_rank_of_the_fresh_rows(n_positive, answer):
    """The group's fresh rows alone say where its threshold is; too few of them leave one answer."""
    r = np.random.default_rng(3)

    def draw(n_of):
        y = np.concatenate([np.repeat([0, 1], n_of[g]) for g in ("a", "b")])
        g = np.repeat(["a", "b"], [sum(n_of["a"]), sum(n_of["b"])])
        p = 1 / (1 + np.exp(-r.normal(1.6 * (2 * y - 1), 1.5)))
        if answer == 0:
            y, p = 1 - y, 1 - p
        return np.column_stack([1 - p, p]), y, g

    X, y, g = draw({"a": (100, 100), "b": (30, 0)})
    of = {1: rates.miss, 0: rates.false_alarm}[answer]
    limits = [of(1, by="group") <= 0.25]
    rule = tb.tune(identity, X, y, groups=g, limits=limits, by_group=True)
    X, y, g = draw({"a": (100, 100), "b": (60, n_positive)})
    found = tb.calibrate(rule, X, y, groups=g, equal_rows="natural")
    assert found.certificate_.certified
    wrong = found.predict(X, groups=g) != y
    counted = (g == "b") & (y == answer)
    allowed = int(binom.ppf(0.025, n_positive, 0.25))
    while allowed >= 0 and binom.cdf(allowed, n_positive, 0.25) > 0.025:
        allowed -= 1
    assert wrong[counted].sum() <= max(0, allowed)
    assert (found.predict(X[g == "b"], groups=g[g == "b"]) == answer).all() == (allowed < 0)


def test_a_group_without_rows_and_a_misspelt_one_are_said():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3_000)
    X = (2.0 * y - 1.0 + rng.normal(size=3_000))[:, None]
    land = np.array(["de", "fr", "it"])[np.arange(3_000) % 3]
    limits = ["miss(1, by=land) <= .35"]
    rule = tb.tune(
        tb.Scores(0, 1, kind="logit"), X[:1000], y[:1000], groups={"land": land[:1000]}, limits=limits
    )
    X, y, land = X[1000:], y[1000:], land[1000:]
    there = land != "fr"
    words = str(tb.certify(rule, X[there], y[there], groups={"land": land[there]}))
    (_line,) = [line for line in words.splitlines() if line.startswith("  fr")]
    str(tb.certify(rule, X, y, groups={"land": np.where(there, land, "FR")}))
    assert "no group" not in str(tb.certify(rule, X, y, groups={"land": land}))


def test_a_limit_with_too_few_rows_for_any_test_is_refused_before_an_attempt():
    """At a rate of .4, 6 rows are without an error with probability .047, above the level .045; 7 are not."""
    r = np.random.default_rng(0)
    n = 900
    y = r.integers(0, 2, n)
    g = np.where(np.arange(n) < 10, "other", r.choice(["a", "b"], n))
    y[:10] = [0, 1] * 5
    X = r.normal(size=(n, 1)) + 2.0 * y[:, None]
    limits = ["miss(1, by=group) <= 40%"]
    rule = tb.tune(tb.Scores(0, 1, kind="logit"), X, y, groups=g, limits=["miss(1) <= 40%"])
    fresh = X + 1e-3, y
    with pytest.raises(tb.NotCertifiedError) as caught:
        tb.calibrate(rule, *fresh, groups=g, limits=limits)
    words = str(caught.value)
    other = "other (target 40 %) has 5 rows with label 1; at least 7 are needed, or a limit of 47 % or more"
    assert other in words
    assert not rule.records_.ledger.attempts
    (short,) = caught.value.shortfalls
    assert short.n == 5
    # The cures can be followed with the same rows.
    looser = ["miss(1, by=group) <= {a: 40%, b: 40%, other: 50%}"]
    assert tb.calibrate(rule, *fresh, groups=g, limits=looser).certificate_.certified


# -- without rows nothing is known -------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "error(by=group) <= .99", "miss(1, by=group) <= .99", "false_alarm(1, by=group) <= .99",
    "selected(1, by=group) >= .01", "recall(1, by=group) >= .01", "precision(1, by=group) >= .01",
])  # fmt: skip
def test_the_loosest_limit_is_not_certified_for_a_listed_group_without_rows(text):
    y, answers = np.tile([0, 1, 1, 0], 200), np.tile([0, 1, 0, 1], 200)
    groups = np.repeat(["a", "b"], 400)
    certificate = tb.certify(
        answers, None, y, groups=groups, subgroups=["a", "b", "c"], limits=[text], equal_rows="natural"
    )
    by_name = {bound.subgroup: bound for bound in certificate.bounds if bound.target is not None}
    assert by_name["a"].certified
    assert by_name["b"].certified
    assert (by_name["c"].n, by_name["c"].estimate, by_name["c"].certified) == (0, None, False)
    assert (by_name["c"].lower, by_name["c"].upper) == (0.0, 1.0)
    assert not certificate.certified


def test_bounds_without_rows_are_those_that_hold_for_every_rate():
    assert clopper_pearson_upper(0, 0) == betting_upper([]) == 1.0
    assert [float(end) for end in clopper_pearson_interval(0.0, 0.0)] == [0.0, 1.0]
    assert [float(mass @ values) for values, mass in [tail_band([])]] == [1.0]
    for bound in (0.01, 0.5, 0.99):
        assert most_reached(0, bound, 0.05) == -1
        assert not pair_passes((0, 0), (0, 50), 0.05, gap=bound)
        assert not pair_passes((0, 0), (50, 0), 0.05, gap=bound)


def test_counts_without_rows_pass_no_test_unless_no_rule_could_break_the_limit():
    strata, _ = Strata.of(
        np.array([0, 1, 0, 1]), np.array([[0], [0], [1], [1]]), np.ones(4), (0, 1), ("g",), (("a", "b"),)
    )
    # The strata are both groups of label 0, then of label 1: only the first group has rows.
    counts = np.array([[95.0, 5.0, 0.0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    family = LimitedFamily.from_limit(tb.rates.false_alarm(1, by="g") <= 0.9, strata)
    never = np.zeros((4, 3), dtype=bool)
    assert strata.names[:2] == [(0, "a"), (0, "b")]
    assert not family.passes(counts[None], never, 0.05)
    never[1, 1] = True
    assert family.passes(counts[None], never, 0.05)


@pytest.mark.parametrize("text", ["gap(error(by=group)) <= .99", "ratio(selected(1, by=group)) >= .01"])
def test_the_loosest_comparison_is_not_certified_with_a_listed_group_without_rows(text):
    y = np.tile([0, 1], 400)
    given = {"groups": np.repeat(["a", "b"], 400), "limits": [text], "equal_rows": "natural"}
    assert tb.certify(y, None, y, **given).bounds[-1].certified
    with_absent = tb.certify(y, None, y, subgroups=["a", "b", "c"], **given)
    assert with_absent.bounds[-1].certified is False
    counts = [(200, 400), (200, 400), (0, 0)]
    for first, second in permutations(counts, 2):
        errors, rows = (first[0], second[0]), (first[1], second[1])
        assert pair_passes(errors, rows, 0.05, gap=0.99) == (0 not in rows)


def test_fewer_rows_without_an_error_have_no_smaller_bound():
    for bound in MEAN_BOUNDS.values():
        uppers = [bound.upper(np.zeros(n), 0.05) for n in (1, 2, 5, 20, 100)]
        assert 1.0 >= uppers[0] > uppers[-1]
        assert (np.diff(uppers) <= 0).all()


@pytest.mark.parametrize("exact", [True, False])
def test_no_rows_have_the_ends_of_the_range_as_bounds(exact):
    none = Sample(None, np.arange(0), np.zeros(0), 0.0, 1.0)
    family = RateFamily(rates.error(), None, (ABOVE, BELOW), [none], exact)
    assert family.bounds_of(none, 0.05, family.sides) == (0.0, 1.0)


@pytest.mark.parametrize("delta", [0.001, 0.05, 0.5, 0.9])
def test_without_rows_no_level_gives_a_bound(delta):
    assert clopper_pearson_upper(0, 0, delta) == 1.0
    assert clopper_pearson_upper(0, 1, delta) == pytest.approx(1 - delta)  # P(no error of one) = 1 − rate
    assert pair_p_value((0, 0), (0, 7), gap=delta) == pair_p_value((0, 0), (7, 0), gap=delta) == 1.0


@pytest.mark.parametrize("limit", [
    rates.precision(1) >= 0.01, rates.npv(1) >= 0.01, rates.miss(1) <= 0.99, rates.error(by="g") <= 0.99,
])  # fmt: skip
def test_no_rows_at_all_pass_no_test(limit):
    y, g = np.array([0, 1, 0, 1]), np.array([[0], [0], [1], [1]])
    strata, _ = Strata.of(y, g, np.ones(4), (0, 1), ("g",), (("a", "b"),))
    family = LimitedFamily.from_limit(limit, strata)
    assert not family.passes(np.zeros((1, 4, 3)), np.zeros((4, 3), dtype=bool), 0.05)
    right = np.array([[60.0, 0, 0], [60, 0, 0], [0, 60, 0], [0, 60, 0]])  # all rows of both labels
    assert family.passes(right[None], np.zeros((4, 3), dtype=bool), 0.05)


def test_a_calibration_without_rows_of_a_group_of_the_fit_is_refused_and_spends_nothing():
    rng = np.random.default_rng(0)

    def rows(names):
        g, y = np.repeat(list(names), 200), rng.integers(2, size=200 * len(names))
        return pd.DataFrame({"s": rng.random(len(y)) / 2 + y / 2}), y, g

    X, y, g = rows("abc")
    rule = tb.tune(tb.Scores("s", 1), X, y, groups=g, limits=["miss(1, by=group) <= .4"])
    X, y, g = rows("ab")
    with pytest.raises(tb.NotCertifiedError, match="certified") as refused:
        tb.calibrate(rule, X, y, groups=g)
    assert rule.ledger_.attempts == refused.value.attempts == ()
    assert [shortfall.n for shortfall in refused.value.shortfalls] == [0]


@pytest.mark.parametrize("by", ["class", "g"])
def test_a_share_of_a_subgroup_without_fresh_rows_is_refused_and_spends_nothing(by):
    """No answer raises the share of rows that are not there, also not of a rule that reads the groups."""
    rng = np.random.default_rng(0)
    labels = np.array(list("abc"))
    y = labels[rng.integers(3, size=3000)]
    p = rng.dirichlet([1, 1, 1], len(y)) / 3 + 2 / 3 * (y[:, None] == labels)
    X = pd.DataFrame(p, columns=labels)
    g = np.where(rng.random(len(y)) < 0.3, "few", "many")
    name = {"class": "c", "g": "few"}[by]
    rule = tb.tune(
        tb.Scores([*labels], [*labels]),
        X[:1500],
        y[:1500],
        groups={"g": g[:1500]},
        by_group=by == "g",
        limits=[f"representation(a, by={by}) >= {{'{name}': .5%}}"],
    )
    fresh = np.arange(len(y)) >= 1500
    without = fresh & ((y if by == "class" else g) != name)
    with pytest.raises(tb.NotCertifiedError, match="certified"):
        tb.calibrate(rule, X[without], y[without], groups={"g": g[without]})
    assert rule.ledger_.attempts == ()
    upper = [f"representation(a, by={by}) <= {{'{name}': 90%}}"]  # no row there may break it
    assert tb.calibrate(
        rule, X[without], y[without], groups={"g": g[without]}, limits=upper
    ).certificate_.certified


@pytest.mark.parametrize("by_group", [True, False])
@pytest.mark.parametrize(
    "limits",
    [["precision(1, by=group) >= .6"], ["npv(0, by=group) >= .6", "miss(1) <= .9"]],
)
def test_a_precision_is_certified_without_fresh_rows_of_a_group_only_for_one_answer(limits, by_group):
    """Any labels are possible in c, so the answer 1 there may break the limit."""
    rng = np.random.default_rng(0)

    def rows(n, names):
        g, score = rng.choice(list(names), n), rng.random(n)
        return pd.DataFrame({"s": score}), (rng.random(n) < score).astype(int), g

    X, y, g = rows(600, "abc")
    rule = tb.tune(tb.Scores("s", 1), X, y, groups=g, limits=limits, by_group=by_group)
    of_c = X[g == "c"], g[g == "c"]
    fresh, labels, g = rows(1200, "ab")
    if by_group:
        certified = tb.calibrate(rule, fresh, labels, groups=g)
        assert not certified.predict(of_c[0], groups=of_c[1]).any()
        return
    with pytest.raises(tb.NotCertifiedError, match="target") as refused:
        tb.calibrate(rule, fresh, labels, groups=g)
    assert rule.ledger_.attempts == refused.value.attempts == ()


def test_a_group_whose_counted_rows_all_select_is_said_to_lack_rows_of_its_label():
    rng = np.random.default_rng(0)
    score = rng.random(400)
    y = (rng.random(400) < score).astype(int)
    g = np.where(np.arange(400) % 2, "a", "b").astype(object)
    g[:6] = "rare"
    y[:6] = [1, 0, 0, 0, 0, 0]  # the only row with label 1 is in one part
    messages = []
    for seed in range(8):
        table = pd.DataFrame({"s": score, "x": rng.random(400)})
        with pytest.raises((tb.NotCertifiedError, ValueError)) as refused:
            tb.calibrate(
                tb.Scores("s", 1), table, y, groups={"g": g}, limits=["miss(1, by=g) <= .9"],
                selection_share=0.3, random_state=seed,
            )  # fmt: skip
        messages.append(str(refused.value))
    (_said,) = {words.partition("\n")[0] for words in messages if "a target without rows" in words}
    (_told,) = {words.partition("\n")[2] for words in messages if "a target without rows" in words}


@pytest.mark.parametrize("limit", [rates.precision(1, by="g") >= 0.01, rates.miss(1, by="g") <= 0.99])
def test_a_listed_group_without_rows_passes_no_test(limit):
    """No row shows which answers the rule gives in c."""
    y, g = np.array([0, 1, 0, 1]), np.array([[0], [0], [1], [1]])
    strata, _ = Strata.of(y, g, np.ones(4), (0, 1), ("g",), (("a", "b", "c"),))
    family = LimitedFamily.from_limit(limit, strata)
    right = np.array([[60.0, 0, 0], [60, 0, 0], [0, 60, 0], [0, 60, 0]])
    nothing_is_impossible = np.zeros((4, 3), dtype=bool)
    assert len(family.largest_shares) == 3
    assert not family.passes(right[None], nothing_is_impossible, 0.05)


def test_a_refusal_names_no_group_whose_limit_the_tested_rule_cannot_break():
    """The tested rule answers 1 in a alone; a precision says nothing of the other groups."""
    rng = np.random.default_rng(0)
    g, score = rng.choice(list("abc"), 900, p=[0.5, 0.3, 0.2]), rng.random(900)
    chance = np.select([g == "a", g == "b"], [0.75 * score, 0.5 * score + 0.1], 0.2 * score)
    y = (rng.random(900) < chance).astype(int)
    limits = ["precision(1, by=group) >= .7", "miss(1) <= .9"]
    with pytest.raises(tb.NotCertifiedError, match="construction") as refused:
        tb.calibrate(
            tb.Scores(0, 1), score[:, None], y, groups=g, limits=limits, by_group=True, objective="error"
        )
    assert len(refused.value.attempts) == 1
    assert [shortfall.n > 0 for shortfall in refused.value.shortfalls] == [True, True]


def rule_of_bands(bands):
    """A rule file's rule on a score p for the groups a and b, as a service loads it."""
    rule = ThresholdRule("p", ["no", "yes"], ["a", "b"], bands, "probability", group_column="site")
    classifier = RuleClassifier(rule, tb.Scores("p", "yes"), (), "site")
    classifier.groups_ = [("site", "a"), ("site", "b")]
    classifier.records_ = Records()
    return classifier


def test_a_limit_that_no_possible_answer_breaks_is_certified_without_a_test():
    """The rule never answers yes in b, so there is neither a false alarm nor a row of the precision."""
    rng = np.random.default_rng(0)
    p, site = rng.random(2000), np.where(rng.random(2000) < 0.95, "a", "b")
    y = np.where(rng.random(2000) < p, "yes", "no")
    rows = {"X": pd.DataFrame({"p": p}), "y": y, "groups": pd.DataFrame({"site": site})}
    limits = [
        "precision(yes, by=site) >= .7",
        "selected(yes, by=site) <= .3",
        "false_alarm(yes, by=site) <= .2",
        "miss(yes, by=site) <= .9",
    ]
    never_yes = rule_of_bands([[(None, "no"), (0.8, "yes")], [(None, "no")]])
    certificate = tb.certify(never_yes, **rows, limits=limits[:3])
    of_b = [bound for bound in certificate.bounds if bound.subgroup == "b"]
    assert [bound.reason[:20] for bound in of_b] == ["kept by construction"] * 3
    assert certificate.certified
    assert tb.certify(never_yes, **rows, limits=["selected(yes, by=group) <= .3"]).certified
    assert tb.certify(never_yes, **rows, limits=limits[3:]).certified is False
    # With a threshold above all scores of b the rows look the same, and nothing is known.
    not_yet = rule_of_bands([[(None, "no"), (0.8, "yes")], [(None, "no"), (1.0, "yes")]])
    certificate = tb.certify(not_yet, **rows, limits=limits[:1])
    assert [bound.certified for bound in certificate.bounds] == [True, False]


def test_a_certificate_names_the_groups_with_rows_and_without_a_limit():
    """Two limits of one rate leave out fr; of a limit on all groups none is left out."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 1))
    y = np.where(X[:, 0] + rng.normal(size=6000) > 0, "pos", "neg")
    groups = pd.DataFrame({"lang": rng.choice(["de", "en", "fr"], 6000)})
    scores = pd.DataFrame({"p": 1 / (1 + np.exp(-2 * X[:, 0]))})
    for limits, told in (
        (["miss(neg, by=lang) <= {de: 40%}", "miss(neg, by=lang) <= {en: 45%}"], ["fr"]),
        (["miss(neg, by=lang) <= {de: 40%}"], ["en, fr"]),
        (["miss(neg, by=lang) <= 40%", "miss(pos) <= 60%"], []),
    ):
        rule = tb.calibrate(tb.Scores("p", "pos"), scores, y, groups=groups, limits=limits)
        sentences = [f"No limit bounds the miss rate of 'neg' by lang for {names}." for names in told]
        text = str(rule.certificate_)
        assert [remark for remark in rule.certificate_.remarks if "No limit" in remark] == sentences
        assert all(text.count(sentence) == 1 for sentence in sentences)


def test_a_group_with_too_few_rows_is_left_out_as_the_cure_shows():
    rng = np.random.default_rng(0)
    p = rng.random(6000)
    y = (rng.random(6000) < p).astype(int)
    groups = pd.DataFrame({"lang": np.where(np.arange(6000) < 30, "xx", np.resize(["de", "en"], 6000))})
    scores, given = pd.DataFrame({"p": p}), {"groups": groups, "random_state": 0}
    with pytest.raises(tb.exceptions.NotCertifiedError, match="limits") as refused:
        tb.calibrate(tb.Scores("p", 1), scores, y, limits=["miss(1, by=lang) <= 10%"], **given)
    limits = ["miss(1, by='lang') <= {'de': 10%, 'en': 10%}"]
    assert f"limits={limits}" in str(refused.value)
    tb.calibrate(tb.Scores("p", 1), scores, y, limits=limits, **given)
