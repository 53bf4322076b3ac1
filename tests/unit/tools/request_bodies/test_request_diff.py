"""Comparison of each request with the previous request: common prefix, and place of the difference in the body."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.request_bodies import prompt_causes
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.import_bodies import ImportOptions
from cachesim.tools.request_bodies.plain_render import BodyPlace
from cachesim.tools.request_bodies.request_diff import (
    NAMED,
    DifferenceTexts,
    find_place,
    link_requests,
)
from cachesim.tools.request_bodies.template import Prompt
from cachesim.tools.request_bodies.tokenizer import EstimatingTokenizer
from tests.unit.tools.request_bodies.made import chat, found

SAID = {"role": "assistant", "content": "It is a file.", "reasoning_content": "Let me see."}
ASKED, AGAIN = "What is it, please?", "And what does it say in there?"


def templated(text, *messages):
    bodies = bodies_of([FoundBody("x", chat(*messages, system=""))])
    [one] = link_requests(bodies, [Prompt(text, len(text))], EstimatingTokenizer())
    return one


@pytest.mark.parametrize("text, at, path, character", [
    (f"[{ASKED}][Let me see.|It is a file.]", 1, "messages[0].content", 0),
    (f"[{ASKED}][Let me see.|It is a file.]", 3, "messages[0].content", 2),
    (f"[{ASKED}][Let me see.|It is a file.]", 25, "messages[1].reasoning_content", 3),
    (f"[{ASKED}][Let me see.|It is a file.]", 36, "messages[1].content", 2),
    (f"[{ASKED}][Let me see.|It is a file.]", 0, "messages[0].content", 0),
    (f"[{ASKED}][It is a file.]", 25, "messages[1].content", 3),                # reasoning is left out
    (f"[{ASKED}][It is a file.][{AGAIN} Let me see.]", 25, "messages[1].content", 3),
    (f"[{ASKED}][It is a file.]", 40, "", 0),
    (f"{ASKED}It is a file.", 0, "messages[0].content", 0), (f"{ASKED}It is a file.", 5, "messages[0].content", 5),
])  # fmt: skip
def test_a_character_of_a_rendered_prompt_is_found_in_the_body(text, at, path, character):
    place = find_place(templated(text, ASKED, SAID, AGAIN), at)
    assert (place.path, place.character) == (path, character)


def test_the_common_prefix_is_counted_in_characters_bytes_and_tokens(tmp_path):
    data = found(tmp_path, {"prompt": "é" * 40}, {"prompt": "é" * 30 + "è" * 10})
    one = data["requests"][1]
    assert (one["characters"], one["bytes"], one["shared"], one["tokens"]) == (30, 61, 15, 20)
    assert (one["previous"], one["cause"], data["requests"][0]["characters"]) == (0, "text", None)


def test_a_returned_answer_is_reusable(tmp_path):
    first, more = chat("Please read it.", system=""), chat("Please read it.", "x" * 40, "Go on.", system="")
    data = found(tmp_path, first, more)
    one, two = data["requests"]
    assert one["answer"] == 10 and two["reusable"] == one["tokens"] + 10 and two["reusable_from"] == 0
    assert two["cause"] == "extends" and two["again"] == 0


def test_an_empty_answer_returns_nothing_and_an_answer_behind_a_change_is_not_reused(tmp_path):
    first = chat("Please read it.", system="")
    one, two = found(tmp_path, first, chat("Please read it.", "", "Go on.", system=""))["requests"]
    assert (one["answer"], two["cause"], two["reusable"]) == (1, "extends", one["tokens"])
    changed = [{"role": "user", "content": "Please read it!"}, {"role": "assistant", "content": "x" * 40}]
    one, two, three = found(tmp_path, first, chat(*changed, "Go on.", system=""), first)["requests"]
    assert one["answer"] == 10 and two["cause"] != "extends" and three["reusable"] == one["tokens"]


def test_the_prefix_may_belong_to_another_conversation(tmp_path):
    front = "The same rules for all of them. " * 20
    data = found(tmp_path, chat("Sort the names of these files.", system=front),
                 chat("Where does the river meet the sea?", system=front))  # fmt: skip
    one = data["requests"][1]
    assert (one["previous"], one["cause"], one["reusable_from"]) == (-1, "new", 0)
    assert one["reusable"] >= len(front) // 4 and one["new_tokens"] == one["tokens"] - one["reusable"]


def test_an_empty_prompt_is_refused():
    with pytest.raises(BadInput, match="empty prompt"):
        link_requests(bodies_of([FoundBody("x", {"prompt": ""})]), [None], EstimatingTokenizer())


@pytest.mark.parametrize(("number", "detail"), [
    (1, "chat_template_kwargs.f0"), (NAMED, ", ".join(f"chat_template_kwargs.f{n}" for n in range(NAMED))),
    (NAMED + 1, f"{', '.join(f'chat_template_kwargs.f{n}' for n in range(NAMED))}, ... ({NAMED + 1})"),
])  # fmt: skip
def test_changed_options_of_a_template_are_named(tmp_path, number, detail):
    file = tmp_path / "t.jinja"
    file.write_text("{{ f0 }}{% for m in messages %}{{ m.content }}{% endfor %}")
    some = [chat("Go on.", temperature=value, chat_template_kwargs={f"f{n}": value for n in range(number)})
            for value in (1, 2)]  # fmt: skip
    last = found(tmp_path, *some, asking=ImportOptions(template=str(file)))["requests"][1]
    assert (last["cause"], last["detail"]) == ("fields", detail)


def rendered(*pairs):
    """Return the last of these requests; each is a prompt with the length of its history, and options of the body."""
    bodies = bodies_of([FoundBody("x", chat(ASKED, system="", **more)) for _, _, more in pairs])
    return link_requests(bodies, [Prompt(text, n) for text, n, _ in pairs], EstimatingTokenizer())[-1]


def thinking(value):
    return {"chat_template_kwargs": {"enable_thinking": value}}


@pytest.mark.parametrize(("old", "new", "cause", "detail", "common"), [
    ((f"[A {ASKED}]", 23, {}), (f"[B {ASKED}]", 23, {}), "TEMPLATE", "", 1),
    ((f"[A {ASKED}]", 23, thinking(True)), (f"[B {ASKED}]", 23, thinking(False)), "FIELDS",
     "chat_template_kwargs.enable_thinking", 1),
    (("[A]ab", 3, {}), ("[A]cd", 5, {}), "OPENING", "", 3), (("[A]ab", 4, {}), ("[A]cd", 5, {}), "TEMPLATE", "", 3),
    ((f"[A {ASKED}]", 23, {}), (f"[A {ASKED}]", 23, {}), "SAME", "", 23),
    ((f"[{ASKED}]<a>", 22, {}), (f"[{ASKED}]<b>", 22, {}), "SAME", "", 22),
])  # fmt: skip
def test_a_prompt_that_differs_although_the_bodies_agree_has_its_cause_in_the_template(old, new, cause, detail, common):
    last = rendered(old, new)
    assert last.cause == prompt_causes.PromptCause(getattr(prompt_causes, cause), detail) and last.common == common


def test_a_difference_of_the_template_is_placed_before_the_next_text_of_the_body_or_between_its_values():
    last = rendered((f"[A {ASKED}]", 23, {}), (f"[B {ASKED}]", 23, {}))
    assert last.place == last.old_place == BodyPlace("messages[0].content", 0, "text", 0)
    assert last.seen == DifferenceTexts("[", f"A {ASKED}]", f"B {ASKED}]")
    last = rendered((f"[{ASKED[:8]}xx", 99, {}), (f"[{ASKED[:8]}yy", 99, {}))
    assert last.place == last.old_place == BodyPlace("", 0, "mark", -1)
    assert last.seen == DifferenceTexts(f"[{ASKED[:8]}", "xx", "yy")


def test_a_place_has_the_kind_and_the_number_of_its_message():
    one = templated(f"[{ASKED}][Let me see.|It is a file.]", ASKED, SAID)
    assert [find_place(one, at) for at in (19, 20, 32, 35, 47)] == [
        BodyPlace("messages[0].content", 18, "text", 0), BodyPlace("messages[1].reasoning_content", 0, "reasoning", 1),
        BodyPlace("messages[1].reasoning_content", 10, "reasoning", 1), BodyPlace("messages[1].content", 1, "text", 1),
        BodyPlace("", 0, "mark", -1)]  # fmt: skip


def test_a_message_without_text_is_found_by_its_reasoning():
    thought = {"role": "assistant", "content": "", "reasoning_content": "Let me see."}
    place = find_place(templated(f"[{ASKED}][Let me see.][{AGAIN}]", ASKED, thought, AGAIN), 25)
    assert place == BodyPlace("messages[1].reasoning_content", 3, "reasoning", 1)


def test_text_after_a_change_that_was_sent_before_is_known():
    prompts = [f"The date: {day}. {'All of the rest is the same. ' * 4}" for day in ("Monday", "Friday")]
    first, second = link_requests(bodies_of([FoundBody("x", {"prompt": one}) for one in prompts]), [None, None],
                                  EstimatingTokenizer())  # fmt: skip
    assert first.again == () and second.again[0].start == -1
    assert sum(size for _, size in second.again) == second.tokens - second.shared


def test_an_answer_without_its_reasoning_is_the_cause_if_the_answer_was_recorded():
    recorded = {"choices": [{"message": {"content": "It is a file.", "reasoning_content": "Let me see."}}]}
    back = chat(ASKED, "It is a file.", AGAIN, system="")
    for answer, cause in ((recorded, prompt_causes.DROPPED_ANSWER), (None, prompt_causes.EXTENDS)):
        read = bodies_of([FoundBody("x", chat(ASKED, system=""), answer=answer), FoundBody("x", back)])
        first, second = link_requests(read, [None, None], EstimatingTokenizer())
        assert second.cause.name == cause
        assert (first.returned == first.answer) is (answer is None)
