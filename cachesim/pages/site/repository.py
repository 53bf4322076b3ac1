"""The repository from which the site is made: its documents, links to its files and to public threads."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

from cachesim.pages.site.source_page import plain

ROOT = Path(__file__).resolve().parents[3]
_THREAD = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)#(?P<number>\d+)")


def document(path: str) -> str:
    """Return the text of a document of the repository. ``path``: from its root."""
    return (ROOT / path).read_text("utf-8")


REPOSITORY = str(tomllib.loads(document("pyproject.toml"))["project"]["urls"]["Repository"])
"""Address of the project's repository."""


def copy_file(path: str, place: Path) -> None:
    """Copy a file of the repository, and create the folder for it. ``path``: from its root."""
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / path, place)


def file_link(path: str) -> str:
    """Return the address of a file of the repository. ``path``: from its root."""
    return f"{REPOSITORY}/blob/main/{path}"


def web_source(source: str) -> str:
    """Return the source of a scenario as Markdown: a public thread, a place in the project's files, or words."""
    thread = _THREAD.fullmatch(source)
    if thread is not None:
        return f"[{plain(source)}](https://github.com/{thread['repository']}/issues/{thread['number']})"
    if source.startswith("https://"):
        return f"<{source}>"
    if re.fullmatch(r"[\w/.-]+\.md(#[\w-]+)?", source):
        return f"[{plain(source)}]({file_link(source)})"
    return plain(source)
