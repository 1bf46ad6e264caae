"""A radar of class errors, as in Saito et al. 2024, Figure 6, from the record of an experiment on images.

``python -m experiments._radar results/cifar10.json radar.png`` draws the radar. Bars are easier to read; the
radar is the published form.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments._experiment import save_picture
from experiments._image_tables import CE, OCO, WORST, label_of

SHOWN = (CE, "naive", OCO, WORST)


def radar(record: Mapping[str, Any], plt: Any, methods: Sequence[str] = SHOWN) -> Any:
    """Draw the test error of each class on a spoke, with a closed line for each method.

    Parameters
    ----------
    record : mapping
        Summary of an experiment on images: ``record["results"][data set][method]["class errors"]``.
    plt : module
        ``matplotlib.pyplot``.
    methods : sequence of str
        Methods by their names in the record; missing methods are left out.

    Returns
    -------
    matplotlib Figure
        A panel for each data set; the centre is an error of 0, the rim 100 %.

    Raises
    ------
    ValueError
        If the record has no class errors of any of the methods.
    """
    found = {
        title: {m: by_method[m]["class errors"] for m in methods if "class errors" in by_method.get(m, {})}
        for title, by_method in record.get("results", {}).items()
    }
    found = {title: errors for title, errors in found.items() if errors}
    if not found:
        raise ValueError(f"the record has no class errors of {', '.join(methods)}")
    figure, axes = plt.subplots(
        1, len(found), figsize=(4.2 * len(found), 4.6), squeeze=False, layout="constrained",
        subplot_kw={"projection": "polar"},
    )  # fmt: skip
    drawn: dict[str, Any] = {}
    for ax, (title, errors) in zip(axes[0], found.items(), strict=True):
        for k, method in enumerate(methods):
            if method in errors:
                spokes = np.linspace(0, 2 * np.pi, len(errors[method]), endpoint=False)
                closed = 100 * np.append(errors[method], errors[method][0])
                (drawn[method],) = ax.plot(
                    np.append(spokes, 0.0), closed, color=f"C{k}", label=label_of(method)
                )
        ax.set(theta_offset=np.pi / 2, theta_direction=-1, ylim=(0, 100), title=f"{title}: class errors, %")
        ax.set_xticks(spokes, range(len(spokes)))
    figure.legend(handles=list(drawn.values()), loc="outside lower center", ncols=2, frameon=False)
    return figure


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m experiments._radar RECORD.json PICTURE.png")
    read = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    save_picture(partial(radar, read), Path(sys.argv[2]))
