"""The published experiments, by name: what ``tailboost reproduce NAME`` runs."""

from __future__ import annotations

import difflib

from tailboost.reproduce._experiment import Experiment, Settings
from tailboost.reproduce.artificial_nets import EXPERIMENT as ARTIFICIAL_NETS
from tailboost.reproduce.compas import EXPERIMENT as COMPAS
from tailboost.reproduce.credit_default import EXPERIMENT as CREDIT_DEFAULT
from tailboost.reproduce.domain_shift import EXPERIMENT as DOMAIN_SHIFT
from tailboost.reproduce.images import EXPERIMENTS as IMAGES
from tailboost.reproduce.variance import ROUNDS, STUMPS, TREES
from tailboost.reproduce.variance_peers import EXPERIMENT as VARIANCE_PEERS
from tailboost.reproduce.worst_class_artificial import EXPERIMENT as WORST_CLASS_ARTIFICIAL

__all__ = ["EXPERIMENTS", "Experiment", "Settings", "get_experiment"]

EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        CREDIT_DEFAULT,
        DOMAIN_SHIFT,
        STUMPS,
        TREES,
        ROUNDS,
        VARIANCE_PEERS,
        WORST_CLASS_ARTIFICIAL,
        ARTIFICIAL_NETS,
        COMPAS,
        *IMAGES,
    )
}


def get_experiment(name: str) -> Experiment:
    """Return an experiment by name.

    Raises
    ------
    ValueError
        If there is none; the message names near ones.
    """
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = difflib.get_close_matches(name, EXPERIMENTS, n=2)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ValueError(f"unknown experiment {name!r}; {hint}experiments are {', '.join(EXPERIMENTS)}")
