"""Search for request bodies in files: JSON, JSON lines, HAR files, folders, and dumps with JSON in their lines.

Files are untrusted data, parsed by ``untrusted_files.parse_json``, which limits nesting and the number of values.
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

# Dumps of proxies, HAR files and batches wrap request bodies in many ways.

REQUESTS = (
    "request", "body", "request_body", "requestBody", "req", "json", "payload", "data", "postData", "text", "content",
    "params", "raw_request", "proxy_server_request", "kwargs", "input",
)  # fmt: skip
"""Keys of a dump that may contain a request, its body, or the text of its body."""
RESPONSES = ("response", "response_body", "responseBody", "res", "output", "completion", "result")
"""Keys of a dump that may contain the response."""
URLS = ("url", "path", "endpoint", "uri", "request_path")
DEEP = 6                     # nested wrappers, at most
_JSON = re.compile(r"\s*[\[{]")


class FoundBody(NamedTuple):
    """Request body found in a file."""

    place: str                   # file and line or entry
    body: Mapping[str, Any]
    url: str = ""                # URL path, "" = unknown
    answer: Any = None           # response in the dump, None = unknown


def is_body(value: Any) -> bool:
    """True if a value is a request body of a supported API."""
    return prompt_key(value) != ""


def prompt_key(value: Any) -> str:
    """Return the key that has the prompt of a request body: "messages", "prompt" or "input"; "" if the value is not the
    body of a supported API. A key whose value has another shape does not count."""
    if not isinstance(value, dict):
        return ""
    messages = value.get("messages")
    prompt = value.get("prompt")
    inputs = value.get("input")
    if isinstance(messages, list):
        is_chat = bool(messages) and all(isinstance(entry, dict) and "role" in entry for entry in messages)
        return "messages" if is_chat else ""
    if isinstance(prompt, list):
        return "prompt" if prompt and all(isinstance(entry, str | int | list | dict) for entry in prompt) else ""
    if isinstance(prompt, str) or (isinstance(prompt, dict) and "prompt_string" in prompt):
        return "prompt"
    if "model" not in value:
        return ""
    if isinstance(inputs, list):
        return "input" if inputs and all(isinstance(entry, dict) for entry in inputs) else ""
    return "input" if isinstance(inputs, str) and {"instructions", "stream", "tools"} & value.keys() else ""


def bodies_in(value: Any, place: str, url: str = "", answer: Any = None, deep: int = 0) -> Iterator[FoundBody]:
    """Yield the bodies in a value, in order."""
    if is_body(value):
        yield FoundBody(place, value, url, answer)
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


def _in_list(value: list[Any], place: str, url: str, answer: Any, deep: int) -> Iterator[FoundBody]:
    """Yield the bodies in a list: its elements, or the list itself if it consists of messages."""
    if value and all(isinstance(entry, dict) and "role" in entry and "content" in entry for entry in value):
        yield FoundBody(place, {"messages": value}, url, answer)      # messages without a wrapper
        return
    for number, entry in enumerate(value):
        yield from bodies_in(entry, f"{place}[{number}]" if len(value) > 1 else place, url, answer, deep + 1)


def _in_table(value: Mapping[str, Any], place: str, url: str, answer: Any, deep: int) -> Iterator[FoundBody]:
    """Yield the bodies in an object: HAR entries, or the first of the keys ``REQUESTS`` that contains a body."""
    log = value.get("log")
    entries = log.get("entries") if isinstance(log, dict) else None
    if isinstance(entries, list):
        for number, entry in enumerate(entries):
            yield from bodies_in(entry, f"{place} entries[{number}]", url, answer, deep + 1)
        return
    url = next((value[key] for key in URLS if isinstance(value.get(key), str)), url)
    answer = next((value[key] for key in RESPONSES if value.get(key)), answer)
    if value.get("encoding") == "base64" and isinstance(value.get("text"), str):
        text, value = value["text"], {}
        with suppress(ValueError):               # ValueError: invalid base64 (binascii.Error) or invalid UTF-8
            value = {"text": base64.b64decode(text, validate=True).decode("utf-8")}
    for key in REQUESTS:
        found = list(bodies_in(value[key], place, url, answer, deep + 1)) if value.get(key) else []
        if found:
            yield from found
            return


def _parsed(text: str) -> Any:
    """Return the value of a JSON text, None for any other text."""
    return _value(encoded(text)) if _JSON.match(text) else None


HEAD = 1 << 16               # characters of a file that are read to identify it
SMALL = 60                   # longest text that is not pooled [characters]
HEAD_LINES = 200                 # lines of a file that are read to identify it
OTHER_KEYS = {"contents": "Gemini's API", "inputs": "text-generation-inference", "texts": "an embedding API"}
"""Keys of bodies of unsupported APIs."""
_NUMBER = re.compile("([0-9]+)")
_KEYS = re.compile(r'"(?:messages|prompt|input|entries|postData|tools|system|request_body)"\s*:')


def are_bodies(names: Sequence[str]) -> bool:
    """True if all arguments are request bodies rather than logs: folders, or files whose first lines are JSON
    with a body. Never raises; False for unreadable files."""
    return bool(names) and all(_is_bodies(Path(name)) for name in names)


def _is_bodies(path: Path) -> bool:
    """True if a path is a folder or a file with request bodies."""
    if kind(path) == FOLDER:
        return True
    try:
        lines = [line for line in islice(open_lines(path), HEAD_LINES) if line.strip()]
    except BadInput:
        return False
    head = "\n".join(lines).lstrip("\ufeff \t\r\n")[:HEAD]
    if head[:1] not in ("{", "["):
        return False
    first = _value(lines[0].encode())
    if first is not None and any(True for _ in bodies_in(first, "")):
        return True
    return _KEYS.search(head) is not None or (isinstance(first, dict) and bool(OTHER_KEYS.keys() & first.keys()))


def read_bodies(paths: Sequence[Path]) -> tuple[list[FoundBody], int]:
    """Return the bodies in files and folders in order (files of a folder in natural order of their names), and the
    number of files and lines without a body. Raise BadInput for an unreadable file, for a path without any body, and
    beyond the limits."""
    found: list[FoundBody] = []
    left = 0
    size = 0
    pool = TextPool()
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
                more, without = _bodies(data, file, str(file.relative_to(path)) if folder else str(file), pool)
            except BadInput:
                if not folder:
                    raise
                more, without = [], 1
            found += more
            left += without
            BODIES.check(len(found), "requests", file=str(file))
        if len(found) == before:
            what = "folder contains no request bodies" if folder else "contains no request body"
            hint = "expected JSON with `messages`, `prompt` or `input`, JSON lines, or a HAR file"
            raise BadInput(what, file=str(path), hint=hint)
    return found, left


class TextPool:
    """Pool of strings that keeps a single copy of equal texts: a client sends the whole history with every request."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def shared(self, found: FoundBody) -> FoundBody:
        """Return the body with its long texts replaced by the pooled copies."""
        return found._replace(body=self._value(found.body))

    def _value(self, value: Any) -> Any:
        """Return a value with its long texts replaced by the pooled copies."""
        if isinstance(value, str):
            return self.texts.setdefault(value, value) if len(value) > SMALL else value
        if isinstance(value, list):
            return [self._value(entry) for entry in value]
        return {key: self._value(entry) for key, entry in value.items()} if isinstance(value, dict) else value


