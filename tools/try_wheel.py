"""Install a wheel in empty environments, then fit, save, load, and run the command line.

    python tools/try_wheel.py dist/tailboost-*.whl [--python PYTHON ...] [--extras EXTRAS ...]

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

# The import must not load heavy libraries. Then: three lines of the README, and a model file.
CORE = """
import sys
import tailboost as tb
heavy = {"pandas", "matplotlib", "torch", "dask", "xgboost", "sklearn"} & set(sys.modules)
assert not heavy, heavy
from sklearn.datasets import load_wine
X, y = load_wine(return_X_y=True)
clf = tb.WorstClassBoostClassifier(n_estimators=5, random_state=0).fit(X[::2], y[::2])
cert = tb.certify(clf, X[1::2], y[1::2])
mix = tb.RobustMixtureClassifier(random_state=0).fit(X[::2], y[::2])
tb.save_model(clf, "m.model")
assert (tb.load_model("m.model").predict(X) == clf.predict(X)).all()
assert mix.rule_.to_sql()
print(tb.__version__, sys.version.split()[0], round(cert.bound("worst", "class").upper, 3))
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
