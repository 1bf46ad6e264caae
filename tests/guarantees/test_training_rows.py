"""Training rows of other libraries' models, as the caller names them, are refused as those of our own."""

import warnings
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import refused
from scipy.sparse import coo_array, csr_array
from sklearn.datasets import make_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import tailboost as tb
from tailboost.exceptions import ResubstitutionWarning

X, y = make_classification(4000, n_informative=5, class_sep=1.2, random_state=0)
TRAIN, SELECT, FRESH = slice(0, 1000), slice(1000, 2000), slice(2000, 4000)
MODEL = LogisticRegression().fit(X[TRAIN], y[TRAIN])


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_certify_refuses_named_rows():
    assert tb.certify(MODEL, X[TRAIN], y[TRAIN]).n_rows == 1000  # without their name nothing is known
    refused(lambda: tb.certify(MODEL, X[TRAIN], y[TRAIN], training_rows=X[TRAIN]), "trained", tb.LeakageError)
    some = np.r_[0:200, 2000:3000]  # a sixth of the rows
    refused(lambda: tb.certify(MODEL, X[some], y[some], training_rows=X[TRAIN]), "these", tb.LeakageError)
    table = pytest.importorskip("pandas").DataFrame(X)
    for named in (table, table.add_prefix("x")):
        for form in (csr_array, coo_array, np.array):
            with pytest.raises(tb.LeakageError, match="these"):
                tb.certify(MODEL, named.iloc[some], y[some], training_rows=form(X[TRAIN]))
    texts = np.array([f"row {i} label{label}" for i, label in enumerate(y)])
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts[TRAIN], y[TRAIN])
    for form in (list, np.array, pytest.importorskip("pandas").Series):
        assert tb.certify(model, form(texts[FRESH]), y[FRESH], training_rows=form(texts[TRAIN])).compared
        with pytest.raises(tb.LeakageError, match="trained"):
            tb.certify(model, form(texts[TRAIN]), y[TRAIN], training_rows=texts[TRAIN])


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_a_tuned_rule_knows_them(tmp_path):
    with pytest.warns(ResubstitutionWarning, match="the"):
        reused = tb.tune(MODEL, X[TRAIN], y[TRAIN], training_rows=X[TRAIN])
    assert np.isnan(reused.rates_.lines[0].low)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResubstitutionWarning)
        clf = tb.tune(MODEL, X[SELECT], y[SELECT], training_rows=X[TRAIN])
    assert clf.rates_.lines[0].low > 0.0
    assert tb.certify(clf, X[FRESH], y[FRESH]).compared
    tb.save_model(clf, tmp_path / "m.model")
    for known in (clf, tb.load_model(tmp_path / "m.model")):
        refused(lambda: tb.certify(known, X[TRAIN], y[TRAIN]), "trained", tb.LeakageError)
        refused(lambda: tb.certify(known, X[SELECT], y[SELECT]), "selected", tb.LeakageError)
        assert "training_rows= names" not in " ".join(tb.certify(known, X[FRESH], y[FRESH]).notes)
    without = tb.tune(MODEL, X[SELECT], y[SELECT])
    assert "training_rows= names" in " ".join(tb.certify(without, X[FRESH], y[FRESH]).notes)
    of_answers = tb.certify(MODEL.predict(X[FRESH]), None, y[FRESH])
    assert not of_answers.compared  # without features nothing can be compared, and no cure is named
    notes = of_answers.assumptions
    assert ("compared with no others" in notes, "training_rows=" in notes) == (True, False)
    named = tb.certify(without, X[FRESH], y[FRESH], training_rows=X[TRAIN])
    assert "training_rows= names" not in " ".join(named.notes)


def test_calibrate_refuses_them_before_the_attempt():
    limits = ["miss(1) <= .5"]
    for trained in (X[TRAIN], dict(enumerate(X[TRAIN].T))):
        with pytest.raises(tb.LeakageError):
            tb.calibrate(MODEL, X[TRAIN], y[TRAIN], limits=limits, training_rows=trained)
    certified = tb.calibrate(MODEL, X[FRESH], y[FRESH], limits=limits, training_rows=X[TRAIN])
    assert certified.certificate_.certified
    with pytest.raises(tb.LeakageError):
        tb.certify(certified, X[TRAIN], y[TRAIN])
    tuned = tb.tune(MODEL, X[SELECT], y[SELECT], limits=limits)
    with pytest.raises(tb.LeakageError):
        tb.calibrate(tuned, X[TRAIN], y[TRAIN], training_rows=X[TRAIN])
    assert not tuned.ledger_.attempts
    assert tb.calibrate(tuned, X[FRESH], y[FRESH], training_rows=X[TRAIN]).certificate_.certified


