"""A page per kind of log line, and the list of each engine."""

from __future__ import annotations

import re
from typing import Iterable, Iterator, Mapping, Sequence

from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.log_grammar import Line, LogGrammar, Meaning
from cachesim.pages.site.paths import flag_path, line_path
from cachesim.pages.site.source_page import SearchEntry, SourcePage, code, first_sentence, link, plain, prose, table

INDEX = "lines/index"
LONGEST = 90  # characters of a line in the list


def line_pages(families: Mapping[str, str]) -> Iterator[SourcePage]:
    """Yield a page per kind of log line of every engine, and their list. ``families``: a page for each family of
    rules."""
    parts = [
        "# Log lines\n",
        "Lines that servers print about their caches. Paste one into the search box: it finds the page, whatever the",
        "numbers are. Words in braces are numbers or names that differ from line to line; three dots are any text.\n",
    ]
    for name, engine in ENGINES.items():
        grammar = engine.log()
        rows = []
        for kind, lines in _kinds(grammar).items():
            page = _line_page(name, kind, lines, grammar.meanings[kind], families)
            rows.append((link(code(_short(lines[0].template)), INDEX, page.path), prose(grammar.meanings[kind].says)))
            yield page
        parts += [f"## {name}\n", table(["line", "meaning"], rows)]
    yield SourcePage(INDEX, "\n".join(parts), is_listed=True)


def _kinds(grammar: LogGrammar) -> dict[str, list[Line]]:
    """Return the lines that have a meaning, by kind."""
    found: dict[str, list[Line]] = {}
    for line in grammar.lines:
        if line.ev in grammar.meanings:
            found.setdefault(line.ev, []).append(line)
    return found


def _begun(sentence: str) -> str:
    """Return a text as the beginning of a sentence. A name of the server's keeps its small letter."""
    return sentence if "_" in sentence.split()[0] else sentence[:1].upper() + sentence[1:]


def _readable(template: str) -> str:
    """Return a template as people read it: three dots are any text. The labels of a metric keep their braces."""
    if "{}}" in template:
        template = template.replace("{}", "{...", 1)
    return re.sub(r"\{(\w+),\}", r"{\1}", template.replace(".{}", ". {}").replace("{}", "..."))


def _short(template: str) -> str:
    """Return the beginning of a template, as people read it."""
    text = _readable(template).removeprefix("...")
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip(' .')}..."


def _whole(templates: Iterable[str]) -> list[str]:
    """Return the templates whose words are not all in another one, in the same order. Servers leave parts out of some
    lines, so that a kind can have a hundred templates."""
    words = {_words(template): template for template in reversed([*templates])}
    found = [template for parts, template in words.items() if not any(_is_part(parts, other) for other in words)]
    return found[::-1]


def _words(template: str) -> tuple[str, ...]:
    """Return the words of a template, without what matches any text and without commas between words."""
    return tuple(template.replace("{}", " ").replace(", ", " ").split())


def _is_part(words: Sequence[str], others: Sequence[str]) -> bool:
    """True if words stand in a longer text, in the same order."""
    rest = iter(others)
    return len(words) < len(others) and all(word in rest for word in words)


def _line_page(
    engine: str, kind: str, lines: Sequence[Line], meaning: Meaning, families: Mapping[str, str]
) -> SourcePage:
    """Return the page of a kind of line."""
    here = line_path(engine, kind)
    forms = list(dict.fromkeys(line.template for line in lines))
    whole = _whole(forms)
    title = f"{_short(forms[0])} ({engine})"
    parts = [
        f"# {plain(title)}\n",
        f"{prose(_begun(meaning.says))}.\n",
        "## Spellings\n",
        "\n".join(f"- {code(_readable(form))}" for form in whole) + "\n",
    ]
    if len(whole) < len(forms):
        parts.append("A line in which some of these parts are missing has the same meaning.\n")
    if meaning.causes:
        causes = "\n".join(f"- {prose(cause)}" for cause in meaning.causes)
        parts += ["## Usual causes, most likely first\n", f"{causes}\n"]
    flags = [_flag(engine, here, flag) for flag in meaning.flags]
    if flags:
        parts.append(f"Flags: {', '.join(flags)}.\n")
    rules = [link(code(rule), here, families[rule]) for rule in meaning.rules if rule in families]
    if rules:
        parts.append(f"Rules that decide it: {', '.join(rules)}.\n")
    parts.append("With your own line, `cachesim explain 'LINE'` explains its numbers too.\n")
    entry = SearchEntry(kind="log line", title=title, says=first_sentence(meaning.says), templates=tuple(forms))
    return SourcePage(path=here, text="\n".join(parts), entry=entry)


def _flag(engine: str, here: str, spelling: str) -> str:
    """Return a flag, with a link if the simulator knows it."""
    words = spelling.split()
    for flag in ENGINES[engine].manual.flags:
        if words[0] in (*flag.spellings, *flag.off, flag.name):
            return link(code(spelling), here, flag_path(engine, flag.name))
    return code(spelling)
