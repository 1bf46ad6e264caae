"""
The worst of many classes
=========================

Ten handwritten digits, two of which are rare in training. A forest is good on average and poor on the rare
ones. A robust mixture minimises the largest class error instead.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import tailboost as tb

# %%
# Of the training rows, one in ten of the eights and nines remains; the test rows do not change.
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
rng = np.random.default_rng(0)
retained = (y_train < 8) | (rng.random(len(y_train)) < 0.1)
X_train, y_train = X_train[retained], y_train[retained]
print("training rows of each class:", np.bincount(y_train))

# %%
# Nothing needs tuning. Without a limit the rule minimises the largest class error out of fold.
models = {
    "random forest": RandomForestClassifier(random_state=0),
    "random forest, balanced": RandomForestClassifier(class_weight="balanced", random_state=0),
    "robust mixture": tb.RobustMixtureClassifier(random_state=0),
}
errors, means = {}, {}
for name, model in models.items():
    predicted = model.fit(X_train, y_train).predict(X_test)
    errors[name] = tb.metrics.class_errors(y_test, predicted)
    means[name] = np.mean(predicted != y_test)
    print(f"{name:25} worst class {max(errors[name].values()):.3f}   overall error {means[name]:.3f}")

# %%
# The picture shows each class; the legend gives the price, the overall error.
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for shift, (name, by_class) in zip((-0.25, 0, 0.25), errors.items(), strict=True):
    label = f"{name} (mean {means[name]:.3f})"
    ax.bar(np.arange(10) + shift, list(by_class.values()), 0.25, label=label)
ax.set(xlabel="class", ylabel="error on test rows", xticks=range(10))
ax.legend()
plt.show()
