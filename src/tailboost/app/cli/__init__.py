"""The command line: each command reads files, makes one call of the library and prints its result.

Exit codes: 0 success; 2 a mistake, with one sentence that names it; 3 an alarm of ``monitor``; 4 nothing
certified by ``calibrate``, or a limit not certified by ``certify --require``; 130 stopped by Ctrl-C.
"""

from importlib.util import find_spec

for _name in ("typer", "pandas", "jinja2"):
    if find_spec(_name) is None:
        raise SystemExit(
            f'The command line of tailboost needs {_name}: pip install "tailboost[app]"'
        )

from tailboost.app.cli.commands import app  # noqa: E402
from tailboost.app.cli.frame import main  # noqa: E402

__all__ = ["app", "main"]
