"""Certificates against exact numbers and brute force, messages, and calibrated targets."""

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom, binomtest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.guarantees.certificates import Certificate
from tailboost.guarantees.path import TighterRules
from tailboost.guarantees.procedure import Reweighted
from tailboost.rates.bounds import (
    Evidence,
    betting_p_value,
    betting_upper,
    clopper_pearson_interval,
    clopper_pearson_upper,
    cvar_of_mean,
    shift_of_mean,
    tail_band,
)
from tailboost.rates.metrics import class_errors
from tailboost.rows.ledger import Ledger
from tailboost.solvers import cvar, worst_case_weights

X, Y = make_classification(
    2400, n_features=6, n_informative=4, n_classes=3, weights=[0.5, 0.3, 0.2], class_sep=1.5, random_state=0
)
TRAIN, FRESH, LATER = slice(800), slice(800, 2000), slice(2000, None)
GROUPS = np.array(["a", "b"])[(X[:, 0] > 0.5).astype(int)]
TREE = DecisionTreeClassifier(max_depth=4, random_state=0)


@pytest.fixture(scope="module")
def fitted():
    clf = tb.GroupDROBoostClassifier(TREE, n_estimators=6, random_state=0)
    return clf.fit(X[TRAIN], Y[TRAIN])


def without_attempts(model):
    """Return a copy with an empty ledger."""
    new = copy.copy(model)
    if hasattr(new, "records_"):
        new.records_ = replace(new.records_, ledger=Ledger())
    return new


@pytest.fixture
def mixture(fitted):
    return without_attempts(fitted)


@pytest.fixture(scope="module")
def certificate(fitted):
    return tb.certify(fitted, X[FRESH], Y[FRESH], groups=GROUPS[FRESH])


# -- numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("errors", "n"), [(0, 5), (3, 30), (29, 30), (30, 30), (120, 1000)])
def test_clopper_pearson_is_scipys(errors, n):
    upper = binomtest(errors, n, alternative="less").proportion_ci(0.98).high
    assert clopper_pearson_upper(errors, n, 0.02) == pytest.approx(upper, abs=1e-12)
    if errors < n:
        assert binom.cdf(errors, n, upper) == pytest.approx(0.02)


def test_no_rows_say_nothing():
    assert clopper_pearson_upper(0, 0) == betting_upper([]) == 1
    assert cvar(*[tail_band([])[0], 0.1, tail_band([])[1]]) == 1
    assert betting_p_value([], 0.2) == 1


def brute_wealth(losses, m, n, delta):
    """Direct computation of the mixture of bets, row by row; m determines the smallest stake."""
    L = np.log(1 / delta)
    ideal = np.sqrt(2 * L * (1 - m) / (n * m))
    piece = max(0, int(np.floor(2 * np.log2(1 / ideal))) + 1)
    stakes = 2.0 ** (-0.5 * np.arange(piece + 1))
    weights = (1 / stakes) / (1 / stakes).sum()
    log_wealth = np.zeros(len(stakes))
    for loss in losses:
        log_wealth += np.log(1 - stakes + stakes * (1 - loss) / (1 - m))
    return weights @ np.exp(np.minimum(log_wealth, 600))


@pytest.mark.parametrize("n", [4, 25, 200])
@pytest.mark.parametrize("delta", [0.2, 0.01])
def test_betting_excludes_every_larger_mean_and_no_smaller_one(n, delta):
    losses = np.random.default_rng(n).beta(0.4, 1.5, n)
    upper = betting_upper(losses, delta)
    assert 1 / brute_wealth(losses, upper, n, delta) == pytest.approx(delta, rel=1e-5)
    for m in np.linspace(upper + 1e-6, 0.98, 50):
        assert brute_wealth(losses, m, n, delta) >= 1 / delta
        assert betting_p_value(losses, m, delta) == pytest.approx(1 / brute_wealth(losses, m, n, delta))
    assert betting_p_value(losses, losses.mean(), delta) > delta


