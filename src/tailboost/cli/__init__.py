"""The command line: ``tailboost demo | compare | fit | predict | evaluate | inspect | decide | …``.

Exit codes: 0 done; 2 bad input, with one line that names the file, column, row or option; 130 stopped by
Ctrl-C; 1 anything else.
"""

try:
    import jinja2  # noqa: F401  (what the report needs: better missed now than after the fits)
    import pandas  # noqa: F401
    import rich  # noqa: F401
    import typer  # noqa: F401
except ModuleNotFoundError as missing:
    raise SystemExit(
        f'The command line of tailboost needs {missing.name}: pip install "tailboost[app]"'
    ) from None

from tailboost.cli._app import app, main

__all__ = ["app", "main"]
