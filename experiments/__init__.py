"""Experiments of the papers and ours by name, for ``tailboost reproduce NAME`` in a checkout.

The installed package does not contain them; the extra ``experiments`` installs their requirements.
"""

from __future__ import annotations

from importlib import import_module

from experiments._experiment import Experiment, Settings
from tailboost.core.spelling import did_you_mean

__all__ = ["EXPERIMENTS", "Experiment", "Settings", "get_experiment"]

# A module of this package defines EXPERIMENTS; this line registers the module.
_MODULES = (
    "quick",
    "trials",
    "tables",
    "worst_class_tables",
    "optimism",
    "tradeoff",
    "regularised",
    "rai_games",
    "zhai_claims",
    "credit_default",
    "robust_loss",
    "domain_shift",
    "variance",
    "variance_peers",
    "variance_figures",
    "worst_class_artificial",
    "worst_class_sensitivity",
    "artificial_nets",
    "class_weights",
    "compas",
    "images",
    "given_scores",
    "post_processing",
    "field",
    "broken_limits",
)
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for module in _MODULES
    for experiment in import_module(f"{__name__}.{module}").EXPERIMENTS
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
    hint = did_you_mean(name, EXPERIMENTS)
    raise ValueError(f"unknown experiment {name!r}; {hint}experiments are {', '.join(EXPERIMENTS)}")
