"""Which request bodies are in these files? JSON, JSON lines, HAR files, folders, and dumps with JSON in their lines.

A file is data: parsed by ``reading.parse_json``, which bounds nesting and values; never evaluated.
"""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, cut
from cachesim.base.limits import BODIES, BODY_BYTES
from cachesim.base.untrusted_files import FOLDER, files_in, kind, open_lines, parse_json, read_bytes
from cachesim.tools.request_bodies.body import encoded

# Where in a JSON value are request bodies? Dumps of proxies, HAR files and batches wrap them in many ways.

REQUESTS = (
    "request", "body", "request_body", "requestBody", "req", "json", "payload", "data", "postData", "text", "content",
    "params", "raw_request", "proxy_server_request", "kwargs", "input",
)  # fmt: skip
"""Keys under which a dump keeps a request, or its body, or the text of it."""
RESPONSES = ("response", "response_body", "responseBody", "res", "output", "completion", "result")
"""Keys under which a dump keeps the answer."""
URLS = ("url", "path", "endpoint", "uri", "request_path")
DEEP = 6                     # wrappers within each other
_JSON = re.compile(r"\s*[\[{]")


class Found(NamedTuple):
    """A body as it was found. ``place``: where, for a report; ``url``: the path it was sent to, "" if unknown;
    ``answer``: what the dump says of the response, None if nothing."""

    place: str
    body: Mapping[str, Any]
    url: str = ""
    answer: Any = None


def is_body(value: Any) -> bool:
    """Returns True if a value is itself a request body of a form that is known."""
    if not isinstance(value, dict):
        return False
    messages, prompt, asked = value.get("messages"), value.get("prompt"), value.get("input")
    if isinstance(messages, list):
        return bool(messages) and all(isinstance(one, dict) and "role" in one for one in messages)
    if isinstance(prompt, list):
        return bool(prompt) and all(isinstance(one, str | int | list | dict) for one in prompt)
    if isinstance(prompt, str) or (isinstance(prompt, dict) and "prompt_string" in prompt):
        return True
    if isinstance(asked, list):
        return "model" in value and bool(asked) and all(isinstance(one, dict) for one in asked)
    return isinstance(asked, str) and "model" in value and bool({"instructions", "stream", "tools"} & value.keys())


def bodies_in(value: Any, place: str, url: str = "", answer: Any = None, deep: int = 0) -> Iterator[Found]:
    """The bodies in a value, in its order. A value that holds none gives nothing."""
    if is_body(value):
        yield Found(place, value, url, answer)
        return
    if deep > DEEP:
        return
    if isinstance(value, str):
        inner = _parsed(value)
        if inner is not None:
            yield from bodies_in(inner, place, url, answer, deep + 1)
    elif isinstance(value, list):
        yield from _in_list(value, place, url, answer, deep)
    elif isinstance(value, dict):
        yield from _in_table(value, place, url, answer, deep)


def _in_list(value: list[Any], place: str, url: str, answer: Any, deep: int) -> Iterator[Found]:
    if value and all(isinstance(one, dict) and "role" in one and "content" in one for one in value):
        yield Found(place, {"messages": value}, url, answer)      # the messages alone
        return
    for number, one in enumerate(value):
        yield from bodies_in(one, f"{place}[{number}]" if len(value) > 1 else place, url, answer, deep + 1)


def _in_table(value: Mapping[str, Any], place: str, url: str, answer: Any, deep: int) -> Iterator[Found]:
    log = value.get("log")
    entries = log.get("entries") if isinstance(log, dict) else None
    if isinstance(entries, list):
        for number, one in enumerate(entries):
            yield from bodies_in(one, f"{place} entries[{number}]", url, answer, deep + 1)
        return
    url = next((value[key] for key in URLS if isinstance(value.get(key), str)), url)
    answer = next((value[key] for key in RESPONSES if value.get(key)), answer)
    if value.get("encoding") == "base64" and isinstance(value.get("text"), str):
        text, value = value["text"], {}
        with suppress(ValueError):               # binascii's error is one, and that of what is no UTF-8
            value = {"text": base64.b64decode(text, validate=True).decode("utf-8")}
    for key in REQUESTS:
        found = list(bodies_in(value[key], place, url, answer, deep + 1)) if value.get(key) else []
        if found:
            yield from found
            return


def _parsed(text: str) -> Any:
    """The value of a text that is JSON, else None."""
    return _value(encoded(text)) if _JSON.match(text) else None


HEAD = 1 << 16               # characters of a file that are looked at to know what it is
SMALL = 60                   # characters of a text that is not worth sharing
LOOKED = 200                 # lines, likewise
OTHER_KEYS = {"contents": "Gemini's API", "inputs": "text-generation-inference", "texts": "an embedding API"}
"""Bodies that are known by name and not read."""
_NUMBER = re.compile(r"(\d+)")
_KEYS = re.compile(r'"(?:messages|prompt|input|entries|postData|tools|system|request_body)"\s*:')


