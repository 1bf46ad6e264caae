"""Compare methods over repeated random splits of one data set."""

from __future__ import annotations

import dataclasses
import datetime
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.impute import SimpleImputer
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import get_tags

from tailboost import metrics, rates
from tailboost.app.datasets import TableChangedWarning
from tailboost.app.registry import METHODS, Method, get_method
from tailboost.app.report.results import INTERVAL_NOTE, LEVEL, SCHEMA_VERSION, Results, summarise, versions
from tailboost.app.table_encoder import TableEncoder, takes_missing
from tailboost.core.interrupts import noticing_interrupts
from tailboost.core.subgroups import telling_features
from tailboost.guarantees.robustness import empirical_bernstein_bound

CURVE_ALPHAS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
COIN_FLIP = "coinflip"
# The most classes for which the answers to each class are kept.
MOST_CONFUSED = 20
# Mean errors above the least of a member, at which a trade-off is measured; 1 sets no limit.
BUDGETS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 1.0)


def compare(
    X: Any,
    y: ArrayLike,
    groups: Any = None,
    *,
    methods: Sequence[str | Method] | None = None,
    alphas: Sequence[float] = (0.1, 0.3, 0.5),
    repeats: int = 5,
    test_size: float = 0.3,
    clusters: Any = None,
    random_state: int | None = None,
    n_jobs: int | None = None,
    curve_alphas: Sequence[float] = CURVE_ALPHAS,
    data_name: str = "data",
    command: str | None = None,
    on_progress: Callable[[Results, int, int, str], None] | None = None,
) -> Results:
    """Fit every method on the same random splits and measure it on the rows held out.

    A method that depends on α is trained once per split and re-weighted to each α: its CVaR at α is that of
    the classifier for this α, its other figures are those for the middle one of `alphas`
    (``settings.main_alpha``; for the other α they are under ``at_alpha``). The CVaR of a randomised mixture
    is that of its expected zero-one loss; every other method answers with one label per row, so that its CVaR
    is min(1, error/α). Errors are those of ``predict``; for mixtures the expected ones stand beside them. The
    coin flip is always part of the comparison.

    Parameters
    ----------
    X : DataFrame or array-like, shape (n, d)
        Features. A DataFrame is encoded by `TableEncoder`, learned on the training rows of each split.
    y : array-like, shape (n,)
        Labels, at least two classes with at least two rows each.
    groups : DataFrame, shape (n, g), default=None
        One column per grouping of the rows. Group errors are measured for each column; methods that train on
        groups get `joint_groups` of all of them. Without groups they take the classes, and are left out
        beside a variant of theirs that does so anyway.
    methods : sequence of str or Method, default=None
        Names from `tailboost.app.registry.METHODS`; None takes all. Methods that cannot be used (a package
        is missing, or they take two classes only) are listed with the reason in ``left_out``.
    alphas : sequence of float in (0, 1]
        Tail masses at which CVaR is measured.
    repeats : int ≥ 1
        Number of stratified random splits.
    test_size : float in (0, 1)
        Share of the rows held out in each split.
    clusters : array-like of shape (n,), optional
        Whose rows these are, where persons have several: rows of one stay on one side of each split, and
        `test_size` is a share of the persons.
    random_state : int, default=None
        Seed of everything random. None draws one; it is kept in the results.
    n_jobs : int, default=None
        Passed to the methods.
    curve_alphas : sequence of float in (0, 1]
        Where the CVaR curves are evaluated, besides `alphas`.
    data_name, command : str
        What to call the data and how the comparison was called, for the record.
    on_progress : callable, default=None
        Called as ``on_progress(results, done, total, what)`` before each fit and once at the end, with the
        results of the ``done`` fits finished so far.

    Returns
    -------
    Results
        ``status`` is "complete", or "interrupted" after Ctrl-C; finished fits are kept then. A method
        that raised an error is listed with it in ``failures``; the others are not affected.

    Raises
    ------
    ValueError, TypeError
        For unknown methods, estimators instead of methods, numbers out of range, or labels or groups that
        cannot be split, before any fit.
    """
    levels = checked_alphas("alphas", alphas)
    curve = sorted({*checked_alphas("curve_alphas", curve_alphas), *levels})
    if not isinstance(repeats, int) or repeats < 1:
        raise ValueError(f"repeats must be an integer of at least 1, got {repeats!r}")
    if not 0 < test_size < 1:
        raise ValueError(f"test_size must lie strictly between 0 and 1, got {test_size!r}")
    if random_state is not None and (not isinstance(random_state, int) or random_state < 0):
        raise ValueError(f"random_state must be None or a non-negative integer, got {random_state!r}")
    table, labels = _checked_table(X, y)
    classes, counts = _checked_classes(labels, test_size)
    columns = _group_columns(groups, len(labels))
    whose = None if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    if whose is not None and whose.shape != labels.shape:
        raise ValueError(f"clusters must have shape {labels.shape}, got {whose.shape}")
    chosen, left_out = _chosen(methods, len(classes), with_groups=bool(columns))
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if random_state is None else random_state
    document = _new_document(data_name, command, table, classes, counts, columns, chosen, left_out)
    document["settings"] = {
        "alphas": levels,
        "main_alpha": levels[len(levels) // 2],
        "curve_alphas": curve,
        "repeats": repeats,
        "test_size": test_size,
        "clusters": whose is not None,
        "random_state": seed,
        "n_jobs": n_jobs,
        "interval": {"level": LEVEL, "kind": "Student t over repeats", "note": INTERVAL_NOTE},
    }
    results = Results(document)
    total, done = repeats * len(chosen), 0

    def report(what: str) -> None:
        if on_progress is not None:
            on_progress(results, done, total, what)

    try:
        with noticing_interrupts() as interrupted:
            for split, description in _splits(table, labels, columns, whose, document["settings"]):
                document["splits"].append(description)
                repeat = description["repeat"]
                for method, entry in zip(chosen, document["methods"], strict=True):
                    report(f"repeat {repeat + 1} of {repeats}: {method.title}")
                    outcome = _measure(method, split, document["settings"], description["fit_seed"])
                    if interrupted():  # a learner may have swallowed it
                        raise KeyboardInterrupt
                    record, failure, said = outcome
                    entry["warnings"] = list(dict.fromkeys([*entry["warnings"], *said]))
                    if record is None:
                        entry["failures"].append({"repeat": repeat, "error": failure})
                    else:
                        entry["repeats"].append({"repeat": repeat, **record})
                        entry["figures"] = summarise([_figures(r) for r in entry["repeats"]])
                    done += 1
        document["status"] = "complete"
    except KeyboardInterrupt:
        document["status"] = "interrupted"
    report("done" if document["status"] == "complete" else "interrupted")
    return results


def _new_document(
    name: str,
    command: str | None,
    table: Any,
    classes: NDArray[Any],
    counts: NDArray[Any],
    groups: dict[str, NDArray[Any]],
    methods: Sequence[Method],
    left_out: list[dict[str, str]],
) -> dict[str, Any]:
    """Return the results of a comparison of which no fit is finished."""
    described = ["name", "title", "summary", "ours", "uses_alpha", "uses_groups", "by_group", "randomized"]
    return {
        "schema": "tailboost.results",
        "schema_version": SCHEMA_VERSION,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "status": "running",
        "command": command,
        "versions": versions(),
        "data": {
            "name": name,
            "n_rows": int(counts.sum()),
            "n_features": int(table.shape[1]),
            "classes": [str(c) for c in classes],
            "class_counts": [int(c) for c in counts],
            "groups": {
                column: {
                    str(name): int(n) for name, n in zip(*np.unique(values, return_counts=True), strict=True)
                }
                for column, values in groups.items()
            },
            "group_features": _group_features(table, groups),
        },
        "settings": {},
        "left_out": left_out,
        "splits": [],
        "methods": [
            {key: getattr(method, key) for key in described}
            | {"repeats": [], "figures": None, "failures": [], "warnings": []}
            for method in methods
        ],
    }


def _splits(
    table: Any,
    labels: NDArray[Any],
    groups: dict[str, NDArray[Any]],
    whose: NDArray[Any] | None,
    settings: dict[str, Any],
) -> Iterator[tuple[_Split, dict[str, Any]]]:
    """Yield each split with what the results say of it."""
    seed, joint = settings["random_state"], joint_groups(groups) if groups else None
    splitter = StratifiedShuffleSplit(settings["repeats"], test_size=settings["test_size"], random_state=seed)
    person = np.arange(len(labels)) if whose is None else whose
    of_person = _rarest(labels, person)
    for repeat, sides in enumerate(splitter.split(np.zeros(len(of_person)), of_person)):
        train, test = sides if whose is None else (np.flatnonzero(np.isin(person, side)) for side in sides)
        fit_seed = int(np.random.SeedSequence([seed, repeat]).generate_state(1)[0])
        if hasattr(table, "iloc"):
            encoder = TableEncoder().fit(table.iloc[train])
            with warnings.catch_warnings():  # held-out rows may have unseen categories
                warnings.simplefilter("ignore", TableChangedWarning)
                X_train, X_test = (encoder.transform(table.iloc[side]) for side in (train, test))
        else:
            X_train, X_test = table[train], table[test]
        split = _Split(
            X_train,
            X_test,
            labels[train],
            labels[test],
            None if joint is None else joint[train],
            None if joint is None else joint[test],
            {name: values[test] for name, values in groups.items()},
            np.unique(labels),
        )
        yield split, {"repeat": repeat, "fit_seed": fit_seed, "n_train": len(train), "n_test": len(test)}


def _rarest(labels: NDArray[Any], person: NDArray[Any]) -> NDArray[Any]:
    """Return of each person the label that is rarest of all, by which persons are spread over a split."""
    values, number, counts = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(counts, kind="stable")
    rank = np.argsort(order)[number]
    least = np.full(int(person.max()) + 1, len(values))
    np.minimum.at(least, person, rank)
    named: NDArray[Any] = values[order][least]
    return named


def joint_groups(groups: Any, min_share: float = 0.01) -> NDArray[np.str_]:
    """One group per row from several columns: their values, as "sex=female, age_band=30-39".

    Combinations with fewer than ``min_share`` of the rows are too small to train on: pooled as "other".
    """
    parts = [[f"{name}={value}" for value in groups[name]] for name in groups]
    joint = np.array([", ".join(row) for row in zip(*parts, strict=True)])
    values, inverse, counts = np.unique(joint, return_inverse=True, return_counts=True)
    if len(parts) > 1:
        values = np.where(counts < min_share * len(joint), "other", values)
    named: NDArray[np.str_] = values[inverse]
    return named


@dataclasses.dataclass(frozen=True)
class _Split:
    """One split: the rows methods are fitted on and those they are measured on."""

    X_train: Any
    X_test: Any
    y_train: NDArray[Any]
    y_test: NDArray[Any]
    groups_train: NDArray[Any] | None
    joint_test: NDArray[Any] | None
    groups_test: dict[str, NDArray[Any]]
    classes: NDArray[Any]


def _figures(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a record that are summarised over repeats: all but text, counts and the number."""
    figures = {k: v for k, v in record.items() if k not in ("repeat", "guarantee", "confusion")}
    if "at_alpha" in figures:
        figures["at_alpha"] = {a: _figures(r) for a, r in figures["at_alpha"].items()}
    return figures


def _measure(
    method: Method, split: _Split, settings: dict[str, Any], seed: int
) -> tuple[dict[str, Any] | None, str, list[str]]:
    """Fit and measure one method on one split; return the record or None, the error, and the warnings."""
    record, failure = None, ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            record = _fit_and_measure(method, split, settings, seed)
        except Exception as error:  # one method's trouble must not cost the others their results
            failure = f"{type(error).__name__}: {error}"
    return record, failure, [str(w.message) for w in caught if issubclass(w.category, UserWarning)]


def _fit_and_measure(method: Method, split: _Split, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    alphas, main_alpha, curve = settings["alphas"], settings["main_alpha"], settings["curve_alphas"]
    classifier = method.make(alpha=main_alpha, random_state=seed, n_jobs=settings["n_jobs"])
    if not takes_missing(classifier):
        split = _filled(split)
    extra = {"groups": split.groups_train} if method.uses_groups and split.groups_train is not None else {}
    start = time.perf_counter()
    classifier.fit(split.X_train, split.y_train, **extra)
    if method.by_group and extra:
        classifier = _WithGroups(classifier, split.joint_test)
    fit_seconds = time.perf_counter() - start

    start = time.perf_counter()
    models = {main_alpha: classifier}
    if method.uses_alpha:
        models = {a: classifier.reweight(alpha=a) for a in curve}
    reweight_seconds = time.perf_counter() - start
    start = time.perf_counter()
    answers = models[main_alpha].predict(split.X_test)
    predict_seconds = time.perf_counter() - start

    shares = {a: method.shares(model, split.X_test, split.classes) for a, model in models.items()}
    if not method.uses_alpha:
        models, shares = dict.fromkeys(curve, classifier), dict.fromkeys(curve, shares[main_alpha])
    cvar = {
        a: float(metrics.cvar_zero_one_loss(split.y_test, shares[a], a, labels=split.classes)) for a in curve
    }
    record: dict[str, Any] = {
        **_errors(method, models[main_alpha], shares[main_alpha], split),
        "cvar": {f"{a:g}": cvar[a] for a in alphas},
        "cvar_curve": [cvar[a] for a in curve],
        "fit_seconds": fit_seconds,
        "reweight_seconds": reweight_seconds if method.uses_alpha else None,
        "predict_seconds": predict_seconds,
    }
    if method.name != COIN_FLIP and len(split.classes) <= MOST_CONFUSED:
        record["confusion"] = confusion_matrix(split.y_test, answers, labels=split.classes).tolist()
    budgeted = hasattr(classifier, "tradeoff") and hasattr(classifier, "reweight")
    if budgeted and not method.uses_alpha:
        record["tradeoff"] = _tradeoff(classifier, split)
    if method.uses_alpha:
        record["at_alpha"] = {f"{a:g}": _errors(method, models[a], shares[a], split) for a in alphas}
    return record


def _tradeoff(classifier: Any, split: _Split) -> list[dict[str, Any]]:
    """Return what ``predict`` does on the rows held out; budgets are kept on the rows λ was chosen on."""
    kept = ("error", "class_errors", "worst_class_error", "worst_group_error")
    points = []
    for budget in BUDGETS:
        chosen = classifier.reweight(error_budget=budget)
        errors = _errors_of(np.asarray(chosen.predict(split.X_test)), split)
        points.append({"error_budget": budget} | {key: errors[key] for key in kept})
    return points


@dataclasses.dataclass(frozen=True)
class _WithGroups:
    """A classifier that is told the groups of the rows it answers."""

    classifier: Any
    groups: NDArray[Any] | None

    def predict(self, X: Any) -> NDArray[Any]:
        return np.asarray(self.classifier.predict(X, groups=self.groups))


def _filled(split: _Split) -> _Split:
    """Replace missing values by the training median, for a classifier that takes none."""
    tables = (split.X_train, split.X_test)
    if not all(isinstance(X, np.ndarray) and X.dtype.kind == "f" for X in tables):
        return split
    if not any(np.isnan(X).any() for X in tables):
        return split
    fill = SimpleImputer(strategy="median", keep_empty_features=True).fit(split.X_train)
    return dataclasses.replace(
        split, X_train=fill.transform(split.X_train), X_test=fill.transform(split.X_test)
    )


def _errors(method: Method, model: Any, shares: NDArray[np.float64], split: _Split) -> dict[str, Any]:
    """Errors of ``predict``, and beside them the expected ones of a randomised rule."""
    y, classes = split.y_test, split.classes
    expected = _by_class_and_group(
        float(metrics.cvar_zero_one_loss(y, shares, 1.0, labels=classes)),
        metrics.expected_class_errors(y, shares, labels=classes),
        {
            g: metrics.expected_group_errors(y, shares, v, labels=classes)
            for g, v in split.groups_test.items()
        },
    )
    if method.name == COIN_FLIP:  # the rule has no deterministic answer
        return {**expected, "expected": expected}
    predicted = np.asarray(model.predict(split.X_test))
    errors = _errors_of(predicted, split)
    if len(y) > 1:
        errors["error_bound"] = empirical_bernstein_bound(rates.wrong(predicted, y))
    if method.randomized:
        errors["expected"] = expected
    if (guarantee := getattr(model, "summary_", None)) is not None:
        said = guarantee.to_dict() if hasattr(guarantee, "to_dict") else dataclasses.asdict(guarantee)
        errors["guarantee"] = {"text": str(guarantee)} | _plain(said)
    return errors


def _errors_of(predicted: NDArray[Any], split: _Split) -> dict[str, Any]:
    """Errors of the answers to the rows held out."""
    y = split.y_test
    return _by_class_and_group(
        float(np.mean(rates.wrong(predicted, y))),
        metrics.class_errors(y, predicted, labels=split.classes),
        {g: metrics.group_errors(y, predicted, v) for g, v in split.groups_test.items()},
    )


def _by_class_and_group(
    error: float, by_class: Mapping[Any, float], by_group: Mapping[str, Mapping[Any, float]]
) -> dict[str, Any]:
    # A class too rare for every split is absent where it has no row held out.
    class_errors = {str(k): float(v) for k, v in by_class.items() if not np.isnan(v)}
    worst = {name: max(errors.values()) for name, errors in by_group.items()}
    return {
        "error": error,
        "class_errors": class_errors,
        "worst_class_error": max(class_errors.values()),
        "group_errors": {g: {str(k): float(v) for k, v in errors.items()} for g, errors in by_group.items()},
        "worst_group_errors": {g: float(v) for g, v in worst.items()},
        "worst_group_error": float(max(worst.values())) if worst else None,
    }


def _plain(value: Any) -> Any:
    """Turn a value into what JSON can hold; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def _chosen(
    methods: Sequence[str | Method] | None, n_classes: int, with_groups: bool
) -> tuple[list[Method], list[dict[str, str]]]:
    for method in methods or ():
        if not (isinstance(method, str) or hasattr(method, "make")):
            raise TypeError(
                f"methods must hold names or Method objects, got {method!r}; for an estimator of your own "
                'Method("name", "Title", "in a few words", factory), where factory() makes one unfitted'
            )
    asked = (
        METHODS.values() if methods is None else [get_method(m) if isinstance(m, str) else m for m in methods]
    )
    chosen, left_out = {}, []
    for method in asked:
        try:
            multi_class = get_tags(method.make()).classifier_tags.multi_class
        except ImportError as error:
            left_out.append({"title": method.title, "reason": str(error)})
            continue
        if n_classes > 2 and not multi_class:
            reason = f"{method.name} takes two classes, the data have {n_classes}"
            left_out.append({"title": method.title, "reason": reason})
        else:
            chosen[method.name] = method
    for method in [] if with_groups else list(chosen.values()):
        twins = [m.name for m in chosen.values() if m.factory is method.factory and not m.uses_groups]
        if method.uses_groups and twins:
            left_out.append({"title": method.title, "reason": f"without groups it is {twins[0]}"})
            del chosen[method.name]
    if not chosen:
        raise ValueError(
            " ".join(["methods must name at least one method", *(m["reason"] for m in left_out)])
        )
    coin = chosen.pop(COIN_FLIP, None) or get_method(COIN_FLIP)
    return [*chosen.values(), coin], left_out


def checked_alphas(name: str, alphas: Sequence[float]) -> list[float]:
    """Sort tail masses and drop repeated ones, or say which of them is not in (0, 1]."""
    levels = sorted({float(a) for a in alphas})
    if not levels:
        raise ValueError(f"{name} must hold at least one number")
    for a in levels:
        if not 0 < a <= 1:
            raise ValueError(f"{name} must lie in (0, 1], got {a:g}")
    return levels


def _checked_table(X: Any, y: ArrayLike) -> tuple[Any, NDArray[Any]]:
    table = X.tocsr() if hasattr(X, "tocsr") else X if hasattr(X, "iloc") else np.asarray(X)
    if table.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {table.shape}")
    labels = np.asarray(y)
    if labels.shape != table.shape[:1]:
        raise ValueError(
            f"y must have one label per row of X, got shape {labels.shape} for {table.shape[0]} rows"
        )
    for label in labels.tolist() if labels.dtype.kind in "fO" else ():
        equal = label == label  # NaN differs from itself, and with pandas' NA it is unknown
        if label is None or not isinstance(equal, bool | np.bool_) or not equal:
            raise ValueError("y has missing labels")
    return table, labels


def _checked_classes(labels: NDArray[Any], test_size: float) -> tuple[NDArray[Any], NDArray[np.int64]]:
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise ValueError(
            f"y has a single class, {classes[0]}; at least two are needed" if len(classes) else "y is empty"
        )
    if counts.min() < 2:
        raise ValueError(
            f"class {classes[counts.argmin()]} has one row only; a split needs at least two of each"
        )
    smaller = int(len(labels) * min(test_size, 1 - test_size))
    if smaller < len(classes):
        raise ValueError(
            f"{len(labels)} rows with test_size = {test_size:g} leave one side of a split {smaller} rows, "
            f"fewer than the {len(classes)} classes"
        )
    return classes, counts


def _group_columns(groups: Any, n: int) -> dict[str, NDArray[Any]]:
    columns = {} if groups is None else {str(name): np.asarray(groups[name]).astype(str) for name in groups}
    for name, values in columns.items():
        if len(values) != n:
            raise ValueError(f"group column {name!r} has {len(values)} rows, X has {n}")
    return columns


def _group_features(table: Any, groups: dict[str, NDArray[Any]]) -> dict[str, list[str] | None]:
    """Return the features that tell each column of groups, by name; None where that is not known."""
    found = {}
    for name, values in groups.items():
        (telling,) = telling_features(table, np.unique(values, return_inverse=True)[1])
        found[name] = None if telling is None else [str(feature) for feature in telling]
    return found
