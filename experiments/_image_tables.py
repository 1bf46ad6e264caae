"""Output of the experiments on images: names, published numbers, tables and pictures of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments._experiment import Settings, markdown, mean_and_half_width, plus_minus
from experiments._nets import STAGES, after, at_alphas, draw_curves
from experiments.post_processing import BUDGETS, MIXTURE, WEIGHTS
from tailboost.app.report.results import summarise

SHOWN = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
CE = "cross_entropy"
TITLES = {
    CE: "CE",
    "weighted_cross_entropy": "weighted CE",
    "naive": "naive",
    "focal": "focal",
    "class_balanced": "CB",
    "influence_balanced": "IB",
    "influence_balanced_cb": "IB + CB",
    "influence_balanced_focal": "IB + focal",
    "logit_adjustment": "LA",
    "cdt": "CDT",
    "vs": "VS",
}
OCO, WORST, MINIMAX, GAME = "OCO boosting", "worst-class boosting", "class game, mixture", "AdaLPBoost"
BY_THETA = f"{WORST}, θ = "
BY_OCO_GAMMA = f"{OCO}, γ = "
# Worst-class boosting by γ, at the largest θ.
BY_GAMMA = f"{WORST}, γ = "
# Its condition is met on held-out rows, for the largest θ of a single net.
REACHED = "worst-class boosting, θ reached on rows held out"
# The error budget in the table.
SHOWN_BUDGET = BUDGETS.index(0.01)
# Saito et al., Tables III and IV: worst / mean test error, %.
PUBLISHED: dict[str, dict[str, str]] = {
    "CIFAR-10": {
        "CE": "30.9 / 14.9", OCO: "26.2 / 13.1", "naive": "23.0 / 17.2", "focal": "25.6 / 14.2",
        "IB": "28.1 / 13.7", "IB + focal": "25.6 / 13.8", "LA": "31.4 / 14.2", "CDT": "35.0 / 13.8",
        "VS": "27.1 / 13.8",
        WORST: "18.9 / 9.6",
        f"{BY_GAMMA}0.0995": "19.9 / 10.4", f"{BY_GAMMA}0.1995": "20.2 / 10.1",
        f"{BY_GAMMA}0.3995": "19.7 / 9.4",
    },
    "CIFAR-10, imbalanced": {
        "CE": "41.0 / 21.0", "weighted CE": "47.0 / 21.2", OCO: "47.0 / 19.4", "naive": "46.2 / 35.8",
        "focal": "36.2 / 21.0", "CB": "39.9 / 20.7", "IB": "46.4 / 19.6", "IB + CB": "47.8 / 20.2",
        "IB + focal": "46.8 / 20.0", "LA": "43.0 / 19.9",
        "CDT": "36.9 / 20.4", "VS": "31.7 / 16.5", WORST: "29.0 / 14.9",
    },
    "TissueMNIST": {
        "CE": "73.0 / 33.9", "weighted CE": "69.6 / 34.4", OCO: "80.8 / 34.3", "naive": "50.5 / 41.3",
        "focal": "71.0 / 33.2", "CB": "66.9 / 34.4", "IB": "86.2 / 34.9", "IB + CB": "86.2 / 34.9",
        "IB + focal": "86.2 / 34.9", "LA": "63.7 / 42.2",
        "CDT": "61.5 / 39.2", "VS": "76.5 / 40.3", WORST: "47.2 / 36.4",
    },
}  # fmt: skip
PUBLISHED["CIFAR-100"] = {
    "CE": "78.0 / 46.7", OCO: "66.0 / 35.4", "naive": "87.0 / 54.9", "focal": "80.0 / 46.5",
    "IB": "92.0 / 47.8", "IB + focal": "86.0 / 46.7",
    "LA": "80.0 / 46.5", "CDT": "82.0 / 46.2", "VS": "84.0 / 46.7",
    WORST: "62.0 / 44.5",
}  # fmt: skip
PUBLISHED["Tiny ImageNet"] = {
    "CE": "84.0 / 42.8", OCO: "72.0 / 37.2", "naive": "100 / 81.7", "focal": "82.0 / 43.0",
    "IB": "90.0 / 41.7", "IB + focal": "90.0 / 41.7",
    "LA": "86.0 / 42.4", "CDT": "86.0 / 42.6", "VS": "90.0 / 42.4",
    WORST: "68.0 / 36.1",
}  # fmt: skip
PUBLISHED["EMNIST"] = {
    "CE": "98.3 / 12.4", "weighted CE": "89.3 / 16.2", OCO: "97.9 / 12.9", "naive": "73.9 / 38.1",
    "focal": "96.8 / 12.7", "CB": "90.6 / 13.7", "IB": "98.1 / 16.4",
    "IB + CB": "97.4 / 12.5", "IB + focal": "97.4 / 12.5", "LA": "75.1 / 21.2",
    "CDT": "74.6 / 22.7", "VS": "71.9 / 21.2", WORST: "63.7 / 17.5",
}  # fmt: skip
# Worst-class boosting by θ: Tables IX and X, and Figures 7 and 8.
PUBLISHED_BY_THETA = {
    "CIFAR-10": {
        0.1: "95.7 / 67.1", 0.2: "74.9 / 52.5", 0.3: "61.7 / 43.4", 0.4: "54.5 / 35.7", 0.5: "42.2 / 29.9",
        0.6: "33.3 / 22.2", 0.7: "28.4 / 17.6", 0.8: "22.3 / 12.9", 0.9: "18.9 / 9.6",
    },
    "CIFAR-100": {
        0.1: "81.0 / 67.3", 0.2: "75.0 / 58.7", 0.3: "68.0 / 50.4", 0.4: "62.0 / 44.5", 0.5: "89.0 / 49.1",
        0.6: "87.0 / 47.4", 0.7: "86.0 / 47.0", 0.8: "87.0 / 46.3", 0.9: "83.0 / 45.4",
    },
    "Tiny ImageNet": {
        0.1: "84.0 / 62.4", 0.2: "76.0 / 52.5", 0.3: "68.0 / 45.5", 0.4: "62.0 / 39.8", 0.5: "68.0 / 36.1",
        0.6: "70.0 / 34.5", 0.7: "74.0 / 34.1", 0.8: "76.0 / 34.6", 0.9: "80.0 / 37.2",
    },
    "CIFAR-10, imbalanced": {
        0.1: "80.4 / 52.8", 0.2: "71.6 / 47.6", 0.3: "60.1 / 44.5", 0.4: "48.1 / 35.3", 0.5: "41.4 / 30.1",
        0.6: "35.5 / 24.6", 0.7: "34.0 / 19.5", 0.8: "31.0 / 16.4", 0.9: "29.0 / 14.9",
    },
    "EMNIST": {
        0.1: "72.9 / 18.7", 0.2: "69.9 / 17.6", 0.3: "62.9 / 17.8", 0.4: "63.7 / 17.5", 0.5: "71.0 / 14.6",
        0.6: "83.5 / 13.7", 0.7: "92.3 / 13.6", 0.8: "93.3 / 12.6", 0.9: "94.6 / 14.9",
    },
    "TissueMNIST": {
        0.1: "73.1 / 39.9", 0.2: "58.6 / 44.1", 0.3: "56.2 / 41.8", 0.4: "49.9 / 38.9", 0.5: "47.2 / 36.4",
        0.6: "53.8 / 32.8", 0.7: "62.8 / 36.3", 0.8: "73.9 / 30.8", 0.9: "69.2 / 42.8",
    },
}  # fmt: skip

# The same paper's numbers, at 32×32 pixels.
PUBLISHED_BY_THETA["CIFAR-10, 16×16 pixels"] = PUBLISHED_BY_THETA["CIFAR-10"]

# Cells by data set, method and seed.
Found = dict[tuple[str, str, int], dict[str, Any]]


def with_theta(theta: float) -> str:
    """Return the name of worst-class boosting with a θ."""
    return f"{BY_THETA}{theta:g}"


def with_oco_gamma(gamma: float) -> str:
    """Return the name of OCO boosting with a γ."""
    return f"{BY_OCO_GAMMA}{gamma:g}"


def with_gamma(gamma: float) -> str:
    """Return the name of worst-class boosting with a γ."""
    return f"{BY_GAMMA}{gamma:g}"


def by_method(
    cells: Found, title: str, thetas: Sequence[float], oco_gammas: Sequence[float]
) -> dict[str, list[dict[str, Any]]]:
    """Return the cells of a data set by method, in the order of the seeds.

    Worst-class boosting and OCO boosting as published are added: for each seed the θ (or γ) of the best
    vote on held-out rows.
    """
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for (of, method, seed), cell in cells.items():
        if of == title:
            found.setdefault(method, {})[seed] = cell
    for name, settings in ((OCO, map(with_oco_gamma, oco_gammas)), (WORST, map(with_theta, thetas))):
        games = [found.get(setting, {}) for setting in settings]
        for seed in sorted(set.intersection(*map(set, games))):
            played = [by_seed[seed] for by_seed in games]
            # Ties go to the larger target.
            best = min(reversed(played), key=lambda cell: cell["worst held out"])
            seconds = round(sum(cell["seconds"] for cell in played), 1)
            found.setdefault(name, {})[seed] = best | {"seconds": seconds}
    return {method: [by_seed[seed] for seed in sorted(by_seed)] for method, by_seed in found.items()}


def label_of(method: str) -> str:
    """Return a method's name in the tables."""
    return TITLES.get(method, method)


