"""``reproduce`` and ``list``: the experiments of a checkout, and what there is."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

import tailboost
from tailboost import datasets
from tailboost.app.cli import options as given
from tailboost.app.cli.shared import BadInput, bad_input, make_folder, plain_table, say_aside, tell, tell_json
from tailboost.app.registry import METHODS, Method, get_method
from tailboost.core.interrupts import ending_at_interrupts
from tailboost.core.output import is_same_file


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An experiment, see `tailboost list`.")],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of data sets that do not come with the package."),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Random splits; by default what the experiment says.")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for NAME.json, NAME.md and perhaps NAME.png.")
    ] = Path("tailboost-reproduce"),
    scale: Annotated[
        str, typer.Option(metavar="small|paper", help="For nets: cut to minutes on a CPU, or as published.")
    ] = "small",
    only: Annotated[
        list[str] | None, typer.Option(metavar="METHOD", help="Compute these methods (images) or sets alone.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Compute this repeat alone, counted from 0.")
    ] = None,
    max_time: Annotated[
        float | None,
        typer.Option(min=1, metavar="SECONDS", help="Stop then; the same call goes on from there."),
    ] = None,
    jobs: given.Jobs = 1,
) -> None:
    """Run a published experiment of a checkout; after an interrupt the same call continues it."""
    experiments = _experiments()
    if experiments is None:
        raise BadInput(
            "experiments do not come with the installed package: get a checkout of tailboost's "
            f"repository, and there pip install -e '.[experiments]' and tailboost reproduce {name}"
        )
    with bad_input():
        experiment = experiments.get_experiment(name)
    if scale not in ("small", "paper"):
        raise BadInput(f"--scale must be small or paper, got {scale!r}")
    if experiment.needs_data and data is None:
        raise BadInput(f"--data: {name} needs a folder of data sets")
    if data is not None and not data.is_dir():
        raise BadInput(f"--data: {str(data)!r} is not a folder")
    if data is not None and is_same_file(data, out):
        raise BadInput(f"--out: {str(out)!r} is the folder of the data; results need one of their own")
    if not experiment.has_jobs and (only or seed is not None or max_time is not None):
        raise BadInput(f"--only, --seed, --max-time: {name} is computed as a whole")
    if seed is not None and seed >= (repeats or experiment.repeats):
        raise BadInput(f"--seed {seed}: there are --repeats {repeats or experiment.repeats}, from 0 on")
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
    with ending_at_interrupts():  # finished cells are kept for the next call
        text = experiment.run(settings)
    print(text)
    written = [out / f"{name}{ending}" for ending in (".json", ".md", ".png")]
    say_aside(f"Results: {', '.join(str(file) for file in written if file.exists())}")


def _experiments() -> Any:
    """Return the package ``experiments`` of the checkout that this package lies in; None outside of one."""
    checkout = Path(tailboost.__file__).parents[2]
    if "experiments" not in sys.modules:  # python -m experiments has it already
        if not (checkout / "experiments" / "_experiment.py").is_file():
            return None
        sys.path.insert(0, str(checkout))
    return import_module("experiments")


def list_all(
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show the parameters of this method.")
    ] = None,
    as_json: given.Json = False,
) -> None:
    """Show methods, data sets and experiments; or the parameters of one method."""
    if method is not None:
        with bad_input("--method: "):
            chosen = get_method(method)
        _show_method(chosen, as_json)
        return
    methods = []
    for m in METHODS.values():
        takes = ["alpha"] * m.uses_alpha + ["groups"] * (m.uses_groups or m.may_use_groups)
        methods.append((m.name, ", ".join(takes), f"{m.title}: {m.summary}"))
    loaders = [
        (name, (inspect.getdoc(getattr(datasets, name)) or "").splitlines()[0])
        for name in filter(re.compile("(load|fetch|make)_").match, datasets.__all__)
    ]
    experiments = _experiments()
    known = () if experiments is None else experiments.EXPERIMENTS.values()
    runs = [(e.name, "--data" * e.needs_data, e.summary) for e in known]
    sections: list[tuple[str, str, tuple[str, ...], Sequence[tuple[str, ...]]]] = [
        ("methods", "Methods", ("name", "takes", "summary"), methods),
        ("datasets", "\nData sets (tailboost.app.datasets)", ("name", "summary"), loaders),
        ("experiments", "\nExperiments (tailboost reproduce)", ("name", "takes", "summary"), runs),
    ]
    if as_json:
        tell_json(
            {key: [dict(zip(heads, row, strict=True)) for row in rows] for key, _, heads, rows in sections}
        )
        return
    for _, title, heads, rows in sections:
        if rows:  # experiments are there in a checkout
            plain_table((*heads[:-1], "what it is"), rows, title=title, left=len(heads))


def _show_method(method: Method, as_json: bool) -> None:
    # The docstring says in one line what a parameter takes: "name : float in (0, 1], default=0.5".
    doc = inspect.getdoc(method.factory) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?:\n\n\S|\Z)", doc, re.DOTALL | re.MULTILINE)
    said = dict(re.findall(r"^(\w+) : (.+)$", section[1] if section else "", re.MULTILINE))
    defaults = method.make().get_params(deep=False)
    rows = [
        (name, repr(default), re.sub(r",? default=.*", "", said.get(name, "")))
        for name, default in defaults.items()
    ]
    if as_json:
        tell_json(
            {
                "name": method.name,
                "title": method.title,
                "summary": method.summary,
                "parameters": [{"name": n, "default": d, "takes": t} for n, d, t in rows],
            }
        )
        return
    tell(f"{method.title}: {method.summary}\n")
    if not rows:
        tell("It has no parameters.")
        return
    plain_table(("--set NAME=…", "default", "takes"), rows, left=3)
