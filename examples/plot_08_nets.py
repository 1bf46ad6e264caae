"""
A PyTorch net as the base learner
=================================

Any ``nn.Module`` with a score per class can be boosted. Here a small perceptron on images of digits; the
tail of the mixture is compared with the tail of the first net.
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
module = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
net = TorchClassifier(module, learning_rate=0.05, warmup_steps=300, steps=100)
clf = tb.AdaLPBoostClassifier(net, alpha=0.1, n_estimators=6, cv="train", random_state=0).fit(X, y)

# %%
# Weight of each candidate: the net of the first round, later nets, and the constants.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.bar(np.arange(len(clf.estimators_)), clf.estimator_weights_)
left.set(xlabel="candidate (nets of the rounds, then constants)", ylabel="weight λ")
alphas = np.linspace(0.02, 1, 40)
one = (clf.estimators_[0].predict(X_test) != y_test).astype(float)
mixed = tb.metrics.expected_zero_one_losses(y_test, clf.predict_distribution(X_test), labels=clf.classes_)
for name, losses in {"first net": one, "mixture for α = .1": mixed}.items():
    right.plot(alphas, [tb.metrics.cvar(losses, a) for a in alphas], label=name)
right.set(xlabel="α", ylabel="CVaR on test rows")
right.legend()
plt.show()
