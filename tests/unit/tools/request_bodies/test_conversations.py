"""Assignment of requests to conversations."""

from __future__ import annotations

import pytest

from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body import IMAGE, REASONING, BodyMessage, BodyText
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.conversations import (
    KEPT,
    TRIVIAL,
    ConversationLinker,
    contains_summary,
    core_text,
    spoken_text,
)
from cachesim.tools.request_bodies.plain_render import render_plain
from tests.unit.tools.request_bodies.made import LONG, chat

TEXT = "".join(f"{number:04d} " for number in range(1_000))


def links(*bodies):
    read = bodies_of([FoundBody("x", one) for one in bodies])
    found = ConversationLinker([render_plain(body).text for body in read])
    return [found.add(body) for body in read]


def test_conversations_are_distinguished_by_their_messages():
    first, second = "How do I sort a list of names in Python?", "Which of the two files is the larger one, please?"
    found = links(chat(first), chat(second), chat(first, "Use sorted().", "And backwards?"),
                  chat(second, "The first one is larger.", "Thank you."))  # fmt: skip
    assert [one.before for one in found] == [-1, -1, 0, 1]
    assert [one.conversation for one in found] == [0, 1, 0, 1]


def test_a_conversation_continues_although_its_start_changes_each_time():
    """All prompts share the same short prefix with the first request."""
    said = "Please read the file and say what it does."
    found = links(chat(said, system=f"It is 10:01. {LONG}"),
                  chat("Something else is asked here.", system="It is 10:02."),
                  chat(said, "It sorts.", "And now?", system=f"It is 10:03. {LONG}"))  # fmt: skip
    assert (found[2].before, found[2].conversation) == (0, 0)


def test_short_common_messages_do_not_connect_conversations():
    found = links(chat("Tell me of the sea and all its fish.", "ok"), chat("Sort these names.", "ok", "And those."))
    assert [one.conversation for one in found] == [0, 1]


def test_a_message_that_a_client_sends_to_all_agents_does_not_connect_them():
    reminder = {"role": "user", "content": f"A reminder for all agents. {LONG}"}
    tasks = ["Sort the names of all files.", "Draw a map of the whole island.", "Say what changed since Monday."]
    bodies = [{"model": "m", "messages": [reminder, {"role": "user", "content": task}]} for task in tasks]
    answered = {"model": "m", "messages": [*bodies[0]["messages"], {"role": "assistant", "content": "They are sorted."},
                                           {"role": "user", "content": "Backwards, please."}]}  # fmt: skip
    found = links(bodies[0], bodies[1], answered, bodies[2], bodies[1])
    assert [one.conversation for one in found] == [0, 1, 0, 2, 1]


def test_a_conversation_continues_after_an_edit_of_its_first_message():
    old = "Please write a function that sorts the names of all the files in this folder."
    found = links(chat(old), chat(old.replace("names", "sizes")), chat("Nothing of this kind was said before now."))
    assert [one.conversation for one in found] == [0, 0, 1]


@pytest.mark.parametrize(("old", "new"), [
    ("fix the parser <reminder>plan mode</reminder>", "fix the parser"),
    ("[Context: 3 files are open.] Rename the class.", "Rename the class."),
    ("Read the file. (It was saved at ten.) Then rename the class.", "Read the file. Then rename the class."),
    ("Please sort the names of all files", "Please sort the names of all files, and the folders first of all."),
])  # fmt: skip
def test_a_conversation_continues_if_its_first_message_lost_or_got_a_stretch(old, new):
    found = links(chat("Something else is asked here."), chat(old), chat(new, "Done.", "Thank you."))
    assert [one.before for one in found] == [-1, -1, 1]


@pytest.mark.parametrize(("old", "new"), [
    ("Sort", "Sort the names of all the files"), ("Draw a map.", "Sort the files."), ("Hi <b>you</b>", "Hi"),
])  # fmt: skip
def test_another_first_message_begins_another_conversation(old, new):
    assert [one.conversation for one in links(chat(old), chat(new, "Done.", "Thank you."))] == [0, 1]


def test_a_request_that_was_continued_is_not_continued_by_a_part_of_its_first_message():
    old, part = "fix the parser <reminder>plan mode</reminder>", "fix the parser"
    found = links(chat(old), chat(old, "It is mended.", "Test it."), chat(part, "Done.", "Thank you."))
    assert [one.conversation for one in found] == [0, 0, 1]


def test_a_request_that_was_continued_under_another_system_prompt_is_not_continued_again():
    old, part, here, there = "fix the parser <reminder>plan mode</reminder>", "fix the parser", LONG, f"Now. {LONG}"
    found = links(chat(old, system=here), chat(old, "It is mended.", "Test it.", system=there),
                  chat(part, "Done.", "Thank you.", system=here))  # fmt: skip
    assert [one.before for one in found] == [-1, 0, -1]
    assert [one.before for one in links(chat(old, system=here), chat(part, "Done.", "Thanks.", system=here))] == [-1, 0]


