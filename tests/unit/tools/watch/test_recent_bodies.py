"""Each body is compared with the previous one of its conversation, as `import` compares them, in bounded memory."""

from __future__ import annotations

import json

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.watch.recent_bodies import RecentBodies, read_answer
from tests.live.watch_plants import CHANGES, changed_tools, opening


def chat(messages, **more):
    return json.dumps({"model": "m", "messages": messages, **more}).encode()


def added(bodies, raw):
    [kept] = bodies.add("/v1/chat/completions", raw)
    return bodies.row(kept)


def conversation(n, cause):
    """The three bodies of a conversation with a planted change."""
    messages, tools = opening(n, cause)
    for turn in range(3):
        if turn == 2:
            messages, tools = CHANGES[cause](messages), changed_tools(cause, tools)
        yield chat(messages, tools=tools)
        tail = "\nBe brief, by the way." if cause == "tail" and turn == 0 else ""
        messages = [*messages, {"role": "assistant", "content": f"Answer {turn} of {n}."},
                    {"role": "user", "content": f"Question {turn} of case {n}?{tail}"}]  # fmt: skip


@pytest.mark.parametrize("cause", CHANGES)
def test_a_planted_change_is_named_beside_other_conversations(cause):
    bodies, others = RecentBodies(), [conversation(number, "extends") for number in (1, 2)]
    found = []
    for raw in conversation(3, cause):
        for other in others:
            added(bodies, next(other))
        found.append(added(bodies, raw))
    assert [row["cause"] for row in found] == ["new", "extends", cause]
    assert {row["conversation"] for row in found} == {3} and found[2]["harmless"] == (cause == "extends")


def test_the_first_byte_that_differs_is_that_of_the_body():
    bodies = RecentBodies()
    first = chat([{"role": "system", "content": "ä Date: 2026-01-01"}, {"role": "user", "content": "What is it then?"}])
    second = first.replace(b"2026-01-01", b"2026-01-02")
    added(bodies, first)
    row = added(bodies, second)
    assert (row["cause"], row["path"], row["byte"]) == ("date", "messages[0].content", first.index(b"-01\"") + 2)
    assert first[: row["byte"]] == second[: row["byte"]] and first[row["byte"]] != second[row["byte"]]
    assert row["prompt_byte"] == len("<|im_start|>system\nä Date: 2026-01-0".encode())


def test_other_adapters_are_a_cause():
    bodies, messages = RecentBodies(), [{"role": "user", "content": "A question of some length, please."}]
    added(bodies, chat(messages, lora=[{"id": 0, "scale": 1.0}]))
    assert added(bodies, chat(messages, lora=[{"id": 0, "scale": 0.5}]))["cause"] == "adapters"
    assert added(bodies, chat(messages, lora=[{"id": 0, "scale": 0.5}]))["cause"] == "same"


def test_an_answer_that_is_not_sent_back_is_a_cause():
    bodies, messages = RecentBodies(), [{"role": "user", "content": "A question of some length, please."}]
    [kept] = bodies.add("/v1/chat/completions", chat(messages))
    read_answer(kept, b'data: {"choices":[{"delta":{"reasoning_content":"Hm, let me see."}}]}\n'
                      b'data: {"choices":[{"delta":{"content":"Yes."}}]}\n')  # fmt: skip
    back = [*messages, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And then?"}]
    assert added(bodies, chat(back))["cause"] == "answer reasoning"


def test_what_is_no_completion_is_left_out_and_what_is_no_json_is_refused():
    bodies = RecentBodies()
    assert bodies.add("/tokenize", b'{"content": "a"}') == []
    for raw in (b"{", b"\xff", b"[" * 100, b'{"prompt": ""}', b'{"prompt": [[1], {"a": 1}]}'):
        with pytest.raises(BadInput):
            bodies.add("/completion", raw)


def test_memory_is_bounded_and_open_conversations_are_kept():
    bodies = RecentBodies(requests=12, characters=1 << 20)
    talks = [list(conversation(number, "extends")) for number in range(5)]
    for _ in range(4):
        for number in range(30, 36):
            added(bodies, next(conversation(number, "extends")))
    for turn in range(3):
        rows = [added(bodies, talk[turn]) for talk in talks]
        assert [row["cause"] for row in rows] == ["extends" if turn else "new"] * 5
    assert len(bodies._kept) <= 12 and len(bodies._texts) == len(bodies._kept) == len(bodies._linker.links)


def test_long_prompts_are_bounded_by_their_characters():
    bodies = RecentBodies(requests=1000, characters=10_000)
    for number in range(40):
        added(bodies, json.dumps({"prompt": f"{number} " + "word " * 200}).encode())
    assert bodies._size <= 10_000 == 10 * len("x" * 1000) and len(bodies._kept) < 12


def test_a_message_that_follows_without_an_answer_extends():
    bodies, messages = RecentBodies(), [{"role": "user", "content": "A question of some length, please."}]
    added(bodies, chat(messages))
    assert added(bodies, chat([*messages, {"role": "user", "content": "And another one."}]))["cause"] == "extends"