def test_betting_knows_small_variances_and_no_order():
    losses = np.tile([0.2, 0.25, 0.3, 0.25], 100)
    assert betting_upper(losses) < 0.27 < losses.mean() + np.sqrt(np.log(20) / 800)  # Hoeffding's
    rng = np.random.default_rng(0)
    assert {betting_upper(rng.permutation(losses)) for _ in range(5)} == {betting_upper(losses)}
    zeros = np.zeros(40)
    assert betting_upper(zeros) == pytest.approx(clopper_pearson_upper(0, 40), abs=1e-9)
    assert betting_upper(np.ones(40)) == 1.0
    fine = rng.random(40_000)  # too many distinct losses: rounded up
    assert fine.mean() < betting_upper(fine) < fine.mean() + np.sqrt(np.log(20) / 80_000) + 0.002


def test_wealth_of_bets_is_a_fair_game():
    """Over all outcomes of three rows the mean wealth is 1 under a true bound."""
    p, outcomes = 0.3, np.array(np.meshgrid(*[[0.0, 1.0]] * 3)).reshape(3, -1).T
    mass = (p**outcomes * (1 - p) ** (1 - outcomes)).prod(axis=1)
    wealth = [Evidence.against(p).add(o).value for o in outcomes]
    assert mass @ wealth == pytest.approx(1.0)
    assert (
        mass @ [1 / max(betting_p_value(o, p), 1e-300) for o in outcomes] >= 1.0
    )  # p-values are capped at 1
    for first in (1, 2):  # batches bring more into play, and the game stays fair
        parts = [Evidence.against(p).add(o[:first]).add(o[first:]) for o in outcomes]
        assert mass @ [part.value for part in parts] == pytest.approx(1.0)
        assert {(part.n, part.batches) for part in parts} == {(3, 2)}
    assert Evidence.against(p).add([]).value == 1.0
    assert Evidence.against(0.0).add([0, 0]).value == pytest.approx(1.0, abs=0.1)
    assert Evidence.against(0.0).add([0, 1]).value == np.inf


def test_a_later_change_is_found_as_an_early_one():
    """Early losses of the bets do not hide a later rise of the mean."""
    good, bad = np.repeat([1.0, 0.0], [30, 170]), np.repeat([1.0, 0.0], [60, 140])
    evidence = Evidence.against(0.2)
    for _ in range(6):
        evidence = evidence.add(good)
    later = evidence.add(bad).add(bad)
    assert later.value > 60
    direct = sum(  # direct computation of the game, start by start
        np.prod([1 + c * (loss / 0.2 - 1) for loss in np.r_[good.repeat(6 - j), bad, bad]])
        / (j + 1)
        / (j + 2)
        for j in range(6)
        for c in 2.0 ** (-0.5 * np.arange(21))
    )
    ends = sum(
        np.prod(1 + c * (np.tile(bad, k) / 0.2 - 1)) / (9 - k) / (10 - k)
        for k in (2, 1)
        for c in 2.0 ** (-0.5 * np.arange(21))
    )
    assert later.value == pytest.approx((direct + ends) / 21 + 1 / 9)


def test_the_band_is_the_published_bound():
    """Thomas and Learned-Miller 2019, theorem 3, computed directly; our ε is smaller for small n."""
    losses, alpha, delta = np.random.default_rng(0).random(6000), 0.2, 0.05
    z, n = np.append(np.sort(losses), 1.0), len(losses)
    epsilon = np.sqrt(np.log(1 / delta) / (2 * n))
    rest = np.maximum(0, np.arange(1, n + 1) / n - epsilon - (1 - alpha))
    published = z[-1] - (np.diff(z) * rest).sum() / alpha
    values, mass = tail_band(losses, delta)
    assert cvar(values, alpha, mass) == pytest.approx(published)
    few = tail_band(losses[:50], delta)[1][-1]
    assert few < np.sqrt(np.log(1 / delta) / 100)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_the_interval_of_a_count_is_that_of_scipys_exact_test(confidence):
    for k, n in ((0, 1), (0, 12), (3, 10), (17, 40), (200, 200), (250, 1000)):
        low, high = clopper_pearson_interval(k / n, n, confidence)
        exact = binomtest(k, n).proportion_ci(confidence, method="exact")
        assert (float(low), float(high)) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_at_the_ends_of_an_interval_the_tails_of_the_count_have_half_of_the_rest():
    for k, n in ((1, 9), (7, 30), (60, 64)):
        low, high = clopper_pearson_interval(k / n, n, 0.9)
        assert binom.sf(k - 1, n, low) == pytest.approx(0.05)
        assert binom.cdf(k, n, high) == pytest.approx(0.05)


