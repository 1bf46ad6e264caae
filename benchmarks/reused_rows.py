"""How often independent rows of another population are taken for reused rows, and how often copies are found.

    python benchmarks/reused_rows.py [--draws N] [--only NAME] [--out FILE]

The used rows and the new ones are independent draws. Scores are probabilities of guardrail data in five
languages, rounded to 2, 3 or 4 decimals. The mean logit of the new rows is shifted, or the shares of the
languages, of round numbers or of one dense cluster differ. "persons": each score occurs twice, for two rows
of one person. "zipf": category numbers with two exponents. The sizes are those of a selection beside a month,
of a calibration beside a month, of a calibration beside few rows, and of two small tables.

Copies: 10, 50 or 100 % of the rows of the smaller table are rows of the other one, with their labels.

Refusals are counted for several `MODELS` of two populations. Settings with copies have a fifth of the draws.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.special import expit

from tailboost.rows import fingerprints
from tailboost.rows.fingerprints import UsedRows, hash_rounded_rows

#: Pairs of `STEEPEST` and `FREQUENT`: tables of one population, one power for all contents, and two powers.
MODELS = ((0.0, 1), (3.0, 10**9), (3.0, 16), (3.0, 8))
SEED = 0
SIZES = ((800, 8000), (7200, 8000), (7200, 300), (60, 200))
SHIFTS = (0.0, 0.4, -0.4, 0.8, -0.8, 1.5, -1.5)
LANGUAGES = (0.5, 0.2, 0.15, 0.1, 0.05)


def guardrail(rng, n, shift=0.0, languages=LANGUAGES):
    """Return logits of n texts and their labels."""
    language = rng.choice(5, n, p=languages)
    severity = rng.normal(size=n)
    label = severity + 0.3 * rng.normal(size=n) > 1.1
    bias = np.array([0.0, -0.3, -0.2, -0.9, -0.5])[language]
    noise = np.array([0.8, 1.0, 1.2, 1.3, 1.2])[language]
    return 2.2 * (severity - 1.1) + bias + shift + noise * rng.normal(size=n), label


def scores(decimals, shift=0.0, languages=LANGUAGES, rounded=0.0, dense=0.0, repeats=1):
    """Return a function that draws n rounded probabilities and labels.

    ``rounded`` is the fraction of scores with one decimal, ``dense`` that of scores near 0.3, and each score
    occurs in ``repeats`` rows.
    """

    def draw(rng, n):
        logit, label = guardrail(rng, -(-n // repeats), shift, languages)
        p = expit(logit)
        p = np.where(rng.random(len(p)) < dense, 0.3 + 0.01 * rng.normal(size=len(p)), p)
        p = np.where(rng.random(len(p)) < rounded, p.round(1), p).round(decimals)
        return np.repeat(p, repeats)[:n], np.repeat(label, repeats)[:n]

    return draw


def zipf(exponent):
    """Return a function that draws n of 5,000 categories and labels."""
    weight = np.arange(1, 5001.0) ** -exponent

    def draw(rng, n):
        return rng.choice(5000, n, p=weight / weight.sum()).astype(float), rng.random(n) < 0.3

    return draw


def populations():
    """Return pairs of populations, by name."""
    pairs = {}
    for decimals in (2, 3, 4):
        used = scores(decimals)
        for shift in SHIFTS:
            pairs[f"{decimals} decimals, shift {shift:g}"] = used, scores(decimals, shift)
        others = {
            "languages": scores(decimals, languages=(0.05, 0.1, 0.15, 0.2, 0.5)),
            "round numbers": scores(decimals, rounded=0.4),
            "dense": scores(decimals, dense=0.5),
            "persons": scores(decimals, 0.8, repeats=2),
        }
        for name, draw in others.items():
            pairs[f"{decimals} decimals, {name}"] = used, draw
            pairs[f"{decimals} decimals, from {name}"] = draw, used
    pairs["zipf .8 and 1.3"] = zipf(0.8), zipf(1.3)
    pairs["zipf 1.3 and .8"] = zipf(1.3), zipf(0.8)
    return pairs


def table(rows):
    """Return rows as the package stores them."""
    values, labels = rows
    return UsedRows.from_hashes(hash_rounded_rows(values[:, None]), labels)


def refusals(pair, sizes, copied, draws, rng):
    """Return the number of refused draws for each of the `MODELS`."""
    refused = np.zeros(len(MODELS), dtype=int)
    for _ in range(draws):
        used, new = (draw(rng, n) for draw, n in zip(pair, sizes, strict=True))
        n_copies = round(copied * min(sizes))
        places = rng.permutation(sizes[0])[:n_copies]
        for old_values, new_values in zip(used, new, strict=True):
            new_values[:n_copies] = old_values[places]
        used_rows, new_rows = table(used), table(new)
        for k, (fingerprints.STEEPEST, fingerprints.FREQUENT) in enumerate(MODELS):
            refused[k] += bool(new_rows.shared_with(used_rows))
    return refused.tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rng = np.random.default_rng(SEED)
    record = {"draws": arguments.draws, "models": MODELS, "refused": {}}
    print(f"refused, with STEEPEST and FREQUENT = {MODELS}")
    for name, pair in populations().items():
        if arguments.only not in name:
            continue
        has_copies = name.endswith(("shift 0", "shift -0.8", "shift 0.8"))
        for copied in (0.0, 0.1, 0.5, 1.0) if has_copies else (0.0,):
            for sizes in SIZES:
                draws = arguments.draws if copied == 0 else max(1, arguments.draws // 5)
                refused = refusals(pair, sizes, copied, draws, rng)
                line = f"{name}; {sizes[0]} used, {sizes[1]} new; {copied:.0%} copies"
                record["refused"][line] = [draws, *refused]
                print(f"{line}: {refused} of {draws}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
