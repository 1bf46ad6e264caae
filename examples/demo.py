"""Draw the tail, the worst class and a certified limit on one page, in a minute: python demo.py [PAGE]."""

import io
import re
import sys
import warnings
from pathlib import Path

import jinja2
import matplotlib.figure
import numpy as np
import xgboost
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
        figure = matplotlib.figure.Figure(figsize=(width, 3.7), layout="constrained")
        draw(*figure.subplots(squeeze=False, **columns)[0])
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True)
        coloured = re.sub(r"#0([1-6])(0\1){2}", r"var(--c\1)", text.getvalue())
        both += coloured[coloured.index("<svg") :].replace("<svg", f'<svg class="{name}" role="img"', 1)
    return both


def coin(P, k):
    """Return the distribution that draws one of the k likeliest grades."""
    return ((-P).argsort(axis=1).argsort(axis=1) < k) / k


def tuned(P, y):
    """Return the weights of the grades with the least worst error on the rows of P, by Hedge."""
    sizes, tried = np.bincount(y), {}
    weights = -np.log(sizes)
    for _ in range(400):
        errors = np.bincount(y, (np.log(P.clip(1e-4)) + weights).argmax(axis=1) != y) / sizes
        tried.setdefault(max(errors), weights)
        weights = weights + 0.1 * errors
    return tried[min(tried)]


# Wines in five grades, without copies of a wine, ten splits: the tail (Zhai et al. 2021), the worst class.
wine = tb.datasets.load_wine_quality(as_frame=False)
wines, first = np.unique(wine.data, axis=0, return_index=True)
grades, alphas, budgets = wine.target[first], np.linspace(0.2, 1, 17), [0, 0.01, 0.03, 0.06, 0.1, None]
warnings.simplefilter("ignore", tb.BoundNotMetWarning)  # the game of the worst class ends early
results = {}
for seed in range(10):
    X, X_new, y, y_new = train_test_split(wines, grades, test_size=0.5, stratify=grades, random_state=seed)
    forest = RandomForestClassifier(oob_score=True, random_state=seed).fit(X, y)
    P, P_new = forest.oob_decision_function_, forest.predict_proba(X_new)
    sides = [min(range(1, 6), key=lambda k: cvar(y, coin(P, k), a)) for a in alphas]
    paper = published.adalpboost(DecisionTreeClassifier(max_depth=3), 0.1, T=30, random_state=seed).fit(X, y)
    ours = tb.AdaLPBoostClassifier(random_state=seed).fit(X, y)
    drawn = {
        "answer": [np.eye(5)[P_new.argmax(axis=1)]] * 17,
        "coin": [coin(P_new, k) for k in sides],
        "paper": [paper.reweight(alpha=a).predict_distribution(X_new) for a in alphas],
        "ours": [ours.reweight(alpha=a).predict_distribution(X_new) for a in alphas],
    }
    found = {name: [cvar(y_new, *pair) for pair in zip(D, alphas, strict=True)] for name, D in drawn.items()}
    mixture = tb.RobustMixtureClassifier(random_state=seed).fit(X, y)
    even = RandomForestClassifier(min_samples_leaf=5, class_weight="balanced", random_state=seed)
    boosted = xgboost.XGBClassifier(max_depth=3, n_estimators=60, learning_rate=0.1, n_jobs=1)
    boosted.fit(X, y, sample_weight=len(y) / (5 * np.bincount(y)[y]))
    answers = {
        "random forest": P_new.argmax(axis=1),
        "balanced\nforest": even.fit(X, y).predict(X_new),
        "balanced\nXGBoost": boosted.predict(X_new),
        "forest, tuned\nclass weights": (np.log(P_new.clip(1e-4)) + tuned(P, y)).argmax(axis=1),
        "worst-class\nboosting": tb.WorstClassBoostClassifier(random_state=seed).fit(X, y).predict(X_new),
    }
    others = list(answers)
    answers |= {b: mixture.reweight(error_budget=b).predict(X_new) for b in budgets}
    found |= {k: [np.mean(a != y_new), tb.metrics.worst_class_error(y_new, a)] for k, a in answers.items()}
    for name, values in found.items():
        results.setdefault(name, []).append(values)
means = {name: np.mean(each, axis=0) for name, each in results.items()}
spread = {name: np.std(each, axis=0, ddof=1) for name, each in results.items()}


def tail(ax):
    """Draw the CVaR of all methods over α."""
    ax.plot(alphas, 100 * means["answer"], color=INK)
    ax.plot(alphas, 100 * means["paper"], color=BLUE, lw=1)
    ax.plot(alphas, 100 * means["ours"], color=BLUE, lw=4)
    ax.plot(alphas, 100 * means["coin"], "--", color=INK)
    ax.axhline(80, color=SOFT, lw=0.8, ls=":")
    ax.text(0.52, 93, "random forest")
    ax.text(1, 82, "a grade at random", color=SOFT, ha="right")
    ax.text(0.2, 58, "α-AdaLPBoost", color=BLUE, weight="bold")
    ax.text(0.2, 53, "thin: as published", color=BLUE)
    ax.text(0.2, 48, "dashed: a forest’s coin")
    ax.set(
        ylim=(40, 104), xlabel="α, the share of wines in the tail", title="CVaR of the error, new wines, %"
    )


