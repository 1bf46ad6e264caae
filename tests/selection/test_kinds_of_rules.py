"""Which kind of rule answers: one threshold, unless an estimate of the group pays."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.core.long_work import telling
from tailboost.exceptions import InfeasibleLimitsError
from tailboost.guarantees import calibration, procedure
from tailboost.guarantees.procedure import Certified, Refused, simplest_certified
from tailboost.rows.judged import judged

LIMITS = ("miss(1, by=group) <= 30%",)
RATIO = ("ratio(selected(1, by=group)) >= .8",)


def rows(n, seed, *, told):
    """Return rows of two groups with base rates .5 and .2; if ``told``, three features show the group."""
    rng = np.random.default_rng(seed)
    group = (rng.random(n) < 0.4).astype(int)
    u = rng.normal(size=(n, 3))
    label = (rng.random(n) < expit(u @ [1.2, -1.0, 0.8] - 2.0 * group)).astype(int)
    proxies = rng.normal(size=(n, 3)) + 1.8 * group[:, None] * told
    return np.column_stack([u, proxies]), label, np.array(["a", "b"])[group]


@cache
def made(told, n=3000):
    X, y, _ = rows(3000, 0, told=told)
    return LogisticRegression().fit(X, y), *rows(n, 1, told=told)


@cache
def tuned(told=True, limits=LIMITS, n=3000, **params):
    model, X, y, groups = made(told, n)
    rule = tb.tune(model, X, y, groups=groups, limits=[*limits], objective="error", **params)
    return rule, X, y, groups


def is_inferring(rule):
    return judged(rule).weighs_groups


def test_a_group_that_no_feature_shows_leaves_one_threshold_with_sql():
    rule, *_ = tuned(told=False, infer_groups=True)
    assert not is_inferring(rule)
    assert "CASE" in rule.rule_.to_sql()


def test_an_inferred_group_is_taken_where_it_pays():
    rule, X, y, _ = tuned(limits=RATIO)
    simple, *_ = tuned(limits=RATIO, infer_groups=False)
    assert is_inferring(rule)
    assert not is_inferring(simple)
    X, y, _ = rows(20_000, 2, told=True)
    assert np.mean(rule.predict(X) != y) < np.mean(simple.predict(X) != y) - 0.03
    with pytest.raises(ValueError, match="estimates groups"):
        rule.rule_.to_sql()


def test_the_threshold_is_the_best_one_that_keeps_all_limits():
    """Compared with every threshold between two scores."""
    rule, X, y, groups = tuned(infer_groups=False)
    score = rule.predict_proba(X)[:, 1]
    best = 1.0
    for cut in np.unique(score):
        answers = (score >= cut).astype(int)
        missed = [np.mean(answers[(y == 1) & (groups == g)] == 0) for g in ("a", "b")]
        if max(missed) <= 0.3:
            best = min(best, float(np.mean(answers != y)))
    answers = rule.predict(X)
    assert max(np.mean(answers[(y == 1) & (groups == g)] == 0) for g in ("a", "b")) <= 0.3
    assert np.mean(answers != y) <= best + 4e-3
    assert (np.diff(answers[np.argsort(score)]) >= 0).all()


def test_the_exported_rule_answers_as_the_classifier():
    rule, X, *_ = tuned(infer_groups=False)
    score = rule.estimators_[0].predict_proba(X)[:, 1]
    assert rule.rule_.model == "LogisticRegression"
    assert np.array_equal(rule.rule_.predict(score), rule.predict(X))
    place: dict[str, object] = {}
    exec(rule.rule_.to_python(), place)
    assert [place["decide"](one) for one in score.tolist()] == rule.predict(X).tolist()


def test_other_limits_choose_the_kind_anew_also_from_a_file(tmp_path):
    rule, X, *_ = tuned()
    tb.save_model(rule, tmp_path / "m.model")
    loaded = tb.load_model(tmp_path / "m.model")
    for again in (rule.reweight(limits=RATIO), loaded.reweight(limits=RATIO)):
        assert is_inferring(again)
        assert np.array_equal(again.predict(X), tuned(limits=RATIO)[0].predict(X))
    assert is_inferring(rule.reweight(limits=LIMITS)) == is_inferring(rule)


def test_the_order_of_the_rows_does_not_choose_the_kind():
    model, X, y, groups = made(told=True, n=1500)
    order = np.random.default_rng(0).permutation(len(y))
    for limits in (LIMITS, RATIO):
        one = tb.tune(model, X, y, groups=groups, limits=limits)
        other = tb.tune(model, X[order], y[order], groups=groups[order], limits=limits)
        assert is_inferring(one) == is_inferring(other)


def test_few_rows_of_a_stratum_leave_one_threshold():
    model, X, y, groups = made(told=True)
    few = np.flatnonzero((groups == "b") & (y == 1))[:1]
    kept = np.r_[np.flatnonzero((groups == "a") | (y == 0))[:400], few]
    rule = tb.tune(model, X[kept], y[kept], groups=groups[kept], limits=["error(by=group) <= .9"])
    assert not is_inferring(rule)


def test_a_rule_that_reads_the_group_estimates_none():
    with pytest.raises(ValueError, match="infer_groups=True: with by_group=True"):
        tuned(by_group=True, infer_groups=True)
    with pytest.raises(ValueError, match="infer_groups"):
        tuned(infer_groups="yes")


def test_scores_have_no_columns_from_which_a_group_could_be_estimated():
    X, y, groups = rows(500, 1, told=True)
    score = tb.Scores(0, 1, kind="logit")
    with pytest.raises(ValueError, match="scores have no other columns"):
        tb.tune(score, X[:, :1], y, groups=groups, limits=LIMITS, infer_groups=True)


def test_a_calibration_tests_the_rule_of_the_classifier_itself():
    for rule in (tuned(limits=RATIO)[0], tuned(infer_groups=False)[0]):
        assert any(each is rule.selection_ for each in rule.selection_.of_each_kind())


def test_a_test_of_either_kind_uses_the_rows_up():
    """The rows come back only if no kind was tested; so the refusal after a test is the one that counts."""
    untested, tested = (Refused(None, "the rule", "why", tested=tested) for tested in (False, True))
    assert simplest_certified([untested, tested], None) == 1
    assert simplest_certified([tested, untested], None) == 0
    assert simplest_certified([untested, untested], None) == 0


@pytest.mark.parametrize(("n_better", "chosen"), [(1, 0), (2, 0), (10, 1)])
def test_a_more_complex_rule_is_not_taken_for_one_or_two_rows(n_better, chosen, monkeypatch):
    losses = {"simple": np.zeros(1000), "complex": np.zeros(1000)}
    losses["simple"][:n_better] = 1.0
    monkeypatch.setattr(procedure, "losses_on", lambda fresh, result: losses[result.method])
    results = [Certified(None, title, "") for title in losses]
    assert simplest_certified(results, None) == chosen


def test_a_refusal_of_two_kinds_says_what_lacks_at_half_the_level():
    model, X, y, groups = made(told=True, n=1000)
    limits = ["gap(miss(1, by=group)) <= 2%", "miss(1) <= 40%"]
    with pytest.raises(tb.exceptions.NotCertifiedError) as caught:
        tb.calibrate(model, X, y, groups=groups, limits=limits, objective="error")
    assert caught.value.shortfalls
    assert "The reason: ." not in str(caught.value)


def test_limits_that_no_threshold_keeps_take_the_inferred_group():
    _, X, y, groups = made(told=True)
    shown = X[:, 3:].mean(axis=1)
    table = np.column_stack([np.zeros(len(y)), shown])

    class Constant(LogisticRegression):
        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    model = Constant().fit(table, y)
    limits = ["selected(1, by=group) <= {a: .3}", "selected(1, by=group) >= {b: .7}"]
    with pytest.raises(InfeasibleLimitsError):
        tb.tune(model, table, y, groups=groups, limits=limits, infer_groups=False)
    rule = tb.tune(model, table, y, groups=groups, limits=limits)
    assert is_inferring(rule)
    assert rule.limits_met_


def test_both_kinds_divide_the_level():
    model, X, y, groups = made(told=True, n=12000)
    limits = ["miss(1, by=group) <= .2"]
    paying = tb.calibrate(model, X, y, groups=groups, limits=limits, objective="error")
    assert is_inferring(paying)
    assert "One threshold had 90 % of the level" in paying.certificate_.assumptions
    model, X, y, groups = made(told=False, n=2000)
    alone = tb.calibrate(model, X, y, groups=groups, limits=LIMITS, objective="error")
    assert not is_inferring(alone)
    assert "CASE" in alone.rule_.to_sql()
    assert "of the level" not in alone.certificate_.assumptions


@pytest.mark.parametrize(
    ("limit", "objective"),
    [("miss(1, by=group) <= 30%", rates.selected(1)), ("selected(1, by=group) <= 30%", rates.miss(1))],
)
def test_the_counts_of_either_kind_pass_the_exact_test_at_its_level(limit, objective):
    """The objective drives the threshold to the last rank of one group, whichever kind is taken."""
    model, X, y, groups = made(told=True, n=1500)
    rule = tb.calibrate(model, X, y, groups=groups, limits=[limit], objective=objective, attempts=1)
    assert {bound.method for bound in rule.certificate_.bounds} == {"ranks"}
    level = 0.05 * (0.1 if is_inferring(rule) else 0.9)
    last = []
    for bound in rule.certificate_.bounds:
        k = round(bound.estimate * bound.n)
        assert binom.cdf(k, bound.n, 0.3) <= level
        last.append(binom.cdf(k + 1, bound.n, 0.3))
    assert max(last) > level


def test_each_kind_has_its_part_of_the_level(monkeypatch):
    levels, own = [], calibration.first_that_applies

    def recorded(selection, fresh, level):
        levels.append(level)
        return own(selection, fresh, level)

    monkeypatch.setattr(calibration, "first_that_applies", recorded)
    model, X, y, groups = made(told=True, n=1500)
    for attempts, whole in ((1, 0.05), (5, 0.01)):
        tb.calibrate(model, X, y, groups=groups, limits=LIMITS, objective="error", attempts=attempts)
        assert levels[:2] == pytest.approx([0.9 * whole, 0.1 * whole])
        levels.clear()


@pytest.mark.slow
def test_certificates_of_two_kinds_are_false_at_most_as_often_as_stated():
    """Truth of 100,000 rows; miss rates at the boundary of the limit by construction of the ranks."""
    model, _, _, _ = made(told=True)
    X_all, y_all, of_all = rows(100_000, 5, told=True)
    false = certified = 0
    for draw in range(150):
        X, y, groups = rows(700, 100 + draw, told=True)
        try:
            rule = tb.calibrate(model, X, y, groups=groups, limits=LIMITS, objective="error", confidence=0.9)
        except tb.exceptions.NotCertifiedError:
            continue
        certified += 1
        answers = rule.predict(X_all)
        missed = [np.mean(answers[(y_all == 1) & (of_all == g)] == 0) for g in ("a", "b")]
        false += max(missed) > 0.3
    assert certified > 100
    assert false <= 27  # of 150 at .1 the 99.9 % quantile


def test_a_rule_of_several_candidates_needs_a_probability_for_each():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=60)
    rule = tb.RobustMixtureClassifier.from_probabilities({"m": rng.random(60)}, y, objective="error")
    selection = rule.selection_
    candidate = selection.rule.ensemble.base_models[0].candidate
    for weights in (None, np.array([0.2, 0.3, 0.5])):
        with pytest.raises(ValueError, match=r"weights: 2 candidates need a probability each, got [13]"):
            selection.with_candidates([candidate, candidate], weights)
    alone = selection.with_candidates([candidate]).rule.ensemble.base_models
    assert [member.candidate for member in alone] == [candidate]


def test_no_line_of_progress_comes_twice_in_a_calibration_of_both_kinds():
    """Each kind tightens limits and tests rules: without its number the count would seem to start again."""
    rule, *_ = tuned(limits=(*RATIO, "f_score(1) >= .2"))
    assert len(rule.selection_.of_each_kind()) == 2
    X, y, groups = rows(3000, 3, told=True)
    said = []
    with telling(said.append, patience=0, pause=0):
        tb.calibrate(rule, X, y, groups=groups)
    counts = [line.partition(" of 9")[0] for line in said if "tightened rules: " in line]
    assert {count.partition(", ")[0] for count in counts} == {"part 1 of 2", "part 2 of 2"}
    assert len(set(counts)) == len(counts)
    assert any(line.startswith("part 2 of 2, tested rules: ") for line in said)
