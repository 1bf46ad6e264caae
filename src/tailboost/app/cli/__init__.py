"""The command line: ``tailboost demo | compare | fit | predict | evaluate | inspect | decide | …``.

Exit codes: 0 success; 2 bad input, with one line that names the file, column, row or option; 3 an alarm of
``monitor``; 4 nothing certified by ``calibrate``, or a limit not certified by ``certify --require``;
130 stopped by Ctrl-C; 1 any other error.
"""

from importlib.util import find_spec

# A missing library is reported before any fit.
for _name in ("typer", "rich", "pandas", "jinja2"):
    if find_spec(_name) is None:
        raise SystemExit(
            f'The command line of tailboost needs {_name}: pip install "tailboost[app]"'
        )

from tailboost.app.cli.app import app, main  # noqa: E402

__all__ = ["app", "main"]
