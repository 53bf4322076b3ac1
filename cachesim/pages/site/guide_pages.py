"""The guide: documents of the repository as pages of the site, with their links turned to pages of the site."""

from __future__ import annotations

import re
from posixpath import dirname, join, normpath, relpath
from typing import Iterator, Mapping

from cachesim.pages.site.repository import document, file_link
from cachesim.pages.site.source_page import SearchEntry, SourcePage, first_sentence

DOCUMENTS: Mapping[str, str] = {
    "README.md": "guide/start",
    "cachesim/pages/using.md": "guide/using",
    "cachesim/pages/agents.md": "guide/agents",
    "cachesim/pages/reference.md": "guide/reference",
    "cachesim/pages/python.md": "guide/python",
    "cachesim/pages/strategies.md": "guide/strategies",
    "cachesim/pages/own-cache.md": "guide/own-cache",
    "cachesim/pages/searching.md": "guide/searching",
    "cachesim/pages/trust.md": "guide/trust",
    "cachesim/pages/limits.md": "guide/limits",
    "cachesim/ARCHITECTURE.md": "guide/architecture",
    "cachesim/replay/FORMAT.md": "guide/recordings",
    "scenarios/README.md": "guide/scenarios",
    "scenarios/FAULTS.md": "guide/findings",
    "scenarios/WORKLOADS.md": "guide/workloads",
    "CONTRIBUTING.md": "guide/contributing",
    "CHANGELOG.md": "guide/changelog",
    "SECURITY.md": "guide/security",
}
"""Documents, with their pages, in the order of the table of contents."""
MOVED: Mapping[str, str] = {
    "cachesim/tools/rulebook/glossary.md": "terms/index",
    "scenarios/BUGS.md": "reports/index",
    "scenarios/lessons/README.md": "lessons/readme",
    "scenarios/lessons/quiz.md": "lessons/quiz",
    "scenarios": "scenarios/index",
}
"""Files that the site has in another form."""
_COMMENT = re.compile(r"<!--.*?-->\n?", re.S)
_FIELD = re.compile(r"<!--=.+?-->(.*?)<!--/-->", re.S)
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.S | re.M)
_LESSON = re.compile(r"scenarios/lessons/(\d+-[\w-]+)\.md")


def guide_pages() -> Iterator[SourcePage]:
    """Yield a page for each document."""
    for file, path in DOCUMENTS.items():
        text = with_links(without_comments(document(file)), file, path)
        title = text.partition("\n")[0].lstrip("# ").partition(" [")[0]
        rest = text.partition("\n")[2].strip()
        entry = SearchEntry(kind="guide", title=title, says=first_sentence(rest), names=(title,))
        yield SourcePage(path=path, text=f"# {title}\n\n{rest}\n", entry=entry, is_listed=True)


def without_comments(text: str) -> str:
    """Return Markdown without comments, which hold the commands of recorded outputs; code stays as it is."""
    kept: list[str] = []
    at = 0
    for block in _FENCE.finditer(text):
        kept += [_COMMENT.sub("", _FIELD.sub(r"\1", text[at : block.start()])), block[0]]
        at = block.end()
    return "".join([*kept, _COMMENT.sub("", _FIELD.sub(r"\1", text[at:]))])


def with_links(text: str, file: str, here: str) -> str:
    """Return Markdown whose links to files lead to pages of the site, or to the repository. ``file``: the document that
    has the text, from the repository's root. ``here``: its page."""

    def turned(found: re.Match[str]) -> str:
        target, hash_mark, anchor = found["target"].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        path = normpath(join(dirname(file), target))
        page = _page_of(path)
        if found["image"]:
            return f"![{found['text']}]({relpath(join('pictures', path), dirname(here))})"
        if not page:
            return f"[{found['text']}]({file_link(path)}{hash_mark}{anchor})"
        return f"[{found['text']}]({relpath(page, dirname(here))}.md{hash_mark}{anchor})"

    kept: list[str] = []
    at = 0
    for block in _FENCE.finditer(text):
        kept += [_LINK.sub(turned, text[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*kept, _LINK.sub(turned, text[at:])])


def pictures_of(text: str) -> set[str]:
    """Return the pictures that a page shows from the repository, as paths from its root."""
    return {found["target"].partition("pictures/")[2] for found in _LINK.finditer(text)
            if found["image"] and "pictures/" in found["target"]}  # fmt: skip


def _page_of(path: str) -> str:
    """Return the page of a file, "" if the site has none."""
    if path in DOCUMENTS:
        return DOCUMENTS[path]
    if path in MOVED:
        return MOVED[path]
    lesson = _LESSON.fullmatch(path)
    return f"lessons/{lesson[1]}" if lesson is not None else ""
