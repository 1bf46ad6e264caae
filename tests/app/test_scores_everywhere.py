"""Scores and models in other forms with every function: selection, certificates, monitors, files, cards."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("jinja2")

from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.app.registry import Method
from tailboost.rows.judged import judged

LIMITS = [rates.miss("toxic", by="lang") <= 0.3, rates.deferred() <= 0.1]
COLUMNS = ["p", "q", "percent", "logit", "grade"]


def rows(n, seed):
    rng = np.random.default_rng(seed)
    lang, toxic = rng.choice(["de", "en"], n), rng.random(n) < 0.3
    z = 3 * toxic - 1.5 + rng.normal(size=n) - 0.3 * (lang == "de")
    p = 1 / (1 + np.exp(-z))
    table = pd.DataFrame(
        {"p": p, "q": 1 - p, "percent": 100 * p, "logit": z, "grade": np.clip(np.round(3 + z), 1, 5)}
    )
    return table, np.where(toxic, "toxic", "ok"), pd.DataFrame({"lang": lang})


SELECT, FRESH, LATER = rows(1500, 0), rows(3000, 1), rows(1500, 2)


def function(X):
    return X["p"]


class Other:
    """An object with labels, and a data frame as result."""

    class_labels = ("ok", "toxic")

    def predict_proba(self, X):
        return pd.DataFrame({"toxic": X["p"], "ok": 1 - X["p"]})


TRAINED = LogisticRegression().fit(*rows(500, 9)[:2])
MODELS = {
    "scikit-learn": TRAINED,
    "function": function,
    "object": Other(),
    "probability": tb.Scores("p", "toxic"),
    "two columns": tb.Scores(["p", "q"], ["toxic", "ok"]),
    "percent": tb.Scores("percent", "toxic", kind="percent"),
    "logit": tb.Scores("logit", "toxic", kind="logit"),
    "grade": tb.Scores("grade", "toxic", kind="number"),
}
SAVED = [name for name in MODELS if name not in ("function", "object")]


@pytest.fixture(scope="module", params=[False, True], ids=["group-blind", "by group"])
def tuned(request):
    X, y, groups = SELECT
    return {
        name: tb.tune(model, X[COLUMNS], y, groups=groups, limits=LIMITS, by_group=request.param)
        for name, model in MODELS.items()
    }


def answers(clf, X, groups):
    given = {"groups": groups} if clf.by_group else {}
    return clf.predict(X, deferred="human review", **given).tolist()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow
def test_every_function_takes_the_model(name, tuned, tmp_path):
    X, y, groups = FRESH
    clf = tuned[name]
    certificate = tb.certify(clf, X, y, groups=groups)
    expected, toxic = np.array(answers(clf, X, groups)), y == "toxic"
    for bound in certificate.bounds:
        if bound.subgroup in ("de", "en"):
            here = toxic & (groups["lang"] == bound.subgroup).to_numpy()
            assert bound.estimate == pytest.approx(np.mean(expected[here] == "ok"))
    calibrated = tb.calibrate(clf, X, y, limits=LIMITS[0], groups=groups)
    assert calibrated.certificate_.certified
    with pytest.raises(ValueError, match="rows"):  # the same rows give no second attempt
        tb.calibrate(clf, X, y, limits=rates.miss("toxic", by="lang") <= 0.31, groups=groups)
    with pytest.raises(tb.LeakageError, match="certificate"):
        tb.Monitor.of(certificate).add(clf, X, y, groups=groups, equal_rows="natural")
    first, y_first, groups_first = rows(1500, 3)
    monitor = tb.Monitor.of(certificate)
    monitor = monitor.add(clf, first, y_first, groups=groups_first, equal_rows="natural")
    later, y_later, groups_later = LATER
    monitor = monitor.add(clf, later, y_later, groups=groups_later, equal_rows="natural")
    assert len(monitor.batches) == 2
    if name in SAVED:
        path = tmp_path / "rule.model"
        tb.save_model(clf, path)
        again = tb.load_model(path)
        assert answers(again, later, groups_later) == answers(clf, later, groups_later)
        assert answers(again, later[5:6], groups_later[5:6]) == answers(clf, later, groups_later)[5:6]
        assert str(again.rule_) == str(clf.rule_)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_card_of_every_model(name, tuned):
    X, y, groups = FRESH
    assert "toxic" in tb.ModelCard.of(tuned[name], X, y, groups=groups).to_markdown()


def test_functions_are_not_saved(tuned, tmp_path):
    with pytest.raises((TypeError, ValueError), match="function"):
        tb.save_model(tuned["function"], tmp_path / "rule.model")


@pytest.mark.parametrize("name", ["probability", "percent", "logit", "grade", "two columns"])
@pytest.mark.slow
def test_equal_scores_are_different_rows_in_every_function(name, tuned):
    """A grade takes five values: all fresh rows equal earlier rows."""
    clf = tuned[name]
    assert judged(clf).reads_scores
    X, y, groups = FRESH
    certificate = tb.certify(clf, X, y, groups=groups)
    monitor = tb.Monitor.of(certificate).add(clf, *LATER[:2], groups=LATER[2])
    monitor = monitor.add(clf, *rows(1000, 3)[:2], groups=rows(1000, 3)[2])
    assert sum(batch.labelled for batch in monitor.batches) == 2500
    first = tb.calibrate(clf, X, y, limits=LIMITS[0], groups=groups)
    second = tb.calibrate(clf, *LATER[:2], limits=rates.miss("toxic") <= 0.4, groups=LATER[2], previous=first)
    assert second.certificate_.certified


def test_late_labels_of_equal_grades_are_counted_once(tuned):
    X, y, groups = LATER
    clf = tuned["grade"]
    late = np.where(np.arange(len(y)) % 2 == 0, None, y)
    monitor = tb.Monitor.against(clf, limits=[rates.miss("toxic") <= 0.9])
    monitor = monitor.add(clf, X, late, groups=groups, name="May").add(clf, X, y, groups=groups, name="May")
    assert [batch.labelled for batch in monitor.batches] == [len(y) // 2, len(y) // 2]


def test_scores_are_compared_with_trained_methods():
    X, y, _ = SELECT
    method = Method(
        "scores", "Scores", "a column", lambda: tb.RobustMixtureClassifier([("p", tb.Scores(0, "toxic"))])
    )
    results = tb.compare(X.to_numpy(), y, methods=["adaboost", method], repeats=2, random_state=0)
    trained, given = results.document["methods"]
    assert not given["failures"]
    assert given["figures"]["error"]["mean"] < trained["figures"]["error"]["mean"] + 0.05


def test_dask_counts_where_the_rows_lie(tuned):
    dd = pytest.importorskip("dask.dataframe")
    X, y, groups = FRESH
    clf = tuned["probability"]
    whole = tb.certify(clf, X, y, groups=groups)
    table = dd.from_pandas(X.assign(y=y, lang=groups["lang"].to_numpy()), npartitions=3)
    parts = tb.dask.certify(clf, table[COLUMNS], table["y"], groups=table[["lang"]])
    assert [b.upper for b in parts.bounds] == [b.upper for b in whole.bounds]
