"""Models of other versions: unchanged answers, or an error with both versions."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pytest

from tailboost.app.registry import METHODS
from tailboost.learners import HistTreeClassifier

xgboost = pytest.importorskip("xgboost")
import test_models as stored

from tailboost.storage.models import ModelVersionWarning, load_model, save_model

pytestmark = pytest.mark.fuzz
PART = "versions"
X, Y = stored.X, stored.Y
OTHER = "0.0.1"


def fitted(method, **params):
    clf = method.make(random_state=0, n_jobs=1)
    few = {"n_estimators": 3, "estimator": HistTreeClassifier(max_depth=2)} | params
    clf.set_params(**{k: v for k, v in few.items() if k in clf.get_params()})
    return clf.fit(X, Y == "yes" if method.name == "xgboost" else Y)


def says_both(message, library, here):
    return f"{library} {OTHER} (here {here})" in message


def refusal(path):
    with pytest.raises(ValueError, match=re.escape(path.name)) as caught:
        load_model(path)
    return str(caught.value)


@pytest.mark.parametrize("name", METHODS)
def test_models(name, tally, tmp_path, monkeypatch):
    method, path = METHODS[name], tmp_path / "m.model"
    model = fitted(method)
    save_model(model, path)
    content, expected = path.read_bytes(), model.predict(X)
    record = json.loads(stored.parts(content)["tailboost.json"])
    answers = record["answers"]
    for library, here in record["versions"].items():
        versions = record["versions"] | {library: OTHER}
        path.write_bytes(stored.with_record(content, versions=versions))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            again = load_model(path)
        said = [str(w.message) for w in caught if w.category is ModelVersionWarning]
        warned = [says_both(message, library, here) for message in said] == ([] if answers else [True])
        alike = np.array_equal(again.predict(X), expected)
        tally.equal() if warned and alike else tally.violation((name, library, said))
        if not answers:  # of learners and baselines: nothing to compare, hence the warning
            continue
        turned = answers | {"labels": [1 - k for k in answers["labels"]]}
        path.write_bytes(stored.with_record(content, versions=versions, answers=turned))
        message = refusal(path)
        tally.refused() if says_both(message, library, here) else tally.violation((name, library, message))
        tally.equal() if np.array_equal(
            load_model(path, check=False).predict(X), expected
        ) else tally.violation((name, library, "check=False"))
    if answers and "xgboost" in record["versions"]:
        path.write_bytes(stored.with_record(content, versions=record["versions"] | {"xgboost": OTHER}))
        predict = xgboost.Booster.inplace_predict
        # Like an XGBoost with another reading of the stored trees.
        monkeypatch.setattr(xgboost.Booster, "inplace_predict", lambda *a, **k: -predict(*a, **k))
        if np.array_equal(load_model(path, check=False).predict(X), expected):
            return  # one model answers, without stored trees
        message = refusal(path)
        both = says_both(message, "xgboost", xgboost.__version__)
        tally.refused() if both else tally.violation((name, "booster", message))
