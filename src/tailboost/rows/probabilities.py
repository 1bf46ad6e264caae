"""Given probabilities and answers of models: tables of probabilities as one array, and labels of answers."""

from collections.abc import Mapping, Sequence

import numpy as np

from tailboost.core import (
    ROUNDED,
    Array,
    Column,
    Floats,
    Labels,
    Table,
    check_indexes,
    check_probabilities,
    coded,
    label_column,
    n_rows_of,
)

# Least probability. A class of probability 0 must still be predicted if its class weight is large enough.
LEAST_PROBABILITY = 1e-6


def stacked(
    probabilities: Mapping[str, Table], classes: Array, names: Sequence[str] | None = None
) -> Floats:
    """Return given probabilities by model as an array of shape (n, M, K); NaN for models that are left out.

    ``names`` are those of all M models, by default the given ones. The columns of a data frame are found by
    label.

    Raises
    ------
    ValueError, TypeError
        If a name is unknown, an array holds no probabilities of the classes, or numbers of rows differ.
    """
    if not isinstance(probabilities, Mapping) or not probabilities:
        raise TypeError(
            f"probabilities must be a dict with an array for each model, got {type(probabilities).__name__}"
        )
    names = names or list(probabilities)
    unknown = [name for name in probabilities if name not in names]
    if unknown:
        raise ValueError(
            f"probabilities: no model is called {unknown}; there are {names}. Columns of a "
            "table are given as a data frame, pd.DataFrame(columns)"
        )
    check_indexes(probabilities=probabilities)
    P = np.full((n_rows_of(probabilities), len(names), len(classes)), np.nan)
    for name, given in probabilities.items():
        P[:, names.index(name)] = check_probabilities(
            given, f"probabilities[{name!r}]", ROUNDED, classes
        )
    return P


def logs_of(probabilities: Floats, smallest: float = LEAST_PROBABILITY) -> Floats:
    """Return the logarithms of probabilities, shape (…, K); smaller ones are raised to ``smallest``."""
    P = probabilities.clip(min=0.0)
    return np.log(np.maximum(P / P.sum(axis=-1, keepdims=True), smallest))


def given_answers(answers: Column, classes: Labels) -> tuple[Labels, Labels]:
    """Return the labels of an array of answers, given in the place of a model, and these with the classes.

    Raise ValueError for probabilities without a column for each label, and for fractions that are no labels.
    """
    if np.ndim(answers) == 2:
        P = check_probabilities(answers, "model", classes=classes)
        return classes[P.argmax(axis=1)], classes
    labels = label_column(answers, "model")
    are_numbers = labels.dtype.kind == "f" and classes.dtype.kind in "biuf"
    unknown = labels[~np.isin(labels, classes)]
    if are_numbers and (unknown % 1 != 0).any():
        raise ValueError(
            "model holds numbers that are not labels of y. If they are probabilities, give "
            "labels, or probabilities of shape (n, K) with a column for each label"
        )
    return labels, coded([*classes.tolist(), *labels.tolist()], "y with the answers")[0]