def are_bodies(names: Sequence[str]) -> bool:
    """Returns True if these arguments are request bodies rather than logs: folders, and files whose first lines are
    JSON in which there is a body. Nothing is raised: what cannot be read is left to the reader of logs."""
    return bool(names) and all(_is_bodies(Path(name)) for name in names)


def _is_bodies(path: Path) -> bool:
    if kind(path) == FOLDER:
        return True
    try:
        lines = [line for line in islice(open_lines(path, HEAD), LOOKED) if line.strip()]
    except BadInput:
        return False
    head = "\n".join(lines).lstrip("\ufeff \t\r\n")[:HEAD]
    if head[:1] not in ("{", "["):
        return False
    first = _value(lines[0].encode("utf-8", "replace"))
    if first is not None and any(True for _ in bodies_in(first, "")):
        return True
    return _KEYS.search(head) is not None or (isinstance(first, dict) and bool(OTHER_KEYS.keys() & first.keys()))


def read_bodies(paths: Sequence[Path]) -> tuple[list[Found], int]:
    """The bodies of these files and folders in their order (a folder's files by their names, numbers as numbers), and
    how many files or lines hold none. Raises BadInput for a file that cannot be read, for one that holds no body at
    all, and for too many."""
    found: list[Found] = []
    left, size, pool = 0, 0, TextPool()
    for path in paths:
        folder = kind(path) == FOLDER
        before = len(found)
        for file in sorted(files_in(path, ""), key=_natural) if folder else [path]:
            if folder and (file.name.startswith(".") or kind(file) != "file"):
                continue
            data = read_bytes(file, BODY_BYTES)
            size += len(data)
            BODY_BYTES.check(size, "the files together", file=str(file))
            try:
                more, none = _bodies(data, file, str(file.relative_to(path)) if folder else str(file), pool)
            except BadInput:
                if not folder:
                    raise
                more, none = [], 1
            found, left = found + more, left + none
            BODIES.check(len(found), "requests", file=str(file))
        if len(found) == before:
            raise BadInput("a folder without request bodies" if folder else "no request body is in it", file=str(path),
                           hint="JSON with `messages`, `prompt` or `input`; JSON lines; a HAR file")  # fmt: skip
    return found, left


class TextPool:
    """Keeps one copy of each text: a client sends the whole history with every request."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def shared(self, found: Found) -> Found:
        """The same body, with texts that are those of the bodies before where they are equal."""
        return found._replace(body=self._value(found.body))

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.texts.setdefault(value, value) if len(value) > SMALL else value
        if isinstance(value, list):
            return [self._value(one) for one in value]
        return {key: self._value(one) for key, one in value.items()} if isinstance(value, dict) else value


def _natural(file: Path) -> list[tuple[int, str]]:
    parts = _NUMBER.split(str(file))
    return [(int(part), "") if part.isdigit() and part.isascii() else (-1, part) for part in parts]


def _bodies(data: bytes, file: Path, place: str, pool: TextPool) -> tuple[list[Found], int]:
    """The bodies of one file, and how many of its lines hold none."""
    head = data[:HEAD].lstrip(b"\xef\xbb\xbf \t\r\n")
    first, _, rest = data.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")
    if head[:1] in (b"{", b"[") and not (_value(first) is not None and rest.strip()):
        value = parse_json(data.removeprefix(b"\xef\xbb\xbf"), str(file), "file")
        found = [pool.shared(one) for one in bodies_in(value, place)]
        if not found:
            raise _none(value, file)
        return found, 0
    return _lines(data, place, pool)


def _lines(data: bytes, place: str, pool: TextPool) -> tuple[list[Found], int]:
    """JSON lines, or lines of something else with a JSON object at their end (a log of requests)."""
    found, left, number = [], 0, 0
    for number, line in enumerate(BytesIO(data), 1):
        at = line.find(b"{")
        if at < 0:
            left += bool(line.strip())
            continue
        mine = [pool.shared(one) for one in bodies_in(_value(line[at:]), f"{place}:{number}")]
        left += not mine
        found += mine
    return found, left


def _value(data: bytes) -> Any:
    try:
        return parse_json(data)
    except BadInput:
        return None


def _none(value: Any, file: Path) -> BadInput:
    """The error for JSON without a body, which says what it is where that is known."""
    if isinstance(value, dict):
        for key, name in OTHER_KEYS.items():
            if key in value:
                return BadInput(f"a body of {name}, which is not read", file=str(file))
        if {"choices", "usage"} & value.keys() or value.get("type") == "message":
            return BadInput("an answer of a server, not a request", file=str(file))
        keys = ", ".join(map(str, islice(value, 5)))
        return BadInput(f"JSON, but no request body: its keys are {cut(keys)}", file=str(file))
    return BadInput("JSON, but no request body", file=str(file))
