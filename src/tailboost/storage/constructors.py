"""Storage by content for boosters, in the formats of their projects, and for a few other classes.

Each object is created by a call in this module, from checked arguments. A file cannot name functions
to call.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tailboost.core.array_types import Model
from tailboost.solvers import BitLosses


class RefusedContent(Exception):
    """Raised if a model contains a class, function or value that is not allowed; the message names it."""


@dataclass(frozen=True)
class Made:
    """Conversion of objects of a class to plain values and arrays, and back."""

    taken_apart: Callable[[Any], Any]
    made: Callable[[Any], Any]  # checks its argument, which may come from a forged file


def _is_plain(value: object) -> bool:
    """Return whether a value may be a parameter of a booster: no object, and no possible path."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, str):  # without a slash or backslash
        return re.fullmatch(r"[\w.:;,=+()\[\]\-]*", value) is not None
    return value is None or isinstance(value, (bool, int, float, np.generic))


def _checked(params: Mapping[str, Any], class_name: str) -> dict[str, Any]:
    """Return the parameters of a booster; raise RefusedContent if a name or value is not plain."""
    for name, value in params.items():
        if not (isinstance(name, str) and re.fullmatch(r"\w+", name) and _is_plain(value)):
            raise RefusedContent(f"{class_name} with {str(name)[:30]}={str(value)[:50]!r}")
    return dict(params)


def _fields(model: Model, names: Iterable[str]) -> dict[str, Any]:
    """Return the attributes of a model with these names; a name without an attribute is left out."""
    return {name: vars(model)[name] for name in names if name in vars(model)}


def _content(value: object, beginning: bytes) -> bytes:
    """Return a stored booster; raise RefusedContent if it does not begin as its format requires."""
    if not (isinstance(value, bytes) and value.startswith(beginning)):
        raise RefusedContent("a booster in an unknown format")
    return value


# -- XGBoost -----------------------------------------------------------------------------------------------


# Attributes of the fit, and the booster, which is stored by its content. Predictions do not need the others.
_NOT_KEPT = frozenset({"_Booster", "callbacks", "evals_result_"})


def _xgb_state(model: Model) -> dict[str, Any]:
    """Return the parameters, labels and booster of a model of XGBoost."""
    state = {name: value for name, value in vars(model).items() if name not in _NOT_KEPT}
    labels = state.pop("labels_", None)
    further_params = dict(state.pop("kwargs", None) or {})
    parts = {
        "state": _checked(state, "XGBClassifier"),
        "given": _checked(further_params, "XGBClassifier"),
        "labels": labels,
        "booster": None,
    }
    if "_Booster" in vars(model):  # get_booster reads the parameters, which are checked now
        parts["booster"] = bytes(model.get_booster().save_raw("ubj"))
    return parts


def _xgb(module: str, constructor: str, parts: Any) -> Any:
    """Return a model of XGBoost from its `_xgb_state`, checked.

    The constructor is a class or function of the module and is called without arguments.
    """
    model = getattr(importlib.import_module(module), constructor)()
    state = _checked(parts["state"], "XGBClassifier")
    unknown = set(state) - set(vars(model)) - {"n_classes_"}  # which only a fitted model has
    if unknown:
        raise RefusedContent(f"XGBClassifier with {str(sorted(unknown))[:50]}")
    vars(model).update(state)
    further_params = _checked(parts["given"], "XGBClassifier")
    if further_params:
        model.kwargs = further_params
    if parts["labels"] is not None:
        model.labels_ = np.asarray(parts["labels"])
    if parts["booster"] is not None:
        # The booster has the number of threads, and takes all cores without one.
        model._Booster = importlib.import_module("xgboost").Booster({"nthread": model.n_jobs})
        model._Booster.load_model(bytearray(_content(parts["booster"], b"{")))
    return model


# -- LightGBM ----------------------------------------------------------------------------------------------

