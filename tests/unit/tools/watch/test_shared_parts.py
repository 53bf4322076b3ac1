"""Parts that several requests share are kept and counted once."""

from __future__ import annotations

from dataclasses import replace

from cachesim.tools.request_bodies.body import Body, BodyMessage, BodyText
from cachesim.tools.request_bodies.plain_render import RenderedPrompt
from cachesim.tools.request_bodies.request_diff import render_request
from cachesim.tools.watch.shared_parts import (
    SHORT,
    SharedParts,
    short_values,
)


def part(text="hello"):
    return BodyText("text", "messages[0].content", text)


def message(role="user", *parts):
    return BodyMessage(role, "messages[0]", parts or (part(),))


def request(message, *parts):
    """Return a request with a message, and these parts in its rendering."""
    body = Body("chat", place="x:1", messages=[message], tools=[("tools[0]", {"name": "f"})])
    plain = RenderedPrompt("hello", 5, list(range(len(parts))), list(parts), [0] * len(parts), [0])
    return replace(render_request(body), plain=plain)


def test_equal_parts_of_two_requests_are_one_object_and_count_once():
    shared = SharedParts()
    first = shared.share(request(message(), part()))
    size = shared.size
    second = shared.share(request(message(), part()))
    one, two = first.plain, second.plain
    assert shared.size == size and one.parts[0] is two.parts[0] is first.body.messages[0].parts[0]
    assert first.body.messages[0] is second.body.messages[0] and first.body.tools[0] is second.body.tools[0]
    assert size > 0 and (list(two.starts), list(two.messages), list(two.begins)) == ([0], [0], [0])
    shared.share(request(message("user", part("other"))))
    assert shared.size > size


def test_a_long_parameter_is_a_digest_of_its_value():
    most = "a" * (SHORT - 2)                  # its JSON has two quotation marks
    found = short_values({"short": most, "long": most + "a", "other": most + "b", "n": 3})
    assert found["short"] == most and found["n"] == 3
    assert len(found["long"]) == 32 and found["long"] != found["other"]
    assert found["long"] == short_values({"x": most + "a"})["x"]