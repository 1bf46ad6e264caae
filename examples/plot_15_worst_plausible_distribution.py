"""
The worst plausible distribution
================================

The future population may differ slightly from the sample. ``worst_case_weights`` gives the largest mean loss
of any fitted classifier over all populations within a KL ball, so models can be compared at each shift.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

import tailboost as tb
from tailboost.solvers import worst_case_weights

data = tb.datasets.load_credit_default()
X, X_test, y, y_test = train_test_split(
    data.data, data.target, test_size=0.5, stratify=data.target, random_state=0
)
models = {
    "histogram boosting": HistGradientBoostingClassifier(random_state=0),
    "random forest": RandomForestClassifier(min_samples_leaf=5, random_state=0),
    "DRO boosting": tb.DROBoostClassifier(random_state=0),
}

# %%
# The loss of a row is the probability that the model gives to the wrong label. Without a shift histogram
# boosting has the smallest mean; the forest is less sure of itself and overtakes it when the shift is large.
# DRO boosting minimises the exponential loss of training rows in the worst population; it is behind both.
radii = np.linspace(0, 1, 41) ** 2
worst = {}
for name, model in models.items():
    given = model.fit(X, y).predict_proba(X_test)
    losses = 1 - given[np.arange(len(y_test)), y_test]
    worst[name] = np.array([worst_case_weights(losses, radius=radius).value for radius in radii])
    print(f"{name:20} mean loss {worst[name][0]:.3f}, at radius 1 at most {worst[name][-1]:.3f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for name, values in worst.items():
    left.plot(radii, values, label=name)
    right.plot(radii, values - worst["histogram boosting"], label=name)
for ax in (left, right):
    ax.set_xscale(
        "function", functions=(np.sqrt, np.square)
    )  # worst cases are nearly linear in the square root
    ax.set(xlabel="radius of the KL ball")
left.set_title("largest mean loss, test rows", loc="left", fontsize=10)
right.set_title("less that of histogram boosting", loc="left", fontsize=10)
left.legend()
plt.show()
