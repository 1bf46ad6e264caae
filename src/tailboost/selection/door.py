"""The door: any model as certificates read it, and the rows that are known to the models inside it.

`answering` makes a `Decided` of a model: it scores rows (`Scored`), has a decision function (`Decision`), and
names the rows that it and the models inside it have read (`Known`). Certificates, monitors and model files
read these alone.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cache, partial
from types import MethodType
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from tailboost.core import (
    DeferredRowsWarning,
    Floats,
    Groups,
    Hashes,
    Ints,
    Labels,
    Mask,
    Model,
    Table,
    UncertifiedGroupsWarning,
    as_table,
    check_indexes,
    columns_of,
    frozen_object,
    label_column,
    n_rows_of,
    positions,
)
from tailboost.learners.base import titles_of
from tailboost.learners.scores import Scores
from tailboost.rates import Limit
from tailboost.rows import NO_HASHES, Records, Rows, Seen, digest, hash_rows
from tailboost.selection.identity import Identity, identity_of
from tailboost.selection.outputs import Outputs, check_answers
from tailboost.selection.rule import Rule, ThresholdRule
from tailboost.selection.selection import Selection, StoredSelection

# What may hold models, beside objects with `predict_proba`.
HOLDERS = (BaseEstimator, list, tuple, dict, MethodType, partial)
# Libraries whose pipelines and searches answer as the model inside them, and classifiers by their rule.
NOT_OWN = ("tailboost", "sklearn", "imblearn")
# How an estimator is cloned, unless it says otherwise.
DEFAULT_CLONE = BaseEstimator.__sklearn_clone__


@frozen_object
class Decision:
    """The decision function of a classifier, on scores and groups.

    Attributes
    ----------
    selected : Selection or StoredSelection, optional
        The rule, with the models that make its scores; None if answers alone are known.
    defers : bool
        Whether it may defer rows.
    by_group : bool or str
        Whether it reads the group; the name of its column, if that is text.
    groups : mapping
        The groups of the selection data by column; None is the name of a column without one.
    combinations : sequence of tuple
        The combinations of several columns that occur.
    """

    selected: Selection | StoredSelection | None = None
    defers: bool = False
    by_group: bool | str = False
    groups: Mapping[Any, Sequence[Any]] = field(default_factory=dict)
    combinations: Sequence[tuple[Any, ...]] = ()

    @property
    def digest(self) -> str | None:
        """Digest of the rule as it is now and of what makes its scores; copies, pickles and files keep it."""
        if self.selected is None:
            return None
        models = self.selected.models
        columns = [
            [s.column_list, s.label_list, s.kind, s.missing] for s in models.columns_read
        ]
        of_rule = digest(repr((self.selected.written.identity, columns)).encode())
        if columns:
            return of_rule
        return digest(of_rule.encode(), *(each.tobytes() for each in models.logs))


#: The decision function of a model of another library, and of an array of answers.
NO_RULE = Decision()


@frozen_object
class Scored:
    """Rows as rules and certificates read them: n rows. Each part is computed when it is first called.

    A model of another library may have ``shares``, a rule has ``outputs`` and is ``selected``.

    Attributes
    ----------
    groups : mapping or None
        The groups of the rows by column.
    content : callable
        Returns the hashes of what the classifier behind the steps of a pipeline reads, shape (n,).
    given : callable
        Returns the hashes of the rows as the caller gave them, shape (n,).
    voting : callable
        Returns the hashes that draw the votes of clusters, shape (n,): rows with one hash have one answer.
    lacking : callable
        Returns which rows lack a score that the rule reads, shape (n,).
    answers : callable
        Returns the answers, shape (n,); that of a rule to a deferred row is "human review".
    outputs : callable, optional
        Returns the outputs of the models of a rule, which other rules read too.
    selected : Selection or StoredSelection, optional
        The rule, which answers by these outputs.
    shares : callable, optional
        Returns the probability of each answer, shape (n, K), if answers are drawn; otherwise None.
    is_comparable : bool
        Whether the rows are in the form of the known ones: not probabilities in place of features.
    """

    groups: Groups
    content: Callable[[], Hashes]
    given: Callable[[], Hashes]
    voting: Callable[[], Hashes]
    lacking: Callable[[], Mask]
    answers: Callable[[], Labels]
    outputs: Callable[[], Outputs] | None = None
    selected: Selection | StoredSelection | None = None
    shares: Callable[[], Floats | None] = lambda: None
    is_comparable: bool = True

    def numbers(self, classes: Labels) -> Ints:
        """Return the number of each answer among K labels, shape (n,); K for a deferred row."""
        if self.outputs and self.selected:
            return self.selected.label_numbers(self.outputs()).clip(max=len(classes))
        return positions(label_column(self.answers(), "answers"), classes, "answers")


@frozen_object
class Known:
    """Rows that a model has read, and how it reads rows that are given to the model around it.

    Attributes
    ----------
    records : Records
        The rows, by their hashes as the model reads them.
    score_labels : sequence
        The labels of the columns of a model of scores alone: then equal rows count as different rows.
    steps : sequence of models
        The steps of pipelines before it, which turn rows that are given to the outer model into its own.
    score : callable, optional
        Returns these as `Scored`; None for the outer model itself.
    is_part : bool
        Whether it is a part of a transformer, which may give it some columns alone, or others. Then rows that
        are not among its own say nothing.
    """

    records: Records
    score_labels: Sequence[Any] = ()
    steps: Sequence[Model] = ()
    score: Callable[..., Scored] | None = None
    is_part: bool = False

    @property
    def tables(self) -> tuple[Seen, ...]:
        """All known rows, also those of attempts."""
        return *self.records.tables, *(each.rows for each in self.records.ledger.attempts)

    def behind(self, step: Model) -> Self:
        """Return the rows as known to a model behind a step; those of the step's own fit are not known."""
        records = replace(self.records, complete=False)
        return replace(self, records=records, steps=(step, *self.steps))

    def hashes(self, X: Table, scored: Scored) -> Hashes:
        """Return the hashes of given rows, which the outer model has scored, as this model reads them.

        There are none if they are no rows of this model: it may stand on outputs of other models, or on some
        of the columns.
        """
        if self.score is None:
            return scored.content()
        try:
            return self.score(transformed(X, self.steps)).content()
        except (TypeError, ValueError):
            return NO_HASHES


