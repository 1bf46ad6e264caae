"""Draw the tail, the worst class and a certified limit on one page, in a minute: python demo.py [PAGE]."""

import io
import re
import sys
import warnings
from pathlib import Path

import jinja2
import matplotlib.figure
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

import tailboost as tb
from tailboost import published
from tailboost.metrics import cvar_zero_one_loss as cvar

# Stand-ins: the page replaces them by its own colours, which differ between light and dark screens.
INK, SOFT, LINE, BLUE, LIMIT, BACK = (f"#0{k}0{k}0{k}" for k in range(1, 7))
texts = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK)
lines = dict.fromkeys(("xtick.color", "ytick.color", "grid.color", "axes.edgecolor"), LINE)
spines = dict.fromkeys(("axes.spines.top", "axes.spines.left", "axes.spines.right"), False)
titles = {"axes.titlelocation": "left", "axes.titlesize": 10, "axes.grid": True, "axes.grid.axis": "y"}
matplotlib.rcParams |= {"svg.fonttype": "none", "axes.axisbelow": True, **titles, **texts, **lines, **spines}


def svg(draw, **columns):
    """Return a drawing as SVG, once for wide and once for narrow screens."""
    both = ""
    for name, width in {"wide": 7.2, "narrow": 3.9}.items():
        matplotlib.rcParams["svg.hashsalt"] = f"{draw.__name__} {name}"  # no two figures share an id
        figure = matplotlib.figure.Figure(figsize=(width, 3.5), layout="constrained")
        draw(*figure.subplots(squeeze=False, **columns)[0])
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True)
        coloured = re.sub(r"#0([1-6])(0\1){2}", r"var(--c\1)", text.getvalue())
        both += coloured[coloured.index("<svg") :].replace("<svg", f'<svg class="{name}" role="img"', 1)
    return both


