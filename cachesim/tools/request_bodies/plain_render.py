"""Rendering of a body as prompt text without the model's chat template, with the place in the body of each character.

The rendering is ChatML, the format that most chat templates share. Each message has a line with its role, reasoning
between think tags, its text, tool calls between tags, and an end mark. Tools follow the text of the first system
message, as a line of JSON each. A last line begins the answer. Raw prompts of a client are unchanged.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import Any, Iterator, NamedTuple, Sequence

from cachesim.base.errors import cut
from cachesim.tools.request_bodies.body import CALL, MARK, REASONING, THINK, TOOL, Body, BodyMessage, BodyText

_encode = json.JSONEncoder(ensure_ascii=False).encode      # `json.dumps` would make an encoder for every value
SHOWN = 80                   # characters of a key in a path, at most: every value in it has the path


def json_pieces(value: Any, path: str) -> list[tuple[str, str]]:
    """Return pairs of path and text that together form the JSON text of a value, as ``json.dumps(value,
    ensure_ascii=False)`` writes it (chat templates write tools in this way). The inside of a string is a separate
    piece, so that a place in the text gives a place in the value."""
    pieces: list[tuple[str, str]] = []
    _add_pieces(value, path, pieces)
    return pieces


def _add_pieces(value: Any, path: str, pieces: list[tuple[str, str]]) -> None:
    """Append the pieces of a value. A list is several times as fast as nested generators."""
    if isinstance(value, dict):
        pieces.append((path, "{"))
        for number, (key, entry) in enumerate(value.items()):
            pieces.append((path, f"{', ' if number else ''}{_encode(key)}: "))
            _add_pieces(entry, f"{path}.{key if len(key) <= SHOWN else cut(key, SHOWN)}", pieces)
        pieces.append((path, "}"))
    elif isinstance(value, list):
        pieces.append((path, "["))
        for number, entry in enumerate(value):
            if number:
                pieces.append((path, ", "))
            _add_pieces(entry, f"{path}[{number}]", pieces)
        pieces.append((path, "]"))
    elif isinstance(value, str):
        pieces += [(path, '"'), (path, _encode(value)[1:-1]), (path, '"')]
    else:
        pieces.append((path, _encode(value)))


def canonical(value: Any) -> str:
    """Return a JSON text that is equal for values that differ in the order of keys only."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


BEGIN = "<|im_start|>"
END = "<|im_end|>\n"
ANSWER = "<|im_start|>assistant\n"
_TAGS = {CALL: ("<tool_call>\n", "\n</tool_call>")}


class BodyPlace(NamedTuple):
    """Place in a body: path of a value, character in its text, kind of part, and number of the message (-1 = none)."""

    path: str
    character: int
    kind: str
    message: int


class RenderedPrompt(NamedTuple):
    """Rendered prompt."""

    text: str
    history: int                 # length without the line that begins the answer
    starts: Sequence[int]        # start of each part in the text
    parts: Sequence[BodyText]
    messages: Sequence[int]      # message number of each part, -1 = none
    begins: Sequence[int]        # start of each message in the text

    def start(self, at: int) -> int:
        """Return the start of the part that contains character ``at``."""
        return self.starts[max(0, bisect_right(self.starts, at) - 1)] if self.starts else 0

    def place(self, at: int) -> BodyPlace:
        """Return the place in the body of character ``at``; at the end of the text, the place of the last part."""
        number = max(0, bisect_right(self.starts, at) - 1)
        before, part = self.parts[number - 1], self.parts[number]
        if number and self.starts[number] == at and part.kind == MARK != before.kind and part.text == END:
            number, part = number - 1, before           # end of a text: the mark after it begins here
        character = at - self.starts[number]
        if part.kind == TOOL:
            character = _unescaped(part.text, character)
        return BodyPlace(part.path, character, part.kind, self.messages[number])


def render_plain(body: Body) -> RenderedPrompt:
    """Return the prompt of a body in the plain rendering."""
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
    tail = len(parts[-1].text) if _opens_answer(body) else 0
    return RenderedPrompt(text, size - tail, starts, parts, numbers, begins)


def _pieces(body: Body) -> Iterator[tuple[int, BodyText]]:
    """Yield every part with the number of its message."""
    if body.is_raw:
        for number, message in enumerate(body.messages):
            yield from ((number, part) for part in message.parts)
        return
    messages = body.messages
    if body.tools and not (messages and messages[0].is_system):
        yield 0, BodyText(MARK, "tools", f"{BEGIN}system\n")
        yield from ((0, part) for part in tool_parts(body))
        yield 0, BodyText(MARK, "tools", END)
    for number, message in enumerate(messages):
        yield number, BodyText(MARK, message.path, f"{BEGIN}{message.role}\n")
        yield from ((number, part) for part in tagged_parts(message))
        if number == 0 and message.is_system:
            yield from ((0, part) for part in tool_parts(body))
        if body.continued is None or number < len(messages) - 1:
            yield number, BodyText(MARK, message.path, END)
    if _opens_answer(body):
        yield len(messages), BodyText(MARK, "", ANSWER)


def _opens_answer(body: Body) -> bool:
    """True if a prompt ends with the line that begins an answer."""
    return not body.is_raw and body.opens_answer and body.continued is None


def tool_parts(body: Body) -> Iterator[BodyText]:
    """Yield the tool definitions, a line each, as parts of single values."""
    for path, tool in body.tools:
        yield BodyText(MARK, path, "\n")
        wrapper = f"{path}.function" if body.has_bare_functions else path
        for inner, text in json_pieces(tool, path):
            yield BodyText(TOOL, path + inner.removeprefix(wrapper) if inner.startswith(wrapper) else inner, text)


def tagged_parts(message: BodyMessage) -> Iterator[BodyText]:
    """Yield the parts of a message with the tags around them."""
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
    """Return the text of a generated message in this rendering."""
    return "".join(part.text for part in tagged_parts(message))


def _unescaped(text: str, escaped: int) -> int:
    """Return the number of characters of a string that its first ``escaped`` characters of JSON text represent."""
    if "\\" not in text[:escaped]:
        return escaped
    for end in range(escaped, max(-1, escaped - 12), -1):
        try:
            return len(json.loads(f'"{text[:end]}"'))
        except ValueError:
            continue
    return escaped