def test_models_trained_here_know_both():
    pairs = [("line", LogisticRegression())]
    mix = tb.RobustMixtureClassifier(pairs, random_state=0)
    mix.fit(X[SELECT], y[SELECT], training_rows=X[TRAIN])
    for rows in (SELECT, TRAIN):
        refused(lambda: tb.certify(mix, X[rows], y[rows]), "these", tb.LeakageError)


def test_rows_equal_by_nature():
    rng = np.random.default_rng(0)
    grades = rng.integers(3, size=(3000, 2)).astype(float)
    labels = (rng.random(3000) < 0.3 + 0.2 * (grades[:, 0] > 1)).astype(int)
    model = LogisticRegression().fit(grades[:1000], labels[:1000])
    tb.certify(model, grades[1000:], labels[1000:], training_rows=grades[:1000])
    with pytest.raises(tb.LeakageError, match="trained"):
        tb.certify(model, grades[:1000], labels[:1000], training_rows=grades[:1000])
    natural = {"equal_rows": "natural", "training_rows": grades[:1000]}
    tb.certify(model, grades[1000:], labels[1000:], **natural)
    with pytest.raises(tb.LeakageError, match="trained"):
        tb.certify(MODEL, X[TRAIN], y[TRAIN], equal_rows="natural", training_rows=X[TRAIN])


def test_scores_of_training_rows_are_recognised_as_a_whole_and_beside_other_columns(tmp_path):
    """A part of a table of few values is as any other one."""
    pd, rng = pytest.importorskip("pandas"), np.random.default_rng(0)
    p = rng.random((2, 1500)).round(2)
    trained, selecting = (pd.DataFrame({"p": each, "x": rng.random(1500)}) for each in p)
    stated = {"training_rows": trained, "limits": ["miss(True) <= 90%"]}
    labels, scores = rng.random(1500) < selecting["p"], tb.Scores("p", True)
    for limit in ("miss(True) <= 90%", "error() <= 90%", "precision(True) >= 10%"):  # all certify, or a part
        given = stated | {"limits": [limit]}
        refused(lambda: tb.calibrate(scores, trained, labels, **given), "trained", tb.LeakageError)
    tuned = tb.tune(scores, selecting, labels, **stated)
    tb.save_rule(tuned, tmp_path / "rule.json")
    for rule in (tuned, tb.load_rule(tmp_path / "rule.json")):
        refused(lambda: tb.certify(rule, trained, labels), "trained", tb.LeakageError)


def test_sixty_of_two_million_training_rows_are_recognised():
    trained = np.random.default_rng(0).random((2_000_000, 1))
    model = SimpleNamespace(predict=lambda rows: rows[:, 0] > 0.5)
    for k in range(5):
        rows = trained[60 * k : 60 * k + 60]
        certify = partial(tb.certify, model, rows, rows[:, 0] > 0.4, training_rows=trained)
        refused(certify, "trained", tb.LeakageError)


def test_columns_must_be_those_of_x():
    pd = pytest.importorskip("pandas")
    refused(lambda: tb.certify(MODEL, X[FRESH], y[FRESH], training_rows=X[TRAIN, :3]), "training_rows")
    names = [f"x{j}" for j in range(X.shape[1])]
    table = pd.DataFrame(X, columns=names)
    model = LogisticRegression().fit(table[TRAIN], y[TRAIN])
    with pytest.raises(ValueError, match="training_rows"):
        tb.certify(model, table[FRESH], y[FRESH], training_rows=table[TRAIN].rename(columns={"x0": "other"}))
    by_place = SimpleNamespace(predict=lambda rows: MODEL.predict(np.asarray(rows)))
    shuffled = table[TRAIN][names[::-1]]
    forms = [table[TRAIN], X[TRAIN], X[TRAIN].tolist(), dict(table[TRAIN]), shuffled]
    cases = [*product([model, by_place], forms[:2], forms[:4]), (model, X[TRAIN], shuffled)]
    for read, given, named in cases:
        refused(lambda: tb.certify(read, given, y[TRAIN], training_rows=named), "trained", tb.LeakageError)
    for unread in ({"training_rows": table[TRAIN]}, {"equal_rows": "natural"}):
        refused(lambda: tb.certify(model.predict(table[FRESH]), None, y[FRESH], **unread), "answers")
