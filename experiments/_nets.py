"""Common parts of experiments with nets: checkpoints of cells, CVaR of a game's mixtures, curves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags

from experiments._bounds import cvar_bound
from experiments._experiment import Settings, mean_and_half_width, plus_minus
from tailboost.app.plotting import CVaRCurveDisplay
from tailboost.rates.metrics import cvar
from tailboost.solvers import mixture_path

Floats = NDArray[np.float64]
Sample = tuple[NDArray[Any], NDArray[np.int64]]

ALPHAS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# α at which the two members with the largest shares are reported.
PAIR_ALPHA = 0.1
# Numbers of rounds after which a game is judged too, and the α at which its CVaR is drawn against them.
STAGES = (1, 2, 5, 10, 20, 30, 50, 100)
STAGE_ALPHAS = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
BOUND_OF_CHOICE, BOUND_OF_TEST = "bound from the rows of the choice", "bound from the test rows"


class Remembered(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A learner of nets with a folder of its trained nets: the same training is read from a file.

    A killed game that is played again with the same rows and parameters so continues. The folder belongs to
    one game.

    Parameters
    ----------
    estimator : TorchClassifier
        The learner.
    folder : Path
        The folder, which is created.
    """

    def __init__(self, estimator: Any, folder: Path) -> None:
        self.estimator = estimator
        self.folder = folder

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def fit(self, X: NDArray[Any], y: NDArray[Any], sample_weight: Floats | None = None) -> Any:
        """Return the fitted learner."""
        return clone(self.estimator).fit(X, y, sample_weight=sample_weight)

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Raise: the nets answer."""
        raise NotImplementedError

    def open_session(self, X: NDArray[Any], y: Any, n_classes: int, sample_weight: Floats) -> Any:
        """Return the session of the learner, which remembers its trainings."""
        self.folder.mkdir(parents=True, exist_ok=True)
        session = self.estimator.open_session(X, y, n_classes, sample_weight)
        return RememberedSession(session, self.folder)


class RememberedSession:
    """A session of `Remembered`; a file is named by the weights, the seed and the rows of a training."""

    def __init__(self, session: Any, folder: Path) -> None:
        self.session = session
        self.folder = folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def fit(self, weight: Floats, seed: int, rows: Any = None) -> Any:
        """Return the trained net."""
        (path,) = islice(self._files(weight, seed, rows), 1)
        if not path.exists():
            self._keep(path, self.session.fit(weight, seed, rows))
        return joblib.load(path)

    def stages(self, weight: Floats, seed: int, rows: Any = None) -> Iterator[Any]:
        """Yield the net after each stage; stages that are not in the folder are trained."""
        newest = None
        for number, path in enumerate(self._files(weight, seed, rows, "stages")):
            if not path.exists():
                if newest is None:  # the first stage that is missing
                    newest = islice(self.session.stages(weight, seed, rows), number, None)
                self._keep(path, next(newest, None))  # None after the last stage
            net = joblib.load(path)
            if net is None:
                return
            yield net

    def _files(self, *training: Any) -> Iterator[Path]:
        return (self.folder / f"net-{joblib.hash(training)}-{number}.pkl" for number in count())

    def _keep(self, path: Path, net: Any) -> None:
        unfinished = path.with_suffix(".part")
        joblib.dump(net, unfinished)
        unfinished.replace(path)


@contextmanager
def checkpoints(settings: Settings, *names: Any) -> Iterator[Path]:
    """Yield the folder from which a cell's fit resumes after an interrupt; a finished cell removes it."""
    folder = settings.out / "checkpoints" / "-".join(str(name).replace(" ", "-") for name in names)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # the folder contains other cells' checkpoints
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
    """Return the expected test losses under the λ optimal on the selection rows, one row per α."""
    shares = np.array([solution.mixture for solution in mixture_path(judged, ALPHAS)])
    return shares @ test


def after(t: int) -> str:
    """Return the name of the curve of AdaLPBoost with the first t members."""
    return f"AdaLPBoost, T = {t}"


