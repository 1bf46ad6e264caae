"""Model files by skops: what is stored, what is refused, and that files are written whole or not at all."""

import ast
import io
import json
import sys
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from conftest import refused, write_forged
from sklearn import preprocessing as pre
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest, chi2, f_classif
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb

X, Y = load_breast_cancer(return_X_y=True)
X = pre.StandardScaler().fit_transform(X)
X_FIT, X_NEW, Y_FIT, Y_NEW = X[::2], X[1::2], Y[::2], Y[1::2]
BOOSTING = [name for name in dir(tb) if name.endswith("BoostClassifier")]


def stored(model, tmp_path):
    tb.save_model(model, tmp_path / "m.model")
    return tb.load_model(tmp_path / "m.model")


@pytest.mark.parametrize("name", BOOSTING)
def test_boosting_predicts_the_same_after_a_file(name, tmp_path):
    clf, given = getattr(tb, name)(n_estimators=3), {}
    if "estimator" in clf.get_params():
        clf.set_params(estimator=DecisionTreeClassifier(max_depth=2))
    if name.startswith("Group"):
        given["groups"] = X_FIT[:, 0] > 0
    clf.fit(X_FIT, Y_FIT, **given)
    assert (stored(clf, tmp_path).predict(X_NEW) == clf.predict(X_NEW)).all()


@pytest.mark.parametrize("model", [
    make_pipeline(pre.StandardScaler(), LogisticRegression()), RandomForestClassifier(3),
    HistGradientBoostingClassifier(max_iter=3), CalibratedClassifierCV(LogisticRegression(), cv=2),
    make_pipeline(pre.StandardScaler(),
        tb.AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=3)),
], ids=lambda model: type(model).__name__)  # fmt: skip
def test_models_of_scikit_learn_are_stored(model, tmp_path):
    model.fit(X_FIT, Y_FIT)
    assert (stored(model, tmp_path).predict_proba(X_NEW) == model.predict_proba(X_NEW)).all()


@pytest.mark.parametrize("step", [
    SimpleImputer(), SimpleImputer(strategy="most_frequent", add_indicator=True), KNNImputer(),
    IterativeImputer(max_iter=2, random_state=0), make_pipeline(SimpleImputer(), pre.KBinsDiscretizer(3)),
    make_pipeline(SimpleImputer(), pre.SplineTransformer(3)), make_pipeline(SimpleImputer(), PCA(2)),
    make_pipeline(SimpleImputer(), pre.PowerTransformer()),
    make_pipeline(SimpleImputer(), pre.QuantileTransformer(n_quantiles=20)),
    make_pipeline(SimpleImputer(), pre.PolynomialFeatures(2)),
    make_pipeline(SimpleImputer(), SelectKBest(f_classif, k=2)),
    make_pipeline(SimpleImputer(), pre.MinMaxScaler(), SelectKBest(chi2, k=2)),
    make_pipeline(SimpleImputer(), pre.FunctionTransformer(np.tanh)),
], ids=lambda step: getattr(step, "steps", [[type(step).__name__]])[-1][0])  # fmt: skip
def test_a_rule_of_a_pipeline_answers_the_same_after_a_file(step, tmp_path):
    X = X_FIT[:, :4].copy()
    X[::9, 1] = np.nan
    table = pd.DataFrame(X, columns=list("abcd"))
    model = make_pipeline(step, LogisticRegression(max_iter=1000)).fit(table[:150], Y_FIT[:150])
    rule = tb.tune(model, table[150:], Y_FIT[150:], limits=["miss(1) <= 10%"])
    assert (stored(rule, tmp_path).predict(table) == rule.predict(table)).all()


@pytest.mark.parametrize("model", [LogisticRegression(), HistGradientBoostingClassifier(max_iter=3)], ids=str)
def test_a_table_of_columns_of_all_types_is_stored(model, tmp_path):
    words = np.array(["good", "bad", "worse"])[np.arange(len(X_FIT)) % 3]
    table = pd.DataFrame({"a": X_FIT[:, 0], "word": words, "text": [f"{word} day" for word in words]})
    table.loc[::9, "a"] = np.nan
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), pre.StandardScaler()), ["a"]),
        (pre.OneHotEncoder(dtype=np.float32, sparse_output=False), ["word"]), (TfidfVectorizer(), "text"),
        (pre.OrdinalEncoder(), ["word"]), (pre.TargetEncoder(cv=2), ["word"]), sparse_threshold=0,
    )  # fmt: skip
    clf = make_pipeline(columns, model).fit(table, Y_FIT)
    assert (stored(clf, tmp_path).predict_proba(table) == clf.predict_proba(table)).all()
    forest = HistGradientBoostingClassifier(max_iter=3)  # which encodes categories itself
    table = table[["a", "word"]].astype({"word": "category"})
    forest.fit(table, Y_FIT)
    assert (stored(forest, tmp_path).predict_proba(table) == forest.predict_proba(table)).all()


