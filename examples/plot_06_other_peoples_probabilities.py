"""
Other people's probabilities
============================

Five nets without further training: only their class probabilities are available. ``from_probabilities``
averages the nets, selects thresholds and shows the cost of a lower worst-class error.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tailboost as tb

with np.load(Path("data") / "cifar10_nets.npz") as file:
    nets = ["bal-ce-aug", "bal-ce", "bal-focal", "bal-naive", "bal-wc-.8"]
    held_out, test = (
        {net: np.exp(file[f"{net}_{part}"] / -20.0) for net in nets} for part in ("judged", "test")
    )
    held_out, test = (
        {net: P / P.sum(axis=1, keepdims=True) for net, P in part.items()} for part in (held_out, test)
    )
    y, y_test = file["y_judged"].astype(int), file["y_test"].astype(int)

# %%
# The best net alone, trained with crops and flips, and its rule within one point of overall error.
best = "bal-ce-aug"


def show(name, predicted):
    """Print the worst class error and the overall error on test rows."""
    worst, mean = tb.metrics.worst_class_error(y_test, predicted), np.mean(predicted != y_test)
    print(f"{name:46} worst class {worst:.3f}   mean {mean:.3f}")
    return mean, worst


points = {"as trained": show(f"{best} as trained", test[best].argmax(axis=1))}
mix = tb.RobustMixtureClassifier.from_probabilities({best: held_out[best]}, y, error_budget=0.01)
points["one net, +1 point"] = show(f"{best}, one point of overall error", mix.predict({best: test[best]}))

# %%
# Three poor nets, mixed without a further increase of the overall error.
poor = ["bal-ce", "bal-focal", "bal-naive"]
points["best of three poor nets"] = show("bal-naive as trained", test["bal-naive"].argmax(axis=1))
three = tb.RobustMixtureClassifier.from_probabilities(
    {net: held_out[net] for net in poor}, y, error_budget=0.0
)
points["three poor nets, mixed"] = show(
    "three poor nets, mixed", three.predict({net: test[net] for net in poor})
)

# %%
# The whole curve of one net on the selection data, and the test points.
curve = mix.tradeoff()
fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.plot(*curve.values, "k--", label="one net: the curve on the held-out rows")
for name, (mean, worst) in points.items():
    ax.plot(mean, worst, "o", label=f"{name} (test rows)")
ax.set(xlabel="overall error", ylabel="largest error of a class")
ax.legend()
plt.show()