@frozen_object
class Decided:
    """A model as certificates read it: its rule, the rows that it knows, and how it scores others.

    Attributes
    ----------
    classes : ndarray of shape (K,) or None
        The labels, if they are known.
    rule : Decision
        The rule on scores that answers.
    limits : tuple of Limit
        The limits that the rule was selected within.
    known : sequence of Known
        The rows that the model itself has read, then those that models inside it have read.
    score : callable
        Returns a table, with groups, as `Scored`; nothing is computed yet.
    identity : callable
        Returns the content now of what is fitted and no digest of the rule covers: steps before the rule.
    certificate : object, optional
        The certificate of the rule.
    """

    classes: Labels | None
    rule: Decision
    limits: tuple[Limit, ...]
    known: Sequence[Known]
    score: Callable[..., Scored]
    identity: Callable[[], Identity]
    certificate: object = None

    def seen(self, scored: Scored, rows: Rows, use: str) -> Seen:
        """Return scored rows, by which they are recognised later."""
        return Seen.of(scored.given(), use, rows.has_column(self.known[0].score_labels))


@runtime_checkable
class Answers(Protocol):
    """A classifier of tailboost with a selected rule."""

    def __tailboost__(self) -> Decided:
        """Return what certificates read of it."""


# -- of any model --------------------------------------------------------------------------------------------


def answering(model: Model) -> Decided:
    """Return a model of any library as certificates read it: nothing else asks a model anything.

    Raises
    ------
    NotFittedError
        If it is a classifier of tailboost without a fit.
    ValueError
        If it is a rule without its models or columns.
    """
    if isinstance(model, (Rule, ThresholdRule)):
        raise ValueError(
            "model is a rule without its models or columns, as to_json writes it: give the "
            "classifier whose rule_ it is, or load_rule of a file of tailboost.save_rule"
        )
    final, steps = final_model(model)
    if isinstance(final, Answers) and not has_own_predict(final):
        decided = final.__tailboost__()
        if not steps:
            return decided

        known = decided.known
        for step in reversed(steps):
            known = [*(each.behind(step) for each in known), *known_within(step)]

        def read(X: Table, groups: Groups = None) -> Scored:
            scored = decided.score(transformed(X, steps), groups)
            return replace(scored, given=cache(partial(hashes_of_table, model, X)))

        return replace(
            decided,
            # A certificate is about the rows as the rule reads them.
            certificate=None,
            known=known,
            score=read,
            identity=lambda: identity_of(steps).beside(decided.identity().unknown),
        )
    classes = getattr(model, "classes_", None)
    if classes is not None:
        classes = label_column(classes, "classes_")
    # The training rows are not known, those of models inside may be.
    own = Known(Records(), score_labels=model.label_list if isinstance(model, Scores) else ())
    return Decided(
        classes,
        NO_RULE,
        limits=(),
        known=(own, *known_within(model)),
        score=partial(read_answers, model),
        identity=partial(identity_of, model),
    )


def known_within(model: Model, around: Sequence[Model] = ()) -> Sequence[Known]:
    """Return the rows that are known to each classifier of tailboost inside a model, at any depth.

    An unfitted classifier knows none. Those inside a fitted one are as complete as its own. A frozen model of
    another library has records without rows, because its training rows are unknown, and so has a model that
    keeps a fit in a parameter. ``around`` are the models that hold this one.
    """
    final, steps = final_model(model)
    inside = (*around, final)
    known = []
    if isinstance(final, Answers):
        with suppress(NotFittedError):
            decided = final.__tailboost__()
            complete = decided.known[0].records.complete
            known = [
                replace(
                    each,
                    records=replace(each.records, complete=complete),
                    score=each.score or decided.score,
                )
                for each in decided.known
            ]
    elif not any(final is each for each in around):  # a model may hold itself
        if _keeps_fit(model, final):
            known.append(Known(Records()))
        is_part = hasattr(final, "transform") and not hasattr(final, "predict")
        for part in _parts(final):
            for each in known_within(part, inside):
                known.append(replace(each, is_part=is_part or each.is_part))
    for step in reversed(steps):
        known = [*(each.behind(step) for each in known), *known_within(step, inside)]
    return known