@pytest.mark.parametrize(("library", "name"), [("xgboost", "XGBClassifier"), ("lightgbm", "LGBMClassifier")])
def test_boosting_of_other_libraries_is_stored(library, name, tmp_path):
    model = getattr(pytest.importorskip(library), name)(n_estimators=5).fit(X_FIT, Y_FIT)
    rule = tb.tune(model, X_NEW, Y_NEW, limits=["miss(1) <= 10%"])
    assert (stored(rule, tmp_path).predict_proba(X_NEW) == rule.predict_proba(X_NEW)).all()


def certified():
    model = LogisticRegression().fit(X_FIT, Y_FIT)
    return tb.calibrate(model, X_NEW, Y_NEW, limits=["miss(1) <= 30%"], training_rows=X_FIT)


def test_a_certified_rule_keeps_certificate_ledger_and_records(tmp_path):
    rule = certified()
    loaded = stored(rule, tmp_path)
    assert str(loaded.certificate_) == str(rule.certificate_)
    keys, again = ([each.key for each in one.ledger_.attempts] for one in (rule, loaded))
    assert keys == again
    assert loaded.rule_.to_json() == rule.rule_.to_json()
    for rows, labels in ((X_NEW, Y_NEW), (X_FIT, Y_FIT)):
        with pytest.raises(tb.LeakageError):
            tb.certify(loaded, rows, labels)


def test_a_selected_rule_is_reweighted_after_a_file(tmp_path):
    mix = tb.RobustMixtureClassifier([("l", LogisticRegression())], cv=2).fit(X_FIT, Y_FIT)
    loaded = stored(mix, tmp_path)
    for changed in ({"objective": "error"}, {"error_budget": 0.01}):
        same = mix.reweight(**changed).predict(X_NEW) == loaded.reweight(**changed).predict(X_NEW)
        assert same.all()


def test_a_stored_function_is_refused_until_it_is_trusted(tmp_path):
    model = make_pipeline(pre.FunctionTransformer(tb.metrics.cvar), LogisticRegression())
    model.steps[1][1].fit(X_FIT, Y_FIT)
    name = f"{tb.metrics.cvar.__module__}.cvar"
    tb.save_model(LogisticRegression().fit(X_FIT, Y_FIT), tmp_path / "m.model")
    before = (tmp_path / "m.model").read_bytes()
    refused(lambda: tb.save_model(model, tmp_path / "m.model"), f"trusted=.*{name}", TypeError)
    assert (tmp_path / "m.model").read_bytes() == before
    tb.save_model(model, tmp_path / "m.model", trusted=[name])
    refused(lambda: tb.load_model(tmp_path / "m.model"), f"trusted=.*{name}")
    assert tb.load_model(tmp_path / "m.model", trusted=[name])[0].func is tb.metrics.cvar


def test_a_class_that_a_module_of_the_package_imports_is_refused(tmp_path):
    """A forged file names a class of Python by a module of tailboost."""
    path = tmp_path / "m.model"
    tb.save_model(LogisticRegression().fit(X_FIT, Y_FIT), path)
    with zipfile.ZipFile(path) as old:
        content = {name: old.read(name) for name in old.namelist()}
    forged = content["schema.json"].replace(b"sklearn.linear_model._logistic", b"tailboost.storage.models")
    content["schema.json"] = forged.replace(b'"LogisticRegression"', b'"BytesIO"')
    refused(lambda: tb.load_model(write_forged(path, content)), r"tailboost\.storage\.models\.BytesIO")


@pytest.mark.parametrize("shape", [(1, 1), (1, X.shape[1]), (2,)])  # threshold, coefficients, labels
def test_an_edited_file_is_refused(shape, tmp_path):
    path = tmp_path / "m.model"
    tb.save_model(certified(), path, notes={"rows of": "March", 7: ("two", np.inf)})
    assert tb.load_model(path).certificate_
    with zipfile.ZipFile(path) as old:
        content = {name: old.read(name) for name in old.namelist()}
    noted = content | {"tailboost.json": content["tailboost.json"].replace(b"March", b"May")}
    record = json.loads(content["tailboost.json"])
    del record["digest"]
    undigested = content | {"tailboost.json": json.dumps(record).encode()}
    for name in content:
        values = np.load(io.BytesIO(content[name])) if name.endswith(".npy") else None
        if np.shape(values) == shape:
            edited = io.BytesIO()
            np.save(edited, np.full(shape, 0.9) if shape == (1, 1) else -1 * values[..., ::-1])
            content[name] = edited.getvalue()
    changed = "changed after it was written"
    for parts in (content, noted, undigested):
        with zipfile.ZipFile(path, "w") as new:
            for part in parts.items():
                new.writestr(*part)
        refused(lambda: tb.load_model(path), changed)
    if shape == (1, 1):  # the digest of the rule covers its threshold
        refused(lambda: tb.load_model(write_forged(path, content)).certificate_, "another rule")
    for of, cure in ((8, "upgrade tailboost"), (6, "fit the model again")):
        refused(lambda: tb.load_model(write_forged(path, content, format=of)), f"format {of}.*{cure}")


