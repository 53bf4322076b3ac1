"""Answers that a client sends back, and the earlier request that a prompt can reuse most of."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.limits import lift
from cachesim.tools.request_bodies import prompt_causes
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body import DifferenceTexts
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.body_stages import NO_ANSWER, KnownAnswer
from cachesim.tools.request_bodies.conversations import ConversationLink
from cachesim.tools.request_bodies.plain_render import BodyPlace
from cachesim.tools.request_bodies.request_diff import compare, find_place, link_requests, relate, render_request
from cachesim.tools.request_bodies.template import Prompt
from cachesim.tools.request_bodies.tokenizer import EstimatingTokenizer, Tokenizer
from tests.unit.tools.request_bodies.made import chat

ASKED, AGAIN, ANSWER = "What is it, please?", "And what does it say in there?", "It is a file."
THOUGHT = "Let me see."


class Characters(Tokenizer):
    """A tokenizer whose tokens must be compared: one for each character, behind ``begin``. It keeps the texts."""

    def __init__(self, begin=()):
        self.begin, self.asked = begin, []

    def tokens(self, text):
        self.asked.append(text)
        return (*self.begin, *map(ord, text.strip("\n")))


def linked(*requests, tokenizer=None, adapters=()):
    """Return the records of these requests. Each is a body, or a body with the recorded answer's message."""
    found = [one if isinstance(one, tuple) else (one, None) for one in requests]
    read = bodies_of([FoundBody("x", body, answer=message and {"choices": [{"message": message}]})
                      for body, message in found])  # fmt: skip
    return link_requests(read, [None] * len(read), tokenizer or EstimatingTokenizer(), adapters)


def asked(*said):
    return chat(*said, system="")


def test_an_answer_that_comes_back_in_part_is_returned_up_to_its_first_other_character():
    first, second = linked((asked(ASKED), {"content": ANSWER}), asked(ASKED, "It is a fold.", AGAIN))
    assert (first.known_answer, first.answer, first.returned) == (ANSWER, 4, 3)
    place = (second.place.path, second.place.character)
    assert (second.cause.name, place) == (prompt_causes.CHANGED_ANSWER, ("messages[1].content", 9))
    assert second.seen == DifferenceTexts("", "ile.", "old.")
    assert (second.base, second.best) == (0, first.tokens + 3)


@pytest.mark.parametrize("back", [ANSWER, f"{ANSWER} And more."])
def test_a_client_that_strips_white_space_at_the_end_of_an_answer_drops_nothing(back):
    _, second = linked((asked(ASKED), {"content": f"{ANSWER}\n \n"}), asked(ASKED, back, AGAIN))
    assert second.cause.name == prompt_causes.EXTENDS and second.place is None


@pytest.mark.parametrize(("back", "returned"), [(ANSWER, 14), ("It is a fold.", 10), ("No file.", 0)])
def test_a_model_s_own_tokens_of_an_answer_are_those_of_its_equal_text(back, returned):
    """The token that begins every list does not count if nothing of an answer comes back."""
    tokenizer = Characters(begin=(0,))
    first, _ = linked((asked(ASKED), {"content": ANSWER}), asked(ASKED, back, AGAIN), tokenizer=tokenizer)
    assert (first.answer, first.returned) == (14, returned)
    assert tokenizer.asked.count(ANSWER) == 1


def test_the_first_answer_of_a_request_that_is_continued_twice_stays():
    first, _, _ = linked(asked(ASKED), asked(ASKED, "Yes", AGAIN), asked(ASKED, "No, it is not.", AGAIN))
    assert (first.known_answer, first.answer, first.returned) == ("Yes", 1, 1)


def test_an_answer_that_an_earlier_request_sent_back_is_not_learned_again():
    tokenizer, known = EstimatingTokenizer(), KnownAnswer("Yes", 1, 1)
    bodies = bodies_of([FoundBody("x", asked(ASKED)), FoundBody("x", asked(ASKED, "No, it is not.", AGAIN))])
    first = relate(render_request(bodies[0]), ConversationLink(-1, 0, -1, 0), [], tokenizer)
    second = relate(render_request(bodies[1]), ConversationLink(0, len(first.text), 0, 0), [first], tokenizer)
    assert compare(second, [first], [known], tokenizer).previous_answer == known
    assert compare(second, [first], [NO_ANSWER], tokenizer).previous_answer.text == "No, it is not."


def test_an_answer_has_at_least_a_token():
    first, _ = linked(asked(ASKED), asked(ASKED, "\n", AGAIN), tokenizer=Characters())
    assert (first.known_answer, first.answer) == ("\n", 1)


