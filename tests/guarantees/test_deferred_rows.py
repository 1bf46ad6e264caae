"""A deferred row counts as deferred in metrics, rates and certificates; bare answers need `deferred=`."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import tailboost as tb
from tailboost import metrics, rates
from tailboost.classifiers.calibrating import contents_of, drawn_part
from tailboost.core.limit_lines import limit_cells
from tailboost.rows.fingerprints import selecting_numbers
from tailboost.rows.judged import Recorded
from tailboost.rows.ledger import Records
from tailboost.rows.subgroups import deferral_lines

R = np.random.default_rng(0)
Y = R.integers(0, 2, 400)
ANSWERS = np.where(R.random(400) < 0.2, 1 - Y, Y)
DEFERRED = R.random(400) < 0.165
GROUPS = R.choice(["f", "m"], 400)
WORDS = "A deferred row is no error and no miss, and stays among the rows of a class or group"


@pytest.mark.parametrize(
    "rate",
    [
        rates.deferred(),
        rates.answered_error(by="class"),
        rates.cost([[0, 1, 0.2], [5, 0, 0.2]]),
        "deferred() <= .5",
    ],
)
def test_rates_of_deferral_need_to_know_the_deferred_rows(rate):
    with pytest.raises(ValueError, match="deferred"):
        tb.certify(ANSWERS, None, Y, rates=[rate])
    assert tb.certify(ANSWERS, None, Y, rates=[rate], deferred=DEFERRED).n_rows == 400


def test_deferred_rows_are_counted_alike_everywhere():
    """Computed by hand: no error, no miss, and among the rows."""
    wrong = (ANSWERS != Y) & ~DEFERRED
    cert = tb.certify(ANSWERS, None, Y, groups=GROUPS, deferred=DEFERRED)
    by_class, by_group = metrics.class_errors(Y, ANSWERS, deferred=DEFERRED), wrong[GROUPS == "f"].mean()
    assert by_class == {k: pytest.approx(wrong[k == Y].mean()) for k in (0, 1)}
    assert metrics.worst_class_error(Y, ANSWERS, deferred=DEFERRED) == max(by_class.values())
    assert metrics.group_errors(Y, ANSWERS, GROUPS, deferred=DEFERRED)["f"] == pytest.approx(by_group)
    for k in (0, 1):
        asked = rates.miss(k)
        (bound,) = tb.certify(ANSWERS, None, Y, rates=[asked], deferred=DEFERRED).bounds
        (value,) = rates.measure(asked, Y, ANSWERS, deferred=DEFERRED).values()
        found = (cert.bound("class", k).estimate, bound.estimate, value)
        assert found == (pytest.approx(by_class[k]),) * 3
        assert (cert.bound("class", k).n, bound.n) == ((k == Y).sum(),) * 2
    assert cert.bound("group", "f").estimate == pytest.approx(by_group)
    plain = tb.certify(ANSWERS, None, Y)
    assert plain.bound("mean").estimate == (ANSWERS != Y).mean()


def test_a_classifier_tells_its_deferred_rows():
    r = np.random.default_rng(1)
    p = r.random((900, 1))
    P, y = np.hstack([1 - p, p]), (r.random(900) < p[:, 0]).astype(int)
    mix = tb.RobustMixtureClassifier.from_probabilities(
        {"m": P[:400]}, y[:400], objective="error", limits=[rates.deferred() <= 0.2]
    )
    deferred, answers = mix.defers({"m": P[400:]}), mix.predict({"m": P[400:]})
    assert deferred.mean() > 0.1

    class Deferring(Recorded):
        can_defer = True

    class Model:
        """The same rule as a classifier of rows."""

        _judged_by = Deferring
        records_ = Records()
        classes_ = np.array([0, 1])

        def predict(self, X):
            return answers

        def defers(self, X):
            return deferred

    given = Model(), P[400:], y[400:]
    cert = tb.certify(*given, rates=())
    wrong = (answers != y[400:]) & ~deferred
    assert cert.bound("mean").estimate == wrong.mean()
    assert {b.rule for b in cert.bounds} == {"predict"}
    assert WORDS in cert.notes[0]
    asked = [rates.deferred() <= 0.3, rates.miss(1)]
    bare = tb.certify(answers, None, y[400:], rates=asked, deferred=deferred)
    assert tb.certify(*given, rates=asked).bounds == bare.bounds
    with pytest.raises(ValueError, match="classifier"):
        tb.certify(*given, deferred=deferred)


@pytest.mark.slow
def test_a_certificate_counts_the_deferred_rows_of_the_certified_rule():
    """The given rule may defer other rows than the one that `calibrate` certifies."""
    r = np.random.default_rng(2)
    score = r.random((6000, 1))
    y = (r.random(6000) < score[:, 0]).astype(int)
    limits = [rates.deferred() <= 0.4, rates.miss(1) <= 0.2, rates.false_alarm(1) <= 0.2]
    given = tb.tune(tb.Scores(0, 1), score[:2000], y[:2000], limits=limits)
    certified = tb.calibrate(given, score[2000:], y[2000:])
    counts = [int(rule.defers(score[2000:]).sum()) for rule in (given, certified)]
    assert counts[0] != counts[1]
    (line,) = [line for line in certified.certificate_.bounds if "defer" in str(line.rate)]
    assert line.estimate == pytest.approx(counts[1] / 4000)


@pytest.mark.parametrize("mask", [["no"] * 400, np.ones(3, dtype=bool), np.full(400, 0.5), np.full(400, 2)])
def test_a_mask_is_a_mask(mask):
    for call in (
        lambda: tb.certify(ANSWERS, None, Y, deferred=mask),
        lambda: metrics.class_errors(Y, ANSWERS, deferred=mask),
        lambda: rates.measure(rates.deferred(), Y, ANSWERS, deferred=mask),
    ):
        with pytest.raises(ValueError, match="deferred"):
            call()


def test_probabilities_are_no_labels():
    with pytest.raises(ValueError, match="probabilities"):
        tb.certify(R.random(400), None, Y)
    assert tb.certify(ANSWERS.astype(float), None, Y).n_rows == 400
    halves = np.where(Y == 0, 0.5, 1.5)
    assert tb.certify(halves, None, halves).bound("mean").estimate == 0


@pytest.fixture(scope="module")
def sites():
    """Scores that tell less at one site, where most unsure rows are."""
    r = np.random.default_rng(4)
    n = 8000
    site = np.where(r.random(n) < 0.3, "South", "North")
    score = np.where(site == "South", r.uniform(0.35, 0.65, n), r.random(n) > 0.4)
    score = np.clip(score + r.normal(0, 0.1, n), 0.01, 0.99)
    ill = np.where(r.random(n) < score, "ill", "well")
    return pd.DataFrame({"s": score}), ill, pd.DataFrame({"site": site})


@pytest.fixture(scope="module")
def deferring(sites):
    X, y, groups = sites
    limits = ["miss(ill, by=site) <= 30%", "deferred() <= 30%"]
    return tb.calibrate(tb.Scores("s", "ill"), X, y, groups=groups, limits=limits)


def test_a_certificate_says_what_deferral_hides(sites, deferring):
    """Counted by hand on the rows that certify: the deferred rows, and the error of the others."""
    X, y, groups = sites
    certificate = deferring.certificate_
    here = ~drawn_part(selecting_numbers(contents_of(X, y), np.zeros(len(y), np.uint64)), 0.1)
    deferred = deferring.defers(X)[here]
    site, wrong = groups["site"].to_numpy()[here], (deferring.predict(X) != y)[here]
    share = {name: deferred[site == name].mean() for name in ("North", "South")}
    assert share["South"] > 2 * deferred.mean()
    found = {bound.subgroup: bound.deferred for bound in certificate.bounds}
    assert found == {name: pytest.approx(value) for name, value in share.items()} | {None: None}
    error = 100 * wrong[~deferred].mean()
    of_site = {name: wrong[(site == name) & ~deferred].mean() for name in ("North", "South")}
    assert of_site["South"] == max(of_site.values())
    told = [
        "Deferred rows count as neither missed nor wrong: a human decides them. "
        f"Error of answered rows {error:.1f} %.",
        f"{100 * share['South']:.0f} % of South are deferred here, {100 * deferred.mean():.1f} % of "
        "all: 'deferred(by=site) <= …' limits it.",
        f"South errs most among answered rows here, {100 * of_site['South']:.0f} %: "
        "'answered_error(by=site) <= …' limits it.",
    ]
    assert list(certificate.remarks) == told
    text = str(certificate)
    assert told[1] in text
    assert re.search(rf"^share deferred ≤ 30 % .* {100 * deferred.mean():.1f} %$", text, flags=re.M)
    assert len(text.split()) <= 130
    assert re.search(rf"^  South +[\d,]+ +[\d.]+ % +{100 * share['South']:.0f} %$", text, flags=re.M)
    own = 100 * ((X["s"] > 0.5) != (y == "ill"))[here].mean()
    headline = (
        f"Overall error {100 * (wrong & ~deferred).mean():.1f} % with {100 * deferred.mean():.1f} % deferred "
        f"and counted as right; {error:.1f} % of answered rows "
        f"(without limits, the score at 0.5: {own:.1f} % of all rows)"
    )
    assert headline in text
    prices = {price.name: (price.n, price.certified) for price in certificate.price}
    assert prices["error among answered rows"] == ((~deferred).sum(), pytest.approx(error / 100))
    assert len(text.split()) <= 145
    again = tb.Certificate.from_dict(json.loads(json.dumps(certificate.to_dict())))
    assert str(again) == text
    lines = {line.name: line.deferred for line in certificate.limit_lines()}
    assert lines["miss rate of 'ill' by site: South"] == f"{100 * share['South']:.0f} %"
    heads, cells = limit_cells(certificate.limit_lines())
    assert {row[1]: row[heads.index("deferred, of all rows")] for row in cells} == lines


def test_the_share_deferred_of_clusters_is_the_same_in_all_places(sites):
    """One row of each cluster votes: a share by numbers of clusters with an answered row would be near 0."""
    X, y, groups = sites
    clusters = np.arange(len(X)) // 4
    limits = ["miss(ill, by=site) <= 30%", "deferred() <= 30%"]
    rule = tb.calibrate(tb.Scores("s", "ill"), X, y, groups=groups, limits=limits, clusters=clusters)
    certificate = rule.certificate_
    (price,) = [price for price in certificate.price if price.name == "share deferred"]
    share = f"{100 * price.certified:.0f} %"
    deferred = rule.defers(X)
    assert deferred.reshape(-1, 4).all(axis=1).mean() < 0.05 < 0.1 < deferred.mean()
    # Four standard deviations of a share of one row of each cluster.
    assert abs(price.certified - deferred.mean()) < 4 * np.sqrt(0.25 / price.n)
    (remark,) = [remark for remark in certificate.remarks if " of South are deferred" in remark]
    assert f", {share} of all" in remark


def test_one_answer_that_errs_less_on_the_answered_rows_is_named():
    """Of 200 rows 40 are deferred; of the others 16 have label 1, and the answers err in 24 or in 8."""
    y = np.repeat([1, 0], [16, 184])
    deferred = np.arange(200) >= 160
    for n_wrong, is_named in ((24, True), (16, False), (8, False)):
        answers = np.where(np.arange(200) < n_wrong, 1 - y, y)
        told = tb.certify(answers, None, y, rates=["miss(1)"], deferred=deferred)
        sentence = "Error of answered rows here: the answer 0 to all 0.10, the rule 0.15."
        assert (sentence in told.remarks) == is_named
        assert (sentence in str(told)) == is_named
    answers = np.where(np.arange(200) < 24, 1 - y, y)
    for limits, ending in (
        (["miss(1) <= .9"], "; but that answer breaks a limit."),
        (["miss(0) <= .9"], "."),
    ):
        (remark,) = tb.certify(answers, None, y, limits=limits, deferred=deferred).remarks[1:]
        assert remark == f"{sentence[:-1]}{ending}"


def test_a_limit_on_the_deferrals_of_groups_is_not_proposed_again(sites, deferring):
    X, y, groups = sites
    asked = ["miss(ill, by=site)", "deferred(by=site)"]
    told = tb.certify(deferring.predict(X), None, y, groups=groups, rates=asked, deferred=deferring.defers(X))
    _line, largest = told.remarks
    assert largest.endswith(": 'answered_error(by=site) <= …' limits it.")
    asked.append("answered_error(by=site)")
    told = tb.certify(deferring.predict(X), None, y, groups=groups, rates=asked, deferred=deferring.defers(X))
    assert told.remarks[1] == f"{largest.partition(':')[0]}."  # no limit is proposed again
    plain = tb.certify(deferring.predict(X), None, y, groups=groups, rates=asked[:1])
    assert plain.remarks == ()
    assert {bound.deferred for bound in plain.bounds} == {None}


def test_a_fit_says_what_deferral_hides(sites):
    X, y, groups = sites
    limits = ["miss(ill, by=site) <= 30%", "deferred() <= 30%"]
    rule = tb.tune(tb.Scores("s", "ill"), X, y, groups=groups, limits=limits)
    deferred, _wrong = rule.defers(X), rule.predict(X) != y
    south = deferred[groups["site"] == "South"].mean()
    assert south > 2 * deferred.mean()
    lines = {line.subgroup: line for line in rule.rates_ if line.rate == "miss rate of 'ill' by site"}
    assert lines["South"].deferred == pytest.approx(south)
    text = str(rule.summary_)
    told = re.search(rf"{100 * south:.0f} % of South are deferred here, (\S+) % of all", text)
    assert float(told[1]) == pytest.approx(100 * deferred.mean(), abs=0.01)
    assert re.search(rf"^share deferred +all +{told[1]} %", text, flags=re.M)
    plain = tb.tune(tb.Scores("s", "ill"), X, y, groups=groups, limits=limits[:1])
    assert plain.rates_.deferral == ()
    assert "deferred" not in str(plain.summary_)


def test_the_advice_on_deferral_can_be_read_as_a_limit():
    shares = {"North": 0.1, "South": 0.5}
    (_, line) = deferral_lines("10 %", 0.2, {"Site (ward)": shares})
    text = line.split('"')[1].replace("…", "10%")
    assert rates.parse(text) == (rates.deferred(by="Site (ward)") <= 0.1)
