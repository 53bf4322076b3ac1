"""A body as the text of a prompt, without the model's own chat template, and where in the body each place of it is.

The rendering is the one that most templates of chat models share (ChatML): for each message a line with its role, the
reasoning between think tags, the text, calls and results of tools between tags, an end mark. Tools stand in the first
message, behind its text, one JSON text a line. At the end a line begins the answer. A prompt of the client's own is
taken as it is.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import Any, Iterator, NamedTuple, Sequence

from cachesim.tools.request_bodies.body import CALL, MARK, REASONING, THINK, TOOL, Body, BodyMessage, BodyText

# A JSON value as text, piece by piece, each with its path: so that a place in the text is a place in the value.
#
# The text is that of ``json.dumps(value, ensure_ascii=False)``, as chat templates write tools.

def spelled(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Pairs of path and text, whose texts joined are the JSON text. The inside of a string is a piece of its own."""
    if isinstance(value, dict):
        yield path, "{"
        for number, (key, one) in enumerate(value.items()):
            yield path, (", " if number else "") + json.dumps(key, ensure_ascii=False) + ": "
            yield from spelled(one, f"{path}.{key}")
        yield path, "}"
    elif isinstance(value, list):
        yield path, "["
        for number, one in enumerate(value):
            if number:
                yield path, ", "
            yield from spelled(one, f"{path}[{number}]")
        yield path, "]"
    elif isinstance(value, str):
        yield path, '"'
        yield path, json.dumps(value, ensure_ascii=False)[1:-1]
        yield path, '"'
    else:
        yield path, json.dumps(value)


def canonical(value: Any) -> str:
    """The same text for values that are equal but for the order of keys."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


BEGIN, END, ANSWER = "<|im_start|>", "<|im_end|>\n", "<|im_start|>assistant\n"
_TAGS = {CALL: ("<tool_call>\n", "\n</tool_call>")}


class BodyPlace(NamedTuple):
    """A place in a body: the path of a value, and a character of its text."""

    path: str
    character: int
    kind: str
    message: int


class Rendered(NamedTuple):
    """``text`` of a prompt; ``history``: its length without what begins the answer; ``starts``: where each of ``parts``
    begins; ``messages``: of which message each is (-1 = of none) and ``begins``: where each message does."""

    text: str
    history: int
    starts: Sequence[int]
    parts: Sequence[BodyText]
    messages: Sequence[int]
    begins: Sequence[int]

    def place(self, at: int) -> BodyPlace:
        """The place in the body of a character of the text; at the end of the text, that of the last part."""
        number = max(0, bisect_right(self.starts, at) - 1)
        before, part = self.parts[number - 1], self.parts[number]
        if number and self.starts[number] == at and part.kind == MARK != before.kind and part.text == END:
            number, part = number - 1, before           # the end of a text: the mark behind it begins at this place
        character = at - self.starts[number]
        if part.kind == TOOL:
            character = _unescaped(part.text, character)
        return BodyPlace(part.path, character, part.kind, self.messages[number])


def plain(body: Body) -> Rendered:
    """The prompt of a body in the plain rendering."""
    starts: list[int] = []
    parts: list[BodyText] = []
    numbers: list[int] = []
    begins: list[int] = []
    size = 0
    for number, part in _pieces(body):
        if number >= len(begins):
            begins.append(size)
        starts.append(size)
        parts.append(part)
        numbers.append(number)
        size += len(part.text)
    text = "".join(part.text for part in parts)
    tail = 0 if body.raw or not parts else len(parts[-1].text)
    return Rendered(text, size - tail, starts, parts, numbers, begins)


def _pieces(body: Body) -> Iterator[tuple[int, BodyText]]:
    """Every part with the number of its message."""
    if body.raw:
        for number, one in enumerate(body.messages):
            yield from ((number, part) for part in one.parts)
        return
    messages = body.messages
    if body.tools and not (messages and messages[0].system):
        yield 0, BodyText(MARK, "tools", f"{BEGIN}system\n")
        yield from ((0, part) for part in tools_of(body))
        yield 0, BodyText(MARK, "tools", END)
    for number, one in enumerate(messages):
        yield number, BodyText(MARK, one.path, f"{BEGIN}{one.role}\n")
        yield from ((number, part) for part in said(one))
        if number == 0 and one.system:
            yield from ((0, part) for part in tools_of(body))
        yield number, BodyText(MARK, one.path, END)
    yield len(messages), BodyText(MARK, "", ANSWER)


def tools_of(body: Body) -> Iterator[BodyText]:
    """The definitions of tools, one a line, in parts as small as their values."""
    for path, tool in body.tools:
        yield BodyText(MARK, path, "\n")
        yield from (BodyText(TOOL, inner, text) for inner, text in spelled(tool, path))


def said(message: BodyMessage) -> Iterator[BodyText]:
    """The parts of a message, with the tags around them."""
    for part in message.parts:
        before, after = _TAGS.get(part.kind, ("", ""))
        if part.kind == REASONING and "<think>" not in part.text:
            before, after = THINK
        if before:
            yield BodyText(MARK, part.path, before)
        yield part
        if after:
            yield BodyText(MARK, part.path, after)


def answer_text(message: BodyMessage) -> str:
    """The text that a model generated, as this rendering has it."""
    return "".join(part.text for part in said(message))


def _unescaped(text: str, escaped: int) -> int:
    """How many characters of a string so many characters of its JSON text are."""
    if "\\" not in text[:escaped]:
        return escaped
    for end in range(escaped, max(-1, escaped - 12), -1):
        try:
            return len(json.loads(f'"{text[:end]}"'))
        except ValueError:
            continue
    return escaped