def test_each_end_of_an_interval_fails_with_at_most_half_of_the_rest():
    """Over all counts of 40 rows, for a fine grid of rates; near some of them it fails almost as often."""
    k, n = np.arange(41), 40
    low, high = clopper_pearson_interval(k / n, np.full(41, n), 0.9)
    failures = []
    for p in np.linspace(0.005, 0.995, 199):
        chances = binom.pmf(k, n, p)
        failures.append((chances[low > p].sum(), chances[high < p].sum()))
    assert np.max(failures) <= 0.05
    assert (np.max(failures, axis=0) > 0.04).all()


def test_a_mean_bounds_tails_and_shifts():
    rng = np.random.default_rng(0)
    for _ in range(20):
        losses = rng.beta(0.3, 1, 50)
        assert cvar(losses, 0.2) <= cvar_of_mean(losses.mean(), 0.2) + 1e-12
        shifted = worst_case_weights(losses, "kl", radius=0.2).value
        assert shifted <= shift_of_mean(losses.mean(), 0.2) + 1e-9
    assert shift_of_mean(0.0, 1.0) == 0.0
    assert shift_of_mean(1.0, 1.0) == 1.0


# -- certify -----------------------------------------------------------------------------------------------


def test_bounds_are_those_of_the_rows(mixture, certificate):
    y, n = Y[FRESH], 1200
    wrong = mixture.predict(X[FRESH]) != y
    mean = certificate.bound("mean")
    assert (mean.estimate, mean.n, mean.method) == (wrong.mean(), n, "Clopper–Pearson")
    assert mean.upper == clopper_pearson_upper(int(wrong.sum()), n, 0.05 / 4)
    for k, error in class_errors(y, mixture.predict(X[FRESH])).items():
        bound = certificate.bound("class", k)
        assert bound.estimate == pytest.approx(error)
        assert bound.upper == clopper_pearson_upper(int(wrong[y == k].sum()), bound.n, 0.05 / 4 / 3)
    cell = certificate.bound("cell", (1, "a"))
    inside = (y == 1) & (GROUPS[FRESH] == "a")
    assert (cell.n, cell.estimate) == (inside.sum(), wrong[inside].mean())
    for kind in ("class", "group", "cell"):
        subgroups = [b.upper for b in certificate.bounds if b.kind == kind]
        assert certificate.bound("worst", kind).upper == max(subgroups)
    with pytest.raises(KeyError, match="subgroup"):
        certificate.bound("class", 7)


def test_order_of_the_rows_does_not_matter(mixture, certificate):
    shuffled = np.random.default_rng(0).permutation(np.arange(800, 2000))
    again = tb.certify(mixture, X[shuffled], Y[shuffled], groups=GROUPS[shuffled])
    assert [b.upper for b in again.bounds] == pytest.approx([b.upper for b in certificate.bounds], abs=1e-9)


def test_any_classifier_and_any_answers(mixture):
    y, given = Y[FRESH], {"groups": GROUPS[FRESH]}
    forest = RandomForestClassifier(20, random_state=0).fit(X[TRAIN], Y[TRAIN])
    cert = tb.certify(forest, X[FRESH], y, **given)
    assert {b.rule for b in cert.bounds} == {"predict"}  # its probabilities are no randomised rule
    every = {"class": [0, 1, 2]}
    labels = tb.certify(forest.predict(X[FRESH]), None, y, subgroups=every, **given)
    shares = tb.certify(forest.predict_proba(X[FRESH]), None, y, subgroups=every, **given)
    assert labels.bounds == shares.bounds == cert.bounds
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[TRAIN], Y[TRAIN])
    assert tb.certify(pipeline, X[FRESH], y).bound("mean").n == 1200
    text = np.array(["low", "mid", "top"])
    named = tb.certify(text[forest.predict(X[FRESH])], None, pd.Series(text[y]))
    assert named.bound("class", "mid").upper == tb.certify(forest, X[FRESH], y).bound("class", 1).upper
    frame = pd.DataFrame(X, columns=list("abcdef"))
    ours = tb.AverageBoostClassifier(TREE, n_estimators=2, random_state=0).fit(frame[TRAIN], Y[TRAIN])
    search = GridSearchCV(ours, {"n_estimators": [2]}, cv=2).fit(frame[TRAIN], Y[TRAIN])
    assert tb.certify(search, frame[FRESH], y).bound("mean").method == "Clopper–Pearson"


