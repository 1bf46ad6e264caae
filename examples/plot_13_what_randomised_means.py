"""
Randomised decisions
====================

A boosted mixture can draw one of its models. If every call drew anew, people could ask again
until they like the answer. ``RandomizedDecision`` draws once per person with a secret key, and an auditor can
check the draws. If drawing is not acceptable, use ``predict``, which returns the label with the largest
probability under the draw. The picture compares both.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

import tailboost as tb

X, y = load_wine(return_X_y=True)
X, X_test, y, y_test = train_test_split(X[:, 1:4], y, test_size=0.5, stratify=y, random_state=0)
clf = tb.WorstClassBoostClassifier(random_state=0).fit(X, y)
policy = tb.RandomizedDecision(clf, secret=b"keep me out of the repository!!!", context="wine-2026")
ids = np.arange(1000, 1000 + len(X_test))
decisions = policy.decide(X_test, ids)

# %%
# A person gets the same answer in any batch.
alone = policy.decide(X_test[7:8], ids[7:8])
assert alone.y[0] == decisions.y[7]

# %%
# Error of each class: expected under the draw, under this draw, and of ``predict``.
shown = {
    "expected under the draw": tb.metrics.class_errors(y_test, clf.predict_distribution(X_test)),
    "this draw": tb.metrics.class_errors(y_test, decisions.y),
    "predict": tb.metrics.class_errors(y_test, clf.predict(X_test)),
}
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for shift, (name, errors) in zip((-0.25, 0, 0.25), shown.items(), strict=True):
    ax.bar(np.arange(3) + shift, list(errors.values()), 0.25, label=name)
ax.set(xlabel="class", ylabel="error on test rows", xticks=range(3))
ax.legend()
plt.show()
