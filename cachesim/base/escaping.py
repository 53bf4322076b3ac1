"""Text from files, servers and command lines, written so that it stays text: a function per target.

Every function accepts every ``str``, with control characters and lone surrogates. The result never ends its field and
never runs. It reads back as the same text where the target can hold the text; a character that the target cannot hold
becomes a visible escape, such as ``\\x1b`` or ``\\u202e``.
"""

from __future__ import annotations

import re
from typing import Any, Iterable

# Characters besides newline and tab that control a terminal, reorder text, break lines, or have no UTF-8 form.
_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = re.compile(f"[{_CONTROL}]")
_NOT_XML = re.compile(f"[{_CONTROL}\ufffe\uffff]")
_NOT_SHELL = re.compile("[\0\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_JSON = re.compile("([\ud800-\udfff\U00010000-\U0010ffff])")         # JSON writes them as pairs of surrogates
_PLAIN_WORD = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MARKUP = re.compile(
    r"[`*~]|\\(?=[!-/:-@\[-`{-~]|$)"                  # code, emphasis, escapes
    r"|<(?=[A-Za-z/!?])|&(?=#?\w+;)|\](?=[(\[:])"      # HTML, entities, links
    r"|_(?![^\W_])"                                    # the end of emphasis; its beginning alone means nothing
)
_ENTITIES_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_ENTITIES = {**_ENTITIES_IN_TEXT, **str.maketrans({'"': "&quot;", "'": "&#x27;"})}
_BACKTICKS = re.compile("`+")


def _visible(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def terminal_text(text: str) -> str:
    """Return a text for a terminal. Newlines and tabs are kept; other control characters and characters that change the
    direction of text are escaped."""
    return _UNSAFE.sub(_visible, text)


def printable_line(text: str) -> str:
    """Return a text as a single line in which every unprintable character is escaped."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)


def comment_line(text: str) -> str:
    """Return a comment of shell, Python or TOML: a line without its line end."""
    return f"# {printable_line(text)}"


def shell_word(text: str, quotes: bool = False) -> str:
    """Return a word of a POSIX shell. ``quotes``: in quotes even if it needs none. A newline stays a newline, so that
    only ``comment_line`` and ``printable_line`` put a word on a single line."""
    text = _NOT_SHELL.sub(_visible, text)
    return text if not quotes and _PLAIN_WORD.fullmatch(text) else "'" + text.replace("'", "'\"'\"'") + "'"


def shell_command(words: Iterable[str]) -> str:
    """Return words as a command of a POSIX shell."""
    return " ".join(map(shell_word, words))


def python_literal(value: Any) -> str:
    """Return the literal of a string, number, list, tuple or dictionary in a Python program."""
    return repr(value)


def python_quoted(text: str, braces: bool = False) -> str:
    """Return the inside of a Python string between double quotes or triples of them. ``braces``: of an f-string."""
    line = printable_line(text.replace("\\", "\\\\").replace('"', '\\"'))
    return line.replace("{", "{{").replace("}", "}}") if braces else line


def python_name(text: str) -> str:
    """Return a text as part of a Python name; characters that names lack become underscores."""
    return re.sub(r"\W+", "_", text, flags=re.ASCII)


def toml_string(text: str) -> str:
    """Return a basic string of TOML."""
    import json  # 3 ms

    parts = _NOT_JSON.split(text)               # odd parts are single characters of _NOT_JSON
    return '"' + "".join(_toml_escape(part) if i % 2 else json.dumps(part)[1:-1] for i, part in enumerate(parts)) + '"'


def _toml_escape(sign: str) -> str:
    if "\ud800" <= sign <= "\udfff":            # not a character of TOML
        return f"\\\\u{ord(sign):04x}"
    return f"\\U{ord(sign):08x}"


def toml_key(name: str) -> str:
    """Return a key of TOML, in quotes if necessary."""
    return name if _BARE_KEY.fullmatch(name) else toml_string(name)


def jq_string(text: str) -> str:
    """Return a string of JSON and of a jq program, in ASCII."""
    import json

    return json.dumps(_SURROGATE.sub(_visible, text))


def markdown_text(text: str) -> str:
    """Return a text inside a line of Markdown, after other text of that line."""
    return _MARKUP.sub(r"\\\g<0>", printable_line(text))


def markdown_code(text: str) -> str:
    """Return a text as inline code of Markdown."""
    text = printable_line(text) or " "
    ticks = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))
    room = " " if "`" in (text[0], text[-1]) or (text[0] == text[-1] == " " and text.strip(" ")) else ""
    return f"{ticks}{room}{text}{room}{ticks}"


def markdown_block(text: str, language: str = "") -> str:
    """Return a text as a fenced block of code of Markdown."""
    text = terminal_text(text)
    fence = "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}" if text else f"{fence}{language}\n{fence}"


def xml_text(text: str) -> str:
    """Return a text for a writer of XML that escapes markup: all its characters are valid in XML."""
    return _NOT_XML.sub(_visible, text)


def markup(text: str, quotes: bool = True) -> str:
    """Return the text of an element of HTML or SVG. ``quotes``: escape quotes too."""
    return xml_text(text).translate(_ENTITIES if quotes else _ENTITIES_IN_TEXT)


def attribute(text: str) -> str:
    """Return the value of an attribute of HTML or SVG, without the double quotes around it."""
    return markup(text).replace("\n", "&#10;").replace("\t", "&#9;")
