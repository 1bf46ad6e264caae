"""``python -m experiments NAME``: the same as ``tailboost reproduce NAME``."""

import sys

from tailboost.app.cli import main

main(["reproduce", *sys.argv[1:]])
