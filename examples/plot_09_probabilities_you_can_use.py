"""
Probabilities, ranks and answers
================================

``predict_proba`` is P(y | x): the models' probabilities averaged, with weights learned out of fold.
``predict`` uses thresholds for the worst class, so its label need not be the most probable one.
``predict_distribution`` is the label distribution of the rule; with one candidate its values are 0 and 1.
ROC curves, ranks, calibration, importances and SHAP use ``predict_proba``.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.inspection import permutation_importance
from sklearn.metrics import RocCurveDisplay, log_loss
from sklearn.model_selection import train_test_split

import tailboost as tb
from tailboost.datasets import load_credit_default

X, y = load_credit_default(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, train_size=2000, test_size=2000, stratify=y, random_state=0)
mix = tb.RobustMixtureClassifier(error_budget=0.05, random_state=0).fit(X, y)

# %%
# A budget changes the labels, not the probabilities.
P = mix.predict_proba(X_test)
assert np.array_equal(P, mix.reweight(error_budget=0.0).predict_proba(X_test))
print(
    f"log loss {log_loss(y_test, P):.3f}; answered 1: {np.mean(mix.predict(X_test) == mix.classes_[1]):.0%}"
)
print(f"likelier than not: {np.mean(P[:, 1] > 0.5):.0%}")

fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
RocCurveDisplay.from_estimator(mix, X_test, y_test, ax=axes[0])
CalibrationDisplay.from_estimator(mix, X_test, y_test, n_bins=10, ax=axes[1])

# %%
# The 20 clients with the largest probability.
first = np.argsort(-P[:, 1])[:20]
print(f"of the first 20, {np.mean(np.asarray(y_test)[first] == mix.classes_[1]):.0%} defaulted")

# %%
# Importances, by a score of the probabilities.
few = slice(0, 500)
importance = permutation_importance(
    mix, X_test[few], y_test[few], scoring="neg_log_loss", n_repeats=2, random_state=0
)
for j in np.argsort(-importance.importances_mean)[:3]:
    print(f"{X.columns[j]}: {importance.importances_mean[j]:.4f}")

# %%
# A SHAP explainer takes the function alone: ``shap.Explainer(probability, background)(rows)``.


def probability(rows):
    """Return P(default) of rows, for explainers of functions."""
    return mix.predict_proba(rows)[:, 1]


print(probability(X_test[few][:3]).round(2))

# %%
# A boosting classifier's models were trained on rows weighted by a game, and nothing calibrates their
# average. scikit-learn's wrapper calibrates it.
boosted = tb.WorstClassBoostClassifier("tree", n_estimators=5, random_state=0)
plain = boosted.fit(X, y).predict_proba(X_test)
wrapped = CalibratedClassifierCV(boosted, method="sigmoid", cv=3).fit(X, y).predict_proba(X_test)
print(f"log loss: {log_loss(y_test, plain):.3f} as it is, {log_loss(y_test, wrapped):.3f} calibrated")
plt.show()
