"""Warnings and errors of the library."""

from tailboost.core.exceptions import *  # noqa: F403  # the public path of this module
from tailboost.core.exceptions import __all__ as _of_core
from tailboost.guarantees.ledger import NotCertifiedError as NotCertifiedError

__all__ = [*_of_core, "NotCertifiedError"]
