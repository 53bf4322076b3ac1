"""Changes to the messages of a history."""

from __future__ import annotations

import pytest

from cachesim.tools.request_bodies.body import IMAGE, REASONING, TEXT, BodyMessage, BodyText
from cachesim.tools.request_bodies.changed_messages import (
    ADDED,
    CHANGED_REASONING,
    DROPPED,
    IMAGES,
    INSERTED,
    MOVING,
    OTHER_PLACE,
    PRUNED,
    REMOVED,
    SUMMARY,
    TAIL,
    TAKEN_OUT,
    history_change,
    image_moved,
    message_change,
    moved_message,
    text_change,
)
from cachesim.tools.request_bodies.changed_text import SPACE


def message(text, role="user", thought="", image=""):
    parts = [BodyText(kind, "", words) for kind, words in ((REASONING, thought), (IMAGE, image), (TEXT, text)) if words]
    return BodyMessage(role, "", tuple(parts))


def history(*texts):
    """Return messages: "s:", "a:" and "t:" before a text stand for system, assistant and tool."""
    roles = {"s:": "system", "a:": "assistant", "t:": "tool", "d:": "developer"}
    return [message(text[2:], roles[text[:2]]) if text[:2] in roles else message(text) for text in texts]


@pytest.mark.parametrize(("old", "new", "change"), [
    (message("a", thought="x"), message("a"), REMOVED), (message("a"), message("a ", thought="x"), ADDED),
    (message("a", thought="x y"), message("a", thought="x"), CHANGED_REASONING),
    (message("a", thought="x y"), message("a", thought="x\ny"), SPACE),
    (message("a", thought="x"), message("b", thought="y"), ""), (message("a", thought="x"), message("a", "tool"), ""),
    (message("a", image="1"), message("a", image="2"), IMAGES), (message("a", image="1"), message("b", image="2"), ""),
    (message("a b"), message("a\n b"), SPACE), (message("a b"), message("a c"), ""), (message("a"), message("a"), ""),
])  # fmt: skip
def test_a_message_with_equal_text_differs_in_reasoning_image_or_space(old, new, change):
    assert message_change(old, new) == change


def test_images_moved_if_all_old_ones_are_still_there():
    one, two = message("a", image="1"), message("b", image="2")
    assert image_moved([one], [two, one]) and image_moved([one, two], [two, one])
    assert not image_moved([one, two], [one]) and not image_moved([message("a")], [one])


@pytest.mark.parametrize(("old", "new", "at", "found"), [
    (["s:S", "1", "a:2", "3", "a:4"], ["s:S", "3", "a:4", "5"], 1, (DROPPED, 2)),
    (["s:S", *"1a2b3c4d5"], ["s:S", "5", "6"], 1, (DROPPED, 8)),
    (["s:S", "0", "1", "a:2", "3", "a:4"], ["s:S", "0", "3", "a:4", "5"], 2, (TAKEN_OUT, 2)),
    (["1", "a:2", "3"], ["9", "8", "1", "a:2", "3"], 0, (INSERTED, 2)),
    (["1", "a:2", "3", "a:4", "5"], ["A summary of it", "3"], 0, (SUMMARY, 3)),
    (["1", "a:2", "3"], ["A summary of it", "1", "a:2", "3"], 0, (INSERTED, 1)),
    (["1", "a:2", "3"], ["0", "A summary of it", "7"], 0, (SUMMARY, 0)),
    (["1", "a:2", "3"], ["0", "8", "A summary"], 0, ("", 0)),
    (["1", "A summary"], ["0", "A summary of it"], 0, ("", 0)),
    (["1"], ["2"], 0, ("", 0)), (["1", "2"], ["1"], 1, ("", 0)),
    (["1", "a:2", "3"], ["3", "4"], 0, (DROPPED, 2)), (["1", "a:2", "3", "5"], ["3", "4"], 0, ("", 0)),
    (["go", "a:1", "go"], ["Go", "a:1", "go"], 0, ("", 0)),
    (["go", "a:1", "stop", "a:1"], ["stop", "a:1", "stop", "a:1"], 0, ("", 0)),
    (["go", "a:1", "go"], ["8", "go", "a:1", "go"], 0, (INSERTED, 1)),
])  # fmt: skip
def test_messages_at_the_first_difference_are_missing_new_or_summarised(old, new, at, found):
    assert history_change(history(*old), history(*new), at) == found


NOTE, OTHER = "A note for the model: 10:01", "A note for the model: 10:02"