def test_few_rows_and_none_are_honest(mixture):
    one = tb.certify(mixture, X[800:801], Y[800:801], groups=GROUPS[800:801])
    assert all(np.isfinite(b.upper) and 0 < b.upper <= 1 for b in one.bounds)
    absent = [b for b in one.bounds if b.kind == "class" and b.n == 0]
    assert len(absent) == 2
    assert {(b.estimate, b.upper, b.method) for b in absent} == {(None, 1.0, "no rows")}
    assert one.bound("worst", "class").upper == 1.0
    json.dumps(one.to_dict(), allow_nan=False)
    assert "no rows" in one.assumptions


def test_targets(mixture):
    given = X[FRESH], Y[FRESH]
    cert = tb.certify(mixture, *given, max_error=0.6)
    assert cert.certified is True
    assert [b.kind for b in cert.bounds if b.target is not None] == ["class"] * 3 + ["worst"]
    named = tb.certify(mixture, *given, max_error={1: 0.01})
    assert named.certified is False
    assert {b.subgroup for b in named.bounds if b.target is not None} == {1}
    assert tb.certify(mixture, *given).certified is None
    of_groups = tb.certify(mixture, *given, groups=GROUPS[FRESH], max_error=0.7)
    assert {b.kind for b in of_groups.bounds if b.target is not None} == {"group", "worst"}
    of_cells = tb.certify(mixture, *given, groups=GROUPS[FRESH], max_error={(0, "a"): 0.7})
    assert [b.subgroup for b in of_cells.bounds if b.target is not None] == [(0, "a")]
    with pytest.raises(ValueError, match="class"):
        tb.certify(mixture, *given, max_error={9: 0.1})
    with pytest.raises(ValueError, match="names"):
        tb.certify(mixture, *given, groups=Y[FRESH], max_error={1: 0.1})


def test_a_table_of_groups(mixture):
    table = pd.DataFrame({"side": GROUPS[FRESH], "old": X[FRESH][:, 1] > 0})
    cert = tb.certify(mixture, X[FRESH], Y[FRESH], groups=table)
    names = {b.subgroup for b in cert.bounds if b.kind == "group"}
    assert names == {("side", "a"), ("side", "b"), ("old", False), ("old", True)}
    for same in (table.to_dict("series"), {"side": GROUPS[FRESH], "old": table["old"].to_numpy()}):
        assert tb.certify(mixture, X[FRESH], Y[FRESH], groups=same).bounds == cert.bounds
    array = tb.certify(mixture, X[FRESH], Y[FRESH], groups=np.c_[X[FRESH][:, 1] > 0, X[FRESH][:, 0] > 0.5])
    assert array.bound("group", (0, True)).estimate == cert.bound("group", ("old", True)).estimate
    assert "group side / a" in str(cert)
    assert "cell 1 / side = a" in str(cert)
    json.dumps(cert.to_dict())


def test_weights_are_left_out_or_refused(mixture):
    weight = np.ones(1200)
    weight[::2] = 0
    given = {"groups": GROUPS[FRESH]}
    half = tb.certify(mixture, X[FRESH], Y[FRESH], sample_weight=weight, **given)
    assert half.bounds == tb.certify(mixture, X[801:2000:2], Y[801:2000:2], groups=GROUPS[801:2000:2]).bounds
    with pytest.raises(ValueError, match="unequal"):
        tb.certify(mixture, X[FRESH], Y[FRESH], sample_weight=np.arange(1200.0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"confidence": 1.0}, "confidence"),
        ({"y": np.r_[Y[FRESH][:-1], 9]}, "labels"),
        ({"y": np.full(1200, "a")}, "holds"),
        ({"y": Y[FRESH][:-1]}, "has"),
        ({"y": np.r_[np.nan, Y[FRESH][1:]]}, "contains"),
        ({"X": None}, "needed"),
        ({"groups": GROUPS}, "groups"),
        ({"groups": {"g": [None] * 1200}}, "contains"),
        ({"max_error": 0}, "max_error"),
        ({"model": np.zeros(1200, int)}, "None"),
    ],
)
def test_bad_input(mixture, change, words):
    given = {"model": mixture, "X": X[FRESH], "y": Y[FRESH]} | change
    with pytest.raises(ValueError, match=words):
        tb.certify(given.pop("model"), given.pop("X"), given.pop("y"), **given)


