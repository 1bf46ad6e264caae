"""Draw the README's picture: misses by age band, three rules on one model, on rows used nowhere else."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from sklearn.ensemble import HistGradientBoostingClassifier

import tailboost as tb
from tailboost.rates.bounds import clopper_pearson_interval

LIMIT = 50
#: Background, text, grid, model, tuned threshold, certified rule, limit.
COLOURS = {
    "age-bands.png": ("#ffffff", "#1f2328", "#d0d7de", "#7b8691", "#1f2328", "#0b63b5", "#c2410c"),
    "age-bands-dark.png": ("#0d1117", "#e6edf3", "#30363d", "#8b949e", "#e6edf3", "#4da3ff", "#ff9a5c"),
}

data = tb.datasets.load_credit_default()
X, y, band = data.data.drop(columns=["AGE", "SEX"]), data.target.to_numpy(), data.groups["age_band"]
train, cal, new = np.split(np.random.default_rng(0).permutation(len(y)), [12000, 24000])
model = HistGradientBoostingClassifier(random_state=0).fit(X.iloc[train], y[train])
rule = tb.calibrate(
    model,
    X.iloc[cal],
    y[cal],
    groups=band.iloc[cal],
    limits=[f"miss(1, by=age_band) <= {LIMIT}%"],
    training_rows=X.iloc[train],
)
bands = list(band.cat.categories)
# The threshold that an analyst tunes on the same rows: the largest that misses at most half in each band.
scores = model.predict_proba(X)[:, 1]
threshold = min(np.median(scores[cal][(y[cal] == 1) & (band.iloc[cal] == b)]) for b in bands)
answers = {
    "model": model.predict(X.iloc[new]),
    "tuned": (scores[new] >= threshold).astype(int),
    "certified": rule.predict(X.iloc[new]),
}
wrong = {name: answer != y[new] for name, answer in answers.items()}
missed = {name: [each[(y[new] == 1) & (band.iloc[new] == b)] for b in bands] for name, each in wrong.items()}
for name in wrong:
    print(name, *(f"{100 * each.mean():.1f}" for each in (*missed[name], wrong[name])))

for file, (ground, text, grid, *colours, line) in COLOURS.items():
    plt.rcParams.update({"font.size": 11, "text.color": text, "axes.labelcolor": text})
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(6.4, 3.3), sharey=True, width_ratios=(4, 1.3), layout="constrained", facecolor=ground
    )
    for k, (name, colour) in enumerate(zip(answers, colours, strict=True)):
        for axes, parts in ((left, missed[name]), (right, [wrong[name]])):
            rates = np.array([100 * part.mean() for part in parts])
            ends = [clopper_pearson_interval(part.mean(), len(part)) for part in parts]
            at = np.arange(len(parts)) + 0.3 * (k - 1)
            lengths = np.abs(100 * np.array(ends).T.reshape(2, -1) - rates)
            axes.bar(at, rates, 0.285, color=colour, label=name)
            for edge, width in ((ground, 3.2), (text, 1.1)):  # visible on bars of the colour of the text
                axes.errorbar(at, rates, lengths, fmt="none", ecolor=edge, elinewidth=width, capsize=2)
            for place, value in zip(at, rates, strict=True):
                axes.text(place, 2.5, f"{value:.1f}", ha="center", color=ground, weight="bold", fontsize=7.5)
    left.axhline(LIMIT, color=line, lw=1.6, zorder=3)
    right.text(-0.55, LIMIT, f"your limit:\n{LIMIT} %", color=line, va="center", weight="bold")
    left.set_title("defaulters missed, % by age", loc="left", fontsize=11)
    right.set_title("overall error, %", loc="left", fontsize=11)
    left.set_xticks(range(len(bands)), [b.replace(" and over", "+").replace("-", "–") for b in bands])
    right.set_xticks([0], ["the price"])
    right.set_xlim(-0.57, 0.57)
    left.set_ylim(0, 86)
    left.set_yticks(range(0, 71, 10))
    left.legend(frameon=False, ncols=3, loc="upper left", labelcolor=text, fontsize=10.5)
    for axes in (left, right):
        axes.set_facecolor(ground)
        axes.tick_params(colors=text, length=0)
        axes.set_axisbelow(True)
        axes.spines[:].set_visible(False)
    left.yaxis.grid(color=grid, lw=0.8)
    figure.savefig(Path(__file__).with_name(file), dpi=150, facecolor=ground)
