"""Parts that several requests share are kept and counted once."""

from __future__ import annotations

from sys import getsizeof

import pytest

from cachesim.tools.request_bodies.body import Body, BodyMessage, BodyText
from cachesim.tools.request_bodies.plain_render import RenderedPrompt
from cachesim.tools.watch.held_bytes import OBJECT, HeldBytes, buffer_bytes, bytes_of
from cachesim.tools.watch.paired_halves import ClientHalf
from cachesim.tools.watch.shared_parts import (
    MESSAGE,
    SHORT,
    SharedParts,
    message_bytes,
    part_bytes,
    short_values,
    tool_bytes,
)


def part(text="hello"):
    return BodyText("text", "messages[0].content", text)


def message(role="user", *parts):
    return BodyMessage(role, "messages[0]", parts or (part(),))


def body(*messages):
    return Body("chat", place="x:1", messages=list(messages), tools=[("tools[0]", {"name": "f"})])


def plain(*parts):
    return RenderedPrompt("hello", 5, list(range(len(parts))), list(parts), [0] * len(parts), [0])


def test_equal_parts_of_two_requests_are_one_object_and_count_once():
    shared, first, second = SharedParts(), body(message()), body(message())
    one = shared.share(first, plain(part()))
    size = shared.size
    two = shared.share(second, plain(part()))
    assert size == part_bytes(part()) + message_bytes(first.messages[0]) + tool_bytes("tools[0]", {"name": "f"}) + (
        getsizeof('{"name": "f"}'))  # fmt: skip
    assert shared.size == size and one.parts[0] is two.parts[0] is first.messages[0].parts[0]
    assert first.messages[0] is second.messages[0] and first.tools[0] is second.tools[0]
    assert (list(two.starts), list(two.messages), list(two.begins)) == ([0], [0], [0])
    shared.share(body(message("user", part("other"))), plain())
    assert shared.size > size


def test_the_memory_of_parts():
    assert part_bytes(part("abc")) - part_bytes(part("a")) == 2
    assert part_bytes(part()) == getsizeof(part()) + getsizeof("messages[0].content") + getsizeof("hello") + OBJECT
    user, system = message_bytes(message()), message_bytes(message("system"))
    own = sum(map(getsizeof, (message(), (1,), "user", "messages[0]", "")))
    assert user == own + 2 * getsizeof("hello") + MESSAGE
    assert system == own + len("system") - len("user") + 3 * getsizeof("hello") + MESSAGE
    assert tool_bytes("t", {"a": [1, "x"]}) == getsizeof("t") + bytes_of({"a": [1, "x"]}) + 2 * OBJECT
    assert bytes_of({"a": [1, "x"]}) == sum(map(getsizeof, ({"a": 1}, "a", [1, "x"], 1, "x")))


def test_a_long_parameter_is_a_digest_of_its_value():
    most = "a" * (SHORT - 2)                  # its JSON has two quotation marks
    found = short_values({"short": most, "long": most + "a", "other": most + "b", "n": 3})
    assert found["short"] == most and found["n"] == 3
    assert len(found["long"]) == 32 and found["long"] != found["other"]
    assert found["long"] == short_values({"x": most + "a"})["x"]


@pytest.mark.parametrize(("kept", "before", "after", "has_room", "size"), [
    (0, 0, 10, True, 10), (0, 0, 11, False, 0), (4, 0, 6, True, 10), (4, 0, 7, False, 4), (0, 10, 20, True, 10),
    (30, 5, 3, True, 28), (30, 5, 5, True, 30),
])  # fmt: skip
def test_bytes_in_flight_have_what_compared_requests_leave(kept, before, after, has_room, size):
    held = HeldBytes(10)
    held.kept = kept
    assert held.recount(before, after) is has_room and held.size == size


@pytest.mark.parametrize(("number", "size"), [(0, 0), (7, 7), (8, 9), (800, 900)])
def test_a_buffer_that_grows_reserves_an_eighth(number, size):
    assert buffer_bytes(number) == size


@pytest.mark.parametrize(("row", "has_counts", "is_refused"), [
    ({}, False, False), ({"evaluated": 0}, True, False), ({"generated": 0}, True, False),
    ({"status": 400}, False, True),
    ({"status": 399}, False, False), ({"status": None, "prompt": 3}, False, False),
])  # fmt: skip
def test_what_the_reply_of_a_client_states(row, has_counts, is_refused):
    half = ClientHalf(row)
    assert (half.has_counts, half.is_refused) == (has_counts, is_refused)


def test_the_places_of_a_rendering_are_kept_as_numbers():
    shared = SharedParts().share(body(), plain(part("a"), part("b")))
    places = [shared.starts, shared.messages, shared.begins]
    assert [one.typecode for one in places] == ["Q", "q", "Q"]
    given = plain(part("a"), part("b"))
    assert [list(one) for one in places] == [list(given.starts), list(given.messages), list(given.begins)]