def worst(ax):
    """Draw the overall error and that of the worst grade: a curve of one fit, and points of others."""
    ax.plot(*100 * np.array([means[b] for b in budgets]).T, "o-", color=BLUE, ms=4, lw=4)
    for name in (budgets[0], budgets[-1]):  # the ends of the curve
        ax.errorbar(*100 * means[name], *100 * spread[name][::-1], color=BLUE, lw=1)
    for name, up in zip(others, (1.2, 1.2, 1.6, -8, -8), strict=True):
        (x, y), (dx, dy) = 100 * means[name], 100 * spread[name]
        colour, fill = (BLUE, BACK) if "boosting" in name else (SOFT, SOFT)
        ax.errorbar(x, y, dy, dx, fmt="o", ms=7, color=colour, mfc=fill, lw=1)
        ax.text(x + 0.5, y + up, name, color=colour, linespacing=1)
    ax.text(44.3, 57, "robust mixture", color=BLUE, weight="bold")
    ax.set(xticks=range(45, 65, 5), xlim=(43, 64), ylim=(50, 106))
    ax.set(xlabel="errors among all new wines, %", title="Errors in the worst grade, %")


# A limit with a certificate: credit card clients, by age; one model, and twenty divisions of other clients.
credit = tb.datasets.load_credit_default()
table, target, bands = credit.data.drop(columns=["AGE", "SEX"]), credit.target, credit.groups[["age_band"]]
train, rest = np.split(np.random.default_rng(0).permutation(len(table)), [6000])
model = HistGradientBoostingClassifier(random_state=0).fit(table.iloc[train], target.iloc[train])
scores, ages = model.predict_proba(table)[:, 1], bands["age_band"].cat.categories
defaulters = [((target == 1) & (bands["age_band"] == age)).to_numpy() for age in ages]
limits, found = ["miss(1, by=age_band) <= 50%"], []
for division in range(20):
    fresh, new = np.split(np.random.default_rng(division).permutation(rest), [12000])
    batch = {"X": table.iloc[fresh], "y": target.iloc[fresh], "groups": bands.iloc[fresh], "limits": limits}
    rule = tb.calibrate(model, **batch, training_rows=table.iloc[train])
    # The largest thresholds that miss at most half in every band, without and with a margin.
    parts = [scores[fresh][part[fresh]] for part in defaulters]
    tuned_by_hand = min(np.median(part) for part in parts)
    margin = min(np.quantile(part, 0.5 - 1.645 * 0.5 / np.sqrt(len(part))) for part in parts)
    answers = [scores[new] >= threshold for threshold in (0.5, tuned_by_hand, margin)]
    answers.append(rule.predict(table.iloc[new]) == 1)
    truth = target.iloc[new].to_numpy() == 1
    found.append([[max(np.mean(~a[part[new]]) for part in defaulters), np.mean(a != truth)] for a in answers])
missed, errors = 100 * np.moveaxis(found, -1, 0)


def limit(by_age, overall):
    """Draw the largest miss rate of each division, and the overall error."""
    for ax, values in ((by_age, missed), (overall, errors)):
        for i, colour in enumerate((SOFT, INK, SOFT, BLUE)):
            ax.plot(i + np.linspace(-0.3, 0.3, 20), np.sort(values[:, i]), "o", ms=3.5, color=colour)
        ax.set(xlim=(-0.5, 3.5), xticks=[])
    by_age.axhline(50, color=LIMIT, lw=2)
    places = {
        "model": (0, 64),
        "tuned": (1, 55),
        "margin": (2, 42.2),
        "certified": (3, 52.5),
        "limit": (0, 48.5),
    }
    for (text, at), colour in zip(places.items(), (SOFT, INK, SOFT, BLUE, LIMIT), strict=True):
        by_age.text(*at, text, color=colour, weight="bold", ha="center")
    for i, (text, y) in enumerate({"model": 17.3, "tuned": 20.2, "margin": 23.4, "certified": 21.1}.items()):
        overall.text(i, y, text, color=(SOFT, INK, SOFT, BLUE)[i], ha="center")
    by_age.set(title="Missed in the worst band, %", ylim=(41.5, 71))
    overall.set(title="All errors, %", ylim=(16, 24))


content = {"m": means, "half": 6, "broken": (missed > 50).sum(axis=0), "errors": errors.mean(axis=0)}
content |= {"bounds": rule.certificate_.bounds, "rows": rule.certificate_.n_rows}
content |= {"tail": svg(tail), "worst": svg(worst), "limit": svg(limit, ncols=2, width_ratios=(3, 2))}
content |= {"sql": rule.rule_.to_sql("p_default", label=1, table="loans")}
template = Path(__file__).with_name("demo.html.j2").read_text(encoding="utf-8")
path = Path(*sys.argv[1:] or ["demo.html"])
path.parent.mkdir(exist_ok=True)
path.write_text(jinja2.Template(template).render(content), encoding="utf-8")
print(f"Open {path}")