@pytest.mark.parametrize(("size", "before"), [(10, 0), (11, -1)])
def test_at_least_half_of_the_messages_must_be_those_of_the_request_before(size, before):
    """Two messages of five letters are the same; each message counts a letter more."""
    found = links(chat("z" * 4, "abcde", "fghij", system=""), chat("q" * size, "abcde", "fghij", system=""))
    assert found[1].before == before


def test_a_summary_continues_the_conversation_of_its_system_prompt():
    found = links(chat("Read all of the files of this project and learn them.", system=f"One. {LONG}"),
                  chat("Something else altogether, by somebody else.", system=f"Two. {LONG}"),
                  chat("This session is continued from a previous conversation: files were read.",
                       system=f"One. {LONG}"))  # fmt: skip
    assert [one.before for one in found] == [-1, -1, 0] and found[2].conversation == 0


def raw(*prompts):
    return links(*({"model": "m", "prompt": one} for one in prompts))


def test_raw_prompts_are_connected_by_their_text():
    half = TEXT[:1_000]
    found = raw(half, half + "!" * 1_000, "?" * 40 + half, "nothing of it at all", half[:500] + "#" * 1_500,
                half[:400] + "+" * 1_600)  # fmt: skip
    assert [one.before for one in found] == [-1, 0, 1, -1, 2, -1]
    assert found[1].conversation == found[2].conversation == 0 and found[3].conversation == 1


def test_short_prompts_are_compared_character_by_character():
    assert [one.before for one in raw("abcdefgh", "xabcd")] == [-1, 0]
    assert [one.before for one in raw("abcdefgh", "xyzuvwab")] == [-1, 0]
    assert [one.before for one in raw("abcdefgh", "xyzuvwtab")] == [-1, -1]


def test_only_the_latest_prompts_are_searched():
    other = [f"{number} {'x' * 300} {number}" for number in range(KEPT)]
    assert raw(TEXT, *other[1:], "?" * 40 + TEXT)[-1].before == 0
    assert raw(TEXT, *other, "?" * 40 + TEXT)[-1].before != 0


@pytest.mark.parametrize(("size", "before"), [(TRIVIAL, 0), (TRIVIAL - 1, -1)])
def test_a_prompt_that_begins_with_all_of_an_earlier_one_continues_it(size, before):
    assert raw(TEXT[:size], TEXT[:size] + "z" * 900)[1].before == before
    assert raw("y", TEXT[:size], TEXT[:size] + "z" * 900)[2].before == (1 if before == 0 else -1)
    assert raw(TEXT[: 2 * TRIVIAL], TEXT[: 2 * TRIVIAL - 1] + "z" * 900)[1].before == -1


@pytest.mark.parametrize(("part", "whole", "continues"), [
    ("a" * 24, "a" * 20 + " and b " + "a" * 4, True), ("a" * 23, "a" * 20 + " and bcd " + "a" * 3, False),
    ("a" * 8, "a" * 8 + "<b c d>", True), ("a" * 7, "a" * 7 + "<b c d>", False), ("a" * 8, "a" * 8 + "<b c d", False),
    ("a" * 8, "a" * 8 + "b c d]", False), ("a" * 24, "a" * 12 + "b" * 40 + "a" * 11, False),
])  # fmt: skip
def test_a_first_message_that_lost_a_stretch_is_long_enough_to_recognise(part, whole, continues):
    for old, new in ((part, whole), (whole, part)):
        found = links(chat(old), chat(new, "Done.", "Thank you."))
        assert found[1].before == (0 if continues else -1)


def of_system(text):
    return {"model": "m", "messages": [{"role": "system", "content": text}]}


@pytest.mark.parametrize(("old", "new", "before"), [
    (TEXT[:100], TEXT[:60] + "x" * 9, 0), (TEXT[:100], TEXT[:60] + "x" * 400, -1), ("y", "z" * 400, -1),
])  # fmt: skip
def test_a_request_of_system_messages_continues_what_is_most_of_it(old, new, before):
    assert links(of_system(old), of_system(new))[1].before == before


def test_a_first_message_is_compared_with_that_of_the_nearest_prompt_and_of_the_request_before():
    first = "Please sort the names of all the files in this folder for me."
    other = "Draw a map of the whole island, with all of its rivers."
    edited = first.replace("names", "sizes")
    assert links(chat(first), chat(other), chat(edited))[2].before == 0
    assert links(chat(other, system="Another system."), chat(first), chat(edited, system=LONG))[2].before == 1
    assert links(chat(first), chat(edited, system="Something else."))[1].before == -1
    assert links(chat(first), of_system(LONG), chat(edited))[2].before in (0, -1)


def test_a_request_of_system_messages_has_no_first_message_to_compare():
    found = links(chat("Draw a map of the whole island.", system=LONG), of_system(LONG), chat("Sort it.", system=LONG))
    assert [one.before for one in found][2] == -1


