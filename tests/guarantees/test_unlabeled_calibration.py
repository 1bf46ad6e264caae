"""Certificates from rows without labels: ranks and tests of limits without need of labels."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom

import tailboost as tb
from tailboost import rates
from tailboost.core.exceptions import LeakageError
from tailboost.rates.bounds import most_reached
from tailboost.rows.fingerprints import UsedRows, hash_rounded_rows
from tailboost.rows.ledger import Ledger
from tailboost.storage.models import load_model, save_model

SELECTED = rates.selected(1, by="group")
LIMITS = {
    "capacity": [rates.selected(1) <= 0.3],
    "gap": [rates.gap(SELECTED) <= 0.1],
    "ratio": [rates.ratio(SELECTED) >= 0.7],
    "by group": [SELECTED <= 0.4],
    "with a miss": [rates.selected(1) <= 0.4, rates.miss(1) <= 0.5],
}


def drawn(n, seed):
    """Return the probabilities of class 1 as scores, labels and groups."""
    random = np.random.default_rng(seed)
    group = random.integers(2, size=n)
    p = random.beta(1 + group, 2 - group)
    return p[:, None], (random.random(n) < p).astype(int), {"group": np.where(group == 1, "b", "a")}


X, Y, G = drawn(400, 1)
A, B, C = drawn(300, 2)
U, UY, UG = drawn(900, 3)
F, FY, FG = drawn(100_000, 4)


def tuned(limits, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tb.tune(tb.Scores(0, 1), X, Y, groups=G, limits=limits, **({"by_group": True} | params))


def calibrated(model, *labelled, more=(U, UG), **given):
    """Calibrate a model with a new ledger: each call is a first attempt."""
    rows = labelled or (None, None, None)
    extra = {} if more is None else {"X_unlabeled": more[0], "groups_unlabeled": more[1]}
    if hasattr(model, "records_"):
        model.records_ = replace(model.records_, ledger=Ledger())
    return tb.calibrate(model, rows[0], rows[1], groups=rows[2], attempts=1, **extra, **given)


def true_excess(classifier, limits, n=None):
    """Return the largest excess of a rate over its limit on n further rows; at most 0 if all hold."""
    groups = {"group": FG["group"][:n]}
    answers = classifier.predict(F[:n], groups=groups)
    beyond = []
    for limit in limits:
        found = rates.measure(limit.rate, FY[:n], answers, groups=groups, labels=[0, 1])
        value = limit.value(np.array(list(found.values()))) if limit.compares else max(found.values())
        beyond.append(value - limit.bound if limit.from_above else limit.bound - value)
    return max(beyond)


class TestRanks:
    """Rows without labels are ranked with the others."""

    @pytest.mark.parametrize("labelled", [(), (A, B, C)])
    def test_the_rank_is_that_of_all_rows(self, labelled):
        limits = [rates.selected(1) <= 0.3]
        clf = tuned(limits, by_group=False, objective=rates.miss(1))
        found = calibrated(clf, *labelled)
        rows = np.concatenate([U, A]) if labelled else U
        assert found.certificate_.n_rows == len(rows)
        # The binomial tail at the largest rank, in a plain loop.
        rank = max(k for k in range(len(rows)) if binom.cdf(k, len(rows), 0.3) <= 0.05)
        assert rank == most_reached(len(rows), 0.3, 0.05)
        # Labels place the threshold at or below the rank: fewer misses need more selected rows.
        chosen = int(found.predict(rows).sum())
        between = np.diff(np.sort(np.concatenate([X, *labelled[:1]]).ravel()))
        assert rank - len(rows) * 10 * between.mean() <= chosen <= rank

    @pytest.mark.parametrize("name", ["gap", "ratio"])
    def test_comparisons_reach_the_same_ranks_with_and_without_labels(self, name):
        """Labels of ranked rows are not read for selection rates."""
        clf = tuned(LIMITS[name])
        with_labels = calibrated(clf, U, UY, UG, more=None)
        without = calibrated(clf)
        np.testing.assert_array_equal(with_labels.predict(F, groups=FG), without.predict(F, groups=FG))

    def test_labelled_rows_alone_certify_limits_on_misses(self):
        """The miss rate has the rank of the rows of class 1; the capacity has the rank of all rows."""
        found = calibrated(tuned(LIMITS["with a miss"]), A, B, C)
        rows = {bound.rate: bound.n for bound in found.certificate_.bounds}
        assert rows == {rates.selected(1): 1200, rates.miss(1): int(B.sum())}

    @pytest.mark.slow
    def test_tests_count_all_rows(self):
        limits = [rates.gap(SELECTED) <= 0.2, rates.selected(1) <= 0.6]  # not by ranks
        found = calibrated(tuned(limits), A, B, C)
        answers = found.predict(np.concatenate([A, U]), groups={"group": np.r_[C["group"], UG["group"]]})
        (capacity,) = [bound for bound in found.certificate_.bounds if bound.rate == rates.selected(1)]
        assert capacity.n == 1200
        assert capacity.estimate == pytest.approx(answers.mean())
        assert beta.ppf(0.95, answers.sum() + 1, 1200 - answers.sum()) <= 0.6

    def test_files_keep_the_certificate(self, tmp_path):
        found = calibrated(tuned(LIMITS["gap"]))
        save_model(found, tmp_path / "rule.model")
        loaded = load_model(tmp_path / "rule.model")
        assert str(loaded.certificate_) == str(found.certificate_)
        np.testing.assert_array_equal(loaded.predict(F, groups=FG), found.predict(F, groups=FG))

    def test_a_model_selected_with_rows_without_labels_is_calibrated(self):
        V, _, vg = drawn(600, 5)
        clf = tuned(LIMITS["capacity"], X_unlabeled=V, groups_unlabeled=vg)
        assert calibrated(clf).certificate_.certified
        clf.records_ = replace(clf.records_, ledger=Ledger())
        with pytest.raises(LeakageError, match="selection data"):
            tb.calibrate(clf, None, None, X_unlabeled=V, groups_unlabeled=vg)


class TestValidity:
    """False certificates in populations with known rates."""

    def false_certificates(self, name, n_labelled, draws, first=0, n=None):
        clf, broken, n_certified = tuned(LIMITS[name]), 0, 0
        for seed in range(first, first + draws):
            some = drawn(n_labelled, 10_000 + seed) if n_labelled else ()
            V, _, vg = drawn(800, 20_000 + seed)
            try:
                found = calibrated(clf, *some, more=(V, vg))
            except tb.NotCertifiedError:
                continue
            n_certified += 1
            broken += true_excess(found, LIMITS[name], n) > 0
        assert n_certified > draws / 3
        return broken

    @pytest.mark.parametrize(("name", "n_labelled"), [("gap", 0), ("with a miss", 200)])
    @pytest.mark.thinned(1)
    def test_few_draws(self, name, n_labelled):
        # 5 or more false certificates of 5 % in 12 draws have a probability of .0002.
        assert self.false_certificates(name, n_labelled, 12, n=30_000) < 5

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "n_labelled"),
        [("capacity", 0), ("capacity", 200), ("gap", 0), ("gap", 200), ("ratio", 200), ("by group", 0),
         ("with a miss", 200)],
    )  # fmt: skip
    def test_false_certificates_are_within_the_level(self, name, n_labelled):
        draws = 300
        broken = self.false_certificates(name, n_labelled, draws, first=100)
        assert broken <= draws * 0.05 + 2 * np.sqrt(draws * 0.05 * 0.95)


class TestCopies:
    def test_the_same_row_with_and_without_a_label_counts_once(self):
        clf = tuned(LIMITS["with a miss"])
        both = np.concatenate([U, A]), {"group": np.r_[UG["group"], C["group"]]}
        one, other = calibrated(clf, A, B, C), calibrated(clf, A, B, C, more=both)
        assert one.certificate_.n_rows == other.certificate_.n_rows == 1200
        np.testing.assert_array_equal(one.predict(F, groups=FG), other.predict(F, groups=FG))

    def test_rows_of_one_batch_are_no_further_rows(self):
        """A part of the labelled rows selects the rule: unlabelled copies of these rows cannot certify it."""
        both = np.concatenate([U, A]), {"group": np.r_[UG["group"], C["group"]]}
        given = {"limits": LIMITS["gap"], "by_group": True}
        one, other = (calibrated(tb.Scores(0, 1), A, B, C, more=more, **given) for more in ((U, UG), both))
        assert one.certificate_.n_rows == other.certificate_.n_rows
        np.testing.assert_array_equal(one.predict(F, groups=FG), other.predict(F, groups=FG))

    def test_the_rows_are_used_up_with_and_without_labels(self):
        clf = tuned(LIMITS["capacity"])
        found = calibrated(clf)
        for rows in ((None, None, None, U, UG), (U, UY, UG, None, None)):
            more = {"X_unlabeled": rows[3], "groups_unlabeled": rows[4]}
            with pytest.raises(LeakageError, match=r"calibration rows|an earlier attempt"):
                tb.calibrate(clf, rows[0], rows[1], groups=rows[2], limits=["selected(1) <= .2"], **more)
            with pytest.raises(LeakageError):
                tb.certify(found, *rows[:2], groups=rows[2], rates=[rates.selected(1)], **more)

    def test_tables_of_few_values_without_labels_are_different_tables(self):
        grades = [hash_rounded_rows(np.random.default_rng(k).integers(5, size=(200, 1))) for k in range(2)]
        one, other = (UsedRows.from_hashes(of, ()) for of in grades)
        assert one.shared_with(other) == 0
        scores = hash_rounded_rows(np.random.default_rng(0).random((80, 1)))
        first, all_rows = (UsedRows.from_hashes(of, ()) for of in (scores[:50], scores))
        assert first.shared_with(all_rows) == 50

    def test_labels_of_the_first_rows(self):
        hashes = hash_rounded_rows(np.random.default_rng(0).random((60, 1)))
        rows = UsedRows.from_hashes(hashes, np.arange(40) % 2)
        assert (rows.contents.n_rows, rows.labelled.n_rows) == (60, 40)
        assert rows.shared_with(UsedRows.from_hashes(hashes[:40], np.arange(40) % 2)) == 40
        assert UsedRows.from_hashes(hashes, []).labelled.n_rows == 0


class TestWithoutAnyLabel:
    @pytest.mark.parametrize("form", [pd.Series, np.asarray])
    def test_x_alone_and_x_unlabeled_are_the_same(self, form):
        groups = form(UG["group"])
        clf = tb.tune(tb.Scores(0, 1), X, Y, groups=G["group"], by_group=True, limits=[SELECTED <= 0.4])
        one = tb.calibrate(clf, U, None, groups=groups, attempts=1)
        clf.records_ = replace(clf.records_, ledger=Ledger())
        other = tb.calibrate(clf, None, None, X_unlabeled=U, groups_unlabeled=groups, attempts=1)
        assert str(one.certificate_) == str(other.certificate_)
        assert "None of the rows has a label" in one.certificate_.assumptions
        assert "overall error" not in one.certificate_.assumptions

    def test_certify_bounds_rates_of_answers(self):
        clf = tuned(LIMITS["by group"])
        cert = tb.certify(clf, U, None, groups=UG, rates=[SELECTED <= 0.9])
        answers = clf.predict(U, groups=UG)
        for bound in cert.bounds:
            seen = answers[UG["group"] == bound.subgroup]
            assert bound.n == len(seen)
            assert bound.upper == pytest.approx(beta.ppf(0.975, seen.sum() + 1, len(seen) - seen.sum()))

    @pytest.mark.parametrize(
        ("limit", "said"),
        [
            (rates.miss(1) <= 0.5, r"miss\(1\) needs labels"),
            (rates.precision(1) >= 0.5, r"precision\(1\) needs labels"),
            (rates.error() <= 0.5, r"error\(\) needs labels"),
            (rates.selected(1, by="class") <= 0.5, r"selected\(1, by='class'\) needs labels"),
        ],
    )
    def test_limits_that_need_labels_name_them(self, limit, said):
        clf = tuned([rates.selected(1) <= 0.4])
        with pytest.raises(ValueError, match=f"y is needed: .*{said}, and no row here has one"):
            calibrated(clf, limits=[rates.selected(1) <= 0.4, limit])
        assert not clf.ledger_.attempts  # nothing was tested
        with pytest.raises(ValueError, match=said):
            tb.certify(clf, U, None, groups=UG, rates=[limit])

    @pytest.mark.parametrize(
        ("rows", "given", "said"),
        [
            ((None, None), {"groups_unlabeled": UG}, "groups_unlabeled was given without X_unlabeled"),
            ((A, None), {"X_unlabeled": U}, "X was given without y"),
            ((None, None), {"X_unlabeled": U, "groups": UG}, "groups was given without X and y"),
            ((A, B), {"X_unlabeled": U, "groups": C}, "groups and groups_unlabeled: give both or neither"),
            ((U, None), {"groups": UG, "clusters": np.arange(900)}, "clusters and X_unlabeled"),
            ((U, None), {"groups": UG, "max_error": 0.3}, "X_unlabeled: errors need labels"),
        ],
    )
    def test_bad_arguments_are_named(self, rows, given, said):
        with pytest.raises(ValueError, match=said):
            tb.calibrate(tuned([SELECTED <= 0.4]), *rows, **given)

    def test_a_rule_is_not_selected_without_labels(self):
        with pytest.raises(ValueError, match="y_cal is needed: no rule of this Scores was selected"):
            tb.calibrate(tb.Scores(0, 1), U, None, limits=["selected(1) <= .3"])

    def test_a_model_without_classes_needs_labels(self):
        class Bare:
            def predict(self, X):
                return (np.asarray(X)[:, 0] > 0.5).astype(int)

        with pytest.raises(ValueError, match="y is needed: the model has no classes_"):
            tb.certify(Bare(), U, None, rates=[rates.selected(1)])

    def test_an_array_of_answers_has_no_rows_without_labels(self):
        with pytest.raises(ValueError, match="X_unlabeled: model is an array"):
            tb.certify(np.zeros(5), None, None, rates=[rates.selected(1)], X_unlabeled=U)
