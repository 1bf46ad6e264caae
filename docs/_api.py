"""Writes the API reference from the public names, so that none is forgotten."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import tailboost

INTRODUCTION = """
API reference
=============

Every name for users. Classifiers, learners and scorers have scikit-learn's interface; what all estimators
share (``get_params``, ``set_params``, ``score``, metadata routing) is described there. The parts of a
classifier (rules, the game, combiners) are described in their modules.
"""
MODULES = {
    "metrics": "Metrics and scorers",
    "rates": "Rates of decisions, and limits",
    "plotting": "Displays",
    "published": "Algorithms as published",
    "learners": "Base learners",
    "dask": "Classifiers on Dask collections",
    "torch": "Nets as base learners",
    "torch.losses": "Losses of nets",
    "torch.nets": "Nets",
    "robustness": "Robustness of any classifier",
    "solvers": "Solvers",
    "datasets": "Data sets",
    "app.report": "Comparisons and reports",
    "rates.bounds": "Confidence bounds",
    "decisions": "Decisions by a draw",
    "storage": "Model files",
    "app.table_encoder": "Tables",
    "app.registry": "Methods by name",
}


def sections() -> dict[str, tuple[ModuleType, list[str]]]:
    """Return the sections of the reference: a module each, and names that it has."""
    named: dict[str, Any] = {name: getattr(tailboost, name) for name in tailboost.__all__}
    kinds: dict[str, list[str]] = {
        "Classifiers": [],
        "Functions": [],
        "Results and parts": [],
        "Warnings": [],
    }
    for name, thing in named.items():
        if inspect.ismodule(thing):
            continue
        if inspect.isclass(thing) and issubclass(thing, Warning):
            kinds["Warnings"].append(name)
        elif name.endswith("Classifier"):
            kinds["Classifiers"].append(name)
        else:
            kinds["Results and parts" if inspect.isclass(thing) else "Functions"].append(name)
    found = {title: (tailboost, names) for title, names in kinds.items()}
    for path, title in MODULES.items():
        module: Any = import_module(f"tailboost.{path}")
        own = getattr(module, "__all__", None) or [
            name for name, thing in vars(module).items()
            if inspect.isfunction(thing) and thing.__module__ == module.__name__ and name[0] != "_"
        ]  # fmt: skip
        listed = [getattr(home, name) for home, names in found.values() for name in names]
        # Each thing once, though a module may offer it too.
        new = [n for n in own if all(getattr(module, n) is not thing for thing in listed)]
        found[title] = (module, [n for n in new if not inspect.ismodule(getattr(module, n))])
    return found


def write(folder: Path) -> None:
    """Write a page for each section into a folder, and ``index.rst`` with all of them."""
    folder.mkdir(exist_ok=True)
    pages = {title.lower().replace(" ", "-"): (title, *found) for title, found in sections().items()}
    for page, (title, module, names) in pages.items():
        listed = "\n".join(f"   {name}" for name in sorted(names, key=str.lower))
        _write(
            folder / f"{page}.rst",
            f"{title}\n{'=' * len(title)}\n\n.. currentmodule:: {module.__name__}\n\n"
            f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{listed}\n",
        )
    _write(
        folder / "index.rst",
        f"{INTRODUCTION.strip()}\n\n.. toctree::\n   :maxdepth: 2\n\n"
        + "\n".join(f"   {p}" for p in pages)
        + "\n",
    )


def _write(path: Path, text: str) -> None:
    """Write a file unless it is the same: what has not changed is not built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