def test_what_cannot_be_stored_writes_nothing(tmp_path):
    clf = LogisticRegression().fit(X_FIT, Y_FIT)
    unsaved = ((LogisticRegression(), NotFittedError), (5, TypeError), (certified().rule_, TypeError))
    for model, error in unsaved:
        with pytest.raises(error):
            tb.save_model(model, tmp_path / "m.model")
    with pytest.raises(NotFittedError):
        tb.save_rule(tb.RobustMixtureClassifier(), tmp_path / "r.json")
    for twice in ({1: 2, "1": 3}, {"a": [{None: 1, "null": 2}]}, {True: 0, "true": 0}):
        refused(lambda: tb.save_model(clf, tmp_path / "m.model", notes=twice), "one name", TypeError)
    refused(lambda: tb.save_model(clf, tmp_path / "m.model", notes={"a": object()}), "JSON", TypeError)
    assert not list(tmp_path.iterdir())
    refused(lambda: tb.save_model(clf, tmp_path / "nowhere" / "m.model"), "folder", OSError)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.model"
    tb.save_model(LogisticRegression().fit(X_FIT, Y_FIT), path)
    before = path.read_bytes()

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    refused(lambda: tb.save_model(LogisticRegression().fit(X_NEW, Y_NEW), path), "space", OSError)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_other_and_damaged_files_are_refused_by_name(tmp_path):
    path = tmp_path / "m.model"
    refused(lambda: tb.load_model(path), r"m\.model", FileNotFoundError)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tailboost.json", "{}")
    for content in (path.read_bytes(), b"", b"{}", b"PK"):
        path.write_bytes(content)
        refused(lambda: tb.load_model(path), r"m\.model")
    tb.save_model(certified(), path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(30):
        damaged = bytearray(whole)
        damaged[rng.integers(len(damaged))] ^= 255
        path.write_bytes(damaged)
        try:
            answers = tb.load_model(path).predict(X_NEW)
        except (ValueError, tb.exceptions.ModelVersionWarning):
            continue
        assert len(answers) == len(X_NEW)


@pytest.mark.parametrize(("saved_with", "is_named"), [
    # The same version, with or without the part for GPUs.
    ({"xgboost": "3.0"}, False), ({"xgboost-cpu": "3.0"}, False), ({"scikit-learn": "0.1"}, True),
    ({"xgboost": "0.1"}, True), ({"xgboost-cpu": "0.1"}, True), ({"lightgbm": "0.1"}, True),
    ({"pandas": "0.1"}, False),
])  # fmt: skip
@pytest.mark.parametrize("installed", ["xgboost", "xgboost-cpu"])
def test_another_version_of_what_predicts_is_named(saved_with, is_named, installed, tmp_path, monkeypatch):
    path, other = tmp_path / "m.model", tmp_path / "o.model"
    tb.save_model(LogisticRegression().fit(X_FIT, Y_FIT), path)
    with zipfile.ZipFile(path) as old:
        write_forged(other, {name: old.read(name) for name in old.namelist()}, versions=saved_with)
    monkeypatch.setattr("tailboost.storage.models.versions", lambda: {installed: "3.0", "lightgbm": "4.0"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tb.load_model(other)
    assert [next(iter(saved_with)) in str(each.message) for each in caught] == [True] * is_named


def test_a_refusal_names_all_types_however_many(tmp_path):
    kinds = [type(f"Step{'x' * 90}{i}", (pre.StandardScaler,), {"__module__": __name__}) for i in range(8)]
    vars(sys.modules[__name__]).update({kind.__name__: kind for kind in kinds})
    model = make_pipeline(*(kind() for kind in kinds), LogisticRegression()).fit(X_FIT, Y_FIT)
    names = [f"{__name__}.{kind.__name__}" for kind in kinds]
    tb.save_model(model, tmp_path / "m.model", trusted=names)
    with pytest.raises(ValueError, match="trusted=") as refused:
        tb.load_model(tmp_path / "m.model")
    named = ast.literal_eval(str(refused.value).partition("trusted=")[2])
    assert (tb.load_model(tmp_path / "m.model", trusted=named).predict(X_NEW) == model.predict(X_NEW)).all()
