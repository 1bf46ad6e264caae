"""``list`` and ``example``: methods, data sets and experiments, and a bundled table."""

from __future__ import annotations

import inspect
import json
import re
import sys
from importlib import import_module
from importlib.metadata import metadata
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import numpy as np
import typer

import tailboost
from tailboost import datasets
from tailboost.app.cli import options, shared
from tailboost.app.cli.shared import BadInput
from tailboost.app.registry import METHODS, Method, get_method

# Files of `example` with fractions of the rows: for a fit, for selection or calibration, for certificates.
FILES = {"train.csv": 0.5, "tune.csv": 0.25, "test.csv": 0.25}


def experiments_of_checkout() -> ModuleType | None:
    """Return the package ``experiments`` of the checkout of this package; None outside a checkout.

    The first call imports it, and puts the folder of the checkout first in ``sys.path``. None too if
    another package of this name is imported already.
    """
    imported = sys.modules.get("experiments")
    # It is imported by `python -m experiments`, by an earlier call, or it is another package.
    if imported is not None:
        return imported if hasattr(imported, "_experiment") else None
    checkout = Path(tailboost.__file__).parents[2]
    if not (checkout / "experiments" / "_experiment.py").is_file():
        return None
    sys.path.insert(0, str(checkout))
    return import_module("experiments")


def where_experiments_are() -> str:
    """Return a sentence for users without a checkout: how to run experiments and the papers' algorithms."""
    urls = metadata("tailboost").get_all("Project-URL") or []
    address = dict(url.split(", ", 1) for url in urls).get("Repository", "")
    clone = "git clone ADDRESS tailboost"
    if address and "//example.org/" not in address:  # not the address of an anonymous copy
        clone = f"git clone {address} tailboost"
    return (
        f"tailboost reproduce needs a checkout of tailboost's repository: {clone}; cd tailboost; "
        "pip install -e '.[experiments]'; tailboost reproduce NAME. The page docs/published.md "
        "there has the numbers of the papers beside those of this package. The algorithms of "
        "the papers are in this package, with their settings: "
        "tailboost.published.adalpboost('tree', alpha=.1) and others"
    )


def reproduce_in_a_checkout(
    name: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Experiment of the papers.")
    ] = None,
) -> None:
    """Run a published experiment of a checkout.

    Experiments are in a checkout of tailboost's repository, not in the installed package: the end of
    `tailboost list` says how to run them.
    """
    raise BadInput(where_experiments_are())


