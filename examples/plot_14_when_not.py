"""
When not to use tailboost
=========================

With two classes and noisy labels, the worst class is a matter of one threshold. A tuned threshold on a
plain booster is then level with a robust mixture, and simpler.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split

import tailboost as tb

data = tb.datasets.load_credit_default()
X, X_test, y, y_test = train_test_split(
    data.data, data.target, test_size=0.5, stratify=data.target, random_state=0
)


def least_recall(y_true, y_pred):
    """Return the smallest recall of a class."""
    return recall_score(y_true, y_pred, average=None, zero_division=0).min()


booster = HistGradientBoostingClassifier(random_state=0)
models = {
    "boosted trees": booster,
    "boosted trees,\nthreshold tuned": TunedThresholdClassifierCV(booster, scoring=make_scorer(least_recall)),
    "robust\nmixture": tb.RobustMixtureClassifier(random_state=0),
}
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for i, (name, model) in enumerate(models.items()):
    predicted = model.fit(X, y).predict(X_test)
    worst, mean = tb.metrics.worst_class_error(y_test, predicted), np.mean(predicted != y_test)
    print(f"{name.replace(chr(10), ' '):32} worst class {worst:.3f}   mean error {mean:.3f}")
    ax.bar([i - 0.2, i + 0.2], [worst, mean], 0.4, color=["C3", "C0"])
ax.set_xticks(range(3), list(models))
ax.bar(0, 0, color="C3", label="worst class")
ax.bar(0, 0, color="C0", label="mean")
ax.set(ylabel="error on test rows")
ax.legend()
plt.show()
