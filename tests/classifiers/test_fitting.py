"""The fits of the models behind a mixture, and the kept models."""

import numpy as np
import pytest
from conftest import errors_of, noisy, refused
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from tailboost import AdaBoostClassifier, RobustMixtureClassifier, load_model, save_model, tune
from tailboost.classifiers.estimators import default_estimators
from tailboost.classifiers.fitting import LOG_STEP, Fits, fit_models, scored
from tailboost.classifiers.splitting import Split
from tailboost.exceptions import FitInterruptedWarning
from tailboost.learners import HistBoostClassifier
from tailboost.learners.table import TableForest, TableReader
from tailboost.rows import NO_HASHES, Rows
from tailboost.selection.outputs import averaging


def rows_of(X, y):
    n = len(y)
    return Rows(y, np.ones(n), np.zeros((n, 0), int), "rows", n_given=n, X=X, classes=np.unique(y))


def judged_by(estimators, rows, cv=5):
    """Return the models with the selection data that judge them, by folds or held-out rows."""
    split, unfitted = Split.of(rows, cv, 0), Fits(dict(estimators), {}, NO_HASHES)
    fits = fit_models(unfitted, rows, split, class_weight=None, seed=0, n_jobs=None, verbose=False)
    return averaging(scored(split, fits)[0])


def test_boosted_trees_are_judged_by_the_folds_models_and_fitted_on_all_rows():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (300, 4)).astype(float)  # every fold has all values, and so the same cuts
    y = (X[:, 0] + X[:, 1] > 5).astype(int) + (rng.random(300) < 0.2)
    rows = rows_of(X, y)
    judged = judged_by([("boosted", HistBoostClassifier(n_estimators=5))], rows)
    parts = [~fitted for fitted in Split.of(rows, 5, 0).fitted]
    alone = [HistBoostClassifier(n_estimators=5).fit(X[~held], y[~held]) for held in parts]
    for held, model in zip(parts, alone, strict=True):
        np.testing.assert_allclose(judged.logs[0][held], np.log(model.predict_proba(X[held])), atol=LOG_STEP)
    fresh = rng.integers(0, 6, (50, 4)).astype(float)
    final = HistBoostClassifier(n_estimators=5).fit(X, y).predict_proba(fresh)
    np.testing.assert_allclose(np.exp(judged.outputs(fresh).logs(0)), final, rtol=1e-5)
    np.testing.assert_allclose(judged.fitted[0].predict_proba(fresh), final, rtol=1e-5)


@pytest.mark.parametrize("cv", [5, 0.3])
def test_a_forest_does_not_know_the_rows_that_judge_it(cv):
    X = np.random.default_rng(1).normal(size=(400, 5))
    y = np.random.default_rng(2).integers(0, 2, 400)  # a model knows those of its training rows alone
    judged = judged_by([("forest", TableForest(30))], rows_of(X, y), cv=cv)
    errors = judged.logs[0].argmax(axis=1) != judged.rows.y
    assert 0.35 < errors.mean() < 0.65
    kept = judged.fitted[0]
    assert np.mean(kept.predict(X) == y) > 0.9


@pytest.mark.slow
def test_the_default_models_read_one_table(monkeypatch):
    X, y = noisy(3, n=120, K=3)
    read, fit = [], TableReader.fit
    monkeypatch.setattr(TableReader, "fit", lambda new, table: read.append(len(table)) or fit(new, table))
    mix = RobustMixtureClassifier(random_state=0).fit(X, y)
    assert read.count(120) == 2  # the trees read one table, the linear model another form of it
    np.testing.assert_array_equal(mix.fit(X, y).predict(X), mix.set_params(n_jobs=2).fit(X, y).predict(X))


