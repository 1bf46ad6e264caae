"""The field's benchmark: public tables with published results, and who else answers on the same score."""

from experiments.field._limits import EXPERIMENT as LIMITS
from experiments.field._published import EXPERIMENT as PUBLISHED

EXPERIMENTS = (PUBLISHED, LIMITS)
