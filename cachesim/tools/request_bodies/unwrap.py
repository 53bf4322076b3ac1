"""Where in a JSON value are request bodies? Dumps of proxies, HAR files and batches wrap them in many ways."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Iterator, Mapping, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.base.reading import parse_json

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
        value = {"text": _decoded(value["text"])}
    for key in REQUESTS:
        found = list(bodies_in(value[key], place, url, answer, deep + 1)) if value.get(key) else []
        if found:
            yield from found
            return


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""


def _parsed(text: str) -> Any:
    """The value of a text that is JSON, else None."""
    if not _JSON.match(text):
        return None
    try:
        return parse_json(text.encode("utf-8", "surrogatepass"))
    except (BadInput, UnicodeError):
        return None