# The tail, as in Figure 1 of Zhai et al. 2021: wines in five grades, without copies of a wine.
X, first = np.unique(tb.datasets.load_wine_quality(as_frame=False).data, axis=0, return_index=True)
grades = tb.datasets.load_wine_quality(as_frame=False).target[first]
X, X_new, y, y_new = train_test_split(X, grades, test_size=0.5, random_state=0, stratify=grades)
tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
alphas, marks = np.linspace(0.25, 1, 50), [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
boosted = published.adalpboost(tree, alpha=0.1, T=50, random_state=0).fit(X, y)
lpboost = [published.lpboost(tree, alpha=a, T=30, random_state=0).fit(X, y) for a in marks]
average = published.average_boost(tree, T=50, eta=1.0, random_state=0).fit(X, y).predict_distribution(X_new)
mixtures = [cvar(y_new, boosted.reweight(alpha=a).predict_distribution(X_new), a) for a in alphas]
points = [cvar(y_new, m.predict_distribution(X_new), m.alpha) for m in lpboost]
alone = np.eye(5)[tree.predict(X_new)]


def tail(ax):
    """Draw the CVaR of all methods over α."""
    ax.plot(alphas, mixtures, color=BLUE, lw=6, alpha=0.35)
    ax.plot(alphas, [cvar(y_new, alone, a) for a in alphas], color=INK)
    ax.plot(alphas, [cvar(y_new, average, a) for a in alphas], "--", color=SOFT)
    ax.plot(marks, points, "o", ms=7, mew=1.8, mec=BLUE, mfc="none")
    ax.axhline(0.8, color=SOFT, lw=0.8, ls=":")
    ax.text(0.56, 0.94, "ERM: one tree")
    ax.text(1, 0.815, "a grade at random", color=SOFT, ha="right")
    ax.text(1, 0.75, "average of all rounds", color=SOFT, ha="right")
    ax.text(0.3, 0.55, "α-AdaLPBoost", color=BLUE, weight="bold")
    ax.text(0.3, 0.49, "○ α-LPBoost", color=BLUE)
    ax.set(ylim=(0.4, 1.04), xlabel="α, the share of wines in the tail", title="CVaR of the error, new wines")


# The worst class, as in Saito et al. 2024, with forests of shallow trees on five splits.
images, digits = load_digits(return_X_y=True)
warnings.simplefilter("ignore", tb.BoundNotMetWarning)  # the game ends early: the rounds so far vote
small, large = (RandomForestClassifier(n, max_depth=3, random_state=0) for n in (50, 500))
errors = []
for split in range(5):
    D, D_new, d, d_new = train_test_split(images, digits, test_size=0.5, stratify=digits, random_state=split)
    bounded = published.worst_class_boost(small, theta=0.75, random_state=0).fit(D, d)
    answers = large.fit(D, d).predict(D_new), bounded.predict(D_new)
    errors.append([[100 * np.mean(a[d_new == k] != k) for k in range(10)] for a in answers])
before, after = np.mean(errors, axis=0)
order = np.argsort(-before)


def worst(ax):
    """Draw the error of each digit, before and after."""
    ax.vlines(range(10), before[order], after[order], color=LINE, lw=5)
    ax.plot(range(10), before[order], "o", ms=8, color=SOFT)
    ax.plot(range(10), after[order], "o", ms=8, color=BLUE)
    ax.text(0.35, before.max() - 0.6, "a forest of 500 trees", color=SOFT)
    ax.text(-0.25, 2, "worst-class boosting", color=BLUE, weight="bold")
    ax.set(
        ylim=(0, 36),
        xticks=range(10),
        xticklabels=order,
        xlabel="digit",
        title="Error of each digit, %, new images",
    )


# A limit with a certificate: credit card clients, by age.
credit = tb.datasets.load_credit_default()
table, target, bands = credit.data.drop(columns=["AGE", "SEX"]), credit.target, credit.groups[["age_band"]]
train, fresh, new = np.split(np.random.default_rng(0).permutation(len(table)), [12000, 24000])
model = HistGradientBoostingClassifier(random_state=0).fit(table.iloc[train], target.iloc[train])
limits = ["miss(1, by=age_band) <= 50%"]
batch = {"X": table.iloc[fresh], "y": target.iloc[fresh], "groups": bands.iloc[fresh]}
rule = tb.calibrate(model, **batch, limits=limits, training_rows=table.iloc[train])
truth, ages = target.iloc[new].to_numpy(), bands["age_band"].cat.categories
parts = [(truth == 1) & (bands["age_band"].iloc[new] == age).to_numpy() for age in ages]
parts.append(truth >= 0)  # everybody
wrong = [fitted.predict(table.iloc[new]) != truth for fitted in (model, rule)]
rates = np.array([[100 * w[part].mean() for part in parts] for w in wrong])
halves = 1.96 * np.sqrt(rates * (100 - rates) / [part.sum() for part in parts])


def limit(by_age, overall):
    """Draw the rates before and after the limit."""
    for ax, shown in ((by_age, range(4)), (overall, [4])):
        for i, colour in enumerate((SOFT, BLUE)):
            x = np.arange(len(shown)) + 0.4 * i - 0.2
            bars = ax.bar(x, rates[i, shown], 0.36, yerr=halves[i, shown], color=colour, ecolor=INK)
            ax.bar_label(bars, fmt="%.0f", label_type="center", color=BACK, weight="bold")
        ax.set(ylim=(0, 84), xticks=[])
    by_age.axhline(50, color=LIMIT, lw=2)
    for x, text, colour in ((-0.4, "before", SOFT), (0.85, "after", BLUE), (1.75, "— limit", LIMIT)):
        by_age.text(x, 77.5, text, color=colour, weight="bold")
    by_age.set(
        xticks=range(4), xticklabels=ages.str.replace(" and", "\nand"), title="Defaulters missed, %, by age"
    )
    overall.set(yticklabels=[], xlim=(-0.6, 0.6), title="All errors, %")


half = {"tree": cvar(y_new, alone, 0.5), "mixture": mixtures[alphas.searchsorted(0.5)], "lpboost": points[2]}
certificate = {"bounds": rule.certificate_.bounds, "rows": rule.certificate_.n_rows}
content = {"before": before, "after": after, "order": order, "half": half, **certificate}
content |= {"tail": svg(tail), "worst": svg(worst), "limit": svg(limit, ncols=2, width_ratios=(4, 1.3))}
content |= {"sql": rule.rule_.to_sql("p_default", label=1, table="loans")}
template = Path(__file__).with_name("demo.html.j2").read_text(encoding="utf-8")
path = Path(*sys.argv[1:] or ["demo.html"])
path.parent.mkdir(exist_ok=True)
path.write_text(jinja2.Template(template).render(content), encoding="utf-8")
print(f"Open {path}")
