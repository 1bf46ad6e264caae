"""scikit-learn's tests of AdaBoostClassifier, run on our additive classifiers.

The functions of ``sklearn.ensemble.tests.test_weight_boosting`` are called as they are, with one of our
classes in place of theirs. A test without a learner gets their default, a stump.
"""

from functools import partial

import numpy as np
import pytest
import sklearn
from sklearn.tree import DecisionTreeClassifier

from tailboost import AdaBoostClassifier, DROBoostClassifier, VadaBoostClassifier

theirs = pytest.importorskip("sklearn.ensemble.tests.test_weight_boosting")
pytestmark = pytest.mark.slow

OURS = [AdaBoostClassifier, VadaBoostClassifier, DROBoostClassifier]

PASSED = (
    "test_classification_toy", "test_iris", "test_gridsearch", "test_pickle",
    "test_adaboost_consistent_predict", "test_adaboost_classifier_sample_weight_error",
    "test_adaboost_negative_weight_error",
)  # fmt: skip

#: The others, and the reason.
LEFT_OUT = {
    "test_staged_predict": "stages have labels, and no probabilities",
    "test_importances": "there are no importances of features",
    "test_adaboost_numerically_stable_feature_importance_with_small_weights": "as above",
    "test_sparse_classification": "there is no predict_log_proba",
    "test_sample_weights_infinite": "there is no learning_rate, and weights are kept as logarithms",
    "test_oneclass_adaboost_proba": "labels of one class are refused: there is no error to boost on",
    "test_estimator": "labels that mix text and numbers are refused",
    "test_multidimensional_X": "rows of more dimensions go to learners whose tags say that they take them",
    "test_adaboostclassifier_without_sample_weight": "such a learner is fitted on rows drawn by weight",
    "test_adaboost_decision_function": "scores are Σ a_t z_t, and not divided by Σ a_t",
}

REGRESSION = {"test_regression_toy", "test_diabetes"}  # and names with "regress"


@pytest.fixture(params=OURS, ids=lambda cls: cls.__name__)
def ours(request, monkeypatch):
    """Replace their class by ours in their module."""
    stump = DecisionTreeClassifier(max_depth=1)
    make = partial(lambda cls, estimator=stump, **params: cls(estimator, **params), request.param)
    monkeypatch.setattr(theirs, "AdaBoostClassifier", make)
    # Their list mixes text and numbers, which we refuse. As an array, its labels are text.
    monkeypatch.setattr(theirs, "y_class", np.asarray(theirs.y_class))
    return make


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PASSED)
def test_passed(name, ours):
    given = {}
    if name == "test_adaboost_negative_weight_error":  # their list holds an instance of their class
        given = {"model": ours(), "X": theirs.iris.data, "y": theirs.iris.target}
    getattr(theirs, name)(**given)


def test_the_table_names_all_of_them():
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9):
        pytest.skip("the table is that of scikit-learn 1.9")
    found = {name for name in vars(theirs) if name.startswith("test_") and "regress" not in name} - REGRESSION
    assert found == {*PASSED, *LEFT_OUT}
