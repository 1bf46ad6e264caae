"""COMPAS by the protocol of Zhai et al., Boosted CVaR Classification (NeurIPS 2021), with its net.

All 7,214 rows, eight features as they are, target is_recid, 70/30 split with seed 42: the repeats vary the
nets, so that intervals speak about training, not about the rows. MLP 8-100-100-2, SGD .01 with momentum .9,
batches of 128; 3 epochs of warm-up from which every round starts, weights and momentum; 500 steps a round,
the step size a tenth after 400; 100 rounds. λ from training rows, as in the paper, and from rows held out.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from sklearn.model_selection import train_test_split

from tailboost.classifiers import (
    AdaLPBoostClassifier,
    AverageBoostClassifier,
    LPBoostClassifier,
    RegularizedLPBoostClassifier,
)
from tailboost.datasets import load_compas
from tailboost.reproduce._experiment import Cells, Experiment, Settings, interval, markdown, write
from tailboost.reproduce._nets import ALPHAS, Sample, at_alphas, checkpoints, draw_curves, judge_game

SPLIT_SEED = 42
FILES = ("compas-scores-two-years.csv", "compas-scores-two-years.csv.gz")
ROUNDS = {"paper": 100, "small": 30}
STEPS, WARM_EPOCHS, BATCH = 500, 3, 128
HELD_OUT = 0.2
SHOWN = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
# An independent re-run of the published procedure (5 seeds), at the α shown; the paper prints figures only.
PUBLISHED = {
    "ERM": ("1.000", "1.000", "1.000", "0.620 ± .007", "0.443 ± .005", "0.344 ± .004"),
    "AdaBoost + average": ("0.520 ± .009", "0.511 ± .001", "0.505 ± .001", "0.503", "0.502", "0.500"),
    "AdaLPBoost": ("0.505 ± .013", "0.500 ± .001", "0.500", "0.500", "0.443 ± .005", "0.344 ± .004"),
    "uniform weights + LP": ("1.000", "1.000", "0.969", "0.618", "0.441", "0.343"),
}
PUBLISHED_REGULARISED = {0.1: "0.505 ± .01", 0.3: "0.502"}
# Games by name: the classifier, its own parameters, and whether λ has rows of its own.
GAMES: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "λ from training": (AdaLPBoostClassifier, {}, False),
    "λ held out": (AdaLPBoostClassifier, {}, True),
    # Hedge at so small a rate leaves the weights uniform.
    "uniform weights": (AverageBoostClassifier, {"eta": 1e-12}, False),
    **{
        f"regularised, α = {alpha:g}": (RegularizedLPBoostClassifier, {"alpha": alpha, "beta": 100.0}, False)
        for alpha in PUBLISHED_REGULARISED
    },
    "LPBoost, α = 0.1": (LPBoostClassifier, {"alpha": 0.1}, False),
}


def rows(settings: Settings) -> tuple[Sample, Sample]:
    """Return training and test rows; the same for all repeats."""
    assert settings.data is not None  # needs_data
    files = [settings.data / name for name in FILES]
    found = next((file for file in files if file.is_file()), files[0])
    X, y = load_compas(found, return_X_y=True, as_frame=False)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=SPLIT_SEED)
    return (X, y), (X_test, y_test)


def _cell(settings: Settings, train: Sample, test: Sample, game: str, seed: int) -> dict[str, Any]:
    from tailboost.torch import TorchClassifier, nets

    make, params, held_out = GAMES[game]
    fitted = judged = train
    if held_out:
        X, X_val, y, y_val = train_test_split(*train, test_size=HELD_OUT, random_state=seed)
        fitted, judged = (X, y), (X_val, y_val)
    net = TorchClassifier(
        nets.mlp_100_100, learning_rate=0.01, momentum=0.9, batch_size=BATCH, steps=STEPS, milestones=(0.8,),
        warmup_steps=WARM_EPOCHS * -(-len(fitted[1]) // BATCH), device="cpu",
    )  # fmt: skip
    given = {"validation": "train", "include_constants": False, "n_iter_no_change": None}
    given = {} if make is AverageBoostClassifier else given
    with checkpoints(settings, "compas", game, seed) as folder:
        classifier = make(
            net,
            n_estimators=ROUNDS[settings.scale],
            checkpoint_dir=folder,
            random_state=seed,
            **given,
            **params,
        )
        began = time.process_time()
        classifier.fit(*fitted)
        seconds = time.process_time() - began
        found = judge_game(classifier.estimators_, judged, test, n_classes=2)
    return found | {"seconds": round(seconds, 2), "rounds": classifier.n_iter_}


def run(settings: Settings) -> str:
    """Run the experiment; see `tailboost.reproduce.Experiment`."""
    train, test = rows(settings)
    cells = Cells(settings.out / "compas.jsonl", settings.say, total=len(GAMES) * settings.repeats)
    found: dict[str, list[dict[str, Any]]] = {game: [] for game in GAMES}
    for seed in range(settings.repeats):
        for game in GAMES:
            key = {"game": game, "rounds": ROUNDS[settings.scale], "seed": seed}
            found[game].append(cells.get(key, partial(_cell, settings, train, test, game, seed)))
    text = _text(settings, found)
    document = {"settings": {"scale": settings.scale, "rounds": ROUNDS[settings.scale], "alphas": ALPHAS}}
    write(settings, "compas", document | {"games": found}, text)
    _picture(settings, found)
    return text


def _curves(found: dict[str, list[dict[str, Any]]], game: str, name: str) -> list[list[float]]:
    return [cell["curves"][name] for cell in found[game]]


def _text(settings: Settings, found: dict[str, list[dict[str, Any]]]) -> str:
    T = ROUNDS[settings.scale]
    trained, held = "λ from training", "λ held out"
    ours = {
        "ERM": (trained, "ERM"),
        "AdaBoost + average": (trained, "AdaBoost + average"),
        "AdaLPBoost": (trained, "AdaLPBoost"),
        "uniform weights + LP": ("uniform weights", "AdaLPBoost"),
    }
    body: list[list[str]] = []
    for label, (game, name) in ours.items():
        body.append([label, "published procedure, re-run", *PUBLISHED[label]])
        body.append(["", "ours", *at_alphas(_curves(found, game, name), SHOWN)])
    further = {
        f"AdaLPBoost, λ from {HELD_OUT:.0%} held out": (held, "AdaLPBoost"),
        "the same + constants": (held, "AdaLPBoost + constants"),
        "AdaLPBoost + constants, λ from training": (trained, "AdaLPBoost + constants"),
    }
    if T > 30:
        further["AdaLPBoost, T = 30, λ from training"] = (trained, "AdaLPBoost, T = 30")
    body += [[k, "ours", *at_alphas(_curves(found, *where), SHOWN)] for k, where in further.items()]
    body.append(["coin flip", "", *["0.500"] * len(SHOWN)])
    for game, (_, params, _) in GAMES.items():
        if "alpha" in params:
            at = SHOWN.index(params["alpha"])
            blank = [""] * len(SHOWN)
            if game.startswith("regularised"):
                said = PUBLISHED_REGULARISED[params["alpha"]]
                body.append([f"{game}, β = 100", "published procedure, re-run", *_put(blank, at, said)])
            mine = at_alphas(_curves(found, game, "AdaLPBoost"), SHOWN)[at]
            body.append([game, "ours", *_put(blank, at, mine)])
    games = found[trained]
    means = [
        [f"{alpha:g}", interval([c["mean loss of AdaLPBoost"][ALPHAS.index(alpha)] for c in games])]
        for alpha in SHOWN
    ]
    facts = {
        "error of ERM": interval([c["error"] for c in games]),
        "mean error of the members": interval([c["mean error of the members"] for c in games]),
    } | {f"CPU seconds, {game}": interval([c["seconds"] for c in of], 1) for game, of in found.items()}
    return "\n\n".join(
        [
            f"# {EXPERIMENT.summary}",
            f"Test α-CVaR of the zero-one loss; {T} rounds, {settings.repeats} seeds, 95 % intervals.",
            markdown(["", "", *(f"α = {alpha:g}" for alpha in SHOWN)], body),
            "## Mean test loss of AdaLPBoost, λ from training\n\n" + markdown(["α", "mean loss"], means),
            "## Facts\n\n" + markdown(["", "mean ± 95 %"], [list(row) for row in facts.items()]),
        ]
    )


def _put(row: list[str], at: int, value: str) -> list[str]:
    return [*row[:at], value, *row[at + 1 :]]


def _picture(settings: Settings, found: dict[str, list[dict[str, Any]]]) -> None:
    try:
        import matplotlib.pyplot as plt
    except ImportError:  # the table does not need it
        return
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
    for ax, game in zip(panels, ("λ from training", "λ held out"), strict=True):
        names = ("ERM", "AdaBoost + average", "AdaLPBoost")
        draw_curves(ax, {name: _curves(found, game, name) for name in names}, 2, f"COMPAS, {game}")
    figure.savefig(settings.out / "compas.png", dpi=120)
    plt.close(figure)


EXPERIMENT = Experiment(
    "compas", "COMPAS: CVaR of AdaLPBoost with the paper's net", repeats=5, needs_data=True, run=run
)