@pytest.mark.parametrize(("old", "new", "at", "found"), [
    (["1", NOTE, "2"], ["1", "2", "a:3", NOTE, "4"], 1, (MOVING, "1 message before the end")),
    (["1", NOTE, "2", "3"], ["1", "2", "3", NOTE, "4", "5"], 1, (MOVING, "2 messages before the end")),
    (["1", NOTE, "2", "3"], ["1", "2", NOTE, "3", "4"], 1, (MOVING, "2 messages before the end")),
    (["1", NOTE, "2"], ["1", "2", "3", NOTE, "4", "5"], 1, (OTHER_PLACE, "")),
    (["1", NOTE], ["1", "a:2", "3", NOTE], 1, (MOVING, "at the end")),
    (["1", NOTE], ["1", "a:2", "3", OTHER], 1, (MOVING, "at the end")),
    (["1", NOTE], ["1", "a:2", "3", "Another text"], 1, ("", "")),
    (["1", NOTE], ["1", "2", "3", OTHER], 1, ("", "")), (["s:1", NOTE], ["s:1", "a:2", OTHER], 1, ("", "")),
    (["a:1", NOTE], ["a:1", "a:2", OTHER], 1, ("", "")), ([NOTE], ["a:2", OTHER], 0, ("", "")),
    (["1", NOTE, "2"], ["1", "2", "a:3", OTHER, "4"], 1, (MOVING, "1 message before the end")),
    (["1", NOTE, "2", "3"], ["1", "2", "3", "4", OTHER, "5", "6"], 1, (MOVING, "2 messages before the end")),
    (["1", NOTE, "2"], ["1", "9", "a:3", OTHER, "4"], 1, ("", "")), (["1", NOTE, "2"], ["1", OTHER, "2"], 1, ("", "")),
    (["1", "a:2 as before", "3"], ["1", "3", "a:2 as before, too", "4"], 1, ("", "")),
])  # fmt: skip
def test_a_message_that_stands_later_moves(old, new, at, found):
    assert moved_message(history(*old), history(*new), at) == found


@pytest.mark.parametrize(("common", "moves"), [(8, True), (7, False)])
def test_similar_messages_have_eight_characters_in_common(common, moves):
    start = "abcdefgh"[:common]
    found = moved_message(history("1", f"{start}-1", "2"), history("1", "2", "a:3", f"{start}+2", "4"), 1)
    assert (found[0] == MOVING) is moves


LONG = "The result has many lines and words. " * 4


@pytest.mark.parametrize(("old", "new", "at", "change"), [
    (["1", f"t:{LONG}", "2"], ["1", "t:short", "2", "3"], 1, PRUNED),
    (["1", f"t:{LONG}", "2"], ["1", "t:short", "3"], 1, ""), (["1", f"t:{LONG}"], ["1", "t:short", "3"], 1, ""),
    (["1", LONG, "2"], ["1", "It was [removed]", "2"], 1, PRUNED), (["1", LONG, "2"], ["1", "short", "2"], 1, ""),
    (["1", f"t:{LONG}", "2"], ["1", f"t:{LONG[:73]}x", "2"], 1, ""),
    (["1", f"t:{LONG}", "2"], ["1", f"t:{LONG[:72]}x", "2"], 1, PRUNED),
    (["1", f"t:{LONG}", "2"], ["1", "short", "2"], 1, ""),
    (["1", f"Go on. {LONG}"], ["1", "Go on.", "a:2"], 1, TAIL), (["1", f"{LONG} Go on."], ["1", "Go on."], 1, TAIL),
    (["1", "Go on. Now.", "s:x"], ["1", "Go Now.", "a:2"], 1, TAIL),
    (["1", "Go on. Now.", "x"], ["1", "Go Now.", "a:2"], 1, ""),
    (["1", "Go on. Now."], ["1", "Go.", "a:2"], 1, TAIL), (["1", "Go on. Now."], ["1", "Go No.", "a:2"], 1, ""),
    (["1", "Go on. Now."], ["1", "Go. Now. on", "a:2"], 1, ""), (["1", "Go on."], ["1", "Go on, then."], 1, ""),
    (["1", "s:Go on. Now."], ["1", "s:Go on.", "a:2"], 1, ""), (["1", "2"], ["1"], 1, ""), (["1"], ["1", "2"], 1, ""),
    (["1", "Go on."], ["1", ""], 1, ""),
])  # fmt: skip
def test_a_text_is_shortened_once_it_is_old_or_loses_what_only_the_newest_has(old, new, at, change):
    assert text_change(history(*old), history(*new), at) == change


@pytest.mark.parametrize(("at", "change"), [(199, PRUNED), (200, "")])
def test_a_placeholder_stands_at_the_beginning_of_a_shortened_text(at, change):
    old, new = "x" * 900, "y" * at + "[" + "y" * 9
    assert text_change(history("1", old, "2"), history("1", new, "2"), 1) == change
