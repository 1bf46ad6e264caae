"""scikit-learn's tests of AdaBoostClassifier, run on our additive classifiers.

The functions of ``sklearn.ensemble.tests.test_weight_boosting`` are called as they are, with one of our
classes in place of theirs. A test without a learner gets their default, a stump.
"""

from functools import partial

import numpy as np
import pytest
import sklearn
from sklearn.metrics import accuracy_score
from sklearn.tree import DecisionTreeClassifier

from tailboost import AdaBoostClassifier, DROBoostClassifier, VadaBoostClassifier

theirs = pytest.importorskip("sklearn.ensemble.tests.test_weight_boosting")
pytestmark = pytest.mark.slow

OURS = [AdaBoostClassifier, VadaBoostClassifier, DROBoostClassifier]

PASSED = (
    "test_classification_toy",
    "test_iris",
    "test_staged_predict",
    "test_gridsearch",
    "test_pickle",
    "test_importances",
    "test_sparse_classification",
    "test_adaboost_consistent_predict",
    "test_adaboost_numerically_stable_feature_importance_with_small_weights",
)

#: Line of their test with another result, this result, and the design choice.
CONTRADICTED = {
    "test_oneclass_adaboost_proba": (
        "AdaBoostClassifier().fit(X, y_t)",
        ValueError,
        "labels of one class are refused: there is no error to boost on",
    ),
    "test_estimator": (
        'pytest.raises(ValueError, match="worse than random")',
        AssertionError,
        "labels that mix text and numbers are refused before any hypothesis; the learners that the test "
        "tries before are taken",
    ),
    "test_adaboost_classifier_sample_weight_error": (
        "pytest.raises(ValueError, match=msg)",
        AssertionError,
        "our message has other words: it gives both shapes",
    ),
    "test_adaboost_negative_weight_error": (
        "pytest.raises(ValueError, match=err_msg)",
        AssertionError,
        "our message has other words: it gives the smallest weight and its row",
    ),
    "test_sample_weights_infinite": (
        "pytest.warns(UserWarning, match=msg)",
        pytest.fail.Exception,
        "learning_rate is in (0, 1], and weights are kept as logarithms, which do not overflow",
    ),
    "test_multidimensional_X": (
        "boost.fit(X, yc)",
        ValueError,
        "rows of more than one dimension go to learners whose tags say that they take them",
    ),
    "test_adaboostclassifier_without_sample_weight": (
        "pytest.raises(ValueError, match=err_msg)",
        pytest.fail.Exception,
        "a learner without sample_weight is fitted on rows drawn by weight, and a warning says so",
    ),
    "test_adaboost_decision_function": (
        "assert set(np.unique(y_score)) == {1, -1 / (n_classes - 1)}",
        AssertionError,
        "scores are Σ a_t z_t, whose exponential loss is minimised, not divided by Σ a_t; they sum to 0 as "
        "theirs do",
    ),
}

REGRESSION = {"test_regression_toy", "test_diabetes"}  # and names with "regress"


def staged_score(clf, X, y, sample_weight=None):
    """Yield the accuracy after each round, for which our classes have no method."""
    for answers in clf.staged_predict(X):
        yield accuracy_score(y, answers, sample_weight=sample_weight)


@pytest.fixture(params=OURS, ids=lambda cls: cls.__name__)
def ours(request, monkeypatch):
    """Replace their class by ours in their module."""
    stump = DecisionTreeClassifier(max_depth=1)
    make = partial(lambda cls, estimator=stump, **params: cls(estimator, **params), request.param)
    monkeypatch.setattr(theirs, "AdaBoostClassifier", make)
    monkeypatch.setattr(request.param, "staged_score", staged_score, raising=False)
    # Their list mixes text and numbers, which we refuse. As an array, its labels are text.
    monkeypatch.setattr(theirs, "y_class", np.asarray(theirs.y_class))
    return make


def arguments(name, ours):
    """Return the arguments of each run of a test of theirs."""
    if name == "test_adaboost_decision_function":
        return [{"global_random_seed": 0}]
    if name == "test_adaboost_negative_weight_error":  # their list holds an instance of their class
        return [{"model": ours(), "X": theirs.iris.data, "y": theirs.iris.target}]
    if name == "test_sparse_classification":
        kinds = [theirs.CSC_CONTAINERS, theirs.CSR_CONTAINERS, theirs.LIL_CONTAINERS]
        kinds += [theirs.COO_CONTAINERS, theirs.DOK_CONTAINERS]
        return [
            {"sparse_container": container, "expected_internal_type": own}
            for kind in kinds
            for container, own in zip(
                kind, kinds[0] if kind is kinds[0] else theirs.CSR_CONTAINERS, strict=True
            )
        ]
    return [{}]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PASSED)
def test_passed(name, ours):
    for given in arguments(name, ours):
        getattr(theirs, name)(**given)


@pytest.mark.parametrize("name", CONTRADICTED)
@pytest.mark.filterwarnings("ignore:.*sample_weight")
def test_contradicted(name, ours):
    """Fails if a test starts to pass, or fails at another line."""
    line, error, _ = CONTRADICTED[name]
    for given in arguments(name, ours):
        with pytest.raises(error) as failure:
            getattr(theirs, name)(**given)
        where = [str(entry.statement) for entry in failure.traceback if str(entry.path) == theirs.__file__]
        assert line in where[-1]


def test_the_table_names_all_of_them():
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9):
        pytest.skip("the table is that of scikit-learn 1.9")
    found = {name for name in vars(theirs) if name.startswith("test_") and "regress" not in name} - REGRESSION
    assert found == {*PASSED, *CONTRADICTED}
