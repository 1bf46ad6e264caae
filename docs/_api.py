"""Write the API reference from the public names."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import tailboost

INTRODUCTION = """
API reference
=============

Public names. Classifiers, learners and scorers have scikit-learn's interface; scikit-learn documents the
common methods (``get_params``, ``set_params``, ``score``, metadata routing). The parts of a classifier
(players, the game, combiners) are described in their modules.
"""
MODULES = {
    "metrics": "Metrics and scorers",
    "rates": "Rates of decisions, and limits",
    "plotting": "Displays",
    "published": "Algorithms as published",
    "learners": "Base learners",
    "dask": "Classifiers on Dask collections",
    "torch": "Nets as base learners",
    "robustness": "Robustness of any classifier",
    "solvers": "Solvers",
    "datasets": "Data sets",
    "exceptions": "Errors",
    "rates.bounds": "Confidence bounds",
    "decisions": "Randomised decisions",
    "storage": "Model files",
}


def sections() -> dict[str, tuple[str, list[str]]]:
    """Return the sections of the reference: the import path of a module and its public names."""
    kinds: dict[str, list[str]] = {
        "Classifiers": [],
        "Functions": [],
        "Results and parts": [],
        "Warnings": [],
    }
    for name in tailboost.__all__:
        thing = getattr(tailboost, name)
        if inspect.ismodule(thing):
            continue
        if inspect.isclass(thing) and issubclass(thing, Warning):
            kinds["Warnings"].append(name)
        elif name.endswith("Classifier"):
            kinds["Classifiers"].append(name)
        else:
            kinds["Results and parts" if inspect.isclass(thing) else "Functions"].append(name)
    listed = {id(getattr(tailboost, name)) for names in kinds.values() for name in names}
    titles = {title: ("tailboost", names) for title, names in kinds.items()}
    for path, title in MODULES.items():
        module = import_module(f"tailboost.{path}")
        names = getattr(module, "__all__", None) or [
            name for name, thing in vars(module).items()
            if inspect.isfunction(thing) and thing.__module__ == module.__name__ and name[0] != "_"
        ]  # fmt: skip
        things = {name: getattr(module, name) for name in names}
        # A thing is listed once, in the first section that offers it.
        unlisted = [
            n for n, thing in things.items() if id(thing) not in listed and not inspect.ismodule(thing)
        ]
        listed |= {id(things[name]) for name in unlisted}
        titles[title] = (f"tailboost.{path}", unlisted)
    return titles


def write(folder: Path) -> None:
    """Write a page for each section into a folder, and ``index.rst`` with all of them."""
    folder.mkdir(exist_ok=True)
    pages = {title.lower().replace(" ", "-"): (title, *section) for title, section in sections().items()}
    current = {f"{path}.{name}.rst" for _, path, names in pages.values() for name in names}
    for file in folder.glob("generated/*.rst"):  # of an earlier build
        if file.name not in current:
            file.unlink()
    for page, (title, path, names) in pages.items():
        listed = "\n".join(f"   {name}" for name in sorted(names, key=str.lower))
        _write(
            folder / f"{page}.rst",
            f"{title}\n{'=' * len(title)}\n\n.. currentmodule:: {path}\n\n"
            f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{listed}\n",
        )
    _write(
        folder / "index.rst",
        f"{INTRODUCTION.strip()}\n\n.. toctree::\n   :maxdepth: 2\n\n"
        + "\n".join(f"   {p}" for p in pages)
        + "\n",
    )


def _write(path: Path, text: str) -> None:
    """Write a file unless it has the same content: unchanged pages are not built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