def test_answers_that_do_not_fit():
    with pytest.raises(ValueError, match="probabilities"):
        tb.certify(np.full((3, 2), 0.5), None, [0, 1, 2])
    with pytest.raises(ValueError, match="model"):
        tb.certify([0, 1], None, [0, 1, 2])
    with pytest.raises(ValueError, match="classifier"):
        tb.certify(np.zeros((3, 2, 2)), None, [0, 1, 2])


@pytest.mark.parametrize(
    ("confidence", "words"),
    [(0.9, "90 %"), (0.29, "29 %"), (1 - 1e-9, "99.9999999 %"), (0.9999999, "99.99999 %")],
)
def test_a_printed_confidence_is_not_rounded_up(confidence, words):
    y = np.arange(40) % 2
    assert tb.certify(y, None, y, confidence=confidence).title.startswith(f"With {words} confidence")


def test_what_is_printed_is_true(certificate):
    text = str(certificate)
    assert "independent draws" in certificate.assumptions
    for b in certificate.bounds:
        line = next(x for x in text.splitlines() if x.startswith(f"  {b.name} "))
        printed = float(line.split("≤")[-1])
        assert b.upper <= printed <= b.upper + 1e-2 + 1e-9  # 1,200 rows support two digits
    html = certificate._repr_html_()  # Jupyter's name for it
    assert html.count("<tr>") == len(certificate.bounds) + 2  # the headings, and the line of the rule
    stranger = tb.certify(["a", "<b>"], None, ["a", "<b>"])
    assert "<b>" not in stranger._repr_html_()
    tb.certify(LogisticRegression().fit(X, Y), np.r_[X[:9], X[:9]], np.r_[Y[:9], Y[:9]])


def test_a_long_certificate_shows_the_largest_bounds():
    y = np.repeat(np.arange(100), 20)
    answers = np.where(np.arange(2000) % 20 < y // 10, -1, y)
    cert = tb.certify(answers, None, y)
    assert len(cert.bounds) == 103  # answer −1 occurs, label −1 does not
    assert "and 90 smaller ones" in str(cert) or "and 89 smaller ones" in str(cert)
    assert "class 99 " in str(cert)
    assert "class 3 " not in str(cert)


# -- later rows --------------------------------------------------------------------------------------------


def found_of(certificate):
    return certificate.recheck(X[2000:2200], Y[2000:2200], groups=GROUPS[2000:2200])


# -- calibrate ---------------------------------------------------------------------------------------------


def path_within(model, allowed, n, level=0.05):
    """Return the tested rules of a classifier with largest errors of classes, for n fresh rows."""
    within = Reweighted(model).within([tb.rates.error(by="class") <= allowed])
    path = TighterRules.from_selection(within, [n], level).from_the_likeliest()
    return [rule.classifier for rule in path]


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["predict", "randomised"])
def test_calibrated_targets(mixture, rule, tmp_path):
    point = tb.calibrate(mixture, X[FRESH], Y[FRESH], max_error=0.4, rule=rule)
    cert = point.certificate_
    assert cert.certified
    assert [(str(b.rate), b.rule, b.upper, b.target) for b in cert.bounds] == [
        ("error by class", rule, 0.4, 0.4)
    ] * 3
    losses = point.predict(X[FRESH]) != Y[FRESH]
    if rule == "predict":
        for b in cert.bounds:
            inside = losses[Y[FRESH] == b.subgroup]
            assert binom.cdf(inside.sum(), len(inside), 0.4) <= 0.05 * 0.9
    assert mixture.certificate_ is None
    assert point.reweight(alpha=0.5).certificate_ is None
    with pytest.raises(tb.LeakageError, match="calibration"):
        tb.certify(point, X[FRESH], Y[FRESH])
    assert not cert.recheck(X[LATER], Y[LATER]).contradicted
    tb.save_model(point, tmp_path / "point.model")
    for again in (pickle.loads(pickle.dumps(point)), tb.load_model(tmp_path / "point.model")):
        assert again.certificate_ == cert
        assert not again.certificate_.recheck(X[LATER], Y[LATER]).contradicted
        with pytest.raises(tb.LeakageError):
            tb.certify(again, X[FRESH], Y[FRESH])


