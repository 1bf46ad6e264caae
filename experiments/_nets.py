"""What experiments with nets share: checkpoints of unfinished cells, CVaR of a game's mixtures, curves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments._experiment import Settings, mean_and_half_width, plus_minus
from tailboost.metrics import cvar
from tailboost.plotting import CVaRCurveDisplay
from tailboost.solvers import mixture_path

Floats = NDArray[np.float64]
Sample = tuple[NDArray[Any], NDArray[np.int64]]

ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# α at which the two members with the largest shares are reported.
PAIR_ALPHA = 0.1


@contextmanager
def checkpoints(settings: Settings, *names: Any) -> Iterator[Path]:
    """Yield the folder from which a cell's fit resumes after an interrupt; a finished cell removes it."""
    folder = settings.out / "checkpoints" / "-".join(str(name).replace(" ", "-") for name in names)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # it still holds other cells' checkpoints
        folder.parent.rmdir()


def wrong(members: Sequence[Any], sample: Sample) -> NDArray[np.bool_]:
    """Return the zero-one losses of members, shape (T, n); labels are class numbers."""
    X, y = sample
    return np.array([member.predict(X) != y for member in members])


def curve(expected: Floats, weight: Floats | None = None) -> list[float]:
    """Return CVaR_α of the rows' expected losses at every α of `ALPHAS`.

    Parameters
    ----------
    expected : ndarray of shape (n,) or (len(ALPHAS), n)
        The second has losses for each α.
    weight : ndarray of shape (n,), optional
        Weights of the rows.
    """
    rows = np.broadcast_to(expected, (len(ALPHAS), expected.shape[-1]))
    return [round(cvar(row, alpha, weight), 5) for row, alpha in zip(rows, ALPHAS, strict=True)]


def mixtures(judged: NDArray[np.bool_], test: NDArray[np.bool_]) -> Floats:
    """Return the test rows' expected losses under the λ that is optimal on the judged rows, one row per α."""
    shares = np.array([solution.mixture for solution in mixture_path(judged, ALPHAS)])
    return shares @ test


def judge_game(
    members: Sequence[Any],
    judged: Sample,
    test: Sample,
    n_classes: int,
    weight: Floats | None = None,
    stages: Sequence[int] = (),
) -> dict[str, Any]:
    """Return the test curves of every classifier made of one game's members; the first is plain ERM.

    Parameters
    ----------
    members : list of T classifiers
        The boosted hypotheses, in order.
    judged, test : (X, y)
        The rows λ is chosen on, and those the curves are about.
    n_classes : int
        K.
    weight : ndarray of shape (n_test,), optional
        Weights of the test rows.
    stages : sequence of int
        Numbers of rounds, fewer than T or T, after which there is a curve too.
    """
    seen, unseen = wrong(members, judged), wrong(members, test)
    constants = [np.array([y != k for k in range(n_classes)]) for _, y in (judged, test)]
    expected = {
        "AdaLPBoost": mixtures(seen, unseen),
        "AdaLPBoost + constants": mixtures(np.r_[seen, constants[0]], np.r_[unseen, constants[1]]),
    }
    shares = mixture_path(seen, [PAIR_ALPHA])[0].mixture
    pair = np.argsort(shares)[::-1][:2]
    return {
        "error": round(float(np.average(unseen[0], weights=weight)), 5),
        "mean error of the members": round(float(np.average(unseen.mean(axis=0), weights=weight)), 5),
        "curves": {
            "ERM": curve(unseen[0].astype(float), weight),
            "AdaBoost + average": curve(unseen.mean(axis=0), weight),
            **{name: curve(rows, weight) for name, rows in expected.items()},
            **{
                f"AdaLPBoost, T = {t}": curve(mixtures(seen[:t], unseen[:t]), weight)
                for t in stages
                if t <= len(members)
            },
        },
        "two largest λ": {
            "sum": round(float(shares[pair].sum()), 5),
            "disagree": round(float(np.average(unseen[pair[0]] != unseen[pair[-1]], weights=weight)), 5),
        },
        "mean loss of AdaLPBoost": np.average(expected["AdaLPBoost"], axis=1, weights=weight)
        .round(5)
        .tolist(),
    }


def at_alphas(curves: Sequence[Sequence[float]], alphas: Sequence[float]) -> list[str]:
    """Return mean ± half width over repeats of curves at some of `ALPHAS`, as text."""
    return [plus_minus([c[ALPHAS.index(alpha)] for c in curves]) for alpha in alphas]


def draw_curves(ax: Any, curves: Mapping[str, Sequence[Sequence[float]]], n_classes: int, title: str) -> None:
    """Draw mean curves over repeats with their 95 % bands, beside the coin flip."""
    for name, repeats in curves.items():
        mean, half = np.array([mean_and_half_width(column) for column in zip(*repeats, strict=True)]).T
        band = {} if np.isnan(half).any() else {"lower": mean - half, "upper": mean + half}
        CVaRCurveDisplay(ALPHAS, mean, n_classes=n_classes, name=name, **band).plot(ax, linewidth=1.5)
    ax.set_title(title)
