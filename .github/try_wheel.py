"""Install a wheel in empty environments, then fit, save, load, and run the command line.

    python .github/try_wheel.py dist/tailboost-*.whl [--python PYTHON ...] [--extras EXTRAS ...]

PYTHON is an interpreter (default: the one that runs this script). EXTRAS are extras to install, "" for none.
Each environment is a temporary folder.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# The import must not load heavy libraries. Then: what needs no extra, on a table of arrays.
CORE = """
import sys
import warnings
import tailboost as tb
heavy = {"pandas", "matplotlib", "torch", "dask", "xgboost", "sklearn"} & set(sys.modules)
assert not heavy, heavy
import numpy as np
from sklearn.datasets import load_wine, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
warnings.simplefilter("ignore")
X, y = load_wine(return_X_y=True)
two = y > 0
for name in tb.__all__:
    if name.endswith("BoostClassifier"):
        getattr(tb, name)(n_estimators=3).fit(X, two).predict(X)
tree = DecisionTreeClassifier(max_depth=2)
for of_paper in (
    tb.published.adalpboost(tree, .2, T=3),
    tb.published.lpboost(tree, .2, T=3),
    tb.published.regularized_lpboost(tree, .2, T=3),
    tb.published.average_boost(tree, T=3),
    tb.published.adaboost(tree, T=3),
    tb.published.rlp_boost(tree, T=3),
    tb.published.vadaboost(tree, .1, T=3),
    tb.published.ebboost(.1, T=3),
    tb.published.worst_class_boost(tree, .4, gamma=.1),
    tb.published.dro_boost(tree, T=3),
):
    of_paper.fit(X, two).predict(X)
clf = tb.WorstClassBoostClassifier(n_estimators=5, random_state=0).fit(X[::2], y[::2])
worst = max(bound.upper for bound in tb.certify(clf, X[1::2], y[1::2]).bounds)
tb.save_model(clf, "m.model")
assert (tb.load_model("m.model").predict(X) == clf.predict(X)).all()

X, y = make_classification(6000, flip_y=.1, random_state=0)
model = LogisticRegression(max_iter=1000).fit(X[:2000], y[:2000])
rule = tb.tune(model, X[2000:4000], y[2000:4000], limits=["miss(1) <= .2"])
rule = tb.calibrate(rule, X[4000:], y[4000:])
assert rule.certificate_ is not None
tb.save_model(rule, "r.model")
assert (tb.load_model("r.model").predict(X) == rule.predict(X)).all()
P = model.predict_proba(X)
score = tb.Scores(0, label=1)
by_score = tb.tune(score, P[:2000, 1:], y[:2000], limits=["miss(1) <= .2"])
assert by_score.rule_.to_sql()
print(tb.__version__, sys.version.split()[0], round(worst, 3))
"""


def run(*command: str, folder: Path) -> str:
    """Return the output of a command; if it fails, exit with the output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} … failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def strays(wheel: Path) -> list[str]:
    """Return the files of a wheel outside the package and its metadata."""
    names = zipfile.ZipFile(wheel).namelist()
    return [file for file in names if not re.match(r"tailboost(-[^/]+\.dist-info)?/", file)]


def tried(wheel: Path, python: str, extras: str) -> str:
    """Install the wheel and use it; return the output."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(python, "-m", "venv", "env", folder=folder)
        inside = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        wanted = f"{wheel}[{extras}]" if extras else str(wheel)
        run(str(inside / "python"), "-m", "pip", "install", "--quiet", wanted, folder=folder)
        output = run(str(inside / "python"), "-c", CORE, folder=folder)
        run(str(inside / "python"), "-m", "pip", "check", folder=folder)
        if "app" in extras.split(","):
            rows = "\n".join(f"{i % 17},{i % 5},{'ab'[i % 17 > 8]}" for i in range(400))
            (folder / "t.csv").write_text(f"x,z,y\n{rows}\n", encoding="utf-8")
            shell = str(inside / "tailboost")
            run(shell, "fit", "t.csv", "--target", "y", "--model", "c.model", "-q", folder=folder)
            run(shell, "predict", "c.model", "t.csv", "--out", "p.csv", folder=folder)
        return output


def main() -> None:
    """Try every Python with every choice of extras."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", nargs="+", default=[sys.executable])
    parser.add_argument("--extras", nargs="+", default=["", "xgboost,app"])
    given = parser.parse_args()
    if unexpected := strays(given.wheel):
        raise SystemExit(f"the wheel contains {', '.join(unexpected[:20])}")
    for python in given.python:
        for extras in given.extras:
            print(f"{extras or 'core':12}", tried(given.wheel.resolve(), python, extras), flush=True)


if __name__ == "__main__":
    main()
