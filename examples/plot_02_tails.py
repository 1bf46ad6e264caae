"""
The worst fraction of the clients
=================================

CVaR at α is the mean loss of the worst fraction α of the rows. One AdaLPBoost fit is re-weighted for every α
by an exact program, without training anything. On two noisy classes the picture is sobering: for small α no
single classifier beats a random guess.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

import tailboost as tb

data = tb.datasets.load_credit_default()
X, X_test, y, y_test = train_test_split(
    data.data, data.target, test_size=0.3, stratify=data.target, random_state=0
)
alphas = np.geomspace(0.05, 1.0, 30)
fig, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
models = {
    "random forest": RandomForestClassifier(random_state=0),
    "boosted trees": HistGradientBoostingClassifier(random_state=0),
}
for name, model in models.items():
    wrong = model.fit(X, y).predict(X_test) != y_test
    ax.plot(alphas, [tb.metrics.cvar(wrong.astype(float), a) for a in alphas], label=name)
clf = tb.AdaLPBoostClassifier(random_state=0).fit(X, y)
tail = [
    tb.metrics.cvar_zero_one_loss(
        y_test, clf.reweight(alpha=a).predict_distribution(X_test), a, labels=clf.classes_
    )
    for a in alphas
]
ax.plot(alphas, tail, linewidth=2.5, color="black", label="AdaLPBoost, one fit re-weighted for each α")
ax.axhline(0.5, linestyle=":", color="grey", label="random guess")
ax.set(
    xscale="log",
    xlabel="α, the worst fraction of the clients",
    ylabel="mean zero-one loss on them",
    ylim=(0, 1.03),
)
ax.set_xticks([0.05, 0.1, 0.2, 0.5, 1.0], ["5 %", "10 %", "20 %", "50 %", "all"])
ax.minorticks_off()
ax.grid(alpha=0.3)
ax.legend()
plt.show()