SUMMARY = "This session is continued from a previous conversation: files were read."


@pytest.mark.parametrize(("said", "before"), [
    ((SUMMARY,), 0), (("Draw a map.", SUMMARY), 0), (("Draw a map.", "Here it is.", SUMMARY), -1)])  # fmt: skip
def test_a_summary_is_one_of_the_first_three_messages(said, before):
    found = links(chat("Read all of the files of this project.", system=LONG), chat(*said, system=LONG))
    assert found[1].before == before


def test_a_summary_under_an_unknown_system_prompt_begins_a_conversation():
    assert links(chat("Read all of the files of this project."), chat(SUMMARY, system="Another one."))[1].before == -1


@pytest.mark.parametrize("more", [(), ("Done.", "Thank you.")])
def test_the_request_before_is_compared_if_the_nearest_prompt_is_of_another_conversation(more):
    old = "Please sort the names of all the files in this folder for me."
    found = links(chat(f"Please sort the si{'x' * 100}"), chat(old), chat(old.replace("names", "sizes"), *more))
    assert [one.before for one in found] == [-1, -1, 1]


def shown(text, letter):
    """A user message with an image."""
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{letter * 40}"}}
    return {"role": "user", "content": [{"type": "text", "text": text}, image]}


def test_a_conversation_continues_with_its_own_image():
    text = "What can be seen in this picture?"
    found = links(chat(shown(text, "A")), chat(shown(text, "B")), chat(shown(text, "A"), "A cat.", "Which one?"),
                  chat(shown(text, "B"), "A dog.", "Which one?"))  # fmt: skip
    assert [one.before for one in found] == [-1, 0, 0, 1]


def test_a_conversation_continues_although_its_image_changed():
    text = "What can be seen in this picture?"
    assert links(chat(shown(text, "A")), chat(shown(text, "C"), "A cat.", "Which one?"))[1].before == 0


@pytest.mark.parametrize("said", ["read  the\n files of this folder", "read the files of this folder\n"])
def test_white_space_and_reasoning_do_not_tell_messages_apart(said):
    first, system = "read the files of this folder", "It is {}."
    assert links(chat(first, system=system.format(1)), chat(said, "Done.", "Why?", system=LONG))[1].before == 0
    answer = {"role": "assistant", "reasoning_content": "Hm.", "content": "These are the names of all of the files."}
    plain = {"role": "assistant", "content": "These are the names of all of the files."}
    found = links(chat("a", answer, "b", system=""), chat("c", plain, "d", system="x"))
    assert found[1].before == 0


@pytest.mark.parametrize(("start", "is_one"), [(3_960, True), (4_000, False)])
def test_a_summary_says_so_in_its_first_4000_characters(start, is_one):
    text = "x" * start + " in short, a summary of it"
    found = links(chat("Read all of the files of this project.", system=LONG), chat(text, system=LONG))
    assert (found[1].before == 0) is is_one
    [body] = bodies_of([FoundBody("x", chat("no", "yes", "no", text, system=""))])
    assert contains_summary(body.messages) is is_one and not contains_summary(body.messages[:3])


def test_the_latest_request_with_the_most_text_in_common_is_continued():
    first, second = "Sort the names of all the files.", "Draw a map of the whole island."
    found = links(chat(first, "Done.", second), chat(first, "Done."), chat(first, "Done."),
                  chat(first, "Done.", "Thank you."), chat(first, "Done.", second, "Here.", "More."))  # fmt: skip
    assert [one.before for one in found] == [-1, 0, 1, 2, 0]


def test_the_messages_of_the_latest_requests_are_known():
    """A message has the numbers of so many requests."""
    said = "Sort the names of all the files."
    requests = [chat(said, f"{number:09d}{'y' * 30}", "z" * number) for number in range(KEPT + 1)]
    again = links(*requests, chat(said, f"{0:09d}{'y' * 30}", "q"))
    assert again[-1].before == 0 and again[KEPT].conversation == 0


def test_a_message_is_that_of_its_latest_requests_only():
    """The first request also has the answer, which is shorter than the message that all have."""
    said, answer = "Sort the names of all the files.", f"{0:09d}{'y' * 15}"
    requests = [chat(said, answer if number == 0 else f"{number:09d}", "z" * number) for number in range(KEPT + 1)]
    assert links(*requests[:-1], chat(said, answer, "q"))[-1].before == 0
    assert links(*requests, chat(said, answer, "q"))[-1].before == KEPT


def test_reasoning_and_the_contents_of_an_image_do_not_identify_a_message():
    parts = (BodyText(REASONING, "", "Hm. "), BodyText("text", "", "a  b"), BodyText(IMAGE, "", "<image 9 bytes abc>"))
    message = BodyMessage("user", "", parts)
    assert (spoken_text(message), core_text(message)) == ("a b<image", "a b<image 9 bytes abc>")
