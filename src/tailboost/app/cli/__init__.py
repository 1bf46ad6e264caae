"""The command line: each command reads files, calls the library and prints its result.

Exit codes: 0 success; 2 a mistake, with one sentence that names it; 3 an alarm of ``monitor``; 4 nothing
certified by ``calibrate``, or a limit not certified by ``certify --require``; 130 stopped by Ctrl-C.
"""

from importlib.util import find_spec

if find_spec("typer") is None:
    raise SystemExit('The command line of tailboost needs typer: pip install "tailboost[app]"')

from tailboost.app.cli import commands as commands
from tailboost.app.cli.frame import app as app, main as main
