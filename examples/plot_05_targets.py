"""
Targets for each class
======================

"Class 0 at most 25 % wrong, the others 40 %." Targets are limits on the selection data, and a warning
names classes above their target. They are no certificate.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import tailboost as tb

data = tb.datasets.load_credit_default()
X, X_test, y, y_test = train_test_split(
    data.data, data.target, test_size=0.5, stratify=data.target, random_state=0
)

# %%
# A target within reach, and one out of reach: find 90 % of the defaulters and refuse one good
# client in ten.
possible, impossible = {1: 0.35, None: 0.45}, {1: 0.1, None: 0.1}
shown = {}
for name, targets in {"possible": possible, "impossible": impossible}.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = tb.RobustMixtureClassifier(max_error=targets, random_state=0).fit(X, y)
    print(f"{name}: limits_met_ = {clf.limits_met_}", *(str(w.message) for w in caught), sep="\n    ")
    shown[name] = clf, [targets.get(label, targets[None]) for label in clf.classes_]

# %%
# Diamonds are the targets, bars are the errors of ``predict`` on test rows.
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for shift, (name, (clf, allowed)) in zip((-0.2, 0.2), shown.items(), strict=True):
    errors = tb.metrics.class_errors(y_test, clf.predict(X_test))
    bars = ax.bar(np.arange(2) + shift, list(errors.values()), 0.4, label=f"{name} targets")
    ax.plot(np.arange(2) + shift, allowed, "kD", label=None if shift > 0 else "allowed")
ax.set_xticks([0, 1], ["pays", "defaults"])
ax.set(ylabel="error on test rows")
ax.legend()
plt.show()
