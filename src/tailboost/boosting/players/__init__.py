"""Weight players. A rule is a frozen dataclass with pure ``start``, ``weights``, ``update`` and ``gap``.

Each rule lives in a module of its own, and is found there: a new one is listed nowhere.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from tailboost.boosting.game import Player


def _found() -> dict[str, type[Player[Any]]]:
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    classes = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    return {
        cls.__name__: cls
        for cls in classes
        if cls.__module__.startswith(__name__) and Player in cls.__mro__ and not inspect.isabstract(cls)
    }


globals().update(_found())
__all__ = sorted(_found())