def test_a_number_beyond_float32_is_refused_and_named():
    X, y = noisy(3, n=60, K=2)
    X[7, 1] = 1e300
    for form, place in ((np.asarray, r"column \[1\]"), (csr_matrix, "sparse")):
        refused(lambda: RobustMixtureClassifier(random_state=0).fit(form(X), y), place)
    X[7, 1] = 0.0
    mix = RobustMixtureClassifier(random_state=0).fit(X, y)
    X[7, 1] = 1e300
    refused(lambda: mix.predict(X), "large")


@pytest.mark.parametrize(
    "tree", [TableForest(5), ExtraTreeClassifier(), make_pipeline(ExtraTreeClassifier())]
)
@pytest.mark.parametrize("stated", [1, 2, None])
def test_a_seed_that_a_model_states_is_its_own_and_the_mixture_seeds_others(tree, stated):
    X, y = noisy(3, n=120, K=2)
    seed = [name for name in tree.get_params() if name.endswith("random_state")]
    alone = clone(tree).set_params(**dict.fromkeys(seed, stated)).fit(X.astype(np.float32), y)
    models = [("tree", clone(alone))]
    mixes = [RobustMixtureClassifier(models, cv=2, random_state=own).fit(X, y) for own in (0, 1)]
    X = X[::-1] + X  # other rows
    first, second = (mix.estimators_[0].predict_proba(X) for mix in mixes)
    assert np.array_equal(first, second) == (stated is not None)
    assert stated is None or np.allclose(first, alone.predict_proba(X), rtol=1e-5)


def persons(n=60, times=4, seed=0):
    """Return rows of persons: nearly equal rows of each, with one random label for each person."""
    rng, who = np.random.default_rng(seed), np.repeat(np.arange(n), times)
    X = rng.normal(size=(n, 3))[who] + 1e-3 * rng.normal(size=(n * times, 3))
    return X, rng.integers(0, 2, n)[who], who


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.SmallSubgroupsWarning")
@pytest.mark.filterwarnings("ignore::tailboost.exceptions.UselessRuleWarning")
def test_rows_of_one_person_stay_together():
    X, y, who = persons()
    tree = [("tree", DecisionTreeClassifier(random_state=0))]
    options = {"random_state": 0}
    apart = RobustMixtureClassifier(tree, **options).fit(X, y)
    together = RobustMixtureClassifier(tree, **options).fit(X, y, clusters=[f"person {w}" for w in who])
    assert errors_of(apart).max() < 0.15  # models know the persons of their held-out rows
    assert 0.3 < errors_of(together).mean() < 0.7  # new persons have random labels
    rows = Rows(y, np.ones(len(y)), np.zeros((len(y), 0), int), "rows", X=X, clusters=who)
    for part in Split.of(rows, 5, 0).parts:
        assert all(len(set(part[who == w].tolist())) == 1 for w in range(60))
    held = RobustMixtureClassifier(tree, cv=0.25, **options).fit(X, y, clusters=who)
    assert "60 held-out" in held.rates_.words
    assert 0.2 < errors_of(held).mean() < 0.8


