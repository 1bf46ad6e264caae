"""
The worst group
===============

Group DRO by boosting: a player weighs the groups, small trees are boosted, and the selected rule minimises
the largest group error. In the credit default data all groups have a similar difficulty, and histogram
boosting that knows of no groups is level with it. The education is a feature here: the rule is group-aware.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

import tailboost as tb

data = tb.datasets.load_credit_default()
X, X_test, y, y_test, groups, groups_test = train_test_split(
    data.data, data.target, data.groups["education"], test_size=0.5, stratify=data.target, random_state=0
)
models = {
    "random forest": RandomForestClassifier(random_state=0).fit(X, y),
    "histogram boosting": HistGradientBoostingClassifier(random_state=0).fit(X, y),
    "group DRO boosting": tb.GroupDROBoostClassifier(random_state=0).fit(X, y, groups=groups),
}

# %%
# Errors by group, on test rows.
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for shift, (name, model) in zip((-0.27, 0, 0.27), models.items(), strict=True):
    errors = tb.metrics.group_errors(y_test, model.predict(X_test), groups_test)
    ax.barh(np.arange(len(errors)) + shift, list(errors.values()), 0.26, label=name)
    print(f"{name:20} worst group {max(errors.values()):.3f}")
ax.set_yticks(range(len(errors)), [str(name) for name in errors])
ax.set(xlabel="error on test rows", ylabel="education")
ax.legend()
plt.show()
