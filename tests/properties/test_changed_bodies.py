"""A change of a request body is found where it is, and named, for any conversation."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies import changed_messages, prompt_causes
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.request_diff import link_requests
from cachesim.tools.request_bodies.tokenizer import EstimatingTokenizer

EXAMPLES = pytest.mark.parametrize("examples", [30, pytest.param(150, marks=pytest.mark.long)])
REPLIES = {"user": ["assistant"], "assistant": ["user", "tool"], "tool": ["assistant"], "system": ["user"]}
BY_ROLE = {"system": changed_messages.SYSTEM, "user": changed_messages.EDITED, "assistant": changed_messages.ANSWER,
           "tool": changed_messages.RESULT}  # fmt: skip
WORDS = ("pear", "said", "token", "random", "thread-safe", "user-friendly", "files in", "valid")
"""Words of people, some of which begin or end like the names of ids."""
texts = st.lists(st.sampled_from(WORDS), min_size=3, max_size=9).map(" ".join)


def letters(number):
    """Return a word of its own for a number."""
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


@st.composite
def chats(draw, are_distinct=False):
    """Draw messages of a chat, perhaps with a system message and results of tools. The last message is not an answer.
    ``are_distinct``: no two messages are equal, else many are."""
    role = draw(st.sampled_from(["system", "user"]))
    most, found = draw(st.integers(3, 9)), []
    while len(found) < most or found[-1]["role"] == "assistant":
        text = f"{letters(len(found))} {draw(texts)}" if are_distinct else draw(texts)
        found.append({"role": role, "content": text})
        role = draw(st.sampled_from(REPLIES[role]))
    return found


def linked(old, new):
    """Return two requests, the second compared with the first. Two bodies that share too little are two conversations,
    and drawn again."""
    bodies = bodies_of([FoundBody(name, {"messages": messages}) for name, messages in (("a", old), ("b", new))])
    first, second = link_requests(bodies, [None, None], EstimatingTokenizer())
    assume(second.link.before == 0)
    return first, second


def check(examples, cases, holds):
    """Check that something holds for cases of a strategy, each the arguments of ``holds``."""
    settings(max_examples=examples)(given(cases)(lambda case: holds(*case)))()


@st.composite
def changed_texts(draw):
    """Draw messages, the number of one, where its text changes, and the messages with the change."""
    old = draw(chats())
    number = draw(st.integers(0, len(old) - 1))
    text = old[number]["content"]
    at = draw(st.integers(0, len(text) - 1))
    changed = f"{text[:at]}{draw(st.sampled_from('XYZ'))}{text[at + draw(st.integers(0, 1)) :]}"
    return old, number, at, [*old[:number], {**old[number], "content": changed}, *old[number + 1 :]]


@EXAMPLES
def test_a_changed_text_is_found_at_its_first_character(examples):
    def holds(old, number, at, new):
        first, second = linked(old, new)
        assert second.place[:2] == second.old_place[:2] == (f"messages[{number}].content", at)
        assert second.common == common_prefix(first.text, second.text) == second.bytes
        assert (second.cause.name, second.cause.detail) == (BY_ROLE[old[number]["role"]], "")

    check(examples, changed_texts(), holds)


@st.composite
def continued(draw, are_distinct=False):
    """Draw messages, and these with further ones. Each of both ends with a message that is not an answer."""
    old = draw(chats(are_distinct))
    more = [{"role": role, "content": f"{letters(len(old) + number)} {draw(texts)}" if are_distinct else draw(texts)}
            for number, role in zip(range(2 * draw(st.integers(1, 3))), ("assistant", "user") * 3, strict=False)]
    return old, [*old, *more]


@EXAMPLES
def test_a_request_that_goes_on_loses_nothing(examples):
    def holds(old, new):
        first, second = linked(old, new)
        assert (second.cause.name, second.place, second.seen) == (prompt_causes.EXTENDS, None, None)
        assert second.common >= first.history and second.shared <= first.tokens
        _, back = linked(new, old)
        assert (back.cause.name, back.place) == (prompt_causes.BACK, None)
        _, same = linked(old, old)
        assert (same.cause.name, same.shared) == (prompt_causes.SAME, same.tokens)

    check(examples, continued(), holds)


def counted(number):
    return f"{number} messages" if number > 1 else "1 message"


@st.composite
def removed(draw):
    """Draw messages of which no two are equal, a number of them, and a request that goes on without these. It has no
    message at their place that is equal to the first of them."""
    old, new = draw(continued(are_distinct=True))
    systems = sum(message["role"] == "system" for message in old)
    start = draw(st.integers(systems, len(old) - 2))
    gone = draw(st.integers(1, len(old) - 1 - start))
    return old, start - systems, start, gone, [*new[:start], *new[start + gone :]]


@EXAMPLES
def test_messages_that_leave_the_history_are_counted(examples):
    def holds(old, said_before, start, gone, new):
        _, second = linked(old, new)
        name = changed_messages.TAKEN_OUT if said_before else changed_messages.DROPPED
        assert (second.cause.name, second.cause.detail) == (name, counted(gone))
        assert second.place.message == start

    check(examples, removed(), holds)


@st.composite
def inserted(draw):
    """Draw messages of which no two are equal, a place before the last one, and the messages with others there."""
    old = draw(chats(are_distinct=True))
    start = draw(st.integers(sum(message["role"] == "system" for message in old), len(old) - 2))
    number = count(len(old))
    more = [{"role": role, "content": f"{letters(next(number))} {draw(texts)}"}
            for role in draw(st.lists(st.sampled_from(["user", "assistant"]), min_size=1, max_size=3))]  # fmt: skip
    return old, start, len(more), [*old[:start], *more, *old[start:]]


@EXAMPLES
def test_messages_that_enter_the_history_are_counted(examples):
    def holds(old, start, entered, new):
        _, second = linked(old, new)
        assert (second.cause.name, second.cause.detail) == (changed_messages.INSERTED, counted(entered))
        assert second.place.message == start

    check(examples, inserted(), holds)


def linked_prompts(old, new):
    """Return two raw prompts, the second compared with the first; prompts that share too little are drawn again."""
    bodies = bodies_of([FoundBody(name, {"prompt": text}) for name, text in (("a", old), ("b", new))])
    first, second = link_requests(bodies, [None, None], EstimatingTokenizer())
    assume(second.link.before == 0)
    return first, second


@st.composite
def raw_changes(draw):
    """Draw a raw prompt of different words, a place in it, a number of characters, and the prompt without them."""
    words = draw(st.permutations([letters(number) for number in range(100, 160)]))
    old = " ".join(words)
    at = draw(st.integers(40, len(old) - 40))
    gone = draw(st.integers(2, 20))
    return old, at, gone, old[:at] + old[at + gone :]


@EXAMPLES
def test_text_that_leaves_or_enters_a_raw_prompt_is_counted(examples):
    def holds(old, at, gone, new):
        _, shorter = linked_prompts(old, new)
        _, longer = linked_prompts(new, old)
        number = f"{gone} character{'s' * (gone > 1)}"
        same = common_prefix(old, new)
        assert same >= at and shorter.common == longer.common == same
        assert (shorter.cause.name, shorter.cause.detail) == (prompt_causes.CUT_OUT, number)
        assert (longer.cause.name, longer.cause.detail) == (prompt_causes.PUT_IN, number)
        assert shorter.place[:2] == longer.place[:2] == ("prompt", same)

    check(examples, raw_changes(), holds)


def in_parts(messages):
    """Return messages of chat completions with their texts as parts."""
    return {"messages": [{**one, "content": [{"type": "text", "text": one["content"]}]} for one in messages]}


def anthropic(messages):
    """Return the body of Anthropic's API for messages: results of tools are blocks of the user's messages."""
    def plain(message):
        result = {"type": "tool_result", "tool_use_id": "1", "content": message["content"]}
        return {"role": "user", "content": [result]} if message["role"] == "tool" else message

    system = [one["content"] for one in messages if one["role"] == "system"]
    said = [plain(one) for one in messages if one["role"] != "system"]
    return {"anthropic_version": "1", "messages": said, **({"system": system[0]} if system else {})}


def responses(messages):
    """Return the body of the responses API for messages."""
    return {"input": [{"type": "function_call_output", "output": one["content"]} if one["role"] == "tool"
                      else {"type": "message", **one} for one in messages]}  # fmt: skip


APIS = (in_parts, anthropic, responses)


@EXAMPLES
def test_a_chat_and_its_change_are_the_same_in_every_api(examples):
    def holds(old, number, at, new):
        expected, changed = linked(old, new)
        for form in APIS:
            bodies = bodies_of([FoundBody(name, form(messages)) for name, messages in (("a", old), ("b", new))])
            first, second = link_requests(bodies, [None, None], EstimatingTokenizer())
            assert (first.text, second.text) == (expected.text, changed.text)
            assert (second.cause, second.common, second.place.character) == (changed.cause, changed.common, at)

    check(examples, changed_texts(), holds)
