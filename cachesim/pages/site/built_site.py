"""The site on disk: its place, its size, and its broken links (files that do not exist, and anchors that no element
has)."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path
from typing import Iterator
from urllib.parse import unquote, urlsplit

from cachesim.base.pool import blocked_signals

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src"}
"""Attribute with the address, by element."""


class _Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        for name in ("id", "name"):
            if found.get(name):
                self.anchors.add(str(found[name]))
        address = found.get(LINKS.get(tag, ""))
        if address:
            self.links.append(address)


def replace_folder(made: Path, target: Path, aside: Path) -> None:
    """Move the folder ``target`` to ``aside``, if it exists, and the folder ``made`` to ``target``. A signal takes
    effect before both moves or after both. Raise OSError and leave ``target`` unchanged if ``made`` cannot be moved."""
    with blocked_signals():
        if has_former := os.path.lexists(target):
            os.replace(target, aside)
        try:
            os.replace(made, target)
        except OSError:
            if has_former:
                os.replace(aside, target)
            raise


def size_of(folder: Path) -> int:
    """Return the size of a site [bytes]."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def broken_links(folder: Path) -> Iterator[str]:
    """Yield a line for each link within a site whose target does not exist: the page, and the address. Links to other
    sites are not followed."""
    pages: dict[Path, _Page] = {}
    for file in sorted(folder.rglob("*.html")):
        page = _Page()
        page.feed(file.read_text("utf-8"))
        pages[file] = page
    for file, page in pages.items():
        for address in dict.fromkeys(page.links):
            if _is_state(file, address):
                continue
            if not _leads_somewhere(file, address, pages):
                yield f"{file.relative_to(folder)}: {address}"


def _is_state(file: Path, address: str) -> bool:
    """True for an event of a page with moving pictures: its script shows the event, without an element."""
    return file.stem.endswith(("-walk", "-moving")) and address.startswith("#")


def _leads_somewhere(file: Path, address: str, pages: dict[Path, _Page]) -> bool:
    """True for an address of another site, and for one whose file and anchor exist."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return True
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target not in pages or anchor in pages[target].anchors
