"""
The worst plausible distribution
================================

If the future population differs slightly from the sample, how large can the mean loss become?
``worst_case_weights`` gives the largest mean loss of any fitted classifier, at any size of the shift.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import tailboost as tb
from tailboost.solvers import worst_case_weights

data = tb.datasets.load_credit_default()
X, X_test, y, y_test = train_test_split(
    data.data, data.target, test_size=0.5, stratify=data.target, random_state=0
)
models = {
    "random forest": RandomForestClassifier(min_samples_leaf=5, random_state=0).fit(X, y),
    "DRO boosting": tb.DROBoostClassifier(random_state=0).fit(X, y),
}
radii = np.linspace(0, 1, 61) ** 2
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, model in models.items():
    wrong = (model.predict(X_test) != y_test).astype(float)
    errors = [worst_case_weights(wrong, radius=radius).value for radius in radii]
    ax.plot(radii, errors, label=name)
ax.set_xscale("function", functions=(np.sqrt, np.square))  # worst cases are nearly linear in the square root
ax.set(xlabel="radius of the KL ball", ylabel="worst-case error")
ax.legend()
plt.show()
