"""Check the links of a built site without a network: ``python tools/check_links.py docs/_build/html``.

A link inside the site must lead to an existing file and id. A link to another site must be an https address.
Prints the faulty links and exits with 1, or prints the number of links.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the ids of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the links and ids of a tag."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif value and (name == "id" or (tag == "a" and name == "name")):
                self.ids.add(value)


def read(path: Path) -> Page:
    """Read a page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def fault(link: str, page: Path, site: Path, pages: Mapping[Path, Page]) -> str:
    """Return the fault of a link on a page; an empty text if there is none."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        if parts.scheme in ("data", "mailto"):
            return ""
        return "" if parts.scheme == "https" and "." in parts.netloc else "is not an https address"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site):
        return "leads out of the site"
    if not target.is_file():
        return "leads to no file"
    fragment = unquote(parts.fragment)
    if fragment and target in pages and fragment not in pages[target].ids:
        return f"has an unknown id {fragment!r}"
    return ""


def faults(site: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield each page, link and fault; the fault of a correct link is empty."""
    # Some static files of the theme are templates.
    paths = sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)
    pages = {path: read(path) for path in paths}
    for path, page in pages.items():
        for link in page.links:
            yield path, link, fault(link, path, site, pages)


def main(folder: str) -> int:
    """Print the faults; return the exit code."""
    site = Path(folder).resolve()
    links = list(faults(site))
    wrong = [f"{page.relative_to(site)}: {link} {fault}" for page, link, fault in links if fault]
    print(
        "\n".join(wrong)
        if wrong
        else f"{len(links):,} links of {len({page for page, *_ in links})} pages are correct"
    )
    return 1 if wrong or not links else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
