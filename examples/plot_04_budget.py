"""
Selecting a point of the trade-off
==================================

Wines of five grades; the best and the poorest are rare. A lower worst-class error costs overall error. One
fit contains the whole curve between the two; a budget selects a point, and nothing is trained.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import tailboost as tb

wine = tb.datasets.load_wine_quality()
data = wine.data.drop_duplicates()  # repeated wines would be in both halves
y = wine.target[data.index]
X, X_test, y, y_test = train_test_split(data, y, test_size=0.5, stratify=y, random_state=0)
clf = tb.RobustMixtureClassifier(random_state=0).fit(X, y)  # boosted trees, a forest, regressions
curve = clf.tradeoff()
print(curve)

# %%
# One point of overall error, or three, or ten: nothing is trained.
for budget in (0.01, 0.03, 0.1):
    selected = clf.reweight(error_budget=budget)
    predicted = selected.predict(X_test)
    worst, mean = tb.metrics.worst_class_error(y_test, predicted), np.mean(predicted != y_test)
    print(f"budget {budget:.3f}: on test rows worst class {worst:.3f}, overall error {mean:.3f}")

# %%
# The curve on the selection data, and the errors of ``predict`` on test rows.
tb.plotting.TradeOffDisplay.from_estimator(clf, X_test, y_test)
plt.show()