def _natural(file: Path) -> list[str | int]:
    """Return the sort key of a file name that orders numbers by value."""
    parts = _NUMBER.split(str(file))                 # every second part is a number
    return [int(part) if at % 2 else part for at, part in enumerate(parts)]


def _bodies(data: bytes, file: Path, place: str, pool: TextPool) -> tuple[list[FoundBody], int]:
    """Return the bodies of a file, and the number of its lines without a body."""
    first, _, rest = data.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")
    if first[:1] in (b"{", b"[") and not (_value(first) is not None and rest.strip()):
        value = parse_json(data.removeprefix(b"\xef\xbb\xbf"), str(file), "file")
        found = [pool.shared(body) for body in bodies_in(value, place)]
        if not found:
            raise _no_body(value, file)
        return found, 0
    return _lines(data, place, pool)


def _lines(data: bytes, place: str, pool: TextPool) -> tuple[list[FoundBody], int]:
    """Return the bodies of JSON lines, or of text lines that end with a JSON object (a log of requests), and the number
    of lines without a body."""
    found = []
    left = 0
    number = 0
    for number, line in enumerate(BytesIO(data), 1):
        at = line.find(b"{")
        if at < 0:
            left += bool(line.strip())
            continue
        in_line = [pool.shared(body) for body in bodies_in(_value(line[at:]), f"{place}:{number}")]
        left += not in_line
        found += in_line
    return found, left


def _value(data: bytes) -> Any:
    """Return the parsed JSON, None if it is invalid or too large."""
    try:
        return parse_json(data)
    except BadInput:
        return None


def _no_body(value: Any, file: Path) -> BadInput:
    """Return the error for JSON without a body, with the kind of JSON if it is known."""
    if isinstance(value, dict):
        for key, name in OTHER_KEYS.items():
            if key in value:
                return BadInput(f"request body of an unsupported API: {name}", file=str(file))
        if {"choices", "usage"} & value.keys() or value.get("type") == "message":
            return BadInput("server response, not a request", file=str(file))
        keys = ", ".join(map(str, islice(value, 5)))
        return BadInput(f"JSON, but not a request body: found keys {cut(keys)}", file=str(file))
    return BadInput("JSON, but not a request body", file=str(file))
