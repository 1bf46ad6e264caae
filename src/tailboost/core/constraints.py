"""Values that scikit-learn's check of parameters accepts."""

from __future__ import annotations

from typing import Any

#: Accepted values of each parameter of a class.
Constraints = dict[str, list[Any]]
