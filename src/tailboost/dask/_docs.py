"""Docstrings of the classifiers on Dask collections, from those of one machine and what differs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from tailboost._docs import describing

T = TypeVar("T", bound=type)

ABOUT = """
The game, its parameters and what is promised are those of one machine, whose classifier `to_local` gives. The
rows stay on the workers that read them, where XGBoost fits the trees of all workers together, and tables of
counts travel. Up to ties in XGBoost's sums of floats, the result depends neither on the workers nor on the
partitions nor on the order of the rows.
"""

#: Parameters that mean something else here.
OTHER = {
    "estimator": """
estimator : HistBoostClassifier, HistTreeClassifier or LogitAdjustedClassifier over one, or str, optional
    The base learner, which XGBoost fits; other learners, and nets, are refused. None is
    `HistBoostClassifier`, except in games over classes: there it is `LogitAdjustedClassifier` over it (in the
    error game over its own default), without a forest, and rounds after the first cost an argmax. Where folds
    are judged, members are fitted to all rows once more; on one machine the mean of the folds' models stands
    for that, and AdaLPBoost's rounds answer together. Learners are fitted whole: they do
    not stop growing where a round's demand is met.
""",
    "validation": """
validation : {"auto", "cv", "train"} or float in (0, 1), default="auto"
    The losses on which λ is chosen, as on one machine, where "auto" is "cv" up to 50,000 rows (for AdaLPBoost
    with three folds beyond 1,000), else 0.2. The part that a row is in follows from a hash of its content:
    partitions and their order have no part in it, equal rows are in the same part, and classes and groups are
    in the parts in about, not exactly, equal shares. An explicit validation set is not taken.
""",
    "outlier_fraction": """
outlier_fraction : float, default=0.0
    Not available here: it must be 0.
""",
    "checkpoint_dir": """
checkpoint_dir : path, URL or None
    Folder that the client reaches, also a remote one that fsspec knows, for the models of every round. The
    same call on the same rows goes on from it. The files hold arrays and text, which run no code.
""",
    "warm_start": """
warm_start : bool, default=False
    Not available here: it must be False.
""",
    "n_jobs": """
n_jobs : None
    Not available here: each worker uses the threads it was started with.
""",
}

MORE = """
validation_ : "cv", "train" or float
    The validation scheme that was used.
progress_ : list
    Of every question to the workers: rows, seconds, seconds in XGBoost, lines of tables and bytes of models
    that travelled.
"""


#: What the fits share.
FIT = {
    "rows": """
X : Dask array or data frame of shape (n, d)
    Numbers, or a data frame with numbers, text and categories; NaN is a missing value.
y : Dask array of shape (n,) or column
    Class labels, cut at the same rows as X.
sample_weight : Dask array of shape (n,) or column, optional
    Non-negative weights; 2 is the row twice, 0 drops it.
""".strip(),
    "client": """
client : distributed.Client, optional
    By default the last one made.

Returns
-------
self

Raises
------
TypeError, ValueError
    If an argument is not as described, or there is no client.
ClusterError
    If the scheduler is lost.

Warns
-----
WorkerLostWarning
    Where a worker was lost: its rows are read again by the others, and the round is repeated.
""".strip(),
}  # fmt: skip


documented_fit = describing(FIT)


def on_cluster(cls: T) -> T:
    """Describe a class by its counterpart on one machine (a decorator)."""
    local: Any = cls._local  # type: ignore[attr-defined]
    text = inspect.getdoc(local)
    if not text:  # python -OO strips docstrings
        return cls
    for name, other in OTHER.items():
        text = re.sub(rf"^{name} : .*\n(?:[ \t]+.*\n)*", other.lstrip(), text, flags=re.M)
    parameters, attributes = (_section(text, name) for name in ("Parameters", "Attributes"))
    path = f"tailboost.{local.__name__}"
    cls.__doc__ = (
        f"`{path}` on Dask arrays and data frames.\n{ABOUT}\n{parameters}\n\n"
        f"{attributes}{MORE}\nSee Also\n--------\n{path} : The same on one machine.\n"
    )
    return cls


def with_sections_of(local: type) -> Callable[[T], T]:
    """Return what puts parameters and attributes of a class of one machine into the docstring of another."""
    text = inspect.getdoc(local)
    if not text:  # python -OO strips docstrings
        return lambda cls: cls
    names = ("Parameters", "Attributes")
    return describing({name.lower(): _section(text, name) for name in names})


def _section(text: str, name: str) -> str:
    found = re.search(rf"^{name}\n-+\n(?:(?!^\S.*\n-+$).*\n)*", text + "\n", flags=re.M)
    assert found is not None
    return found[0].rstrip()