def test_an_answer_without_its_reasoning_shows_forty_characters_of_both():
    """Both begin with the same character: the difference is behind it."""
    said = "<b>" + "It is a file, and a rather long one. " * 2
    answer = {"content": said, "reasoning_content": THOUGHT * 5}
    first, second = linked((asked(ASKED), answer), asked(ASKED, said, AGAIN))
    assert (second.cause.name, second.seen) == (prompt_causes.DROPPED_ANSWER, DifferenceTexts(
        "", "think>\n" + (THOUGHT * 3), ("b>" + "It is a file, and a rather long one. " * 2)[:40]))  # fmt: skip
    assert len(second.seen.before) == len(second.seen.after) == 40
    assert first.returned == 1
    assert second.place == BodyPlace("messages[1].content", 0, "text", 1) and second.old_place.kind == "mark"


def compared(prompts, links, tokenizer, answers=(NO_ANSWER, NO_ANSWER)):
    """Return the last of these raw prompts, compared with the others. The relations of each are given."""
    known = []
    for prompt, link in zip(prompts, links, strict=True):
        [read] = bodies_of([FoundBody("x", {"prompt": prompt})])
        known.append(relate(render_request(read), ConversationLink(*link, 0), known, tokenizer))
    return compare(known[-1], known[:-1], answers, tokenizer).request


NONE = (-1, 0, -1)


@pytest.mark.parametrize(("prompts", "returned", "link", "expected"), [
    (["abcdef", "abc", "abcdefgh"], (0, 0), (0, 6, 1), (0, 6)),             # the best is not the latest
    (["abc", "abcdef", "abcdefgh"], (0, 0), (0, 3, 1), (1, 6)),
    (["abcdef", "abc", "abcdefgh"], (0, 4), (0, 6, 1), (1, 7)),             # with its answer, the previous is
    (["abcdef", "abc", "abcdefgh"], (2, 0), (0, 6, 1), (0, 6)),             # the answer of no other request counts
    (["abcd", "abcdefxx", "abcdefgh"], (0, 2), (0, 4, 1), (1, 6)),          # nor that behind a change
    (["abcd", "abcd", "abcdefgh"], (0, 9), (-1, 0, 1), (1, 8)),             # and no more than the prompt has
    (["abcd", "xbcd", "ybcd"], (0, 0), (-1, 0, 1), (-1, 0)), (["abcd", "xbcd", "ybcd"], (0, 0), NONE, (-1, 0)),
])  # fmt: skip
def test_the_request_that_shares_most_is_the_previous_with_its_answer_or_the_best(prompts, returned, link, expected):
    answers = [KnownAnswer("said", 9, returned=size) for size in returned]
    last = compared(prompts, [NONE, NONE, link], Characters(), answers)
    assert (last.base, last.best) == (last.under, last.usable) == expected


def test_the_previous_request_counts_with_what_it_shares_itself():
    prompts = ["abcdefghabcdefgh", "abcdxxxxxxxxxxxx", "abcdefghabcdefgh"]
    last = compared(prompts, [NONE, NONE, (0, 16, 1)], EstimatingTokenizer())
    assert (last.base, last.best, last.shared) == (0, 4, 1)


def test_a_request_that_shares_less_than_a_token_can_use_no_other():
    for adapters in ((), ("a", "a")):
        _, second = linked({"prompt": "ab" * 30}, {"prompt": "a" + "c" * 30}, adapters=adapters)
        assert (second.link.common, second.under, second.usable, second.base) == (1, -1, 0, -1)


def test_other_adapters_are_no_cause_where_a_request_under_the_same_ones_shares_as_much():
    begins = "ab" * 30
    prompts = [{"prompt": begins}, {"prompt": f"{begins} dd"}, {"prompt": f"{begins} ee"}]
    alike, apart = (linked(*prompts, adapters=adapters)[2] for adapters in (("a", "b", "a"), ("b", "b", "a")))
    assert (alike.usable, alike.shared) == (alike.shared, 15) and alike.cause.name != prompt_causes.ADAPTERS
    assert apart.usable == 0 and apart.cause.name == prompt_causes.ADAPTERS


def test_the_first_request_under_adapters_can_use_nothing():
    first, second, third = linked(asked(ASKED), asked(ASKED, ANSWER, AGAIN), asked(ASKED), tokenizer=Characters(),
                                  adapters=("a", "b", "a"))  # fmt: skip
    assert (second.under, second.usable, second.cause.name) == (-1, 0, prompt_causes.ADAPTERS)
    assert (third.under, third.usable) == (0, first.tokens)


