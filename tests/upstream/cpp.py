"""Scanner for C++ files: their functions, types, constants and macros, and the regions of marks in long functions.

Not a parser: braces are matched after comments, literals, preprocessor lines and #else branches are blanked out
(``mask``), and the text before a brace shows what it opens. This is sufficient for code formatted like llama.cpp's; the
tests define what is understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Iterator, NamedTuple

_SKIPPED = re.compile(
    r"""//(?:\\\n|[^\n])*|/\*.*?\*/"""                             # comments
    r"""|\bR"([^()\\\s]{0,16})\(.*?\)\1\"|"(?:\\.|[^"\\\n])*\""""  # strings, raw strings first
    r"""|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"""                    # characters, but not the marks in 1'000
    r"""|^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*""",                    # preprocessor lines
    re.S | re.M,
)
_COMMENT = re.compile(
    r"""("(?:\\.|[^"\\\n])*")|//(?:\\\n|[^\n])*|/\*.*?\*/""", re.S
)
_CONTAINER = re.compile(r"\b(namespace|struct|class|union|enum(?:\s+(?:class|struct))?|extern)\b\s*([\w:]*)[^()]*$")
_NAME = re.compile(r"(operator\s*(?:\(\)|[^\s(]+)|~?[A-Za-z_][\w:~]*)\s*\(")
_NO_NAME = {"__attribute__", "alignas", "decltype", "noexcept", "if", "for", "while", "switch", "catch", "return"}
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\\\n|[^\n])*", re.M)


class Symbol(NamedTuple):
    """Function, type (without the bodies of its functions), constant or macro, with its qualified name."""

    name: str
    kind: str
    text: str
    line: int


def mask(text: str) -> str:
    """Return the text with all non-structural braces blanked out. Positions and lines are unchanged."""
    directives = list[tuple[int, str, str]]()

    def blank(found: re.Match[str]) -> str:
        word = re.match(r"\s*#\s*(\w+)[ \t]*(\w*)", found[0])
        if word:
            directives.append((found.start(), word[1], word[2]))
        return re.sub(r"[^\n]", " ", found[0])

    out = _SKIPPED.sub(blank, text)
    for start, stop in _other_branches(directives, len(text)):
        out = out[:start] + re.sub(r"[^\n]", " ", out[start:stop]) + out[stop:]
    return out


def _other_branches(directives: list[tuple[int, str, str]], end: int) -> Iterator[tuple[int, int]]:
    """Yield the positions of skipped preprocessor branches. A single branch of #if ... #else ... #endif is kept, so
    that braces are not counted twice: the first, unless its condition is 0."""
    stack = list[tuple[int, bool]]()                   # start of a skipped branch (-1: kept), any branch kept
    for at, word, value in directives:
        if word in ("if", "ifdef", "ifndef"):
            stack.append((at, False) if value == "0" else (-1, True))
        elif word in ("else", "elif", "endif") and stack:
            since, kept = stack.pop()
            if since >= 0:
                yield since, at
            if word != "endif":
                stack.append((at, True) if kept else (-1, True))
    for since, _ in stack:
        if since >= 0:
            yield since, end


def normal(text: str) -> str:
    """Return the text without comments and with normalised white space, for comparison."""
    return " ".join(" ".join(code_lines(text)).split())


def code_lines(text: str) -> list[str]:
    """Return the lines without comments and surrounding white space."""
    bare = _COMMENT.sub(lambda found: found[1] or " " + "\n" * found[0].count("\n"), text)
    return [line.strip() for line in bare.splitlines()]


@dataclass(slots=True)
class _Frame:
    kind: str                      # scope (a namespace), container (a type), function, constant, block
    name: str
    header: int                    # start of the text before the brace
    open: int
    bodies: list[tuple[int, int]] = field(default_factory=list)


def symbols(text: str) -> Iterator[Symbol]:
    """Yield all definitions of a file, macros first, then by position of their end."""
    for found in _DEFINE.finditer(text):
        yield Symbol(found[1], "macro", found[0], text.count("\n", 0, found.start()) + 1)
    masked, stack, last = mask(text), list[_Frame](), 0
    for found in re.finditer(r"[{};]", masked):
        at = found.start()
        if found[0] == ";":
            last = at + 1
        elif found[0] == "{":
            stack.append(_opened(masked[last:at], stack, last, at))
            last = at + 1
        elif stack:
            frame = stack.pop()
            if frame.kind == "function" and re.match(r"\s*[,{]", masked[at + 1 : at + 200]):
                last = frame.header                          # a member's initializer: the body follows
                continue
            last = at + 1
            if frame.kind not in ("block", "scope"):
                yield from _closed(text, frame, stack, at)


