"""The command ``tailboost reproduce NAME`` of a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import experiments
from experiments import _check
from tailboost.app.cli import options
from tailboost.app.cli.shared import BadInput, bad_input, make_folder, say_aside
from tailboost.core.files import is_same_file
from tailboost.core.long_work import ending_at_interrupts


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Experiment of `tailboost list`.")
    ] = None,
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
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Compare the record in `results` with a new run; exit code 1 if they differ."
        ),
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Number of the only repeat to compute.")] = None,
    max_time: Annotated[
        float | None, options.option("SECONDS", "Time to stop after; the same call continues.", min=1)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One number of each paper, in a minute: the experiment `quick`.")
    ] = False,
    jobs: options.Jobs = 1,
) -> None:
    """Run a published experiment of a checkout. After an interrupt the same call continues.

    With --check the run has the repeats and the scale of the record, which stays as it is.
    """
    if quick:
        if name is not None:
            raise BadInput(f"--quick runs an experiment of its own; leave out {name!r}")
        name = "quick"
    if name is None:
        raise BadInput("NAME is missing: an experiment of `tailboost list`, or --quick")
    with bad_input():
        experiment = experiments.get_experiment(name)
    if experiment.needs_data and data is None:
        raise BadInput(f"--data: {name} needs a folder of data sets")
    if data is not None and not data.is_dir():
        raise BadInput(f"--data: {str(data)!r} is not a folder")
    if data is not None and is_same_file(data, out):
        raise BadInput(f"--out: {str(out)!r} is the folder of the data; give another folder")
    if (only or max_time is not None) and not (experiment.has_jobs or experiment.has_rows):
        raise BadInput(f"--only, --max-time: {name} cannot be computed in parts")
    if seed is not None and not experiment.has_jobs:
        raise BadInput(f"--seed: {name} cannot be computed in parts")
    record: dict[str, Any] = {}
    if check:
        if repeats is not None or scale != "small" or seed is not None:
            raise BadInput("--check takes --repeats and --scale from the record, and no --seed")
        if is_same_file(_check.RECORDS, out):
            raise BadInput(f"--out: {str(out)!r} holds the record; give another folder")
        with bad_input():
            record = _check.recorded(name, _check.RECORDS)
        repeats, scale = _check.options_of(record)  # type: ignore[assignment]  # one of two texts
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
    if check and (cells := out / f"{name}.jsonl").exists():
        say_aside(f"{cells} has finished parts of an earlier call, which are not computed again")
    with ending_at_interrupts():  # the next call uses the finished parts
        text = experiment.run(settings)
    if check:
        comparison = _check.compare(name, record, _check.recorded(name, out))
        print(comparison)
        raise typer.Exit(0 if comparison.agrees and (only or comparison.same) else 1)
    print(text)
    files = [out / f"{name}{ending}" for ending in (".json", ".md", ".png")]
    say_aside(f"Results: {', '.join(str(file) for file in files if file.exists())}")
