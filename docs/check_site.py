"""Checks a site as it is built: every link leads to a page and a place on it, and no page asks for anything elsewhere.

python docs/check_site.py site

Sphinx has checked the links it made. This reads what came out, the theme's own parts and drawings included.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, as attribute of a tag; a link, in contrast, is followed by whoever clicks it.
FETCHED = {
    ("link", "href"),
    *((tag, "src") for tag in ("script", "img", "iframe", "source", "audio", "video", "embed")),
}
FETCHED |= {("object", "data"), ("image", "href"), ("use", "href")}
STYLE_FETCHES = re.compile(r"@import\s+(?:url\()?['\"]?([^'\")\s;]+)|url\(\s*['\"]?([^'\")\s]+)")


class Page(HTMLParser):
    """What a page refers to, and the places on it that may be referred to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = {"", "top"}
        self.feed(text)
        self.fetched += fetched_by_styles(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's name and what it refers to."""
        given = {name: value for name, value in attrs if value is not None}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        self.fetched += [value for name, value in given.items() if (tag, name) in FETCHED]
        if tag in ("a", "area") and "href" in given:
            self.links.append(given["href"])


def fetched_by_styles(text: str) -> list[str]:
    """What a style sheet, or the styles in a page, would have a browser fetch; what is inside them is there already."""
    found = ["".join(either) for either in STYLE_FETCHES.findall(text)]
    return [address for address in found if not address.startswith(("data:", "#"))]


def faults(site: Path) -> Iterator[str]:
    """What is wrong with the site, a line each."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site}: there is no page"
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        yield from (f"{name}: asks for {address}" for address in page.fetched if elsewhere(address))
        for address in [*page.fetched, *page.links]:
            parts = urlsplit(address)
            if elsewhere(address) or parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{name}: {address} leads nowhere"
            elif target in pages and unquote(parts.fragment) not in pages[target].places:
                yield f"{name}: {address} leads to no place on its page"
    for path in sorted(site.rglob("*.css")):
        for address in fetched_by_styles(path.read_text(encoding="utf-8")):
            if elsewhere(address) or not (path.parent / urlsplit(address).path).is_file():
                yield f"{path.relative_to(site)}: asks for {address}"


def elsewhere(address: str) -> bool:
    """Whether an address is of another host."""
    return bool(urlsplit(address).netloc)


if __name__ == "__main__":
    sys.exit("\n".join(faults(Path(sys.argv[1]))) or None)
