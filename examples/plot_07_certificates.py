"""
Certificates on held-out rows
=============================

``certify`` gives simultaneous upper bounds for the overall error and the error of each class,
from fresh rows. ``rows_needed`` gives the number of rows with which ``calibrate`` certifies a target.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import tailboost as tb

data = tb.datasets.load_credit_default()
# Without stratify=: both parts must be independent.
X, X_new, y, y_new = train_test_split(data.data, data.target, train_size=6000, random_state=0)
clf = tb.RobustMixtureClassifier(random_state=0).fit(X, y)
X_certify, X_test, y_certify, y_test = train_test_split(X_new, y_new, test_size=0.8, random_state=1)
certificate = tb.certify(clf, X_certify, y_certify, rates=["error(by=class)"])
print(certificate)

# %%
# Bounds, and the errors on the remaining rows. A bound is no forecast: with 95 % confidence
# the error is not larger.
bounds = certificate.bounds
errors = tb.metrics.class_errors(y_test, clf.predict(X_test))
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
places = np.arange(len(bounds))
ax.vlines(places, [b.estimate for b in bounds], [b.upper for b in bounds], color="grey", linewidth=6)
ax.plot(places, [b.estimate for b in bounds], "o", label=f"estimate on {len(y_certify):,} rows")
ax.plot(places, [b.upper for b in bounds], "_", color="black", markersize=24, label="certified bound")
ax.plot(places, list(errors.values()), "x", color="C3", label=f"on {len(y_test):,} other rows")
ax.set_xticks(places, [f"class {b.subgroup}" for b in bounds])
ax.set(ylabel="error of predict", xlim=(-0.6, len(bounds) - 0.4))
ax.legend()
plt.show()

# %%
print(tb.rows_needed("error() <= .35", 0.30))  # rows of a class with a true error of .30
