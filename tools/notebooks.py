"""Execute notebooks in place: those given, or all of docs/notebooks. Outputs are stored, times are not."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"


def execute(path: Path) -> None:
    """Execute a notebook and write it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:  # for files that the cells write
        about = {"metadata": {"path": folder}}
        NotebookClient(
            notebook,
            timeout=600,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,  # otherwise a text is cut where the kernel happened to send it
            resources=about,
        ).execute()
    language = {"name": "python"}  # without the version, which differs by machine
    if any(cell.source.startswith("!") for cell in notebook.cells):
        language["pygments_lexer"] = "ipython3"  # for calls of the shell
    notebook.metadata["language_info"] = language
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":  # a warning names the file of a cell, which differs by run
                output.text = re.sub(r"^\S*ipykernel_\S+?:\d+: ", "", output.text, flags=re.MULTILINE)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    # Cells call `tailboost` in the shell, also if the environment is not activated.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for path in map(Path, sys.argv[1:] or sorted(FOLDER.glob("*.ipynb"))):
        print(path)
        execute(path)
