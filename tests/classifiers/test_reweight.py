"""`reweight`: selection data, warnings about training rows, intervals for fresh rows."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import errors_of
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import RFE
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost.rates.metrics import cvar, group_errors
from tailboost.rows.rows import Rows
from tailboost.selection.problem import CVaR
from tailboost.solvers import minimize_cvar_mixture

TREE = DecisionTreeClassifier(max_depth=2, random_state=0)


def unequal(n, seed):
    """Three groups, the third of which is hard."""
    r = np.random.default_rng(seed)
    g = r.integers(0, 3, n)
    X = np.c_[r.normal(size=(n, 5)), g]
    p = 1 / (1 + np.exp(-(X[:, 0] * 1.5 * (1 - g) + X[:, 1] - 0.3 * g)))
    return X, (r.random(n) < p).astype(int), np.array(["a", "b", "c"])[g]


X, Y, G = unequal(600, 0)
FRESH, LABELS, GROUPS = unequal(3000, 1)


def fit(**given):
    settings = {"estimator": TREE, "n_estimators": 4, "random_state": 0} | given
    return tb.AdaLPBoostClassifier(**settings)


def worst(clf, X, y, groups):
    return max(group_errors(y, clf.predict_distribution(X), groups).values())


# -- training rows --------------------------------------------------------------------------------------


def test_a_warning_where_rows_were_fitted_on():
    forest = RandomForestClassifier(8, random_state=0)
    clf = fit(estimator=forest).fit(X, Y)
    with pytest.warns(tb.ResubstitutionWarning, match="reweight") as told:
        fair = clf.reweight(X, Y, objective="worst_group", groups=G)
    assert told[0].filename == __file__
    assert fair.summary_.achieved < 0.05 < 0.2 < worst(fair, FRESH, LABELS, GROUPS)  # reason of the warning
    assert fair.summary_.upper is None
    half = np.r_[X[:100], FRESH[:100]], np.r_[Y[:100], LABELS[:100]]
    with pytest.warns(tb.ResubstitutionWarning, match="50%"):
        clf.reweight(*half, alpha=0.3)


@pytest.mark.filterwarnings("error")
def test_no_warning_for_fresh_rows_and_for_losses_kept():
    clf = fit().fit(X, Y)
    clf.reweight(FRESH, LABELS, objective="worst_class")
    clf.reweight(alpha=0.2)
    clf.reweight(objective="worst_group", groups=G)


def test_rows_of_a_coarse_table_equal_others_by_chance():
    """Copies cannot be distinguished from natural repeats; the message states this."""
    r = np.random.default_rng(0)
    table, labels = r.integers(0, 2, (2000, 6)), r.integers(0, 2, 2000)
    clf = fit().fit(table[:1000], labels[:1000])
    assert clf.seen_share(table[1000:]) == 1.0
    with pytest.warns(tb.ResubstitutionWarning, match="features"):
        clf.reweight(table[1000:], labels[1000:], objective="worst_class")


def test_seen_share():
    clf = fit().fit(X[:400], Y[:400], sample_weight=np.r_[np.zeros(100), np.ones(300)])
    assert clf.seen_share(X[100:400]) == 1.0
    assert clf.seen_share(X[:100]) == 0.0  # weight 0: not fitted on
    assert clf.seen_share(X[300:500]) == 0.5
    assert clf.seen_share(X[300:500][::-1]) == 0.5
    assert pickle.loads(pickle.dumps(clf)).seen_share(X[300:500]) == 0.5
    with pytest.raises(ValueError, match="features"):
        clf.seen_share(X[:, :2])
    frame = pd.DataFrame({"colour": ["red", "green"] * 50, "size": np.arange(100) // 2})
    clf = tb.AdaLPBoostClassifier(n_estimators=1).fit(frame[:50], np.arange(50) % 2)
    assert clf.seen_share(frame) == 0.5
    assert tb.AdaBoostClassifier(n_estimators=2).fit(X[:400], Y[:400]).seen_share(X) == pytest.approx(2 / 3)


def test_fingerprints_are_in_model_files(tmp_path):
    clf = fit().fit(X, Y)
    tb.save_model(clf, tmp_path / "m.model")
    again = tb.load_model(tmp_path / "m.model")
    assert again.seen_share(np.r_[X, FRESH[:600]]) == 0.5
    assert again.summary_.upper == clf.summary_.upper
    with pytest.warns(tb.ResubstitutionWarning):
        again.reweight(X, Y, alpha=0.3)


# -- groups for the losses kept ----------------------------------------------------------------------------


def check_best(clf, wrong, groups):
    """λ minimises the largest group error, and this error is reported.

    ``wrong`` has the losses, shape (candidates, rows), all different.
    """
    names = np.unique(groups)
    errors = np.array([[w[groups == g].mean() for g in names] for w in wrong])
    value = minimize_cvar_mixture(errors, 1 / len(names)).value
    # `select` gives 1e-3 of the largest error for 1 of the overall error.
    assert value - 1e-9 <= (clf.estimator_weights_ @ errors).max() <= value + 1e-3
    assert clf.summary_.achieved == pytest.approx((clf.estimator_weights_ @ errors).max(), abs=1e-9)


def test_groups_of_the_training_rows_meet_their_out_of_fold_losses():
    weight = np.r_[np.zeros(50), np.ones(550)]
    clf = fit().fit(X, Y, sample_weight=weight)
    fair = clf.reweight(objective="worst_group", groups=G)
    wrong = clf.selection_.pool.losses.toarray()  # of the rows of positive weight, in order
    check_best(fair, wrong, G[50:])
    np.testing.assert_array_equal(fair.groups_, ["a", "b", "c"])
    by_class = fair.reweight(objective="worst_group", groups=np.r_[Y[:300], 2 + Y[300:]])
    check_best(by_class, wrong, np.r_[Y[50:300], 2 + Y[300:]])
    # The groups kept first are as they were.
    again = fair.reweight(objective="worst_group", groups=G)
    np.testing.assert_array_equal(again.estimator_weights_, fair.estimator_weights_)
    assert fair.summary_.achieved == pytest.approx(worst(fair, FRESH, LABELS, GROUPS), abs=0.1)


def test_groups_for_a_held_out_part_and_for_a_validation_set():
    weight = np.r_[np.zeros(50), np.ones(550)]
    # Groups from which the classes of the judged rows can be read.
    clf = fit(cv=0.25).fit(X, Y, sample_weight=weight)
    rows = clf.selection_.pool.rows
    fair = clf.reweight(objective="worst_group", groups=Y + 2 * (np.arange(600) >= 300))
    np.testing.assert_array_equal(fair.selection_.pool.rows.groups % 2, rows.y)
    clf = fit().fit(X, Y, X_val=FRESH[:400], y_val=LABELS[:400])
    fair = clf.reweight(objective="worst_group", groups=GROUPS[:400])
    wrong = np.array([m.predict(FRESH[:400]) != LABELS[:400] for m in clf.estimators_])
    check_best(fair, wrong, GROUPS[:400])
    with pytest.raises(ValueError, match="table"):
        clf.reweight(objective="worst_group", groups=G)
    # The stored losses belong to the last rows of reweight.
    other = clf.reweight(FRESH[400:700], LABELS[400:700], alpha=0.5)
    assert other.reweight(objective="worst_group", groups=GROUPS[400:700]).groups_.tolist() == ["a", "b", "c"]


def test_groups_for_a_vote_and_for_the_worst_class():
    clf = tb.OCOBoostClassifier(TREE, n_estimators=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.BoundNotMetWarning)
        clf.fit(X, Y)
    with pytest.warns(tb.ResubstitutionWarning, match="smaller"):  # there are no other losses
        fair = clf.reweight(objective="worst_group", groups=G)
    np.testing.assert_array_equal(fair.groups_, ["a", "b", "c"])
    worst_class = tb.WorstClassBoostClassifier(TREE, n_estimators=3, random_state=0).fit(X, Y)
    fair = worst_class.reweight(objective="worst_group", groups=G)
    assert list(fair.subgroup_errors_) == ["a", "b", "c"]
    rows = fair.selection_.pool.rows
    wrong = fair.selection_.pool.shares(fair.ensemble_).argmax(axis=1) != rows.y
    np.testing.assert_allclose(errors_of(fair), [wrong[rows.groups == g].mean() for g in range(3)])


def test_groups_for_training_losses_and_groups_without_a_row():
    clf = fit(cv="train").fit(X, Y)
    with pytest.warns(tb.ResubstitutionWarning, match="another"):
        clf.reweight(objective="worst_group", groups=G)
    clf = fit(cv=0.2).fit(X, Y)
    held = clf.selection_.pool.rows.used
    rare = np.full(600, "usual")
    rare[np.setdiff1d(np.arange(600), held)[0]] = "rare"
    with pytest.raises(ValueError, match="group"):
        clf.reweight(objective="worst_group", groups=rare)


# -- the upper end for new rows ------------------------------------------------------------------------------


def test_the_upper_end_of_a_cvar_is_above_that_of_new_rows():
    """By Monte Carlo about the losses of one rule: the bound q + E max(ℓ − q, 0)/α holds in 97.5 %."""
    rng, alpha, below = np.random.default_rng(0), 0.2, 0
    shape = (0.5, 2.0)
    truth = cvar(rng.beta(*shape, size=400_000), alpha)
    for _ in range(400):
        rows = Rows(np.zeros(300, int), np.ones(300), None, "rows")
        below += CVaR(alpha).highest(rows, rng.beta(*shape, size=300)) < truth
    assert below <= 400 * 0.025 + 2 * np.sqrt(400 * 0.025 * 0.975)


def test_the_upper_end_is_about_the_rule_that_is_returned():
    clf = fit(alpha=0.4).fit(X, Y)
    said = clf.summary_
    assert said.achieved < said.upper <= 1
    assert "estimate" not in said.to_dict()
    # Not by the order of the rows.
    order = np.random.default_rng(0).permutation(600)
    assert fit(alpha=0.4).fit(X[order], Y[order]).summary_.upper == pytest.approx(said.upper, abs=1e-6)
    worst_group = clf.reweight(objective="worst_group", groups=G)
    assert worst_group.summary_.upper > worst_group.summary_.achieved


def test_no_upper_end_for_rows_that_were_fitted_on():
    assert fit(cv="train").fit(X, Y).summary_.upper is None
    tiny = fit().fit(np.arange(4.0)[:, None], [0, 1, 0, 1])
    assert 0 <= tiny.summary_.upper <= 1


# -- features of scikit-learn's AdaBoost -------------------------------------------------------------------

FACES = {
    "mixture": fit(alpha=0.95),
    "additive": tb.AdaBoostClassifier(TREE, n_estimators=4, random_state=0),
}


@pytest.mark.parametrize("clf", FACES.values(), ids=FACES)
def test_log_probabilities(clf):
    clf.fit(X, Y)
    P = clf.predict_proba(FRESH)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(FRESH)), P, atol=1e-12)
    assert np.isneginf(clf.predict_log_proba(FRESH)[P == 0]).all()


@pytest.mark.parametrize("clf", FACES.values(), ids=FACES)
def test_importances_are_the_weighted_mean_of_the_members(clf):
    clf.fit(X, Y)
    total = sum(
        a * member.feature_importances_
        for a, member in zip(clf.estimator_weights_, clf.estimators_, strict=True)
        if not isinstance(member, DummyClassifier)
    )
    np.testing.assert_allclose(clf.feature_importances_, total / total.sum())
    chosen = RFE(clf, n_features_to_select=2).fit(X, Y)
    assert chosen.support_.sum() == 2


@pytest.mark.parametrize(
    "learner",
    [
        tb.learners.HistTreeClassifier(max_depth=3),
        tb.learners.HistBoostClassifier(n_estimators=5),
        tb.learners.StumpClassifier(),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_our_learners_know_which_column_matters(learner):
    r = np.random.default_rng(0)
    table = r.normal(size=(300, 4))
    clf = fit(estimator=learner, n_estimators=2).fit(table, (table[:, 2] > 0).astype(int))
    assert clf.feature_importances_.argmax() == 2
    assert clf.feature_importances_.sum() == pytest.approx(1)


def test_no_importances_where_members_have_none():
    clf = fit(estimator=LogisticRegression()).fit(X, Y)
    assert not hasattr(clf, "feature_importances_")
    with pytest.raises(AttributeError, match=r"LogisticRegression.*feature_importances_"):
        _ = clf.feature_importances_
    assert not hasattr(fit(), "feature_importances_")


class Foreign:
    """A table of another library with a conversion to pandas, as in polars and pyarrow."""

    def __init__(self, frame):
        self.frame = frame

    def to_pandas(self):
        return self.frame


@pytest.mark.parametrize("make", ["polars", "stand-in"])
def test_tables_with_text_from_other_libraries(make):
    frame = pd.DataFrame({"size": X[:, 0], "name": G})
    if make == "polars":
        pytest.importorskip("pyarrow")  # by which polars makes pandas' tables
        table = pytest.importorskip("polars").DataFrame(frame.to_dict("list"))
    else:
        table = Foreign(frame)
    clf, same = (tb.AdaLPBoostClassifier(n_estimators=2, random_state=0).fit(t, Y) for t in (table, frame))
    np.testing.assert_array_equal(clf.predict_distribution(table), same.predict_distribution(frame))
    assert clf.feature_names_in_.tolist() == ["size", "name"]
    assert clf.seen_share(table) == 1.0


class TestClassesAsGroups:
    """Group DRO without groups plays over the classes, and says and remembers so."""

    @pytest.fixture(scope="class")
    def clf(self):
        return tb.GroupDROBoostClassifier(TREE, n_estimators=3, random_state=0).fit(X, Y)

    def test_fresh_rows_need_no_groups(self, clf):
        own = clf.reweight(FRESH, LABELS)
        named = clf.reweight(FRESH, LABELS, objective="worst_class")
        np.testing.assert_allclose(own.estimator_weights_, named.estimator_weights_, atol=1e-9)

    def test_other_groups_need_their_objective(self, clf):
        with pytest.raises(ValueError, match="objective='worst_group'"):
            clf.reweight(FRESH, LABELS, groups=1 - LABELS)

    def test_the_objective_of_a_reweighted_one_is_kept(self, clf):
        again = clf.reweight(alpha=0.5).reweight(FRESH, LABELS)
        assert "CVaR at α = 0.5" in again.summary_.details
        clf.reweight(objective="worst_group", groups=G).reweight(FRESH, LABELS, groups=GROUPS)