@pytest.mark.slow
def test_targets_that_cannot_be_certified(mixture):
    other = without_attempts(mixture)
    half_wrong = np.where(np.arange(1200) % 2, Y[FRESH], (Y[FRESH] + 1) % 3)
    with pytest.raises(tb.NotCertifiedError, match="value") as raised:
        tb.calibrate(mixture, X[FRESH], half_wrong, max_error=0.3)
    assert len(raised.value.shortfalls) == 3
    for s in raised.value.shortfalls:  # no number of rows certifies what is above the target
        assert s.more_rows is None
        n_wrong = round(s.estimate * s.n)
        assert 0.3 < s.possible == pytest.approx(beta.ppf(0.05, n_wrong, s.n - n_wrong + 1))
    few = slice(800, 840)
    with pytest.raises(tb.NotCertifiedError, match="certify") as raised:
        tb.calibrate(other, X[few], Y[few], max_error=0.3)
    assert [s.estimate < 0.3 for s in raised.value.shortfalls] == [True, True, False]
    for s in raised.value.shortfalls:
        of = s.possible if s.estimate >= 0.3 else s.estimate
        counts = np.arange(s.more_rows + 1)
        passes = binom.cdf(counts, s.more_rows, 0.3) <= 0.05 * 0.09  # .9 is spent
        assert 0.8 <= binom.pmf(counts[passes], s.more_rows, of).sum() <= 0.9
    only = np.flatnonzero(Y[FRESH] != 2) + 800
    with pytest.raises(tb.NotCertifiedError, match="class"):
        tb.calibrate(mixture, X[only], Y[only], max_error={2: 0.5})


@pytest.mark.parametrize("form", ["coo", "csc"])
def test_sparse_rows_of_weight_zero_are_left_out(form):
    from scipy import sparse

    X, y = make_classification(300, random_state=0)
    model = LogisticRegression().fit(X[:100], y[:100])
    weight = np.arange(200) % 3 > 0
    bounds = tb.certify(
        model, sparse.csr_array(X[100:]).asformat(form), y[100:], sample_weight=weight.astype(float)
    )
    assert bounds.bounds == tb.certify(model, X[100:][weight], y[100:][weight]).bounds


def test_targets_of_what_is_not_there_are_shown_as_given():
    y, groups = np.arange(60) % 2, np.repeat(["a", "b", "c"], 20)
    for max_error, says in [
        (
            {"z": 0.2},
            r"max_error=\{'z': 0.2\}: 'z' is no group or class or cell; there are \['a', 'b'",
        ),
        ({"a": 0.2, 1: 0.3}, "names subgroups of several kinds"),
    ]:
        with pytest.raises(ValueError, match=says):
            tb.certify(y, None, y, groups=groups, max_error=max_error)
    with pytest.raises(ValueError, match="max_error"):
        tb.certify(y, None, y, max_error={"z": 0.2})


# -- subgroups without rows
# ------------------------------------------------------------------------------------


