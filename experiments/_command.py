"""The command ``tailboost reproduce NAME`` of a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import experiments
from tailboost.app.cli import options
from tailboost.app.cli.shared import BadInput, bad_input, make_folder, say_aside
from tailboost.core.interrupts import ending_at_interrupts
from tailboost.core.output import is_same_file


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Experiment of `tailboost list`.")],
    data: Annotated[Path | None, options.option("DIR", "Folder of data sets that are not bundled.")] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Number of random splits; default: that of the experiment.")
    ] = None,
    out: Annotated[Path, options.option("DIR", "Folder for NAME.json, NAME.md and NAME.png.")] = (
        Path("tailboost-reproduce")
    ),
    scale: Annotated[
        Literal["small", "paper"], typer.Option(help="Nets: minutes on a CPU, or as published.")
    ] = "small",
    only: Annotated[
        list[str] | None, options.option("NAME", "Method (images) or data set to compute; may be repeated.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Number of the only repeat to compute.")] = None,
    max_time: Annotated[
        float | None, options.option("SECONDS", "Time to stop after; the same call continues.", min=1)
    ] = None,
    jobs: options.Jobs = 1,
) -> None:
    """Run a published experiment of a checkout. After an interrupt the same call continues."""
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