_LGBM_LEARNED = (
    "_best_iteration", "_objective", "_class_weight", "_fitted_with_feature_names", "_n_features",
    "_n_features_in", "_n_classes", "fitted_",
)  # fmt: skip
_LGBM_LABELS = ("_class_map", "_classes", "_le")
# Parameters that are words. LightGBM passes unknown parameters to its library.
_LGBM_WORDS = frozenset(
    {
        "boosting_type",
        "objective",
        "importance_type",
        "metric",
        "device",
        "device_type",
        "class_weight",
    }
)


def _lgbm_params(params: Any) -> dict[str, Any]:
    """Return the parameters of a model of LightGBM, after a check.

    Only the parameters in `_LGBM_WORDS` may be text: others may name a file.
    """
    for name, value in params.items():
        if isinstance(value, str) and not (name in _LGBM_WORDS and re.fullmatch(r"\w*", value)):
            raise RefusedContent(f"LGBMClassifier with {str(name)[:30]}={value[:50]!r}")
    return _checked(params, "LGBMClassifier")


def _lgbm_state(model: Model) -> dict[str, Any]:
    """Return the parameters, learned fields, labels and booster of a model of LightGBM."""
    parts = {
        "params": _lgbm_params(model.get_params(deep=False)),
        "learned": _checked(_fields(model, _LGBM_LEARNED), "LGBMClassifier"),
        "labels": _fields(model, _LGBM_LABELS),
        "booster": None,
    }
    if model.__sklearn_is_fitted__():
        parts["booster"] = model.booster_.model_to_string()
    return parts


def _lgbm(parts: Any) -> Any:
    """Return a model of LightGBM from its `_lgbm_state`, checked."""
    lightgbm = importlib.import_module("lightgbm")
    learned = parts["learned"]
    labels = parts["labels"]
    booster = parts["booster"]
    model = lightgbm.LGBMClassifier(**_lgbm_params(parts["params"]))
    if booster is None:
        return model
    if not set(learned) <= set(_LGBM_LEARNED) or set(labels) != set(_LGBM_LABELS):
        raise RefusedContent("LGBMClassifier with unknown fields")
    has_classes = isinstance(labels["_classes"], np.ndarray)
    if not has_classes or not isinstance(labels["_class_map"], dict):
        raise RefusedContent("LGBMClassifier without classes")
    vars(model).update(_checked(learned, "LGBMClassifier") | labels)
    if not (isinstance(booster, str) and booster.startswith("tree\n")):
        raise RefusedContent("a booster in an unknown format")
    model._Booster = lightgbm.Booster(model_str=booster)
    model._evals_result = {}
    model._best_score = {}
    return model


# -- CatBoost ----------------------------------------------------------------------------------------------

# Folders, files and callbacks of a fit.
_CATBOOST_FILES = frozenset(
    {
        "train_dir",
        "snapshot_file",
        "save_snapshot",
        "input_borders",
        "output_borders",
        "callback",
    }
)


def _catboost_state(model: Model) -> dict[str, Any]:
    """Return the parameters and the booster of a model of CatBoost."""
    params = model.get_params(deep=False)
    kept = {name: value for name, value in params.items() if name not in _CATBOOST_FILES}
    parts = {"params": _checked(kept, "CatBoostClassifier"), "booster": None}
    if model.is_fitted():
        parts["booster"] = model._serialize_model()
    return parts


def _catboost(parts: Any) -> Any:
    """Return a model of CatBoost from its `_catboost_state`, checked."""
    catboost = importlib.import_module("catboost")
    params = _checked(parts["params"], "CatBoostClassifier")
    if set(params) & _CATBOOST_FILES:
        raise RefusedContent("CatBoostClassifier with the name of a file")
    model = catboost.CatBoostClassifier(**params)
    if parts["booster"] is not None:
        model.load_model(blob=_content(parts["booster"], b"CBM1"))
    return model


# -- scikit-learn, NumPy, ours -----------------------------------------------------------------------------


