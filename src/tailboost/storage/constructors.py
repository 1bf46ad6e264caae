"""Storage by content for boosters, in the formats of their projects, and for a few other classes.

Each object is created by a call in this module, from checked arguments. A file cannot name functions
to call.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.array_types import Model
from tailboost.solvers import BitLosses


class Refused(Exception):
    """Raised if a model contains a value outside of the list; the message names the value."""


@dataclass(frozen=True)
class Made:
    """Conversion of objects of a class to plain values, and back."""

    taken_apart: Callable[[Any], Any]
    made: Callable[[Any], Any]


def _is_plain(value: object) -> bool:
    """Return whether a value may be a parameter of a booster: no object, and no possible path."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, str):
        return re.fullmatch(r"[\w.:;,=+()\[\]\-]*", value) is not None
    return value is None or isinstance(value, (bool, int, float, np.generic))


def _checked(params: Mapping[str, Any], of: str) -> dict[str, Any]:
    for name, value in params.items():
        if not (isinstance(name, str) and re.fullmatch(r"\w+", name) and _is_plain(value)):
            raise Refused(f"{of} with {str(name)[:30]}={str(value)[:50]!r}")
    return dict(params)


def _content(value: object, *beginnings: bytes) -> bytes:
    if not (isinstance(value, bytes) and value.startswith(beginnings)):
        raise Refused("a booster in an unknown format")
    return value


# -- XGBoost -----------------------------------------------------------------------------------------------


def _booster(content: object) -> Any:
    xgboost = importlib.import_module("xgboost")
    booster = xgboost.Booster()
    booster.load_model(bytearray(_content(content, b"{")))
    return booster


# Attributes of the fit. Predictions do not need them.
_NOT_KEPT = frozenset({"_Booster", "callbacks", "evals_result_"})


def _xgb_state(model: Model) -> dict[str, Any]:
    state = {name: value for name, value in vars(model).items() if name not in _NOT_KEPT}
    labels = state.pop("labels_", None)
    given = dict(state.pop("kwargs", None) or {})
    return {
        "state": _checked(state, "XGBClassifier"),
        "given": _checked(given, "XGBClassifier"),
        "labels": labels,  # of any type if the learner is PlainXGBoost
        "booster": bytes(model.get_booster().save_raw("ubj"))
        if "_Booster" in vars(model)
        else None,
    }


def _xgb(module: str, new: str) -> Callable[[Any], Any]:
    def made(parts: Any) -> Any:
        model = getattr(importlib.import_module(module), new)()
        state = _checked(parts["state"], "XGBClassifier")
        labels = parts["labels"]
        stray = set(state) - set(vars(model)) - {"n_classes_"}
        if stray:
            raise Refused(f"XGBClassifier with {str(sorted(stray))[:50]}")
        vars(model).update(state)
        given = _checked(parts["given"], "XGBClassifier")
        if given:
            model.kwargs = given
        if labels is not None:
            model.labels_ = np.asarray(labels)
        if parts["booster"] is not None:
            model._Booster = _booster(parts["booster"])
        return model

    return made


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
    for name, value in params.items():
        if isinstance(value, str) and not (name in _LGBM_WORDS and re.fullmatch(r"\w*", value)):
            raise Refused(f"LGBMClassifier with {str(name)[:30]}={value[:50]!r}")
    return _checked(params, "LGBMClassifier")


def _lgbm_state(model: Model) -> dict[str, Any]:
    learned = {name: vars(model)[name] for name in _LGBM_LEARNED if name in vars(model)}
    return {
        "params": _lgbm_params(model.get_params(deep=False)),
        "learned": _checked(learned, "LGBMClassifier"),
        "labels": {name: vars(model)[name] for name in _LGBM_LABELS if name in vars(model)},
        "booster": model.booster_.model_to_string() if model.__sklearn_is_fitted__() else None,
    }


def _lgbm(parts: Any) -> Any:
    lightgbm = importlib.import_module("lightgbm")
    learned = parts["learned"]
    labels = parts["labels"]
    text = parts["booster"]
    model = lightgbm.LGBMClassifier(**_lgbm_params(parts["params"]))
    if text is None:
        return model
    if not set(learned) <= set(_LGBM_LEARNED) or set(labels) != set(_LGBM_LABELS):
        raise Refused("LGBMClassifier with unknown fields")
    if not isinstance(labels["_classes"], np.ndarray) or not isinstance(
        labels["_class_map"], dict
    ):
        raise Refused("LGBMClassifier without classes")
    vars(model).update(_checked(learned, "LGBMClassifier") | labels)
    if not (isinstance(text, str) and text.startswith("tree\n")):
        raise Refused("a booster in an unknown format")
    model._Booster = lightgbm.Booster(model_str=text)
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
    params = {k: v for k, v in model.get_params(deep=False).items() if k not in _CATBOOST_FILES}
    return {
        "params": _checked(params, "CatBoostClassifier"),
        "booster": model._serialize_model() if model.is_fitted() else None,
    }


