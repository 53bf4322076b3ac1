"""Picture at the top of the README: a chat returns after another one, under a build and under its fix.

The numbers are those of two runs of one scenario. The words say what happens, so that the picture needs no legend.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple
from xml.sax.saxutils import escape

from tests.docs.here import got

SCENARIO = "llama-24143-entry-removed-dense"
BEFORE, AFTER = "llama_cpp@b11549", "llama_cpp@pr24143-on-b10587"
SCALE = 5                      # units of a token
LEFT = 16                      # margin of the text
BAR = 34                       # height of a bar
WIDTH = 640
STYLE = """
.door{font:15px system-ui,-apple-system,Segoe UI,Roboto,sans-serif;--ink:#1b1b1b;--dim:#5a5a5a;--paper:#ffffff;
--line:#c8ccd0;--read:#d9d9d9;--reused:#009e73;--again:#e69f00}
@media (prefers-color-scheme:dark){.door{--ink:#f0f0f0;--dim:#b4b4b4;--paper:#16181c;--line:#4a4d52;--read:#4a4d52;
--reused:#178a68;--again:#b97f00}}
.door text{fill:var(--ink)}.door .dim{fill:var(--dim);font-size:12px}
.door .bold{font-weight:bold}.door .mid{text-anchor:middle}
.door .paper{fill:var(--paper)}.door .read{fill:var(--read)}.door .reused{fill:var(--reused)}
.door .again{fill:var(--again)}
.door .edge{fill:none;stroke:var(--line)}.door .hatch{stroke:var(--paper);stroke-width:2;stroke-opacity:.45}
"""


class Part(NamedTuple):
    """A stretch of a prompt: its tokens, its colour and the words in it."""

    tokens: int
    colour: str
    words: str


class Row(NamedTuple):
    """A heading and the bar below it. ``parts``: empty for a heading alone. ``ends``: a gap follows."""

    heading: str
    style: str
    parts: tuple[Part, ...] = ()
    ends: bool = False


def rows() -> Iterator[Row]:
    """Yield the rows, with the numbers of both runs."""
    before, after = (got(f"cachesim run {SCENARIO} -p {name}") for name in (BEFORE, AFTER))
    chat, other, back, fixed = before[0].prompt, before[2], before[3], after[3]
    shared, again, again_fixed = other.prompt - other.computed, before.lost(3), after.lost(3)
    build = BEFORE.partition("@")[2]
    yield Row("0  You chat. The server reads your prompt and keeps a copy.", "bold", (
        Part(shared, "read", f"{shared} system prompt"), Part(chat - shared, "read", f"{chat - shared} your chat")))
    yield Row("1, 2  Two other chats. For the system prompt of the second, the server takes", "")
    yield Row(f"        your copy, uses {shared} tokens of it, and throws the rest away.", "", ends=True)
    yield Row(f"3  You come back. llama.cpp {build}: {again} of {chat} tokens are read again", "bold", (
        Part(back.prompt - back.computed, "reused", f"{back.prompt - back.computed} reused"),
        Part(again, "again", f"{again} read again"),
        Part(back.computed - again, "read", f"{back.computed - again} new")))
    yield Row(f"3  The same with the proposed fix (pull request 24143): {again_fixed or 'none'} of {chat}", "bold", (
        Part(fixed.prompt - fixed.computed, "reused", f"{fixed.prompt - fixed.computed} reused"),
        Part(fixed.computed, "read", f"{fixed.computed} new")))


def last_line() -> str:
    """Return how the rows are numbered, the flags of both runs, and the command that prints them."""
    return f"Requests count from 0. One slot, -sps 0: cachesim run {SCENARIO}"


def read_again() -> str:
    """Return the picture."""
    body: list[str] = []
    top = 12
    for row in rows():
        place = f'x="{LEFT}" y="{top + 16}" xml:space="preserve"'
        body.append(f'<text class="{row.style}" {place}>{escape(row.heading)}</text>')
        top += 22
        if row.parts:
            body += _bar(row.parts, top + 4)
            top += BAR + 22
        elif row.ends:
            top += 14
    body.append(f'<text class="dim" x="{LEFT}" y="{top + 8}">{last_line()}</text>')
    top += 24
    title = escape(" ".join(row.heading.strip() for row in rows()))
    return "\n".join([
        f'<svg class="door" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
        f'height="{top}" role="img" aria-label="{title}"><style>{STYLE}</style>',
        '<defs><pattern id="slant" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<path class="hatch" d="M0 0V8"/></pattern></defs>',
        f'<rect class="paper" width="{WIDTH}" height="{top}"/>', *body, "</svg>\n",
    ])  # fmt: skip


def _bar(parts: tuple[Part, ...], top: int) -> Iterator[str]:
    """Yield the rectangles and words of a bar."""
    left = LEFT + 24
    for part in parts:
        wide = part.tokens * SCALE
        place = f'x="{left}" y="{top}" width="{wide}" height="{BAR}"'
        yield f'<rect class="{part.colour}" {place}/>'
        if part.colour == "again":
            yield f'<rect fill="url(#slant)" {place}/>'
        yield f'<rect class="edge" {place}/>'
        yield f'<text class="mid" x="{left + wide / 2:g}" y="{top + 22}">{escape(part.words)}</text>'
        left += wide
