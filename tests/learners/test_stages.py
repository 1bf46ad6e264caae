"""Growth in stages: each kind of learner against a fit with the same steps, and its use in cross-fitting."""

import numpy as np
import pytest
from conftest import noisy
from sklearn.base import clone
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from tailboost.learners import HistBoostClassifier, HistTreeClassifier
from tailboost.learners.foreign import growth_parameter, open_session, set_seeds

X, Y = noisy(0, n=150, K=3)
WEIGHT = np.random.default_rng(1).integers(1, 4, 150).astype(float)
SEED = 5
NET = MLPClassifier((8,), max_iter=7, tol=0.0)


def session_of(learner):
    return open_session(learner, X, Y, np.arange(3), WEIGHT)


def stages(session, *args):
    """Yield the models of a growth; a learner that cannot grow has one stage."""
    if hasattr(session, "stages"):
        yield from session.stages(*args)
    else:
        yield session.fit(*args)


def model_after_stages(session, n, *args):
    """Return the model after at most n stages of a growth."""
    for _, model in zip(range(n), stages(session, *args), strict=False):
        last = model
    return last


def last_step(model):
    return model[-1] if hasattr(model, "steps") else model


EXACT = {
    "forest": (RandomForestClassifier(7), "n_estimators"),
    "extra trees": (ExtraTreesClassifier(7), "n_estimators"),
    "bagging": (BaggingClassifier(DecisionTreeClassifier(max_depth=2), 5), "n_estimators"),
    "gradient boosting": (GradientBoostingClassifier(n_estimators=6, max_depth=2), "n_estimators"),
    "hist gradient boosting": (HistGradientBoostingClassifier(max_iter=6, early_stopping=False), "max_iter"),
    "hist boost": (HistBoostClassifier(n_estimators=6), "n_estimators"),
}


@pytest.mark.parametrize("case", EXACT)
def test_every_stage_is_the_fit_with_as_many_steps(case):
    learner, parameter = EXACT[case]
    limit, session = learner.get_params()[parameter], session_of(learner)
    n = 0
    for n, model in enumerate(stages(session, WEIGHT, SEED), 1):
        answers = session.predict(model)
        alone = session_of(clone(learner).set_params(**{parameter: n}))
        np.testing.assert_array_equal(answers, alone.predict(alone.fit(WEIGHT, SEED)), err_msg=f"{n}")
    assert n == limit
    whole = session.fit(WEIGHT, SEED)
    np.testing.assert_array_equal(answers, session.predict(whole))


EPOCHS = {"sgd": SGDClassifier(max_iter=6, tol=None), "net": NET}


@pytest.mark.parametrize("case", EPOCHS)
def test_learners_by_epochs_see_the_rows_once_a_stage(case):
    session, limit = session_of(EPOCHS[case]), last_step(EPOCHS[case]).max_iter
    seen, first = [], None
    for model in stages(session, WEIGHT, SEED):
        step = last_step(model)
        seen.append(step.t_ if case != "sgd" else step.t_ - 1)
        first = np.array(session.predict(model)) if first is None else first
    assert seen == [150 * (k + 1) for k in range(limit)]
    assert isinstance(step.random_state, int)  # like those of a fitted model
    again = model_after_stages(session, limit, WEIGHT, SEED)
    np.testing.assert_array_equal(session.predict(again), session.predict(model))
    np.testing.assert_array_equal(session.predict(model_after_stages(session, 1, WEIGHT, SEED)), first)


def test_an_epoch_is_scikit_learns_partial_fit():
    session = session_of(SGDClassifier(max_iter=3))
    model = model_after_stages(session, 3, WEIGHT, SEED)
    reference = SGDClassifier()
    set_seeds(reference, SEED)
    reference.set_params(random_state=np.random.RandomState(reference.random_state))
    for _ in range(3):
        reference.partial_fit(X, Y, classes=[0, 1, 2], sample_weight=WEIGHT)
    np.testing.assert_array_equal(model.coef_, reference.coef_)


FIXED = [
    DecisionTreeClassifier(max_depth=3),
    LogisticRegression(),  # warm starts of a convex solver are not stages
    GaussianNB(),  # partial_fit on the same rows is not growth
    AdaBoostClassifier(n_estimators=3),
    RandomForestClassifier(3, class_weight="balanced"),
    SGDClassifier(max_iter=5, tol=None, early_stopping=True),
    MLPClassifier((4,), solver="lbfgs", max_iter=20),
    HistGradientBoostingClassifier(max_iter=3, early_stopping=True),
    make_pipeline(StandardScaler(), LogisticRegression()),
    HistTreeClassifier(max_depth=3),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learner", FIXED, ids=lambda learner: type(learner).__name__)
def test_fixed_learners_are_fitted_in_one_stage(learner):
    if not hasattr(learner, "open_session"):
        assert growth_parameter(last_step(learner)) is None
    session = session_of(learner)
    (model,) = stages(session, WEIGHT, SEED)
    np.testing.assert_array_equal(session.predict(model), session.predict(session.fit(WEIGHT, SEED)))


def test_growth_asked_for_after_few_stages_stops_there():
    session = session_of(HistBoostClassifier(n_estimators=20))
    model = model_after_stages(session, 4, WEIGHT, SEED)
    assert model.booster_.num_boosted_rounds() == 4
    assert model_after_stages(session, 99, WEIGHT, SEED).booster_.num_boosted_rounds() == 20


def test_a_class_absent_from_the_rows_is_never_answered_while_growing():
    rows = Y != 1
    session = open_session(RandomForestClassifier(4), X[rows], Y[rows], np.arange(3), WEIGHT[rows])
    for model in stages(session, WEIGHT[rows], SEED):
        assert 1 not in session.predict(model)
    (constant,) = stages(session, WEIGHT[rows] * (Y[rows] == 2), SEED)
    assert set(session.predict(constant)) == {2}
