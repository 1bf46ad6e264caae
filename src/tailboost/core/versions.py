"""What results and documents were made with: versions of packages, and formats of documents."""

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata

from tailboost.core.array_types import Document

PACKAGES = (
    "tailboost",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "xgboost",
    "xgboost-cpu",
    "lightgbm",
)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages among `PACKAGES`."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            installed[package] = metadata.version(package)
    return installed


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn errors in the form of a document into ValueErrors that name it."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, OverflowError) as failure:
        raise ValueError(
            f"this is no {what}: a part is missing or has another form"
        ) from failure
    except ValueError as failure:
        raise ValueError(f"this is no {what}: {failure}") from failure


#: From the format of a document to the function that makes the next format of it.
Steps = Mapping[int, Callable[[Document], Document]]


def migrated(document: Document, own: int, steps: Steps, what: str, cure: str) -> Document:
    """Return a document in the format ``own``, by steps from the format in which it was written.

    ``what`` names the document, and ``cure`` says what to do with one from which no steps lead here.

    Raises
    ------
    ValueError
        If no steps lead from the format of the document to the own one.
    """
    while document["format"] in steps:
        document = steps[document["format"]](document)
    form = document["format"]
    if form != own:
        if isinstance(form, int) and form > own:
            cure = "upgrade tailboost, because a newer version wrote it"
        raise ValueError(f"{what} has format {str(form)[:20]}, not {own}; {cure}")
    return document