class Memory(ClassifierMixin, BaseEstimator):
    """Is sure of the first class for a row of its fit, and not at all for any other row."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.rows_ = {*X[:, 0].tolist()}
        return self

    def predict_proba(self, X):
        seen = np.isin(X[:, 0], [*self.rows_])
        return np.where(seen[:, None], [0.99, 0.01], [0.5, 0.5])


@pytest.mark.parametrize("cv", [2, 3, 5, KFold(4)])
def test_no_row_is_judged_by_a_model_of_a_fold_that_has_read_it(cv):
    X, y = noisy(5, n=90, K=2)
    logs = judged_by([("memory", Memory())], rows_of(X, y), cv=cv).logs[0]
    np.testing.assert_allclose(logs, np.log(0.5), atol=LOG_STEP)


def test_each_model_of_a_fold_reads_all_rows_but_those_that_it_judges():
    """Eleven rows of each of four classes, in five folds: models of 35 or 36 rows, then one of all rows."""
    sizes = []

    class Sized(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            sizes.append(len(y))
            return super().fit(X, y)

    X, _ = noisy(6, n=44, K=4)
    judged_by([("sized", Sized())], rows_of(X, np.arange(44) % 4), cv=5)
    *of_folds, last = sizes
    assert last == 44
    assert len(of_folds) == 5
    assert sum(44 - size for size in of_folds) == 44


def test_models_of_held_out_rows_have_not_read_them():
    X, y = noisy(7, n=100, K=2)
    judged = judged_by([("memory", Memory())], rows_of(X, y), cv=0.3)
    assert len(judged.logs[0]) == len(judged.rows.y) < 50
    np.testing.assert_allclose(judged.logs[0], np.log(0.5), atol=LOG_STEP)


def test_a_splitter_and_its_splits_say_who_is_judged_by_whom():
    X, y = noisy(4, n=120, K=2)
    weight = np.where(np.arange(120) % 10 == 3, 0.0, 1.0)  # rows without weight are not there
    splits = list(KFold(4).split(X))
    by_splits = RobustMixtureClassifier([("bayes", GaussianNB())], cv=splits).fit(X, y, sample_weight=weight)
    masks = [(np.isin(np.arange(120), a), np.isin(np.arange(120), b)) for a, b in splits]
    by_masks = RobustMixtureClassifier([("bayes", GaussianNB())], cv=masks).fit(X, y, sample_weight=weight)
    used = np.flatnonzero(weight)
    logs = np.empty((len(used), 2))
    for a, b in splits:
        a, b = np.intersect1d(a, used), np.intersect1d(b, used)
        logs[np.searchsorted(used, b)] = GaussianNB().fit(X[a], y[a]).predict_log_proba(X[b])
    for mix in (by_splits, by_masks):
        kept = mix.selection_.engine.models.logs[0]
        np.testing.assert_allclose(kept, np.maximum(logs, np.log(1e-6)), atol=LOG_STEP)
        assert not (kept % LOG_STEP).any()  # few digits make small files
        assert mix.validation_ == "splits"
    RobustMixtureClassifier([("bayes", GaussianNB())], cv=KFold(4)).fit(X[used], y[used])
    assert "(7 folds)" in RobustMixtureClassifier(cv=7).fit(X, y).rates_.words


def test_models_without_all_fits_at_ctrl_c_are_left_out(interrupted):
    X, y = noisy(6, n=120, K=2)
    bayes = GaussianNB()
    # Four fits of each: three folds and all rows.
    models = [("first", bayes), ("second", interrupted(4)), ("third", GaussianNB())]
    mix = RobustMixtureClassifier(models, cv=3, random_state=0)
    with pytest.warns(FitInterruptedWarning, match="interrupted"):
        mix.fit(X, y)
    alone = RobustMixtureClassifier([("first", bayes)], cv=3, random_state=0).fit(X, y)
    assert list(mix.named_estimators_) == ["first"]
    np.testing.assert_array_equal(mix.predict_proba(X), alone.predict_proba(X))
    frozen = [("given", FrozenEstimator(GaussianNB().fit(X[:60], y[:60]))), ("own", interrupted(1))]
    with pytest.warns(FitInterruptedWarning, match="interrupted"):
        mix = RobustMixtureClassifier(frozen, cv=3, random_state=0).fit(X[60:], y[60:])
    assert list(mix.named_estimators_) == ["given"]
    with pytest.raises(KeyboardInterrupt):
        RobustMixtureClassifier([("own", interrupted(2)), ("other", bayes)], cv=3).fit(X, y)


@pytest.mark.parametrize(("n_rare", "scheme"), [(90, "cv"), (110, 0.2)])
def test_of_many_rows_a_fifth_is_held_out_if_it_has_twenty_of_the_rarest_class(n_rare, scheme):
    rows = rows_of(np.arange(50_100.0)[:, None], (np.arange(50_100) < n_rare).astype(int))
    assert Split.of(rows, "auto", 0).scheme == scheme


def test_class_weights_are_weights_of_rows_in_the_fits():
    X, y = noisy(7, n=150, K=3)
    weight, given = np.array([1.0, 4.0, 0.5]), {"random_state": 0, "error_budget": 0.02}
    models = [("bayes", GaussianNB())]
    by_class = RobustMixtureClassifier(models, class_weight=dict(enumerate(weight)), **given).fit(X, y)
    by_row = RobustMixtureClassifier(models, **given).fit(X, y, sample_weight=weight[y])
    fits = [mix.estimators_[0].predict_proba(X) for mix in (by_class, by_row)]
    np.testing.assert_array_equal(*fits)
    with pytest.raises(ValueError, match="KNeighborsClassifier"):
        RobustMixtureClassifier([("near", KNeighborsClassifier())], class_weight="balanced").fit(X, y)


@pytest.mark.slow
def test_of_ordered_rows_the_later_ones_judge(tmp_path):
    X, y = noisy(5, n=100, K=2)
    mix = RobustMixtureClassifier(cv=TimeSeriesSplit(3), random_state=0).fit(X, y)
    save_model(mix, tmp_path / "mixture.model")
    np.testing.assert_array_equal(load_model(tmp_path / "mixture.model").predict(X), mix.predict(X))
    assert "75 of the 100" in mix.rates_.words
    alone = default_estimators(len(X), X.shape[1])["boosted"].fit(X, y)
    # Nothing is left of the folds: each knows a part of the past.
    np.testing.assert_allclose(mix.estimators_[0].predict_proba(X), alone.predict_proba(X), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
@pytest.mark.parametrize(("cv", "message"), [
    ([([0, 1], [1, 2])], "split"), ([([0, 1], [2]), ([0, 1], [2, 3])], "earlier"), ([([0, 1], [])], "split"),
    ([([0, 1], np.zeros(0, dtype=int))], "leaves"), ([([0, 99], [1])], "split"), ([([0.5], [1])], "numbers"),
    (KFold(4), "separates"), ([], "splits"), (300, "parameter"), ("cv", "parameter"), (0.001, "validation"),
])  # fmt: skip
def test_splits_that_cannot_be(cv, message):
    X, y, who = persons(10)
    with pytest.raises(ValueError, match=message):
        RobustMixtureClassifier(cv=cv).fit(X, y, clusters=np.roll(who, 1) if hasattr(cv, "split") else None)


@pytest.mark.parametrize(("given", "message"), [
    ({"clusters": [1, 2]}, "clusters"), ({"clusters": [None] * 40}, "clusters"),
    ({"clusters": [1, 2] * 20, "X_val": 1, "y_val": 1}, "X_val"), ({"clusters": [1] * 40}, "clusters"),
])  # fmt: skip
def test_persons_that_cannot_be(given, message):
    X, y, _ = persons(10)
    given = {k: {"X_val": X, "y_val": y}.get(k, v) for k, v in given.items()}
    refused(lambda: RobustMixtureClassifier().fit(X, y, **given), message)


def test_a_fitted_model_of_another_library_without_probabilities_is_refused_by_name():
    class Foreign:
        classes_ = np.array([0, 1])

        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.zeros(len(X), dtype=int)

    X, y = noisy(6, n=120, K=2)
    refused(lambda: tune(Foreign(), X, y), "predict_proba")


@pytest.mark.parametrize("weights", [[1, 2], [{0: 1}, {1: 2}], np.array([1.0, 2.0])])
@pytest.mark.parametrize("classifier", [RobustMixtureClassifier, AdaBoostClassifier])
def test_class_weights_of_a_model_in_a_list_are_named(classifier, weights):
    model = DecisionTreeClassifier(class_weight=weights)
    given = [("tree", make_pipeline(model))] if classifier is RobustMixtureClassifier else model
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    refused(lambda: classifier(given).fit(X, y), "must be a dict of weights by label, or 'balanced'")