def summarised(by_method: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the intervals of all figures, and how often targets were met, by method.

    To keep files small, errors of single classes and after post-processing are means alone, curves two lists.
    """
    found = {}
    for method, cells in by_method.items():
        apart = ("bound met", "after", "curves", "mean loss of AdaLPBoost")
        figures = [{k: v for k, v in cell.items() if k not in apart} for cell in cells]
        for k, cell in enumerate(figures):
            for what in ("test", "drawn"):
                if what in cell:
                    figures[k] = figures[k] | {
                        what: {w: e for w, e in cell[what].items() if w != "class errors"}
                    }
        found[method] = summarise(figures)
        if "bound met" in cells[0]:
            found[method]["bound met"] = sum(cell["bound met"] for cell in cells)
        if "curves" in cells[0]:
            curves = {name: [cell["curves"][name] for cell in cells] for name in cells[0]["curves"]}
            found[method]["curves: mean, half width"] = {n: _two_lists(of) for n, of in curves.items()}
            means = [cell["mean loss of AdaLPBoost"] for cell in cells]
            found[method]["mean loss of AdaLPBoost: mean, half width"] = _two_lists(means)
        after = {how: np.mean([cell["after"][how] for cell in cells], axis=0) for how in cells[0]["after"]}
        found[method]["worst, mean after"] = after
        found[method]["class errors"] = np.mean([cell["test"]["class errors"] for cell in cells], axis=0)
    return found


def _two_lists(repeats: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the means over repeats, and half the widths of their 95 % intervals."""
    columns = [mean_and_half_width(column) for column in zip(*repeats, strict=True)]
    return [[round(mean, 5) for mean, _ in columns], [round(half, 5) for _, half in columns]]


def about(settings: Settings) -> str:
    cut = (
        "the data are cut and the net is small, so compare the order of the methods, not the numbers"
        if settings.scale == "small"
        else "the papers' protocols where they are printed"
    )
    n = settings.repeats
    over = f"{n} repeats, 95 % intervals over them" if n > 1 else "one repeat"
    return (
        f"Scale {settings.scale}: {cut}. Test errors in %, {over}. Beside them what class weights, and a "
        "mixture, make of a net or of the mean probabilities of a game's members for one point of mean "
        "error, worst / mean, chosen on the rows held out."
    )


def table(title: str, found: dict[str, list[dict[str, Any]]], settings: Settings) -> str:
    said = PUBLISHED.get(title, {})

    def line(label: str, cells: list[dict[str, Any]], which: str, published: str = "") -> list[str]:
        rows = [cell[which] for cell in cells]
        numbers = [plus_minus([100 * row[what] for row in rows], 1) for what in ("worst", "mean")]
        few = f" ({len(cells)} of {settings.repeats})" * (len(cells) < settings.repeats)
        after = [_after_words(cells, how) for how in (WEIGHTS, MIXTURE)] if which == "test" else ["", ""]
        seconds = plus_minus([cell["seconds"] for cell in cells], 1)
        return [label + few, *numbers, *after, published, seconds]

    body = []
    for method, cells in found.items():
        if method.startswith((BY_THETA, BY_OCO_GAMMA)):
            continue
        label = label_of(method)
        if method == GAME:
            body.append(line("AdaLPBoost, λ for the worst class", cells, "test"))
        else:
            body.append(line(label, cells, "test", said.get(label, "")))
        if method in (GAME, MINIMAX):
            body.append(line("the same, drawn", cells, "drawn"))
        if "prefix" in cells[0]:
            prefix = [{w: cell["prefix"][f"{w} test"] for w in ("worst", "mean")} for cell in cells]
            first = ", ".join(str(cell["prefix"]["voters"]) for cell in cells)
            body.append(
                line(f"the same, first {first} voters, by rows held out", of_prefix(cells, prefix), "prefix")
            )
    header = ["", "worst class", "mean", *(f"{how}, 1 point" for how in (WEIGHTS, MIXTURE))]
    header += ["published, worst / mean", "CPU seconds"]
    parts = [f"## {title}", markdown(header, body), *_thetas(title, found)]
    return "\n\n".join([*parts, *_facts(found), *_curves(found)])


def of_prefix(cells: Sequence[dict[str, Any]], errors: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """Return cells with errors as their "prefix"."""
    return [cell | {"prefix": error} for cell, error in zip(cells, errors, strict=True)]


def _mean_after(cells: Sequence[dict[str, Any]], how: str = WEIGHTS) -> tuple[float, float]:
    worst, mean = 100 * np.mean([cell["after"][how][SHOWN_BUDGET] for cell in cells], axis=0)
    return float(worst), float(mean)


def _after_words(cells: Sequence[dict[str, Any]], how: str) -> str:
    return " / ".join(f"{error:.1f}" for error in _mean_after(cells, how))


def _thetas(title: str, found: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """Return the table of worst-class boosting by θ."""
    said = {with_theta(theta): text for theta, text in PUBLISHED_BY_THETA.get(title, {}).items()}
    body = []
    for method, cells in found.items():
        if method.startswith(BY_THETA):
            numbers = [plus_minus([100 * c["test"][w] for c in cells], 1) for w in ("worst", "mean")]
            held = plus_minus([100 * c["worst held out"] for c in cells], 1)
            rounds = ", ".join(str(c["rounds"]) for c in cells)
            met = f"{sum(c['bound met'] for c in cells)} of {len(cells)}"
            theta = method.removeprefix(BY_THETA)
            body.append([theta, *numbers, held, rounds, met, said.get(method, "")])
    if not body:
        return []
    header = ["θ", "worst class", "mean", "worst class, held out", "rounds", "met on the rows fitted on"]
    header.append("published, worst / mean")
    words = (
        "Worst-class boosting by θ, as published with the condition on the rows fitted on; the table above "
        "has the θ of the least worst class on the rows held out, and the seconds of all:"
    )
    return [f"{words}\n\n{markdown(header, body)}"]


def _facts(found: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    facts = []
    if game := found.get(GAME):
        facts.append(f"Error of ERM in the CVaR game: {plus_minus([100 * c['error'] for c in game], 1)} %.")
    rows = {REACHED: "rows held out", MINIMAX: "rows held out", WORST: "the rows fitted on"}
    for method, where in rows.items():
        if played := found.get(method, []):
            theta, used, rounds = (
                ", ".join(f"{c[k]:g}" for c in played) for k in ("theta", "voters", "rounds")
            )
            facts.append(
                f"{method[0].upper()}{method[1:]}: θ {theta}; {used} members used of {rounds} rounds; "
                f"targets met on {where} in {sum(c['bound met'] for c in played)} of {len(played)} repeats."
            )
    return [" ".join(facts)] if facts else []


def _curves(found: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    game = found.get(GAME, [])
    if not game:
        return []
    K = len(game[0]["test"]["class errors"])
    names = ["ERM", "AdaBoost + average", "AdaLPBoost", "AdaLPBoost + constants"]
    names += [after(t) for t in STAGES if after(t) in game[0]["curves"]]
    curves = [[name, *at_alphas([cell["curves"][name] for cell in game], SHOWN)] for name in names]
    curves.append(["coin flip", *[f"{1 - 1 / K:.3f}"] * len(SHOWN)])
    return ["CVaR of the zero-one loss:\n\n" + markdown(["", *(f"α = {a:g}" for a in SHOWN)], curves)]


def picture(found: dict[str, dict[str, list[dict[str, Any]]]], plt: Any) -> Any:
    """Draw worst and mean errors of all methods, and the CVaR curves, a column per data set."""
    columns, games = max(1, len(found)), any(GAME in by_method for by_method in found.values())
    size = (1.5 + 4.5 * columns, 8.6 if games else 4.8)
    figure, panels = plt.subplots(1 + games, columns, figsize=size, squeeze=False, layout="constrained")
    for (title, by_method), bars, curves in zip(found.items(), panels[0], panels[-1], strict=False):
        labels = ["AdaLPBoost, worst class" if m == GAME else _short(m) for m in by_method]
        at = np.arange(len(labels))
        for what, colour, marker in (("mean", "C0", "o"), ("worst", "C1", "s")):
            values = [[100 * c["test"][what] for c in cells] for cells in by_method.values()]
            bars.plot([np.mean(v) for v in values], at, marker, color=colour, label=what)
            bars.hlines(at, [min(v) for v in values], [max(v) for v in values], color=colour, linewidth=1)
        after = [_mean_after(cells)[0] for cells in by_method.values()]
        bars.plot(after, at, "x", color="C2", label="worst, class weights")
        bars.set_yticks(at, labels)
        bars.invert_yaxis()
        bars.grid(axis="y", alpha=0.3)
        bars.set(xlabel="test error, % (line: range over repeats)", xlim=(0, None))
        bars.set_title(title)
        if game := by_method.get(GAME):
            names = ("ERM", "AdaBoost + average", "AdaLPBoost")
            K = len(game[0]["test"]["class errors"])
            draw_curves(curves, {n: [c["curves"][n] for c in game] for n in names}, K, "")
        elif games:
            curves.set_axis_off()
    legend = panels[0, 0].get_legend_handles_labels()
    figure.legend(*legend, loc="outside upper center", ncols=3, frameon=False)
    return figure


def _short(method: str) -> str:
    return label_of(method).removeprefix(f"{WORST}, ")  # θ says which
