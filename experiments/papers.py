"""Tables and figures of the four papers with the state of their reproduction, for ``results/README.md``.

``python -m experiments.papers`` writes the list from this module and the records in ``results/``.
Commands, seconds and errors come from the records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments._experiment import markdown
from experiments._image_tables import PUBLISHED_BY_THETA, WORST, with_theta
from experiments.variance import TASKS
from experiments.worst_class_artificial import BOOSTING
from tailboost.core.files import write_output

Record = Mapping[str, Any]

RESULTS = Path(__file__).resolve().parents[1] / "results"
PAGE = RESULTS.parent / "docs" / "published.md"
BEGIN = "<!-- The list: written by `python -m experiments.papers`. -->"
END = "<!-- The list ends. -->"

# Was it run as printed, with fewer rounds, rows or seeds, or not at all? The last has nothing to run.
REACHED, SMALLER, NOT_RUN, NO_RUN = "reached", "smaller", "not run", "nothing to run"
STATUSES = (REACHED, SMALLER, NOT_RUN, NO_RUN)
HEADER = (
    "table or figure",
    "run",
    "claim, what our run shows, and what was smaller or why it was not run",
    "record, command",
    "processor seconds recorded",
    "printed / ours (difference)",
)


@dataclass(frozen=True)
class Item:
    """A table or a figure of a paper, or a part of one.

    Parameters
    ----------
    paper, name : str
        Authors and year; number and part.
    status : str
        One of `STATUSES`.
    why : str
        The paper's claim, what our run shows, and what was not run.
    records : tuple of str
        Experiments in ``results/`` with the result.
    command : str
        Command of the result, if not in the records.
    compared : callable or None
        ``compared(record) -> str`` with the first record: printed result and ours.
    learner : str
        The learner of the first record, with that of the paper if it is another one.
    """

    paper: str
    name: str
    status: str
    why: str
    records: tuple[str, ...] = ()
    command: str = ""
    compared: Callable[[Record], str] | None = None
    learner: str = ""


# -- printed and ours -------------------------------------------------------------------------------------


def _half(interval: Mapping[str, float]) -> float:
    """Half of a 95 % interval over seeds or splits."""
    return (interval["high"] - interval["low"]) / 2


def _beside(printed: float, found: Mapping[str, Any], *, comparable: bool = True) -> str:
    """Return the printed per cent, ours, the difference, and half of the 95 % interval over seeds.

    Of other data, or of models of another size, a difference says nothing about the algorithm.
    """
    ours = 100 * found["mean"]
    error = f" ± {100 * _half(found):.1f}" if found["n"] > 1 else ", one seed"
    note = f"{ours - printed:+.1f}{error}" if comparable else error.lstrip(" ,")
    return f"{printed:.1f} / {ours:.1f} ({note})"


def _of_compas(record: Record) -> str:
    """CVaR of AdaLPBoost; the paper draws figures, so "printed" is a re-run of its procedure."""
    alphas, published = record["settings"]["alphas"], record["published"]
    ours = record["games"]["λ from training"]["curves"]["AdaLPBoost"]
    shown = (0.1, 0.5, 0.9)
    again = [published["AdaLPBoost"][published["α"].index(a)].split()[0] for a in shown]
    found = [ours[alphas.index(a)] for a in shown]
    pairs = ", ".join(
        f"{said} / {got['mean']:.3f} ({got['mean'] - float(said):+.3f} ± {_half(got):.3f}) at α = {a:g}"
        for a, said, got in zip(shown, again, found, strict=True)
    )
    return f"CVaR of AdaLPBoost, the procedure run again / ours: {pairs}"


# No stand-ins, but other rows than the paper's: see tests/experiments/test_published_numbers.py.
OTHER_ROWS = {"ringnorm", "splice"}


def _of_variance(record: Record) -> str:
    """Mean test error over the paper's sets; others are named."""
    words = []
    left_out = {name for name, task in TASKS.items() if task.stands_in} | OTHER_ROWS
    for method in ("AdaBoost", "VadaBoost"):
        rows = [row for row in record["rows"] if row["method"] == method and row["data"] not in left_out]
        printed, ours = (np.mean([row[of] for row in rows]) for of in ("published", "ours"))
        error = 1.96 * np.sqrt(np.sum([row["standard_error"] ** 2 for row in rows])) / len(rows)
        difference = f"{ours - printed:+.2f} ± {error:.2f}"
        words.append(f"{method} {printed:.2f} / {ours:.2f} % ({difference})")
    others = f"without {', '.join(sorted(left_out))}, whose rows are not the paper's"
    return f"mean of {len(rows)} of {len(TASKS)} sets, {others}: {'; '.join(words)}"


