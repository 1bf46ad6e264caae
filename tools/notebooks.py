"""Execute notebooks in place: those given, or all of docs/notebooks. Outputs are stored, times are not."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"


def execute(path: Path) -> None:
    """Execute a notebook and write it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False).execute()
    notebook.metadata["language_info"] = {"name": "python"}  # without the version, which differs by machine
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:] or sorted(FOLDER.glob("*.ipynb"))):
        print(path)
        execute(path)
