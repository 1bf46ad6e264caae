"""The picture of the README: misses by age band before and after the limit, each on rows used nowhere else.

    python benchmarks/age_bands.py              write benchmarks/age_bands.json and both pictures
    python benchmarks/age_bands.py --draw       draw the pictures from the record

The program runs the first Python block of the README. Its rows ``new`` give the rates of the model and of the
rule, with 95 % Clopper–Pearson intervals of each rate alone.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from tailboost.rates.bounds import clopper_pearson_interval

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benchmarks" / "age_bands.json"
PICTURES = {"light": "age-bands.png", "dark": "age-bands-dark.png"}
#: Background, text, grid, before, after, limit.
COLOURS = {
    "light": ("#ffffff", "#1f2328", "#d0d7de", "#7b8691", "#0b63b5", "#c2410c"),
    "dark": ("#0d1117", "#e6edf3", "#30363d", "#8b949e", "#4da3ff", "#ff9a5c"),
}
BANDS = ("under 30", "30-39", "40-49", "50 and over")


def rate(wrong: Any) -> dict[str, float]:
    """Return a rate with its number of rows and its 95 % interval."""
    low, high = clopper_pearson_interval(wrong.mean(), len(wrong))
    return {
        "rate": round(float(wrong.mean()), 6),
        "low": round(float(low), 6),
        "high": round(float(high), 6),
        "rows": len(wrong),
    }


def measured() -> dict[str, Any]:
    """Run the block and return the rates before and after."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert block is not None
    run: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(block[1], "README.md", "exec"), run)
    new = run["new"]
    X, y, band = run["X"].iloc[new], run["y"].iloc[new].to_numpy(), run["age"].iloc[new, 0].to_numpy()
    wrong = {name: run[of].predict(X) != y for name, of in (("before", "model"), ("after", "rule"))}
    change = wrong["after"].astype(float) - wrong["before"]
    half = 1.96 * change.std(ddof=1) / len(change) ** 0.5
    return {
        "command": "python benchmarks/age_bands.py",
        "limit": run["limits"][0].bound,
        "rows": {name: len(run[name]) for name in ("train", "cal", "new")},
        "missed": {b: {k: rate(w[(y == 1) & (band == b)]) for k, w in wrong.items()} for b in BANDS},
        "overall error": {k: rate(w) for k, w in wrong.items()},
        "change of the overall error": {
            "mean": round(float(change.mean()), 6),
            "low": round(float(change.mean() - half), 6),
            "high": round(float(change.mean() + half), 6),
        },
        "good clients refused": {k: rate(w[y == 0]) for k, w in wrong.items()},
        "printed": printed.getvalue().splitlines(),
    }


def bars(axes: Any, rates: list[dict[str, dict[str, float]]], colours: tuple[str, ...]) -> None:
    """Draw pairs of bars with their intervals."""
    for k, (name, colour) in enumerate((("before", colours[3]), ("after", colours[4]))):
        values = 100 * np.array([[each[name][key] for key in ("rate", "low", "high")] for each in rates])
        at = np.arange(len(rates)) + 0.38 * (k - 0.5)
        ends = [values[:, 0] - values[:, 1], values[:, 2] - values[:, 0]]
        axes.bar(at, values[:, 0], 0.36, color=colour, label=name)
        axes.errorbar(at, values[:, 0], ends, fmt="none", ecolor=colours[1], elinewidth=1.2, capsize=2.5)
        for x, value in zip(at, values[:, 0], strict=True):
            axes.text(x, 2.5, f"{value:.0f}", ha="center", color=colours[0], weight="bold")


def draw(record: dict[str, Any], theme: str, file: Path) -> None:
    """Draw the misses by age band with the limit, and the overall error."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    ground, text, grid, *_, line = colours = COLOURS[theme]
    plt.rcParams.update({"font.size": 11, "text.color": text, "axes.labelcolor": text})
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(6.4, 3.3), sharey=True, width_ratios=(4, 1.2), layout="constrained", facecolor=ground
    )
    bars(left, [record["missed"][band] for band in BANDS], colours)
    bars(right, [record["overall error"]], colours)
    limit = 100 * record["limit"]
    left.axhline(limit, color=line, lw=2, zorder=3)
    right.text(-0.72, limit, f"your limit:\n{limit:.0f} %", color=line, va="center", weight="bold")
    left.set_title("defaulters missed, % by age", loc="left", fontsize=11)
    right.set_title("overall error, %", loc="left", fontsize=11)
    left.set_xticks(range(len(BANDS)), [band.replace(" and over", "+").replace("-", "–") for band in BANDS])
    right.set_xticks([0], ["the price"])
    right.set_xlim(-0.75, 0.75)
    left.set_ylim(0, 86)
    left.set_yticks(range(0, 71, 10))
    left.legend(frameon=False, ncols=2, loc="upper left", labelcolor=text, fontsize=10.5)
    for axes in (left, right):
        axes.set_facecolor(ground)
        axes.tick_params(colors=text, length=0)
        axes.set_axisbelow(True)
        axes.spines[:].set_visible(False)
    left.yaxis.grid(color=grid, lw=0.8)
    figure.savefig(file, dpi=150, facecolor=ground)
    plt.close(figure)


def main() -> None:
    """Run the block, write the record, draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", action="store_true", help="draw from the record")
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs" / "images")
    given = parser.parse_args()
    if not given.draw:
        given.out.write_text(json.dumps(measured(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    record = json.loads(given.out.read_text("utf-8"))
    for theme, name in PICTURES.items():
        draw(record, theme, given.pictures / name)


if __name__ == "__main__":
    main()
