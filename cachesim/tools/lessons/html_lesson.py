"""Lessons as an HTML page that needs neither JavaScript nor network access, with inline pictures and hidden answers."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template
from typing import Sequence

from cachesim.base.escaping import attribute, markup
from cachesim.tools.lessons.lesson_files import Block
from cachesim.tools.picture.page_assets import asset


def page(title: str, articles: Sequence[tuple[str, str, Sequence[Block]]], folder: Path) -> str:
    """Return a page of articles: anchor, title and blocks of each. ``folder``: folder of the pictures."""
    contents = "".join(f'<li><a href="#{anchor}">{markup(name)}</a></li>' for anchor, name, _ in articles)
    bodies = (f'<article id="{anchor}">{_html(some, folder, anchor)}{_ways(articles[number + 1 :])}</article>'
              for number, (anchor, _, some) in enumerate(articles))  # fmt: skip
    here = {anchor for anchor, _, _ in articles}
    text = re.sub(r'<a href="#(lesson-\d|quiz)">(.*?)</a>', lambda m: m[0] if m[1] in here else m[2], "\n".join(bodies))
    return Template(asset(__file__, "page.html")).substitute(
        title=markup(title), style=asset(__file__, "page.css"), contents=contents, articles=text
    )


def _ways(after: Sequence[tuple[str, str, Sequence[Block]]]) -> str:
    """Return the links at the end of an article."""
    ways = [f'<a href="#{anchor}">Next: {markup(name)}</a>' for anchor, name, _ in after[:1]]
    ways.append('<a href="#contents">Contents</a>')
    return f'<p class="ways">{" &middot; ".join(ways)}</p>'


def _html(some: Sequence[Block], folder: Path, anchor: str) -> str:
    return "\n".join(_block(block, folder, anchor) for block in some)


def _block(block: Block, folder: Path, anchor: str) -> str:
    if block.kind == "heading":
        return f"<h{block.level}>{inline(block.text)}</h{block.level}>"
    if block.kind == "code":
        one = "" if "\n" in block.text else ' class="line"'
        return f'<pre{one} tabindex="0"><code>{markup(block.text)}</code></pre>'
    if block.kind == "picture":
        drawing, prefix = (folder / block.name).read_text("utf-8"), f"{anchor}-{Path(block.name).stem}-"
        drawing = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", drawing)    # unique names on the page
        said = inline(f"{block.text[:1].upper()}{block.text[1:]}.")         # the alternative text as a sentence
        return f'<figure tabindex="0">{drawing}<figcaption>{said}</figcaption></figure>'
    if block.kind == "answer":
        return f"<details><summary>Answer</summary>{_html(block.inside, folder, anchor)}</details>"
    if block.kind == "list":
        name = "ul" if block.rows[0][0] == "-" else "ol"
        return f"<{name}>{''.join(f'<li>{inline(text)}</li>' for _, text in block.rows)}</{name}>"
    if block.kind == "table":
        heads, *rows = ("".join(f"<{tag}>{inline(cell)}</{tag}>" for cell in row)
                        for row, tag in zip(block.rows, ["th", *["td"] * len(block.rows)], strict=False))  # fmt: skip
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f'<table tabindex="0"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
    return f"<p>{inline(block.text)}</p>"


def inline(text: str) -> str:
    """Return text with HTML elements for code, bold, italics and links."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(_code(part[1:-1]) if part.startswith("`") else _styled(part) for part in parts)


def _code(text: str) -> str:
    """Return inline code; a flag is not broken at its hyphens."""
    flag = ' class="flag"' if text.startswith("-") and " " not in text else ""
    return f"<code{flag}>{markup(text)}</code>"


def _styled(text: str) -> str:
    text = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", _link, markup(text, quotes=False))
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"\*(.+?)\*", r"<em>\1</em>", text)


def _link(found: re.Match[str]) -> str:
    """Return a link to another site or another lesson; a link to a file beside the lessons becomes text."""
    text, target = found[1], found[2]
    if lesson := re.fullmatch(r"(\d)-[\w-]+\.md|quiz\.md", target):
        return f'<a href="#{f"lesson-{lesson[1]}" if lesson[1] else "quiz"}">{text}</a>'
    return f'<a href="{attribute(target)}">{text}</a>' if target.startswith("https://") else text
