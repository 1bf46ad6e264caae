"""The door: what answers rows, made of any model, and the rows that are known to the models inside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from types import MethodType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from tailboost.core.array_types import Array, Groups, Hashes, Model, Table
from tailboost.core.checks import as_table, check_answers, label_column
from tailboost.learners.scores import Scores
from tailboost.rows.fingerprints import hash_rows
from tailboost.rows.judged import answer_shares, inside, predicted_labels, transformed
from tailboost.rows.seen import Records
from tailboost.selection.answering import NO_RULE, Answers, Decided, Known, Scored
from tailboost.selection.identity import identity_of

# What may hold models, beside objects with `predict_proba`.
HOLDERS = (BaseEstimator, list, tuple, dict, MethodType, partial)


def answering(model: Model) -> Decided:
    """Return a model of any library as certificates read it: nothing else asks a model anything.

    Raises
    ------
    NotFittedError
        If it is a classifier of tailboost without a fit.
    """
    final, steps = inside(model)
    if isinstance(final, Answers):
        found = final.__tailboost__()
        if final is model:
            return found
        return replace(
            found,
            known=tuple(_behind(each, steps) for each in found.known),
            read=partial(_read_behind, model, steps, found),
            identify=lambda: identity_of(steps).beside(found.identity.unknown),
        )
    classes = getattr(model, "classes_", None)
    labels = model.label_list if isinstance(model, Scores) else ()
    return Decided(
        None if classes is None else label_column(classes, "classes_"),
        NO_RULE,
        (),
        # The training rows are not known, those of models inside may be.
        (Known(Records(), score_labels=labels), *known_within(model)),
        partial(read_answers, model),
        None,
        partial(identity_of, model),
    )


def known_within(
    model: Model, steps: tuple[Model, ...] = (), passed: tuple[Model, ...] = ()
) -> Iterator[Known]:
    """Yield the known rows of each fitted classifier of tailboost inside a model, at any depth.

    A frozen model of another library has records without rows: its training rows are unknown. ``steps`` are
    the transformers that the rows pass before, ``passed`` the models around this one.
    """
    is_frozen = isinstance(model, FrozenEstimator)
    if isinstance(model, MethodType):  # as clf.predict_proba; other functions show no model
        model = model.__self__
    model, pipelines = inside(model)
    around = (*passed, model)
    for pipeline in pipelines:
        for place, (_, step) in enumerate(pipeline.steps):
            before = (*steps, pipeline[:place]) if place else steps
            yield from known_within(step, before, around)
        steps = (*steps, pipeline)
    if any(model is each for each in passed):
        return
    is_ours = isinstance(model, Answers)
    if is_frozen and (pipelines or not is_ours):
        yield Known(Records())
    if is_ours:
        yield from _known_to(model, steps)
        return
    for part in _parts(model):
        if isinstance(part, HOLDERS) or hasattr(type(part), "predict_proba"):
            yield from known_within(part, steps, around)


def _parts(model: Model) -> Iterable[Any]:
    """Return the items of a collection, the arguments of a partial function, or the attributes of a model."""
    if isinstance(model, partial):
        return model.func, *model.args, *model.keywords.values()
    if isinstance(model, (list, tuple)):
        return model
    attributes = model if isinstance(model, dict) else getattr(model, "__dict__", {})
    return [*attributes.values()]


def _known_to(model: Answers, steps: tuple[Model, ...]) -> Iterator[Known]:
    """Yield the known rows of a classifier of tailboost behind transformers; none of an unfitted one."""
    try:
        found = model.__tailboost__()
    except NotFittedError:
        return
    is_complete = found.known[0].records.complete
    for each in found.known:
        hashes = each.hashes or partial(_content, found)
        records = replace(each.records, complete=is_complete)
        yield _behind(replace(each, records=records, hashes=hashes), steps)


def _content(found: Decided, X: Table) -> Hashes:
    """Return the hashes of rows as a model reads them; none if they are no rows of this model.

    A model may stand on outputs of other models, or on some of the columns.
    """
    try:
        return found.score(X).content
    except (TypeError, ValueError):
        return np.zeros(0, dtype=np.uint64)


def _behind(known: Known, steps: tuple[Model, ...]) -> Known:
    """Return known rows of a model behind transformers."""
    read = known.hashes
    if read is None or not steps:
        return known
    return replace(known, hashes=lambda X: read(transformed(X, steps)))


def _read_behind(
    model: Model, steps: tuple[Model, ...], found: Decided, X: Table, groups: Groups
) -> Scored:
    """Return rows of a pipeline or search around a rule, which reads them after the steps."""
    read = found.score(transformed(X, steps), groups)
    return replace(read, given_of=partial(hashes_of_table, model, X))


def read_answers(model: Model, X: Table, groups: Groups = None) -> Scored:
    """Return rows with the answers of ``predict`` of a model of another library.

    Columns of scores have none: reading them raises ValueError.
    """

    def answers() -> Array:
        if isinstance(model, Scores):
            raise ValueError(
                f"{model!r} has no thresholds yet: give the rule of tune or calibrate, as in "
                "certify(tune(scores, X, y, limits=…), X_fresh, y_fresh)"
            )
        labels = predicted_labels(model, X)
        check_answers(labels, X, f"predict of {type(model).__name__}")
        return labels

    final, _ = inside(model)
    shares = None
    if hasattr(final, "predict_distribution"):  # of boosting, which draws its answers
        shares = partial(answer_shares, model, X)
    return Scored(groups, partial(hashes_of_table, model, X), answers, shares_of=shares)


def hashes_of_table(model: Model, X: Table) -> Hashes:
    """Return the hashes of rows as a caller gives them to a model of another library, shape (n,).

    The order of the columns of a data frame has no effect: they are in the order of the model or, if the
    model has no order, of their names.
    """
    table = as_table(X)
    names = getattr(model, "feature_names_in_", None)
    # Without a number of features the model reads columns by name.
    if names is None and not hasattr(model, "n_features_in_"):
        names = sorted(getattr(table, "columns", ()), key=str)
    return hash_rows(as_table(table, names), rounded=True)
