"""
A PyTorch net as the base learner
=================================

Any ``nn.Module`` with a score per class can be boosted. Here a net with six hidden units is briefly trained
on images of digits, so that it often errs; fifteen such nets are mixed for the worst fifth.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tailboost as tb
from tailboost.torch import TorchClassifier

digits = load_digits()
X, X_test, y, y_test = train_test_split(
    digits.data.astype("float32"), digits.target, test_size=0.5, stratify=digits.target, random_state=0
)
torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Linear(64, 6), torch.nn.ReLU(), torch.nn.Linear(6, 10))
net = TorchClassifier(module, learning_rate=0.01, warmup_steps=100, steps=60)
clf = tb.AdaLPBoostClassifier(net, alpha=0.2, n_estimators=15, cv=3, rank_labels=False, random_state=0).fit(
    X, y
)

# %%
# The weight of each net, and the tail of the first net beside that of the mixture. One net is wrong about all
# of its worst fifth. The mixture is right about some of these images some of the time; its mean is larger.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.bar(np.arange(1, 16), clf.estimator_weights_)
left.set(xlabel="round", ylabel="weight λ of its net")
alphas = np.linspace(0.02, 1, 40)
one = (clf.estimators_[0].predict(X_test) != y_test).astype(float)
mixed = tb.metrics.expected_zero_one_losses(y_test, clf.predict_distribution(X_test), labels=clf.classes_)
for name, losses in {"first net": one, "mixture for α = .2": mixed}.items():
    right.plot(alphas, [tb.metrics.cvar(losses, a) for a in alphas], label=name)
right.set(xlabel="α", ylabel="CVaR on test rows")
right.legend()
plt.show()