def test_subgroups_are_listed():
    y, groups = np.arange(60) % 2, np.repeat(["a", "b"], 30)
    answers = np.where(np.arange(60) % 7 == 0, 1 - y, y)
    seen = tb.certify(answers, None, y, groups=groups)
    listed = tb.certify(
        answers, None, y, groups=groups, subgroups={"group": ["a", "b", "c"], "class": [0, 1]}
    )
    assert [(b.name, b.upper) for b in listed.bounds if b.kind == "worst"][1:] == [
        ("worst group", 1.0),
        ("worst cell", 1.0),
    ]
    assert listed.bound("worst", "class").upper == seen.bound("worst", "class").upper < 1
    assert json.dumps(listed.to_dict())
    third = tb.certify(np.where(np.arange(60) == 5, 2, y), None, y)  # an answer without rows of this label
    assert (third.bound("class", 2).upper, third.bound("worst", "class").upper) == (1.0, 1.0)
    shares = np.eye(3)[answers]
    assert tb.certify(shares, None, y, subgroups={"class": [0, 1, 2]}).bound("class", 2).n == 0
    table = tb.certify(answers, None, y, groups={"g": groups}, subgroups=[("g", "a"), ("g", "c")])
    assert [b.subgroup for b in table.bounds if b.kind == "group"] == [("g", "a"), ("g", "b"), ("g", "c")]
    for subgroups, says in [
        ("abc", "subgroups must be a list of all groups"),
        ({"groups": ["a"]}, "subgroups must be a list"),
        ([], "subgroups must be a list"),
        ([("g", "a")], "subgroups must name groups as bounds do, as values of groups"),
    ]:
        with pytest.raises(ValueError, match=says):
            tb.certify(answers, None, y, groups=groups, subgroups=subgroups)
    with pytest.raises(ValueError, match="groups"):
        tb.certify(answers, None, y, subgroups=["a"])


def test_a_classifier_without_classes_answers_what_it_answers():
    class Stranger:
        def predict(self, X):
            return np.where(X[:, 0] > 1.5, 7, 0)

    cert = tb.certify(Stranger(), X[FRESH], Y[FRESH])
    assert cert.bound("class", 7).upper == cert.bound("worst", "class").upper == 1.0


# -- attempts ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_attempt_after_another(mixture):
    with pytest.raises(tb.NotCertifiedError, match="cannot") as first:
        tb.calibrate(mixture, X[800:860], Y[800:860], 0.3)
    assert len(first.value.attempts) == 1
    assert "previous=" in str(first.value)  # for a model that is fitted again
    with pytest.raises(tb.NotCertifiedError):  # the same call gives the same result
        tb.calibrate(mixture, X[800:860], Y[800:860], 0.3)
    for rows, target in ((slice(800, 860), 0.5), (slice(800, 1500), 0.3)):  # other targets, some more rows
        for previous in (None, first.value):
            with pytest.raises(tb.LeakageError, match="earlier"):
                tb.calibrate(mixture, X[rows], Y[rows], target, previous=previous)
    second = tb.calibrate(mixture, X[860:2000], Y[860:2000], 0.45)  # counts without previous=
    assert len(second.certificate_.attempts) == 2


@pytest.mark.slow
def test_the_second_attempt_spends_less(fitted):
    """The p-value of the safest rule lies between the levels of a first and a second attempt."""
    with pytest.raises(tb.NotCertifiedError) as raised:
        tb.calibrate(without_attempts(fitted), X[800:830], Y[800:830], 0.45)
    assert len(raised.value.attempts) == 1

    levels = [0.05 * share for share in (0.9, 0.09)]  # of what earlier attempts left, .9

    def passes(end):
        """Return whether the safest rule of each attempt has all its errors below the target."""
        n = end - 830
        safest = [path_within(fitted, 0.45, n, level)[0] for level in levels]
        wrong = [rule.predict(X[830:end]) != Y[830:end] for rule in safest]
        inside = [[each[Y[830:end] == k] for k in range(3)] for each in wrong]
        p_values = [max(binom.cdf(x.sum(), len(x), 0.45) for x in classes) for classes in inside]
        return tuple(p <= level for p, level in zip(p_values, levels, strict=True))

    by_end = {end: passes(end) for end in range(860, 960, 5)}
    for expected in ((True, False), (True, True)):
        end = next(end for end, passed in by_end.items() if passed == expected)
        for previous, certified in zip((None, raised.value), expected, strict=True):
            given = without_attempts(fitted), X[830:end], Y[830:end], 0.45
            if certified:
                assert tb.calibrate(*given, previous=previous).certificate_.certified
                continue
            with pytest.raises(tb.NotCertifiedError) as again:
                tb.calibrate(*given, previous=previous)
            assert len(again.value.attempts) == 2


