"""Sphinx configuration of the documentation: `make docs` builds it, offline, with warnings as errors."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.metadata import version as version_of
from importlib.util import find_spec
from inspect import ismodule
from pathlib import Path
from typing import Any

#: The modules of the reference; a name that two of them offer stands in the first.
MODULES = (
    "tailboost metrics rates published learners torch solvers robustness plotting datasets dask exceptions"
)


def write_reference(folder: Path) -> None:
    """Write a page of the public names of each module, and ``index.rst``."""
    folder.mkdir(exist_ok=True)
    listed: set[int] = set()
    pages = []
    for name in MODULES.split():
        path = "tailboost" if name == "tailboost" else f"tailboost.{name}"
        if find_spec(path) is None:
            continue
        module = import_module(path)
        things = {of: getattr(module, of) for of in module.__all__}
        new = sorted(of for of, thing in things.items() if id(thing) not in listed and not ismodule(thing))
        listed |= {id(thing) for thing in things.values()}
        table = "\n".join(f"   {of}" for of in new)
        head = f"{path}\n{'=' * len(path)}\n\n.. currentmodule:: {path}\n\n"
        text = f"{head}.. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{table}\n"
        (folder / f"{name}.rst").write_text(text, encoding="utf-8")
        pages.append(f"   {name}")
    head = "API reference\n=============\n\n.. toctree::\n   :maxdepth: 2\n\n"
    (folder / "index.rst").write_text(head + "\n".join(pages) + "\n", encoding="utf-8")


write_reference(Path(__file__).parent / "api")

project = "tailboost"
author = "The tailboost developers"
copyright = "2026, the tailboost developers"
release = version = version_of("tailboost")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
]
exclude_patterns = [
    "_build",
    "gallery/**/*.ipynb",
    "gallery/**/*.py",
    "gallery/**/*.md5",
    "gallery/**/*.zip",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # docstrings give types in words
templates_path = ["_templates"]
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "tailboost"
html_theme_options = {
    "show_nav_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sourcelink = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "plot_",
    "matplotlib_animations": False,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1,
    "ignore_pattern": "demo",
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
}

# Warnings of examples are for their readers, not for the build.
warnings.filterwarnings("ignore", category=UserWarning, module="matplotlib")


def skip_member(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Return True for methods that scikit-learn adds to every estimator; its documentation has them."""
    if name.startswith("set_") and name.endswith("_request"):
        return True
    owner = getattr(obj, "__module__", None) or ""
    return True if owner.startswith(("sklearn.", "enum")) else None


def setup(app: Any) -> None:
    """Sphinx calls this when it reads the configuration."""
    app.connect("autodoc-skip-member", skip_member)
