"""A page per term of the glossary, and the glossary as a whole."""

from __future__ import annotations

from typing import Iterator

from cachesim.pages.site.paths import term_path
from cachesim.pages.site.source_page import SearchEntry, SourcePage, first_sentence, link, plain, prose, table
from cachesim.tools.rulebook.glossary import terms

INDEX = "terms/index"


def term_pages() -> Iterator[SourcePage]:
    """Yield a page per term, and their list."""
    rows = []
    for term in terms():
        here = term_path(term.name)
        also = f"Also: {plain(', '.join(term.also))}.\n\n" if term.also else ""
        entry = SearchEntry(kind="term", title=term.name, says=first_sentence(term.text), names=(term.name, *term.also))
        yield SourcePage(path=here, text=f"# {plain(term.name)}\n\n{also}{prose(term.text)}\n", entry=entry)
        rows.append((link(plain(term.name), INDEX, here), prose(first_sentence(term.text))))
    text = f"# Glossary\n\n{table(['term', 'meaning'], rows)}"
    yield SourcePage(INDEX, text, is_listed=True)