def _of_artificial(record: Record, titles: tuple[str, ...]) -> str:
    """Worst and mean test error of worst-class boosting."""
    words = []
    for title in titles:
        found = record["tables"][title][BOOSTING]
        said = found["published"]
        pairs = " and ".join(_beside(said[f"{of} %"], found[of]) for of in ("worst test", "mean test"))
        words.append(f"{title.removeprefix('Table II, ')}: {pairs} %")
    return "worst and mean, " + "; ".join(words)


def _of_images(record: Record, title: str) -> str:
    """Worst and mean test error of worst-class boosting, ours with a small net on few rows."""
    printed = map(float, record["published: worst / mean, %"][title][WORST].split(" / "))
    test = record["results"][title][WORST]["test"]
    pairs = [
        _beside(said, test[of], comparable=False) for said, of in zip(printed, ("worst", "mean"), strict=True)
    ]
    return f"not comparable, a small net on few rows: worst and mean {' and '.join(pairs)} %"


def _of_theta(record: Record) -> str:
    """Worst-class test error by θ; ours at 16×16 pixels."""
    title = "CIFAR-10, 16×16 pixels"
    said, ours = PUBLISHED_BY_THETA[title], record["results"][title]
    pairs = []
    for theta in (0.1, 0.3, 0.5, 0.7, 0.9):
        printed = float(said[theta].partition(" ")[0])
        found = ours[with_theta(theta)]["test"]["worst"]
        pairs.append(f"{_beside(printed, found, comparable=False)} at {theta:g}")
    return f"not comparable, 32×32 / 16×16 pixels: worst by θ {', '.join(pairs)} %"


def _of_gamma(record: Record) -> str:
    said = record["published, CIFAR-10: worst and mean test % by γ"]
    ours = record["worst and mean test %, rounds, by γ and θ"]
    worst = {g: (said[g][0], ours[g]["0.7"][0]) for g in ours if g in said}
    pairs = ", ".join(f"{x:.1f} / {y:.1f} at {g}" for g, (x, y) in worst.items())
    data = "CIFAR-10 / squares at θ = 0.7, three seeds without intervals"
    return f"not comparable, {data}: worst by γ {pairs} %"


# -- the list ----------------------------------------------------------------------------------------------

ZHAI, JEBARA, SAITO, BLANCHET = (
    "Zhai et al. 2021",
    "Shivaswamy and Jebara 2011",
    "Saito et al. 2024",
    "Blanchet et al. 2019",
)
AT_PAPER_SCALE = "task, protocol and loader are there and tried on made files; not run"


def _on_a_gpu(name: str) -> str:
    return f"tailboost reproduce {name} --data DIR --scale paper"


