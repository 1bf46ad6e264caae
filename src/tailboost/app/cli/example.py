"""``example``: the bundled credit table as CSV files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tailboost import datasets
from tailboost.app.cli.shared import BadInput, make_folder, say, write_out

# Fraction of the rows in each file: for the fit, for a choice or calibration, for certificates.
FILES = {"train.csv": 0.5, "tune.csv": 0.25, "test.csv": 0.25}


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
