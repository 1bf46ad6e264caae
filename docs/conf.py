"""Sphinx configuration of the documentation: `make docs` builds it, offline, with warnings as errors."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.metadata import version as version_of
from importlib.util import find_spec
from inspect import ismodule
from pathlib import Path
from typing import Any

#: The reference by job: pages with sections, each with names of a module; "all" are the others of the module.
REFERENCE = {
    "Boosting": {
        "Classifiers": "tailboost: AdaLPBoostClassifier LPBoostClassifier WorstClassBoostClassifier "
        "DROBoostClassifier VadaBoostClassifier EBBoostClassifier SoftMarginBoostClassifier "
        "GroupDROBoostClassifier AdaBoostClassifier AverageBoostClassifier OCOBoostClassifier GameClassifier "
        "AdditiveClassifier Player Additive Bound",
        "Players": "tailboost.boosting: Hedge LP Game Units",
        "Algorithms as published": "tailboost.published: all",
        "Weak learners": "tailboost.learners: all",
        "Nets": "tailboost.torch: all",
        "Programs": "tailboost.solvers: all",
    },
    "Limits": {
        "Rules within limits": "tailboost: tune calibrate RobustMixtureClassifier TunedClassifier Scores "
        "Curve",
        "Certificates": "tailboost: certify rows_needed Certificate CertifiedBound Price RowsNeeded",
        "Rates and limits": "tailboost.rates: all",
    },
    "Production": {
        "Files and rules": "tailboost: save_model load_model save_rule load_rule ThresholdRule Rule",
        "Monitor and card": "tailboost: Monitor ModelCard",
    },
    "Metrics, plots and data": {
        "Metrics": "tailboost.metrics: all",
        "Plots": "tailboost.plotting: all",
        "Data sets": "tailboost.datasets: all",
    },
    "Errors and warnings": {"": "tailboost.exceptions: all"},
}

#: What the pages of `REFERENCE` are for.
JOBS = (
    "the classifiers of the four papers, their learners and programs",
    "rules within limits, certificates, rates",
    "files, rules in other systems, the monitor, the card of a model",
    "errors by class and group, the tail, displays, bundled tables",
    "what is raised and warned, with the cure",
)


def heading(title: str, line: str) -> str:
    """Return a heading of reStructuredText."""
    return f"{title}\n{line * len(title)}\n\n" if title else ""


def write_reference(folder: Path) -> None:
    """Write a page for each job, and ``index.rst``; raise ValueError for a public name without a place."""
    folder.mkdir(exist_ok=True)
    listed: set[int] = set()
    pages = []
    for job, sections in REFERENCE.items():
        text = heading(job, "=")
        for title, content in sections.items():
            path, _, names = content.partition(": ")
            if find_spec(path) is None:
                continue
            module = import_module(path)
            shown = names.split()
            if names == "all":
                shown = [of for of in module.__all__ if not ismodule(getattr(module, of))]
                shown = sorted(of for of in shown if id(getattr(module, of)) not in listed)
            listed |= {id(getattr(module, of)) for of in shown}
            text += heading(title, "-") + f".. currentmodule:: {path}\n\n.. autosummary::\n"
            table = "\n".join(f"   {of}" for of in shown)
            text += f"   :toctree: generated\n   :nosignatures:\n\n{table}\n\n"
        name = job.split()[0].strip(",").lower()
        (folder / f"{name}.rst").write_text(text, encoding="utf-8")
        pages.append(f"   {name}")
    public = import_module("tailboost")
    things = {of: getattr(public, of) for of in public.__all__}
    lost = [of for of, thing in things.items() if id(thing) not in listed and not ismodule(thing)]
    if lost:
        raise ValueError(f"REFERENCE in conf.py has no place for {', '.join(lost)}")
    head = "Reference\n=========\n\nEach public name stands on the page of its job.\n\n"
    lines = "".join(f"* :doc:`{page.strip()}`: {line}\n" for page, line in zip(pages, JOBS, strict=True))
    further = "   How it works <../how>\n   ../evidence\n   ../glossary\n   Gallery <../gallery/index>\n"
    tree = "\n.. toctree::\n   :hidden:\n\n" + "\n".join(pages) + "\n" + further
    (folder / "index.rst").write_text(head + lines + tree, encoding="utf-8")


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
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 5,
    "navigation_depth": 3,
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
