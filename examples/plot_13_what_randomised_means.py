"""
Randomised decisions
====================

A boosted mixture may draw one of its models. Drawn anew at every call, people could retry
until they like the answer; ``RandomizedDecision`` draws once per person, by a secret key, and an auditor can
check it. Where drawing is not acceptable, ``predict`` gives the label with the largest share; the picture
compares both.
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
# The same person gets the same answer, whoever else is in the batch.
alone = policy.decide(X_test[7:8], ids[7:8])
assert alone.y[0] == decisions.y[7]

# %%
# Errors of each class: expected under the draw, of this draw, and of ``predict``.
shown = {
    "expected under the draw": tb.metrics.expected_class_errors(y_test, clf.predict_distribution(X_test)),
    "this draw": tb.metrics.class_errors(y_test, decisions.y),
    "predict": tb.metrics.class_errors(y_test, clf.predict(X_test)),
}
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for shift, (name, errors) in zip((-0.25, 0, 0.25), shown.items(), strict=True):
    ax.bar(np.arange(3) + shift, list(errors.values()), 0.25, label=name)
ax.set(xlabel="class", ylabel="error on test rows", xticks=range(3))
ax.legend()
plt.show()
