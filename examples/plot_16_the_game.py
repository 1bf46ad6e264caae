"""
Watching the game
=================

Every fit of a boosting classifier is a game between a weight player and a learner. The trace records for each
round the player's weights on the classes, the losses and the value of the mixture.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

import tailboost as tb

X, y = load_wine(return_X_y=True)
clf = tb.WorstClassBoostClassifier("tree", random_state=0, n_estimators=20).fit(X[:, :3], y)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.plot(range(1, clf.n_iter_ + 1), clf.trace_.weights, label=clf.classes_)
left.set(xlabel="round", ylabel="weight of the class")
left.legend()
right.plot(range(1, clf.n_iter_ + 1), clf.trace_.value)
right.set(xlabel="round", ylabel=f"{clf.objective_}")
plt.show()