def bounds(members: Sequence[Any], judged: Sample, test: Sample) -> dict[str, list[float]]:
    """Return bounds on the CVaR of new rows and the test CVaR, δ = .05, for each α.

    Parameters
    ----------
    members : list of T classifiers
        Fitted on other rows.
    judged, test : (X, y)
        Independent rows: selection rows for λ, and test rows.

    Returns
    -------
    dict
        The bound from the selection rows, for any mixture of T fixed hypotheses, with Rademacher complexity
        √(2 log T / n); the bound from the test rows, for this mixture alone; and their CVaR.
    """
    seen, unseen = wrong(members, judged), wrong(members, test)
    shares = np.array([solution.mixture for solution in mixture_path(seen, ALPHAS)])
    complexity = float(np.sqrt(2 * np.log(len(members))))
    found: dict[str, list[float]] = {BOUND_OF_CHOICE: [], BOUND_OF_TEST: [], "observed": []}
    for alpha, chosen, fresh in zip(ALPHAS, shares @ seen, shares @ unseen, strict=True):
        found[BOUND_OF_CHOICE].append(cvar_bound(chosen.clip(0, 1), alpha, complexity=complexity))
        found[BOUND_OF_TEST].append(cvar_bound(fresh.clip(0, 1), alpha))
        found["observed"].append(cvar(fresh, alpha))
    return {name: [round(value, 5) for value in values] for name, values in found.items()}


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
        Selection rows for λ, and test rows of the curves.
    n_classes : int
        K.
    weight : ndarray of shape (n_test,), optional
        Weights of the test rows.
    stages : sequence of int
        Numbers of rounds, at most T, with a curve.
    """
    seen, unseen = wrong(members, judged), wrong(members, test)
    constants = [np.array([y != k for k in range(n_classes)]) for _, y in (judged, test)]
    expected = {
        "AdaLPBoost": mixtures(seen, unseen),
        "AdaLPBoost + constants": mixtures(np.r_[seen, constants[0]], np.r_[unseen, constants[1]]),
    }
    shares = mixture_path(seen, [PAIR_ALPHA])[0].mixture
    pair = np.argsort(shares)[::-1][:2]
    stages = [t for t in stages if t <= len(members)]
    return {
        "error": round(float(np.average(unseen[0], weights=weight)), 5),
        "mean error of the members": round(float(np.average(unseen.mean(axis=0), weights=weight)), 5),
        "curves": {
            "ERM": curve(unseen[0].astype(float), weight),
            "AdaBoost + average": curve(unseen.mean(axis=0), weight),
            **{name: curve(rows, weight) for name, rows in expected.items()},
            **{after(t): curve(mixtures(seen[:t], unseen[:t]), weight) for t in stages},
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


def draw_stages(ax: Any, curves: Mapping[int, Sequence[Sequence[float]]], title: str) -> None:
    """Draw the mean test CVaR of AdaLPBoost against T at the α of `STAGE_ALPHAS`, with 95 % bands."""
    for k, alpha in enumerate(STAGE_ALPHAS):
        at = [[curve[ALPHAS.index(alpha)] for curve in repeats] for repeats in curves.values()]
        mean, half = np.array([mean_and_half_width(values) for values in at]).T
        ax.plot(list(curves), mean, ".-", color=f"C{k}", linewidth=1.5, label=f"α = {alpha:g}")
        if not np.isnan(half).any():
            ax.fill_between(list(curves), mean - half, mean + half, color=f"C{k}", alpha=0.2, linewidth=0)
    ax.set(xscale="log", xlabel="T", title=title)
    ax.set_xticks(list(curves), list(map(str, curves)))
    ax.minorticks_off()
    ax.legend()


def draw_curves(ax: Any, curves: Mapping[str, Sequence[Sequence[float]]], n_classes: int, title: str) -> None:
    """Draw mean curves over repeats with their 95 % bands, and the random guess."""
    for name, repeats in curves.items():
        mean, half = np.array([mean_and_half_width(column) for column in zip(*repeats, strict=True)]).T
        band = {} if np.isnan(half).any() else {"lower": mean - half, "upper": mean + half}
        CVaRCurveDisplay(ALPHAS, mean, n_classes=n_classes, name=name, **band).plot(ax, linewidth=1.5)
    ax.set_title(title)