def test_all_prompts_together_have_a_limit():
    bodies = bodies_of([FoundBody("file:1", {"prompt": "a" * 30}), FoundBody("file:2", {"prompt": "b" * 31})])
    lift({"rendered prompts": 61})
    assert len(link_requests(bodies, [None, None], EstimatingTokenizer())) == 2
    lift({"rendered prompts": 60})
    with pytest.raises(BadInput, match=r"^file:2: the prompts together: 61 characters"):
        link_requests(bodies, [None, None], EstimatingTokenizer())


def test_a_change_between_two_texts_is_placed_at_the_beginning_of_its_mark():
    roles = [{"role": "assistant", "content": "Hello there, my friend."}, {"role": "user", "content": ASKED}]
    _, second = linked(asked(ASKED, roles[0], AGAIN), asked(ASKED, {**roles[0], "role": "user"}, AGAIN))
    assert second.place == BodyPlace("messages[1]", 0, "mark", 1)
    assert second.old_place == BodyPlace("messages[1]", 12, "mark", 1)


def test_a_changed_image_is_placed_at_its_beginning_on_both_sides():
    def shown(data):
        return {"role": "user", "content": [{"type": "text", "text": ASKED}, {
            "type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}]}  # fmt: skip

    _, second = linked(asked(shown("AAAA"), ANSWER, AGAIN), asked(shown("AAAB"), ANSWER, AGAIN))
    assert second.place.kind == "image" and second.place.character == second.old_place.character == 0
    assert second.seen.same.endswith(ASKED[-5:]) and second.seen.before.startswith("<image_url 3 bytes ")


def test_a_request_that_extends_has_no_place_of_a_change():
    _, second = linked(asked(ASKED), asked(ASKED, ANSWER, AGAIN))
    assert (second.cause.name, second.place, second.old_place, second.seen) == (prompt_causes.EXTENDS, None, None, None)


def test_only_options_that_a_template_reads_are_its_causes():
    """``id_slot`` selects the cache, and no template reads it."""
    bodies = bodies_of([FoundBody("x", {**asked(ASKED), "id_slot": slot, "reasoning_effort": effort})
                        for slot, effort in ((0, "low"), (1, "high"))])  # fmt: skip
    _, last = link_requests(bodies, [Prompt(f"[{name}{ASKED}]", 20) for name in "AB"], EstimatingTokenizer())
    assert last.cause == prompt_causes.PromptCause(prompt_causes.FIELDS, "reasoning_effort")


def test_a_mark_of_the_cache_is_no_cause_in_the_template():
    """No template reads ``cache_control``."""
    said = {"role": "user", "content": ASKED}
    old, new = asked(said), asked({**said, "cache_control": {"type": "ephemeral"}})
    bodies = bodies_of([FoundBody("x", {**body, "reasoning_effort": effort})
                        for effort, body in (("low", old), ("high", new))])  # fmt: skip
    _, last = link_requests(bodies, [Prompt(f"[{name}{ASKED}]", 20) for name in "AB"], EstimatingTokenizer())
    assert last.cause == prompt_causes.PromptCause(prompt_causes.FIELDS, "reasoning_effort")


SAID = {"role": "assistant", "content": ANSWER, "reasoning_content": THOUGHT}


@pytest.mark.parametrize(("said", "text", "at", "expected"), [
    ((ASKED, ANSWER, ASKED), f"[{ASKED}|{ANSWER}|{ASKED}]", 36, BodyPlace("messages[2].content", 1, "text", 2)),
    ((ASKED, SAID, AGAIN, {**SAID, "reasoning_content": "I think so."}),
     f"[{ASKED}|{THOUGHT}|{ANSWER}|{AGAIN}|I think so.|{ANSWER}]", 80,
     BodyPlace("messages[3].reasoning_content", 2, "reasoning", 3)),
    ((SAID,), f"{ANSWER}[{THOUGHT}]", 2, BodyPlace("messages[0].content", 2, "text", 0)),
    (({**SAID, "reasoning_content": ANSWER},), f"[{ANSWER}|{ANSWER}]", 3,
     BodyPlace("messages[0].reasoning_content", 2, "reasoning", 0)),
])  # fmt: skip
def test_texts_are_searched_in_order(said, text, at, expected):
    [one] = link_requests(bodies_of([FoundBody("x", asked(*said))]), [Prompt(text, len(text))], EstimatingTokenizer())
    assert find_place(one, at) == expected