def _catboost(parts: Any) -> Any:
    catboost = importlib.import_module("catboost")
    params = _checked(parts["params"], "CatBoostClassifier")
    if set(params) & _CATBOOST_FILES:
        raise Refused("CatBoostClassifier with the name of a file")
    model = catboost.CatBoostClassifier(**params)
    if parts["booster"] is not None:
        model.load_model(blob=_content(parts["booster"], b"CBM1"))
    return model


# -- scikit-learn, NumPy, ours -----------------------------------------------------------------------------


def _predictor_state(predictor: Any) -> list[Any]:
    bits = [
        getattr(predictor, name, None)
        for name in ("binned_left_cat_bitsets", "raw_left_cat_bitsets")
    ]
    nodes = predictor.nodes
    return [{name: np.ascontiguousarray(nodes[name]) for name in nodes.dtype.names}, *bits]


def _predictor(parts: Any) -> Any:
    """Return a tree of scikit-learn's boosting, after checks of its links and bitsets."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    columns, *bits = parts
    kind = np.dtype(PREDICTOR_RECORD_DTYPE)
    if set(columns) != set(kind.names or ()):
        raise Refused("a tree of scikit-learn's boosting of another version")
    nodes = np.zeros(len(columns["value"]), dtype=kind)
    for name, column in columns.items():
        if column.shape != nodes.shape:
            raise ValueError("a tree with missing nodes")
        nodes[name] = column
    inner = nodes[nodes["is_leaf"] == 0]
    index = np.flatnonzero(nodes["is_leaf"] == 0)
    for side in ("left", "right"):
        if not ((inner[side] > index) & (inner[side] < len(nodes))).all():
            raise ValueError("a tree with a child before its parent")
    checked = [np.asarray(each, dtype=np.uint32) for each in bits]
    categorical = inner[inner["is_categorical"] != 0]["bitset_idx"]
    if any(
        each.ndim != 2 or each.shape[1] != 8 or (categorical >= len(each)).any()
        for each in checked
    ):
        raise ValueError("a tree without the categories of its splits")
    if not len(nodes) or (nodes["feature_idx"] < 0).any():
        raise ValueError("a tree without nodes, or with unknown columns")
    return TreePredictor(nodes, *checked)


def _loss(name: str) -> Callable[[Any], Any]:
    def made(n_classes: object) -> Any:
        losses = importlib.import_module("sklearn._loss.loss")
        if name != "HalfMultinomialLoss":
            return getattr(losses, name)()
        if type(n_classes) is not int or not 2 <= n_classes <= 10**6:
            raise ValueError("a loss of no number of classes")
        return losses.HalfMultinomialLoss(n_classes=n_classes)

    return made


def _random_state(state: Any) -> Any:
    random = np.random.RandomState()
    random.set_state(tuple(state))
    return random


def _bit_losses(parts: Any) -> BitLosses:
    n, rows, planes = parts
    if not all(
        isinstance(plane, np.ndarray) and plane.shape == (n,) and plane.dtype == np.uint8
        for plane in planes
    ):
        raise ValueError("losses that are not bits of n rows")
    if type(rows) is not int or not 0 <= rows <= 8 * len(planes):
        raise ValueError("losses of more candidates than bits")
    return BitLosses.restored(n, rows, planes)


MADE: dict[str, Made] = {
    "xgboost.sklearn.XGBClassifier": Made(_xgb_state, _xgb("xgboost", "XGBClassifier")),
    "tailboost.learners.named.PlainXGBoost": Made(
        _xgb_state, _xgb("tailboost.learners.named", "plain_xgboost")
    ),
    "lightgbm.sklearn.LGBMClassifier": Made(_lgbm_state, _lgbm),
    "catboost.core.CatBoostClassifier": Made(_catboost_state, _catboost),
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor": Made(
        _predictor_state, _predictor
    ),
    **{
        f"sklearn._loss.loss.{name}": Made(lambda loss: loss.n_classes, _loss(name))
        for name in ("HalfBinomialLoss", "HalfMultinomialLoss", "ExponentialLoss")
    },
    "numpy.random.mtrand.RandomState": Made(
        lambda random: list(random.get_state()), _random_state
    ),
    "tailboost.solvers.bits.BitLosses": Made(
        lambda losses: [losses.shape[1], len(losses), list(losses.planes())], _bit_losses
    ),
}
