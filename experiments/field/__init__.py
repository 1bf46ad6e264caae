"""The field's benchmark: public tables with published results, and who else answers on the same score."""

from experiments.field import _curves, _limits, _published, _subgroups

EXPERIMENTS = tuple(module.EXPERIMENT for module in (_published, _limits, _curves, _subgroups))