ITEMS = (
    Item(ZHAI, "Figure 1, COMPAS", REACHED,
         "claim: the curve of AdaLPBoost almost overlaps the minimum of ERM and AdaBoost + average. It does "
         "from α = .1 on, with five seeds; at α = .01 the difference is .001 ± .044",
         ("compas", "compas-mlp"), compared=_of_compas,
         learner="the paper's net"),
    Item(ZHAI, "Figures 1, 2 and 4, CIFAR-10", SMALLER,
         "claim: as for COMPAS, and the CVaR hardly falls after T = 30. With ten rounds of 800 steps and one "
         "seed the curve is at or below the minimum up to α = .2; T = 30 was not run (the paper: 100 rounds "
         "of 5,000 steps)",
         ("cifar10-ten", "cifar10"), _on_a_gpu("cifar10")),
    Item(ZHAI, "Figures 1, 2 and 4, CIFAR-100", NOT_RUN, f"{AT_PAPER_SCALE}; the data are not at hand",
         command=_on_a_gpu("cifar100")),
    Item(ZHAI, "Figure 1, CelebA", NOT_RUN,
         f"{AT_PAPER_SCALE}; errors of hair × sex cells are shown; the data are not at hand",
         command=_on_a_gpu("celeba")),
    Item(ZHAI, "Figure 3: regularised against AdaLPBoost", SMALLER,
         "claim: almost no gap. On four tables the intervals of 14 of 16 differences contain 0; in the two "
         "others AdaLPBoost is lower. On CIFAR-10 at 16×16 pixels, with a small net, 100 steps a round and "
         "three seeds, the differences are +.007 ± .038, +.012 ± .013, −.002 ± .013 and −.015 ± .008 at "
         "α = .1, .3, .5 and .7 (the paper: 32×32 pixels and 5,000 steps a round)",
         ("regularised", "regularised-images")),
    Item(JEBARA, "Figure 1: the cost V and its bound U", REACHED,
         "claim: U touches V at α = 0, lies above it, and is close for large λ. It does, in round 2 on MNIST "
         "3 against 8; the paper does not name its data",
         ("variance-figures",)),
    Item(JEBARA, "Figure 2: cost against rounds", REACHED,
         "claim: at λ = 0 VadaBoost needs roughly twice AdaBoost's rounds, at λ = .5 hardly more than "
         "EBBoost. At λ = .5 it does; at λ = 0 it needs more: the pages have the factors",
         ("variance-figures", "variance-curves", "variance-rounds")),
    Item(JEBARA, "Table 1: stumps", REACHED,
         "claim: EBBoost and VadaBoost are significantly better than AdaBoost. Over all sets both are; set "
         "by set, at the paper's 1 % level, VadaBoost is on two of 18 and EBBoost on none. 50 splits; "
         "three sets stand in, ringnorm and splice have other rows; λ of .1, .5, .9. "
         "`variance-stumps-fine` has 11 λ and counts any drop, on all sets with 50 splits. VadaBoost is "
         "significantly better on three of 18 at 1 % and on eleven at 5 %, EBBoost on five and on eight",
         ("variance-stumps", "variance-stumps-fine", "variance-lambda"), compared=_of_variance,
         learner="decision stumps"),
    Item(JEBARA, "Table 2: CART", REACHED,
         "claim: VadaBoost is significantly better than AdaBoost. Its mean error is lower on 12 of 18 "
         "sets, at the paper's 1 % level on one, and not at this level over all sets. As Table 1; depth "
         "and bins of their trees are not printed",
         ("variance-cart",),
         compared=_of_variance,
         learner="trees of depth 2 or 4; depth and pruning of CART are not printed"),
    Item(SAITO, "Figure 1: a toy example", REACHED,
         "claim: the least overall error sacrifices the class in the middle, a training error of 0 in the "
         "worst class overfits, and the bound avoids both. On five overlapping squares cross-entropy does "
         "sacrifice this class, and boosting does not. Naive reaches no training error of 0 there, and its "
         "test errors are near those of boosting",
         ("worst-class-artificial",)),
    Item(SAITO, "Figures 2 to 5: boundaries on squares and discs", SMALLER,
         "claim: boundaries of cross-entropy and OCO boosting overfit, those of worst-class boosting do "
         "not and improve with n_min, and the class in the middle has the largest weight. The weight, "
         "Figure 4, is as claimed, and on the squares boosting keeps the region of this class, which "
         "cross-entropy cuts. The discs are drawn at n_min = 100 alone and without OCO boosting; with "
         "n_min the worst-class error hardly falls",
         ("worst-class-artificial", "artificial-nets", "class-weights")),
    Item(SAITO, "Figure 6: radar of class errors", SMALLER,
         "claim: cross-entropy sacrifices classes of EMNIST and TissueMNIST, and the class errors of "
         "worst-class boosting differ less. They do on MNIST and Fashion-MNIST made imbalanced, at small "
         "scale; the data of the paper are not at hand. `experiments/_radar.py` draws any record of images",
         ("mnist-imbalanced",),
         "python -m experiments._radar results/mnist-imbalanced.json mnist-imbalanced-radar.png"),
    Item(SAITO, "Figures 7 and 8", SMALLER,
         "claim: θ has a large effect on the worst-class error. It has on the squares. On CIFAR-10 at "
         "16×16 pixels the worst class is 85.1 ± 10.2 % at θ = .1, 70.0 ± 10.8 % at .5 and 71.5 ± 11.4 % "
         "at .9, three seeds. Both are balanced; Figure 8, imbalanced sets: nine nets and games of the "
         "paper's size did not finish in 350 seconds of a GPU",
         ("cifar10-16", "worst-class-sensitivity")),
    Item(SAITO, "Figures 9 to 11: boundaries of the other losses", REACHED,
         "claim: Naive is better than the other baselines, and seems overfitted beside boosting. On the "
         "squares and on the discs with n_min = 100 it has the least worst-class error of the baselines, "
         "with 10 and 50 0.5-DNN has. Its boundaries do not look overfitted: drawn for the squares and for "
         "the discs with 100, the influence-balanced losses too",
         ("artificial-nets",)),
    Item(SAITO, "Table I: squares", REACHED,
         "claim: the smallest worst-class error of all methods, and all training errors below 1 − θ. The "
         "printed worst-class error is within the interval of five seeds, the overall error is a point "
         "lower than printed. Boosting is first with PyTorch's nets and "
         "second to Naive with the perceptron; all training errors are below 1 − θ in one of five runs of "
         "each",
         ("worst-class-artificial", "artificial-nets"),
         compared=partial(_of_artificial, titles=("Table I",)),
         learner="scikit-learn's perceptron 2-128-64-K; paper: net 2-1024-512-K"),
    Item(SAITO, "Table II: discs", REACHED,
         "claim: the smallest worst-class error but for n_min = 10, falling with n_min. It is the smallest "
         "at every n_min, and hardly falls. Five seeds, with the paper's net and a smaller one. Row weights "
         "w_y / n_y of equation (8) do not give the printed errors; w_y of the published scripts comes near "
         "them at n_min = 10. With w_y at 50 and 100 seven of ten games end early, with "
         "either net; the three others of the paper's net have a worst class 6 to 12 points above the "
         "printed one",
         ("worst-class-artificial", "artificial-nets", "class-weights"),
         compared=partial(_of_artificial, titles=tuple(f"Table II, n_min = {n}" for n in (10, 50, 100))),
         learner="scikit-learn's perceptron 2-128-64-K; paper: net 2-1024-512-K"),
    Item(SAITO, "Table III: CIFAR-10", SMALLER,
         "claim: the smallest worst-class error of all methods. It is, with all methods cut to minutes on a "
         "CPU and one seed; worst-class boosting with nine θ and three seeds at 16×16 pixels",
         ("cifar10", "cifar10-16"), _on_a_gpu("cifar10"), partial(_of_images, title="CIFAR-10"),
         learner="a small net, 7,000 rows; paper: ResNet-32, all rows"),
    Item(SAITO, "Table III: CIFAR-100", NOT_RUN, f"{AT_PAPER_SCALE}; the data are not at hand",
         command=_on_a_gpu("cifar100")),
    Item(SAITO, "Table III: Tiny ImageNet", NOT_RUN, f"{AT_PAPER_SCALE}; the data are not at hand",
         command=_on_a_gpu("tiny-imagenet")),
    Item(SAITO, "Table IV: imbalanced CIFAR-10", SMALLER,
         "claim: the smallest worst-class error of all methods. It is, with all methods cut to minutes on a "
         "CPU and one seed",
         ("cifar10-imbalanced",),
         _on_a_gpu("cifar10-imbalanced"), partial(_of_images, title="CIFAR-10, imbalanced"),
         learner="a small net; paper: ResNet-32"),
    Item(SAITO, "Table IV: EMNIST", SMALLER,
         f"{AT_PAPER_SCALE}; the data are not at hand; MNIST and Fashion-MNIST are recorded, small",
         ("mnist-imbalanced",), _on_a_gpu("emnist")),
    Item(SAITO, "Table IV: TissueMNIST", NOT_RUN, f"{AT_PAPER_SCALE}; the data are not at hand",
         command=_on_a_gpu("tissuemnist")),
    Item(SAITO, "Tables V to VII, XI: settings", NO_RUN,
         "they are in `PAPER` and its kin in `experiments/images.py`; a single net has 100 epochs, where "
         "theirs stop at 10,000 at most"),
    Item(SAITO, "Table VIII: γ", SMALLER,
         "claim: γ has hardly an effect. On the squares, with three seeds, a large γ ends the game early, "
         "and the worst class is far worse; on CIFAR-10 it needs a GPU",
         ("worst-class-sensitivity",), _on_a_gpu("cifar10"),
         compared=_of_gamma,
         learner="scikit-learn's perceptron on squares; paper: ResNet-32 on CIFAR-10"),
    Item(SAITO, "Tables IX and X: θ", SMALLER,
         "claim: θ has a large effect on the worst-class error, which validation rows can select; on "
         "CIFAR-10 it is best at .9. It has the effect, and validation rows select a θ near the best. On "
         "the squares, with three seeds, .7 is best, since larger θ end the game early. On CIFAR-10 at "
         "16×16 pixels, with 10,500 training rows, five voters and three seeds, the worst class is lower at "
         ".5 than at .1 in each seed, by 15.1 ± 17.8 points, the overall error by 9.3 ± 6.3; above .5 no "
         "worst class is outside the interval at .5. Validation rows select .5, .9 and .5. 32×32 pixels "
         "need hours of a GPU",
         ("cifar10-16", "worst-class-sensitivity"), _on_a_gpu("cifar10"),
         compared=_of_theta,
         learner="ResNet-20 at 16×16 pixels; paper: ResNet-32 at 32×32"),
    Item(BLANCHET, "Table 1: credit default", REACHED,
         "claim: better accuracy, true positive rate, false negative rate and loss on test rows. At the "
         "paper's radius the test loss is lower by .94 ± .22 and the training loss is higher, as claimed; "
         "accuracy (+.001 ± .002) and true positive rate (+.002 ± .009) are not better beyond the interval. "
         "Twenty splits; the text prints no number of splits, and the printed results are not at hand",
         ("credit-default",)),
    Item(BLANCHET, "Figure 1", NO_RUN, "a sketch of the empirical profile likelihood"),
)  # fmt: skip