def _opened(header: str, stack: list[_Frame], start: int, at: int) -> _Frame:
    start += len(header) - len(header.lstrip())
    if any(frame.kind in ("function", "constant", "block") for frame in stack):
        return _Frame("block", "", start, at)
    container = _CONTAINER.search(header)
    if container and "=" not in header:
        if container[1] in ("namespace", "extern"):
            return _Frame("scope", container[2] if container[1] == "namespace" else "", start, at)
        return _Frame("container", container[2], start, at)
    name = _function_name(header)
    if name:
        return _Frame("function", name, start, at)
    constant = re.search(r"([\w:]+)\s*(?:\[[^\]]*\]\s*)*=\s*$", header)
    return _Frame("constant", constant[1], start, at) if constant else _Frame("block", "", start, at)


def _function_name(header: str) -> str:
    """Return the name before the first parenthesis that does not belong to an attribute or a macro. Template arguments
    are skipped."""
    if "operator" not in header:
        before = None
        while before != header:
            before, header = header, re.sub(r"<[^<>]*>", "", header)
    if re.search(r"=\s*$", header):
        return ""
    for found in _NAME.finditer(header):
        if found[1] not in _NO_NAME and not (found[1].isupper() and _NAME.search(header, found.end())):
            return re.sub(r"\s+", "", found[1])
    return ""


def _closed(text: str, frame: _Frame, stack: list[_Frame], at: int) -> Iterator[Symbol]:
    line = text.count("\n", 0, frame.header) + 1
    qualified = "::".join([one.name for one in stack if one.name] + [frame.name])
    if frame.kind == "container":
        if frame.name:
            yield Symbol(qualified, "type", _without(text, frame, at), line)
        return
    if stack:
        stack[-1].bodies.append((frame.header, at + 1))
    yield Symbol(qualified, frame.kind, text[frame.header : at + 1], line)


def _without(text: str, frame: _Frame, at: int) -> str:
    """Return a type without the bodies of its functions, which are separate symbols."""
    out, last = [], frame.header
    for start, stop in frame.bodies:
        out.append(text[last:start])
        last = stop
    return "".join([*out, text[last : at + 1]])


class Block(NamedTuple):
    """Pair of braces in a function: start of the statement before it, opening and closing brace."""

    header: int
    open: int
    close: int


def blocks(masked: str) -> list[Block]:
    """Return all pairs of braces. A semicolon in parentheses does not end a statement: ``for (;;)``."""
    out, stack = [], [[0, 0, 0]]                # start of the statement, depth of parentheses, position of the brace
    for found in re.finditer(r"[{}();]", masked):
        at, top = found.start(), stack[-1]
        if found[0] in "()":
            top[1] += 1 if found[0] == "(" else -1
        elif found[0] == ";" and top[1] <= 0:
            top[0] = at + 1
        elif found[0] == "{":
            stack.append([at + 1, 0, at])
        elif found[0] == "}" and len(stack) > 1:
            opened = stack.pop()[2]
            out.append(Block(stack[-1][0], opened, at))
            if stack[-1][1] <= 0:
                stack[-1][0] = at + 1
    return out


def regions(text: str, mark: str) -> list[tuple[int, int]]:
    """Return the regions of a mark in a function, for each occurrence: the statement that contains it, up to its
    semicolon or brace. If the mark ends with a brace (``if (this) {``, ``case THAT: {``), the block after it is
    included."""
    text_of = mark.rstrip("{ ")
    masked, whole = mask(text), text_of != mark
    found = blocks(masked)
    out = []
    for hit in re.finditer(re.escape(text_of), text):
        at = hit.start()
        before = min((b for b in found if b.header <= at < b.open), key=lambda b: b.open - b.header, default=None)
        if before is None:
            out.append(_statement(masked, found, at))
        else:
            out.append((before.header, before.close + 1 if whole else before.open))
    return sorted(set(out))


def _statement(masked: str, found: list[Block], at: int) -> tuple[int, int]:
    """Return the statement around a position, without text that opens a block."""
    inside = min((b for b in found if b.open < at < b.close), key=lambda b: b.close - b.open)
    ends = [b.close for b in found if inside.open < b.open and b.close < at] + [inside.open]
    start = max(*ends, masked.rfind(";", inside.open, at)) + 1
    stop = masked.find(";", at)
    return start, min(stop if stop >= 0 else inside.close, inside.close) + 1