def list_all(
    method: Annotated[
        str | None, options.option("NAME", "Method whose parameters are listed.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List methods, data sets and experiments; or the parameters of one method."""
    if method is not None:
        with shared.bad_input("--method: "):
            listed_method = get_method(method)
        _list_parameters(listed_method, as_json)
        return
    package = experiments_of_checkout()
    tables = {
        "methods": _methods(),
        "datasets": _loaders(),
        "experiments": _experiments(package),
    }
    if as_json:
        shared.tell_json(tables)
        return
    titles = {
        "methods": "Methods",
        "datasets": "\nData sets (tailboost.datasets)",
        "experiments": "\nExperiments (tailboost reproduce)",
    }
    for key, lines in tables.items():
        if lines:
            cells = [list(line.values()) for line in lines]
            heads = list(lines[0])
            shared.plain_table(heads, cells, title=titles[key], left=len(heads))
    if package is None:
        shared.tell(f"\nExperiments\n{where_experiments_are()}.")


def _methods() -> list[dict[str, str]]:
    """Return name, arguments and summary of each method."""
    lines = []
    for method in METHODS.values():
        takes = ["alpha"] if method.uses_alpha else []
        if method.uses_groups or method.may_use_groups:
            takes.append("groups")
        summary = f"{method.title}: {method.summary}"
        lines.append({"name": method.name, "takes": ", ".join(takes), "summary": summary})
    return lines


def _loaders() -> list[dict[str, str]]:
    """Return the name of each function that loads data, and the first line of its docstring."""
    lines = []
    for name in datasets.__all__:
        if name.startswith(("load_", "fetch_", "make_")):
            documentation = inspect.getdoc(getattr(datasets, name)) or ""
            lines.append({"name": name, "summary": documentation.splitlines()[0]})
    return lines


def _experiments(package: ModuleType | None) -> list[dict[str, str]]:
    """Return name, option, time and summary of each experiment; none without the package."""
    if package is None:
        return []
    return [
        {
            "name": experiment.name,
            "takes": "--data" if experiment.needs_data else "",
            "time": _recorded_time(experiment.name),
            "summary": experiment.summary,
        }
        for experiment in package.EXPERIMENTS.values()
    ]


def _recorded_time(name: str) -> str:
    """Return the processor time of the recorded run of an experiment; "unknown" without one."""
    record = Path(tailboost.__file__).parents[2] / "results" / f"{name}.json"
    if not record.is_file():
        return "unknown"
    seconds = json.loads(record.read_text(encoding="utf-8")).get("processor seconds")
    if seconds is None:
        return "unknown"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _documented_types(factory: Any) -> dict[str, str]:
    """Return the types of parameters from lines of a docstring as "name : float in (0, 1], default=0.5".

    It is empty if the docstring has no section of parameters.
    """
    doc = inspect.getdoc(factory) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?:\n\n\S|\Z)", doc, re.DOTALL | re.MULTILINE)
    if section is None:
        return {}
    types = dict(re.findall(r"^(\w+) : (.+)$", section[1], re.MULTILINE))
    return {
        name: re.sub(r",? default=.*", "", words)
        for name, words in types.items()
        if words != "optional"
    }


def _list_parameters(method: Method, as_json: bool) -> None:
    """Print the parameters of a method with their defaults, and with the types of the docstrings."""
    # A docstring may refer to another classifier for a parameter. The first type of a name stays.
    types: dict[str, str] = {}
    for registered in (method, *METHODS.values()):
        factory = registered.factory
        for documented in getattr(factory, "__mro__", (factory,)):  # a class and its bases
            types = _documented_types(documented) | types
    defaults = method.make().get_params(deep=False)
    rows = [(name, repr(value), types.get(name, "")) for name, value in defaults.items()]
    if as_json:
        heads = ("name", "default", "takes")
        parameters = [dict(zip(heads, row, strict=True)) for row in rows]
        about = {"name": method.name, "title": method.title, "summary": method.summary}
        shared.tell_json(about | {"parameters": parameters})
        return
    shared.tell(f"{method.title}: {method.summary}\n")
    if rows:
        shared.plain_table(("--set NAME=…", "default", "takes"), rows, left=3)
    else:
        shared.tell("The method has no parameters.")


def example(
    out: Annotated[Path, typer.Argument(metavar="[DIR]", help="Folder for the files.")] = Path(
        "."
    ),
) -> None:
    """Write the bundled table of credit card clients as train.csv, tune.csv and test.csv.

    The files have different clients, drawn at random. The target is the column default (yes or no). The
    column SEX has the values male and female. Existing files are not overwritten.
    """
    for name in FILES:
        if (out / name).exists():
            raise BadInput(
                f"{str(out / name)!r} exists; give another folder: tailboost example DIR"
            )
    shared.make_folder(out)
    data = datasets.load_credit_default()
    table = data.data.assign(SEX=data.groups["sex"].astype(str))
    table["default"] = np.where(data.target == 1, "yes", "no")
    order = np.random.default_rng(0).permutation(len(table))
    ends = np.round(np.cumsum(list(FILES.values())) * len(table)).astype(int)
    parts = np.split(order, ends[:-1])  # the last part ends with the table
    for name, rows in zip(FILES, parts, strict=True):
        shared.write_out(out / name, table.iloc[rows].to_csv(index=False), "DIR")
        shared.say(f"{out / name}: {len(rows):,} clients")