@pytest.mark.slow
def test_a_calibrated_point_is_a_previous_attempt(mixture):
    point = tb.calibrate(mixture, X[800:1400], Y[800:1400], 0.5)
    for previous in (point, point.certificate_, pickle.loads(pickle.dumps(point))):
        later = tb.calibrate(without_attempts(mixture), X[1400:], Y[1400:], 0.5, previous=previous)
        assert len(later.certificate_.attempts) == 2
    with pytest.raises(ValueError, match="previous"):
        tb.calibrate(mixture, X[1400:], Y[1400:], 0.5, previous=tb.certify(mixture, X[FRESH], Y[FRESH]))


def test_more_rows_would_not_help_only_where_that_is_shown():
    """Two errors among three rows do not show a large error."""
    from tailboost.guarantees.calibration import shortfalls_of
    from tailboost.guarantees.fresh_rows import FreshRows
    from tailboost.guarantees.procedure import Refused
    from tailboost.guarantees.rate_bounds import RateFamily
    from tailboost.rates import Answered

    few, many = np.r_[1, 1, 0], np.r_[np.ones(60, int), np.zeros(40, int)]
    for losses, helps in ((few, True), (many, False)):
        judged = FreshRows(Answered.from_arrays(np.zeros(len(losses), int), losses, labels=[0, 1]))
        family = RateFamily.from_expression(tb.rates.error(by="class") <= {0: 0.3}, judged)
        refused = Refused(judged, "the rule", "")
        (short,) = shortfalls_of([family], refused, 0.05 * 0.9, 0.05 * 0.09, {})
        low = beta.ppf(0.05, losses.sum(), len(losses) - losses.sum() + 1)
        assert short.possible == pytest.approx(low)
        assert (short.more_rows is not None) == helps == (low < 0.3)
        assert ("only certify another one" in str(short)) == (not helps)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"confidence": ".95"}, "confidence"),
        ({"max_error": ".3"}, "max_error"),
        ({"max_error": {}}, "max_error"),
        ({"max_error": {1: "0.3"}}, "'0.3'"),
    ],
)
def test_text_is_no_number_and_no_target_no_target(mixture, given, says):
    with pytest.raises(ValueError, match=says):
        tb.certify(mixture, X[FRESH], Y[FRESH], **given)
    with pytest.raises(ValueError, match=says):
        tb.calibrate(mixture, X[FRESH], Y[FRESH], **({"max_error": 0.3} | given))


def test_rows_whose_freshness_is_the_word_of_the_caller_are_said_to_be_so():
    """The library knows the training rows of its own models, and those that the caller names."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 3))
    y = (X[:, 0] + 0.7 * rng.normal(size=3_000) > 0).astype(int)
    train, select, fresh = np.split(np.arange(3_000), [800, 1_500])
    model = LogisticRegression().fit(X[train], y[train])
    limits = ["miss(1) <= .3"]
    tuned = tb.tune(model, X[select], y[select], limits=limits)
    own = tb.RobustMixtureClassifier([("lr", LogisticRegression())], limits=limits).fit(X[train], y[train])
    words = "Assumes independent rows, fresh as stated: see .assumptions"
    for rule, stated in ((tuned, True), (own, False)):
        certified = tb.calibrate(rule, X[fresh], y[fresh])
        certificate = certified.certificate_
        assert (words in str(certificate)) is stated
        assert ("certified from 1,500 rows, fresh as stated\n" in str(certified)) is stated
        assert ("certified from 1,500 fresh rows\n" in str(certified)) is not stated
        assert ("fresh as stated" in certificate.assumptions) is stated
        assert "unknown share" not in certificate.assumptions
        assert Certificate.from_dict(certificate.to_dict()).as_stated is stated
    named = tb.certify(tuned, X[fresh], y[fresh], training_rows=X[train])
    assert words not in str(named)
    assert words in str(tb.certify(model.predict(X[fresh]), None, y[fresh]))
    batch = {"limits": limits, "training_rows": X[train]}
    assert words not in str(tb.calibrate(model, X[fresh], y[fresh], **batch).certificate_)
