"""
Searching parameters for the worst class
========================================

``make_worst_class_scorer`` and ``make_cvar_scorer`` are scorers: ``GridSearchCV`` can select any
classifier's parameters by its worst class instead of its accuracy.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import tailboost as tb

X, y = load_digits(return_X_y=True)
grid = {"C": np.geomspace(0.03, 10, 6)}
search = GridSearchCV(
    SVC(gamma=0.001),
    grid,
    scoring={"accuracy": "accuracy", "worst": tb.metrics.make_worst_class_scorer()},
    refit="worst",
    cv=3,
).fit(X[:900], y[:900])
print("selected by the worst class:", search.best_params_)

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
results = search.cv_results_
ax.plot(grid["C"], 1 - results["mean_test_accuracy"], "o-", label="mean error")
ax.plot(grid["C"], -results["mean_test_worst"], "s-", label="error of the worst class")
ax.axvline(search.best_params_["C"], color="grey", linestyle=":")
ax.set(xscale="log", yscale="log", xlabel="C", ylabel="cross-validated error")
ax.legend()
plt.show()