def _predictor_state(predictor: Any) -> list[Any]:
    """Return a tree of scikit-learn's boosting as columns of its nodes and two tables of bitsets."""
    nodes = predictor.nodes
    columns = {name: np.ascontiguousarray(nodes[name]) for name in nodes.dtype.names}
    return [columns, predictor.binned_left_cat_bitsets, predictor.raw_left_cat_bitsets]


def _predictor(parts: Any) -> Any:
    """Return a tree of scikit-learn's boosting, after checks of its links and bitsets."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    columns, *bitset_tables = parts
    dtype = np.dtype(PREDICTOR_RECORD_DTYPE)
    if set(columns) != set(dtype.names or ()):
        raise RefusedContent("a tree of scikit-learn's boosting of another version")
    nodes = np.zeros(len(columns["value"]), dtype=dtype)
    for name, column in columns.items():
        if column.shape != nodes.shape:
            raise ValueError("a tree with missing nodes")
        nodes[name] = column
    if not len(nodes) or (nodes["feature_idx"] < 0).any():
        raise ValueError("a tree without nodes, or with unknown columns")
    place = np.flatnonzero(nodes["is_leaf"] == 0)
    inner = nodes[place]
    for side in ("left", "right"):  # a child after its parent: no path is endless
        if not ((inner[side] > place) & (inner[side] < len(nodes))).all():
            raise ValueError("a tree with a child before its parent")
    used_bitsets = inner[inner["is_categorical"] != 0]["bitset_idx"]
    tables = [np.asarray(table, dtype=np.uint32) for table in bitset_tables]
    for table in tables:  # each row is one bitset: 256 categories in 8 numbers
        if table.ndim != 2 or table.shape[1] != 8 or (used_bitsets >= len(table)).any():
            raise ValueError("a tree without the categories of its splits")
    return TreePredictor(nodes, *tables)


def _loss(name: str, n_classes: object) -> Any:
    """Return a loss of scikit-learn; only the multinomial one has a number of classes."""
    losses = importlib.import_module("sklearn._loss.loss")
    if name != "HalfMultinomialLoss":
        return getattr(losses, name)()
    if type(n_classes) is not int or not 2 <= n_classes <= 10**6:
        raise ValueError("a loss of no number of classes")
    return losses.HalfMultinomialLoss(n_classes=n_classes)


def _random_state(state: Any) -> Any:
    """Return a generator of random numbers with the state of `get_state`, which NumPy checks."""
    random = np.random.RandomState()
    random.set_state(tuple(state))
    return random


def _bit_losses(parts: Any) -> BitLosses:
    """Return the losses of candidates on n rows, after a check.

    Each plane is an array of n bytes, whose bits are the losses of eight candidates.
    """
    n, n_candidates, planes = parts
    for plane in planes:
        has_bytes = isinstance(plane, np.ndarray) and plane.dtype == np.uint8
        if not has_bytes or plane.shape != (n,):
            raise ValueError("losses that are not bits of n rows")
    if type(n_candidates) is not int or not 0 <= n_candidates <= 8 * len(planes):
        raise ValueError("losses of more candidates than bits")
    return BitLosses.restored(n, n_candidates, planes)


MADE: dict[str, Made] = {
    "xgboost.sklearn.XGBClassifier": Made(
        _xgb_state, partial(_xgb, "xgboost", "XGBClassifier")
    ),
    "lightgbm.sklearn.LGBMClassifier": Made(_lgbm_state, _lgbm),
    "catboost.core.CatBoostClassifier": Made(_catboost_state, _catboost),
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor": Made(
        _predictor_state, _predictor
    ),
    **{
        f"sklearn._loss.loss.{name}": Made(lambda loss: loss.n_classes, partial(_loss, name))
        for name in ("HalfBinomialLoss", "HalfMultinomialLoss", "ExponentialLoss")
    },
    "numpy.random.mtrand.RandomState": Made(
        lambda random: list(random.get_state()), _random_state
    ),
    "tailboost.solvers.bits.BitLosses": Made(
        lambda losses: [losses.shape[1], len(losses), list(losses.planes())], _bit_losses
    ),
}
