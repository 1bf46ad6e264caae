"""Calls of the command line in tests."""

from typer.testing import CliRunner

from tailboost.app import cli


def call(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


def done(*arguments):
    """Return what a command printed, which must not fail."""
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments):
    """Return the error of a command, without line breaks."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())