def load(name: str, results: Path = RESULTS) -> Record:
    """Return the summary of an experiment."""
    found: Record = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
    return found


def seconds(record: Record) -> float | None:
    """Return the processor seconds of a record, or None."""
    if "processor seconds" in record:
        return float(record["processor seconds"])
    found = list(_seconds(record))
    return sum(found) if found else None


def _seconds(record: Any) -> list[float]:
    if not isinstance(record, Mapping):
        return []
    spent = record.get("seconds")
    here = [spent["mean"] * spent["n"]] if isinstance(spent, Mapping) and "n" in spent else []
    # Worst-class boosting by θ is counted for each θ; the sum over θ has another name.
    return here + [s for key, value in record.items() if key != WORST for s in _seconds(value)]


def table(results: Path = RESULTS) -> str:
    """Return the list as Markdown, a table for each paper."""
    parts = []
    for paper in (ZHAI, JEBARA, SAITO, BLANCHET):
        lines = [_line(item, results) for item in ITEMS if item.paper == paper]
        parts.append(f"### {paper}\n\n{markdown(HEADER, lines)}")
    return "\n\n".join(parts)


def _line(item: Item, results: Path) -> list[str]:
    records = [load(name, results) for name in item.records]
    commands = [f"`{record['command']}`" for record in records]
    commands += [f"`{item.command}`"] if item.command else []
    links = [f"[{name}]({name}.md)" + _edition(name, results) for name in item.records]
    said = {name: s for name, record in zip(item.records, records, strict=True) if (s := seconds(record))}
    spent = f"{sum(said.values()):,.0f}" if said else ""
    if said and len(said) < len(records):
        spent += f" ({', '.join(said)})"
    compared = item.compared(records[0]) if item.compared else ""
    if records and not compared and item.name.startswith("Figure"):
        compared = "no printed numbers"
    return [
        item.name,
        item.status,
        item.why,
        "; ".join([", ".join(links), *commands] if links else commands),
        spent,
        compared,
    ]


def printed_table() -> str:
    """Return printed results beside ours as Markdown, each with our learner."""
    lines = []
    for item in ITEMS:
        if item.compared is None:
            continue
        record = f"`results/{item.records[0]}.md`"
        lines.append([item.paper, item.name, item.learner, item.compared(load(item.records[0])), record])
    header = ("paper", "table or figure", "our learner", "printed / ours (difference)", "record")
    return markdown(header, lines)


def _edition(name: str, results: Path) -> str:
    old = "**Record of the first edition**" in (results / f"{name}.md").read_text(encoding="utf-8")
    return " (first edition)" if old else ""


def write(results: Path = RESULTS) -> None:
    """Write the list into ``README.md``, and its printed results into a page, between their marks."""
    for file, content in ((results / "README.md", table(results)), (PAGE, printed_table())):
        before, _, rest = file.read_text(encoding="utf-8").partition(BEGIN)
        write_output(file, f"{before}{BEGIN}\n\n{content}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    write()
