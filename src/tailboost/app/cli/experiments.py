"""``reproduce``, ``list`` and ``example``: experiments of a checkout, lists, and a bundled table."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

import tailboost
from tailboost import datasets
from tailboost.app.cli import options as given
from tailboost.app.cli.shared import (
    BadInput,
    bad_input,
    make_folder,
    plain_table,
    say,
    say_aside,
    tell,
    tell_json,
    write_out,
)
from tailboost.app.registry import METHODS, Method, get_method
from tailboost.core.interrupts import ending_at_interrupts
from tailboost.core.output import is_same_file

# Files of `example` with fractions of the rows: for a fit, for selection or calibration, for certificates.
FILES = {"train.csv": 0.5, "tune.csv": 0.25, "test.csv": 0.25}


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Experiment of `tailboost list`.")],
    data: Annotated[Path | None, given.option("DIR", "Folder of data sets that are not bundled.")] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Number of random splits; default: that of the experiment.")
    ] = None,
    out: Annotated[Path, given.option("DIR", "Folder for NAME.json, NAME.md and NAME.png.")] = (
        Path("tailboost-reproduce")
    ),
    scale: Annotated[
        Literal["small", "paper"], typer.Option(help="Nets: minutes on a CPU, or as published.")
    ] = "small",
    only: Annotated[
        list[str] | None, given.option("NAME", "Method (images) or data set to compute; may be repeated.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Number of the only repeat to compute.")] = None,
    max_time: Annotated[
        float | None, given.option("SECONDS", "Time to stop after; the same call continues.", min=1)
    ] = None,
    jobs: given.Jobs = 1,
) -> None:
    """Run a published experiment of a checkout. After an interrupt the same call continues."""
    experiments = _experiments()
    if experiments is None:
        raise BadInput(
            "experiments are not part of the installed package: in a checkout of tailboost's repository run "
            f"pip install -e '.[experiments]' and tailboost reproduce {name}"
        )
    with bad_input():
        experiment = experiments.get_experiment(name)
    if experiment.needs_data and data is None:
        raise BadInput(f"--data: {name} needs a folder of data sets")
    if data is not None and not data.is_dir():
        raise BadInput(f"--data: {str(data)!r} is not a folder")
    if data is not None and is_same_file(data, out):
        raise BadInput(f"--out: {str(out)!r} is the folder of the data; give another folder")
    if not experiment.has_jobs and (only or seed is not None or max_time is not None):
        raise BadInput(f"--only, --seed, --max-time: {name} cannot be computed in parts")
    if seed is not None and seed >= (repeats or experiment.repeats):
        raise BadInput(f"--seed {seed}: must be below --repeats, {repeats or experiment.repeats}")
    make_folder(out)
    settings = experiments.Settings(
        out=out,
        data=data,
        repeats=repeats or experiment.repeats,
        n_jobs=jobs,
        scale=scale,
        say=say_aside,
        only=tuple(only or ()),
        seed=seed,
        max_time=max_time,
    )
    with ending_at_interrupts():  # the next call uses the finished parts
        text = experiment.run(settings)
    print(text)
    files = [out / f"{name}{ending}" for ending in (".json", ".md", ".png")]
    say_aside(f"Results: {', '.join(str(file) for file in files if file.exists())}")


def _experiments() -> Any:
    """Return the package ``experiments`` of the checkout of this package; None outside a checkout."""
    checkout = Path(tailboost.__file__).parents[2]
    if "experiments" not in sys.modules:  # `python -m experiments` has imported it
        if not (checkout / "experiments" / "_experiment.py").is_file():
            return None
        sys.path.insert(0, str(checkout))
    return import_module("experiments")


def list_all(
    method: Annotated[str | None, given.option("NAME", "Method whose parameters are listed.")] = None,
    as_json: given.Json = False,
) -> None:
    """List methods, data sets and experiments; or the parameters of one method."""
    if method is not None:
        with bad_input("--method: "):
            chosen = get_method(method)
        _list_parameters(chosen, as_json)
        return
    methods = []
    for m in METHODS.values():
        takes = ["alpha"] * m.uses_alpha + ["groups"] * (m.uses_groups or m.may_use_groups)
        methods.append((m.name, ", ".join(takes), f"{m.title}: {m.summary}"))
    loaders = [
        (name, (inspect.getdoc(getattr(datasets, name)) or "").splitlines()[0])
        for name in filter(re.compile("(load|fetch|make)_").match, datasets.__all__)
    ]
    package = _experiments()
    experiments = () if package is None else package.EXPERIMENTS.values()
    runs = [(e.name, "--data" * e.needs_data, e.summary) for e in experiments]
    sections: list[tuple[str, str, tuple[str, ...], Sequence[tuple[str, ...]]]] = [
        ("methods", "Methods", ("name", "takes", "summary"), methods),
        ("datasets", "\nData sets (tailboost.datasets)", ("name", "summary"), loaders),
        ("experiments", "\nExperiments (tailboost reproduce)", ("name", "takes", "summary"), runs),
    ]
    if as_json:
        tell_json(
            {key: [dict(zip(heads, row, strict=True)) for row in rows] for key, _, heads, rows in sections}
        )
        return
    for _, title, heads, rows in sections:
        if rows:  # only a checkout has experiments
            plain_table(heads, rows, title=title, left=len(heads))


def _list_parameters(method: Method, as_json: bool) -> None:
    # The docstring has a line for each parameter: "name : float in (0, 1], default=0.5".
    doc = inspect.getdoc(method.factory) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?:\n\n\S|\Z)", doc, re.DOTALL | re.MULTILINE)
    types = dict(re.findall(r"^(\w+) : (.+)$", section[1] if section else "", re.MULTILINE))
    rows = [
        (name, repr(default), re.sub(r",? default=.*", "", types.get(name, "")))
        for name, default in method.make().get_params(deep=False).items()
    ]
    if as_json:
        parameters = [{"name": n, "default": d, "takes": t} for n, d, t in rows]
        about = {"name": method.name, "title": method.title, "summary": method.summary}
        tell_json(about | {"parameters": parameters})
        return
    tell(f"{method.title}: {method.summary}\n")
    if rows:
        plain_table(("--set NAME=…", "default", "takes"), rows, left=3)
    else:
        tell("The method has no parameters.")


def example(
    out: Annotated[Path, typer.Argument(metavar="[DIR]", help="Folder for the files.")] = Path("."),
) -> None:
    """Write the bundled table of credit card clients as train.csv, tune.csv and test.csv.

    The files have different clients, drawn at random. The target is the column default (yes or no). The
    column SEX has the values male and female. Existing files are not overwritten.
    """
    for name in FILES:
        if (out / name).exists():
            raise BadInput(f"{str(out / name)!r} exists; give another folder: tailboost example DIR")
    make_folder(out)
    data = datasets.load_credit_default()
    table = data.data.assign(SEX=data.groups["sex"].astype(str))
    table["default"] = np.where(data.target == 1, "yes", "no")
    order = np.random.default_rng(0).permutation(len(table))
    ends = np.round(np.cumsum(list(FILES.values())) * len(table)).astype(int)
    for name, rows in zip(FILES, np.split(order, ends[:-1]), strict=True):
        write_out(out / name, table.iloc[rows].to_csv(index=False), "DIR")
        say(f"{out / name}: {len(rows):,} clients")
