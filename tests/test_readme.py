"""The README's code runs; every linked file exists."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

import tailboost as tb

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("papers/*.md")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_blocks_of_python_print_what_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == README.count("```python") == 2
    shared: dict = {}
    for block, stated in blocks:
        exec(compile(block, "README.md", "exec"), shared)
        printed = capsys.readouterr().out
        number = r"\d[\d,]*(?:\.\d+)?"  # rounding may differ between machines
        assert re.sub(rf"{number}|\s+", " ", printed) == re.sub(rf"{number}|\s+", " ", stated)
        numbers = (re.findall(number, text) for text in (printed, stated))
        found, said = ([float(each.replace(",", "")) for each in texts] for texts in numbers)
        assert found == pytest.approx(said, rel=0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_block_of_the_shell_runs_from_an_empty_folder(tmp_path, monkeypatch):
    testing = pytest.importorskip("typer.testing")
    pytest.importorskip("matplotlib")
    from tailboost.app import cli

    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"^    tailboost (.*)$", README, flags=re.MULTILINE):
        result = testing.CliRunner().invoke(cli.app, shlex.split(line, comments=True))
        assert result.exit_code == 0, f"{line}\n{result.output}"


@pytest.mark.slow
def test_opponents_of_the_tail_are_those_of_scikit_learn():
    wines = tb.datasets.load_wine_quality()
    X = wines.data.drop_duplicates()
    X, X_new, y, y_new = train_test_split(X, wines.target[X.index], test_size=0.5, random_state=0)
    forest = RandomForestClassifier(random_state=0).fit(X, y)
    others = [forest, HistGradientBoostingClassifier(random_state=0).fit(X, y)]
    wrong = [model.predict(X_new) != y_new for model in others]
    order = np.argsort(-forest.predict_proba(X_new), axis=1)[:, :2]
    drawn = 1 - (forest.classes_[order] == y_new.to_numpy()[:, None]).mean(axis=1)
    worst_half = [np.sort(each)[-len(y_new) // 2 :].mean() for each in (*wrong, drawn)]
    stated = [float(of) for of in re.findall(r"\.\d{3}\b", README.split("two likeliest grades.")[1])]
    assert [*worst_half, wrong[0].mean()] == pytest.approx([*stated[:2], stated[4], stated[3]], abs=0.01)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if not re.match(r"\w+:", target):
            assert (page.parent / target).exists(), target
