"""``python -m experiments NAME``: the same as ``tailboost reproduce NAME``."""

import sys

from tailboost.cli import main

main(["reproduce", *sys.argv[1:]])
