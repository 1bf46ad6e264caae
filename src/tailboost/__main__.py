"""``python -m tailboost``: the command line, where an environment's scripts are not on the path."""

from tailboost.app.cli import main

if __name__ == "__main__":
    main()