def _keeps_fit(model: Model, final: Any) -> bool:
    """Return whether a clone of a model keeps a fit, as that of a frozen one."""
    if isinstance(model, (MethodType, partial)):
        return True
    if getattr(type(model), "__sklearn_clone__", DEFAULT_CLONE) is not DEFAULT_CLONE:
        return True
    return isinstance(final, BaseEstimator) and _has_fit(final.get_params(deep=False))


def _has_fit(parameter: Any) -> bool:
    """Return whether a clone copies a parameter with a fit: that of a model that is no estimator."""
    if isinstance(parameter, dict):
        parameter = [*parameter.values()]
    if isinstance(parameter, (list, tuple)):
        return any(map(_has_fit, parameter))
    is_fit = hasattr(parameter, "predict") or hasattr(parameter, "transform")
    return is_fit and not hasattr(parameter, "get_params")


def _parts(model: Any) -> list[Any]:
    """Return the parts of an object that may be models or hold some."""
    held: Iterable[Any]
    match model:
        case list() | tuple():
            held = model
        case dict():
            held = model.values()
        case partial():
            held = model.func, model.args, model.keywords
        case _:
            held = getattr(model, "__dict__", {}).values()
    return [
        part
        for part in held
        if isinstance(part, HOLDERS) or hasattr(type(part), "predict_proba")
    ]


def read_answers(model: Model, X: Table, groups: Groups = None) -> Scored:
    """Return rows with the answers of ``predict`` of a model of another library.

    Columns of scores have none: reading them raises ValueError.
    """

    @cache
    def answers() -> Labels:
        if isinstance(model, Scores):
            raise ValueError(
                f"{model!r} has no thresholds yet: give the rule of tune or calibrate, as in "
                "certify(tune(scores, X, y, limits=…), X_fresh, y_fresh)"
            )
        with warnings.catch_warnings():  # of deferred rows, or uncertified groups
            for kind in (DeferredRowsWarning, UncertifiedGroupsWarning):
                warnings.simplefilter("ignore", kind)
            labels = model.predict(X)
        check_indexes(X=X, answers=labels)
        labels = np.asarray(labels)
        check_answers(labels, X, f"predict of {type(model).__name__}")
        if labels.shape[1:] == (1,):  # as of CatBoost
            return labels[:, 0]
        return labels

    @cache
    def shares() -> Floats | None:
        # The predict_proba of others estimates P(y | x), and is no probability of an answer.
        final, steps = final_model(model)
        if has_own_predict(final) or not hasattr(final, "predict_distribution"):
            return None
        return np.asarray(final.predict_distribution(transformed(X, steps)), float)

    content = cache(partial(hashes_of_table, model, X))
    return Scored(
        groups,
        content=content,
        given=content,
        voting=content,
        lacking=lambda: np.zeros(n_rows_of(X), bool),
        answers=answers,
        shares=shares,
    )


def hashes_of_table(model: Model, X: Table) -> Hashes:
    """Return the hashes of rows as a caller gives them to a model of another library, shape (n,).

    The order of the columns of a data frame has no effect: they are in the order of the model or, if the
    model has no order, of their names.
    """
    table = as_table(X)
    names = titles_of(model)
    # Without a number of features the model reads columns by name.
    if not names and not hasattr(model, "n_features_in_"):
        names = sorted(columns_of(table), key=str)
    return hash_rows(as_table(table, names), rounded=True)


# -- behind pipelines and searches -------------------------------------------------------------------------


def has_own_predict(model: Any) -> bool:
    """Return whether the ``predict`` of a model is that of no library, but of a subclass or the object."""
    method = getattr(model, "predict", None)
    if method is None:
        return False
    # The module of the code: a wrapper has the ``__module__`` of what it wraps.
    names = getattr(method, "__globals__", {"__name__": method.__module__})
    return str(names["__name__"]).split(".")[0] not in NOT_OWN


def final_model(model: Model) -> tuple[Any, tuple[Model, ...]]:
    """Return the classifier at the end of a search or pipeline, and the fitted steps before it.

    This is the classifier that answers: a search or pipeline with a `predict` of its own ends the way.
    """
    steps: tuple[Model, ...] = ()
    while True:
        if isinstance(model, FrozenEstimator):
            model = model.estimator
        elif isinstance(model, MethodType):
            model = model.__self__  # of clf.predict_proba; other functions show no model
        elif has_own_predict(model):
            return model, steps
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif isinstance(model, Pipeline):
            *before, (_, model) = model.steps
            steps += tuple(step for _, step in before if step != "passthrough")
        else:
            return model, steps


def transformed(X: Table, steps: Sequence[Model]) -> Table:
    """Return the rows after some steps; one without `transform`, as a sampler, passes rows on."""
    for step in steps:
        if hasattr(step, "transform"):
            X = step.transform(X)
    return X
