"""Public tables with published results, and baselines on the same score."""

from experiments.field import (
    _classes,
    _curves,
    _decomposition,
    _limits,
    _many,
    _published,
    _strong,
    _subgroups,
)

EXPERIMENTS = tuple(
    module.EXPERIMENT
    for module in (_published, _limits, _many, _curves, _subgroups, _classes, _strong, _decomposition)
)
