"""Self-contained HTML pages from the templates of the package."""

import base64
import hashlib
from importlib.resources import files
from typing import Any


def page(template: str, script: str | None = None, **values: Any) -> str:
    """Return a page in the style of the reports, from a template and its variables.

    ``script`` names the script of the page. The security policy allows it by its hash, and no other.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Words begin at the left of a column, numbers end at the right.
    environment.globals["is_words"] = lambda rows, j: any(row[j][:1].isalpha() for row in rows)
    values |= {"css": _asset("report.css"), "script_hash": "'none'"}
    if script is not None:
        values["script"] = _asset(script).replace("\r\n", "\n")
        digest = hashlib.sha256(values["script"].encode()).digest()
        values["script_hash"] = f"'sha256-{base64.b64encode(digest).decode()}'"
    return environment.get_template(template).render(**values)


def _asset(name: str) -> str:
    """Return the text of a template, style sheet or script of the package."""
    return (files("tailboost.app") / "report" / "templates" / name).read_text(encoding="utf-8")
