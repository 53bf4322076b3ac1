"""Each body is compared with the previous one of its conversation, as `import` compares them, in bounded memory."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
from base64 import b64encode
from inspect import getsource
from weakref import ref

import pytest

from cachesim.base.errors import BadInput, OverLimit
from cachesim.base.limits import WATCHED_VALUES
from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
from cachesim.tools.watch.held_bytes import HeldBytes
from cachesim.tools.watch.recent_bodies import RecentBodies
from cachesim.tools.watch.report import row_text
from tests.live.watch_plants import CHANGES, changed_tools, opening


def chat(messages, **more):
    return json.dumps({"model": "m", "messages": messages, **more}).encode()


def added(bodies, raw, path="/v1/chat/completions"):
    [kept] = bodies.add(path, raw)
    return bodies.row(kept)


class Alive:
    """Bodies that are compared. ``numbers``: those that are still kept."""

    def __init__(self, **limits):
        self.bodies, self._refs = RecentBodies(**limits), []

    def add(self, raw):
        [kept] = self.bodies.add("/v1/chat/completions", raw)
        self._refs.append(ref(kept))
        return self.bodies.row(kept)

    @property
    def numbers(self):
        return [kept.number for one in self._refs if (kept := one()) is not None]


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


def test_prompts_of_tokens_share_whole_tokens():
    bodies, rows = RecentBodies(), []
    for last in (range(100, 140), [*range(100, 137), 7, 8]):
        [kept] = bodies.add("/completion", json.dumps({"prompt": [*last]}).encode())
        rows.append((kept.record.tokens, kept.record.shared))
    assert rows == [(40, 0), (39, 37)]


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
    bodies.read_answer(kept, b'data: {"choices":[{"delta":{"reasoning_content":"Hm, let me see."}}]}\n'
                      b'data: {"choices":[{"delta":{"content":"Yes."}}]}\n')  # fmt: skip
    back = [*messages, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And then?"}]
    assert added(bodies, chat(back))["cause"] == "answer reasoning"


REPLY = "It stops at the last newline of a file, and drops the rest of what it has read."


def answered(reply: str) -> tuple[RecentBodies, list[dict[str, str]]]:
    """Return the requests so far, and the messages of the last one, whose reply is known."""
    bodies, messages = RecentBodies(), [{"role": "system", "content": "Be exact. " * 9}]
    talk = {"Why does the parser drop the last line?": REPLY, "What matters of our work so far?": reply}
    for question, text in talk.items():
        messages = [*messages, {"role": "user", "content": question}]
        [kept] = bodies.add("/v1/chat/completions", chat(messages))
        bodies.read_answer(kept, json.dumps({"choices": [{"message": {"content": text}}]}).encode())
        messages = [*messages, {"role": "assistant", "content": text}]
    return bodies, messages[:-1]


@pytest.mark.parametrize(("back", "cause", "character"), [
    (REPLY, "extends", None), (f"{REPLY} ", "extends", None), (REPLY[:30], "newest answer", 30),
    (REPLY.replace("last", "first"), "newest answer", 16),
], ids=["whole", "with a space", "cut", "edited"])  # fmt: skip
def test_an_answer_is_compared_with_the_reply(back, cause, character):
    bodies, messages = answered(REPLY)
    more = [{"role": "assistant", "content": back}, {"role": "user", "content": "Then repair it."}]
    row = added(bodies, chat([*messages, *more]))
    assert (row["cause"], row["character"], row["conversation"]) == (cause, character, 1)


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
@pytest.mark.parametrize("form", ["{}", "Here is what happened: {} Go on.", "<context>{}</context>"])
def test_a_history_that_a_reply_replaces_is_a_summary(role, form):
    """No word of the messages tells it: the text is that of an earlier reply."""
    reply = "The reader stopped at the last newline; now it yields the rest of its buffer. A test was added."
    bodies, messages = answered(reply)
    asked = {"role": "user", "content": "Next, the writer."}
    replaced = [messages[0], {"role": role, "content": form.format(reply)}, asked]
    row = added(bodies, chat(replaced))
    assert (row["cause"], row["conversation"]) == ("summary", 1)


def test_an_answer_that_comes_back_counts_once_it_is_known():
    """It is kept beside the request that it answers, and in the request that sends it back."""
    asked, text = [{"role": "user", "content": "A question of some length, please."}], "x" * 10_000
    sizes = []
    for role in ("assistant", "user"):
        bodies = RecentBodies()
        for messages in (asked, [*asked, {"role": role, "content": text}, {"role": "user", "content": "And then?"}]):
            added(bodies, chat(messages))
        sizes.append(bodies.size)
    assert 9_000 < sizes[0] - sizes[1] < 12_000


def test_what_is_no_completion_is_left_out_and_what_is_no_json_is_refused():
    bodies = RecentBodies()
    assert bodies.add("/tokenize", b'{"content": "a"}') == []
    for raw in (b"{", b"\xff", b"[" * 100, b'{"prompt": ""}', b'{"prompt": [[1], {"a": 1}]}'):
        with pytest.raises(BadInput):
            bodies.add("/completion", raw)


def test_memory_is_bounded_and_open_conversations_are_kept():
    alive = Alive(requests=12)
    talks = [list(conversation(number, "extends")) for number in range(5)]
    for _ in range(4):
        for number in range(30, 36):
            alive.add(next(conversation(number, "extends")))
    for turn in range(3):
        rows = [alive.add(talk[turn]) for talk in talks]
        assert [row["cause"] for row in rows] == ["extends" if turn else "new"] * 5
    assert 5 <= len(alive.numbers) <= 12


def test_long_prompts_are_bounded_by_their_bytes():
    held = HeldBytes()
    alive = Alive(most=1 << 20, held=held)
    for number in range(20):
        alive.add(json.dumps({"prompt": f"{number} " + "word " * 20_000}).encode())
        assert 0 < held.kept == alive.bodies.size <= 1 << 20
    assert 0 < len(alive.numbers) < 4


def image(number, size):
    """Base64 text of a number of bytes."""
    return b64encode(random.Random(number).randbytes(size)).decode()


def agent(number, tools, messages):
    """A long history with many tools."""
    text = {"type": "object", "properties": {f"key {i}": {"type": "string", "description": "a key"} for i in range(20)}}
    history = [{"role": ("user", "assistant")[i % 2], "content": f"Sentence {i} of {number}. " * 40}
               for i in range(messages)]  # fmt: skip
    return {"messages": history, "tools": [{"type": "function", "function": {"name": f"f{i}", "parameters": text}}
                                           for i in range(tools)]}  # fmt: skip


def question(*parts):
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, *parts]}]}


SIZE = 1 << 18
KINDS = {
    "data URL": lambda n: question({"type": "image_url", "image_url": {
        "url": f"data:image/png;base64,{image(n, SIZE)}"}}),
    "Anthropic": lambda n: {"max_tokens": 9, "anthropic_version": "x", **question({"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": image(n, SIZE)}})},
    "tool result": lambda n: {"system": "a", **question({"type": "tool_result", "tool_use_id": "1", "content": [
        {"type": "image", "source": {"type": "base64", "data": image(n, SIZE)}}]})},
    "responses": lambda n: {"model": "m", "input": [{"role": "user", "content": [
        {"type": "input_image", "image_url": f"data:image/png;base64,{image(n, SIZE)}"}]}]},
    "Ollama": lambda n: {"messages": [{"role": "user", "content": "What?", "images": [image(n, SIZE)] * 2}]},
    "Ollama's prompt": lambda n: {"prompt": "What?", "images": [image(n, SIZE)]},
    "llama-server": lambda n: {"prompt": {"prompt_string": "<__media__>?", "multimodal_data": [image(n, SIZE)]}},
    "sound": lambda n: question({"type": "input_audio", "input_audio": {"data": image(n, SIZE), "format": "wav"}}),
    "unknown field": lambda n: {**question(), "voice": [{"sample": image(n, SIZE)}]},
    "unknown text": lambda n: {**question(), "grammar": "root ::= a " * (SIZE // 10) + str(n)},
    "unknown tree": lambda n: {**question(), "options": {f"option {n} {i}": [i] for i in range(2_000)}},
    "tools": lambda n: agent(n, 15, 10),
    "messages": lambda n: agent(n, 0, 100),
    "short messages": lambda n: {"messages": [{"role": "user", "content": f"{n} {i}"} for i in range(400)]},
    "pictures in text": lambda n: {"prompt": f"{n} \N{SNOWMAN}\N{GRINNING FACE}" + " words" * 5_000},
    "tokens": lambda n: {"prompt": [n, *range(5_000)]},
    "prompts": lambda n: {"prompt": [f"prompt {n} {i} " * 50 for i in range(20)]},
    "long keys": lambda n: {**question(), "tools": [{"name": "a", "k" * 30_000: {f"{n} {i}": 1 for i in range(400)}}]},
    "long role": lambda n: {"messages": [{"role": f"{n} role " * 10_000, "content": "a question"}]},
    "long model": lambda n: {**question(), "model": f"{n} model" * 10_000},
    "reasoning": lambda n: {"messages": [{"role": "assistant", "content": f"<think>{n}</think>" + "yes " * 30_000},
                                         {"role": "user", "content": "And?"}]},
}  # fmt: skip


PATHS = {"Ollama": "/api/chat", "Ollama's prompt": "/api/generate"}


@pytest.mark.part(6)
@pytest.mark.parametrize("kind", KINDS)
def test_the_counter_bounds_the_memory_of_requests(kind):
    """An image takes a hundredth of its size."""
    bodies, raws = RecentBodies(), [json.dumps(KINDS[kind](number)).encode() for number in range(4)]
    bodies.add("/v1/chat/completions", json.dumps(question()).encode())
    others = RecentBodies()                          # loads modules and compiles patterns, which stay
    for kept in others.add("/v1/chat/completions", raws[0]):
        others.read_answer(kept, b'{"choices":[{"message":{"content":"answer"}}]}')
    del others, kept
    gc.freeze()                                      # what earlier tests left is not looked through
    tracemalloc.start()
    before = bodies.size
    for raw in raws:
        for kept in bodies.add("/v1/chat/completions", bytes(bytearray(raw))):       # a copy, whose memory is traced
            bodies.read_answer(kept, b'{"choices":[{"message":{"content":"%s"}}]}' % (b"answer " * 1_000))
    del kept
    gc.collect()
    memory, size = tracemalloc.get_traced_memory()[0], bodies.size - before
    tracemalloc.stop()
    assert memory <= size
    if "image(n" in getsource(KINDS[kind]):
        assert size < sum(map(len, raws)) / 10


def test_bodies_that_are_refused_take_no_memory():
    bodies = RecentBodies()
    for number in range(3):
        with pytest.raises(BadInput):
            bodies.add("/completion", json.dumps({"prompt": "", "grammar": f"{number} " * 50_000}).encode())
    assert bodies.size == 0


def test_a_body_with_too_many_values_is_refused():
    raw = chat([{"role": "user", "content": "a"}], tools=[{"a": [0] * WATCHED_VALUES.value}])
    with pytest.raises(OverLimit, match="262,144"):
        RecentBodies().add("/v1/chat/completions", raw)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "image(n" in getsource(KINDS[kind])])
def test_another_image_is_a_change_and_the_same_image_is_not(kind):
    bodies = RecentBodies()
    for number, cause in ((1, "new"), (1, "same"), (2, "same" if kind == "unknown field" else "image")):
        row = added(bodies, json.dumps(KINDS[kind](number)).encode(), PATHS.get(kind, "/v1/chat/completions"))
        assert row["cause"] == cause or (kind in ("llama-server", "Ollama's prompt") and not row["harmless"])
    assert row["byte"] == row["byte_at_least"]


def test_a_difference_after_the_first_bytes_of_an_image_is_at_that_byte_or_later():
    bodies, text = RecentBodies(), image(1, 9_000)
    first = chat([{"role": "user", "content": "a", "images": [text]}])
    second = chat([{"role": "user", "content": "a", "images": [text[:-40] + "A" + text[-39:]]}])
    added(bodies, first, "/api/chat")
    row = added(bodies, second, "/api/chat")
    assert (row["cause"], row["byte"], row["byte_at_least"]) == ("image", None, first.index(text.encode()) + 1_024)
    assert f"{row['byte_at_least']:,}" in row_text({**row, "number": 1})


def test_names_and_paths_of_a_row_are_short():
    bodies = RecentBodies()
    for number in range(2):
        tools = [{"type": "function", "function": {"name": f"n{number}" * 5_000, "k" * 5_000: {"j" * 5_000: number}}}]
        row = added(bodies, chat([{"role": "user", "content": "What is it?"}], tools=tools, model="m" * 5_000))
    assert row["path"].startswith("tools") and max(len(str(value)) for value in row.values()) <= 200


def test_a_message_that_follows_without_an_answer_extends():
    bodies, messages = RecentBodies(), [{"role": "user", "content": "A question of some length, please."}]
    added(bodies, chat(messages))
    assert added(bodies, chat([*messages, {"role": "user", "content": "And another one."}]))["cause"] == "extends"


def test_the_fields_of_a_message_count_as_memory():
    def size(note):
        bodies = RecentBodies(held=HeldBytes())
        bodies.add("/v1/chat/completions", chat([{"role": "user", "content": "hello", "note": note}]))
        return bodies.size

    assert size("n" * 60) - size("n" * 10) >= 50


TALK = [{"role": "system", "content": "You help with stones, rivers and clouds."},
        {"role": "user", "content": "What is known about the amber stone?", "name": "ann"},
        {"role": "assistant", "content": "It is old."}, {"role": "user", "content": "How old is it?"}]  # fmt: skip
TOOLS = [{"type": "function", "function": {"name": "read"}}]
FIELDS = {
    "a field of a message": {"messages": [TALK[0], {**TALK[1], "name": "bob"}, *TALK[2:]]},
    "a field that goes": {"messages": [TALK[0], {"role": "user", "content": TALK[1]["content"]}, *TALK[2:]]},
    "an unseen field": {"messages": [*TALK[:3], {**TALK[3], "cache_control": {"type": "ephemeral"}}]},
    "tool_choice": {"messages": TALK, "tool_choice": "none"},
    "a template argument": {"messages": TALK, "chat_template_kwargs": {"enable_thinking": True}},
    "tools that come": {"messages": TALK, "tools": TOOLS},
    "sampling": {"messages": TALK, "temperature": 0.3},
    "several": {"messages": [TALK[0], {**TALK[1], "name": "eve"}, *TALK[2:]], "tool_choice": "auto", "lora": []},
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_a_row_names_the_changed_fields_that_import_names(tmp_path, name):
    raws = [chat(TALK), json.dumps({"model": "m", **FIELDS[name]}).encode()]
    bodies = RecentBodies()
    row = [added(bodies, raw) for raw in raws][-1]
    file = tmp_path / "bodies.jsonl"
    file.write_bytes(b"\n".join(raws))
    data, _ = import_bodies([file], ImportOptions())
    second = data["requests"][1]
    assert (row["cause"], row["detail"], row["where"]) == (second["cause"], second["detail"], second["where"])
    assert row["parameters"] == [one["name"] for one in second["parameters"] if one["matters"] != "no"]
    assert bool(row["parameters"]) == (name not in ("an unseen field", "sampling") and row["cause"] != "tools")


def test_a_prompt_of_tokens_with_a_long_new_part_extends_the_one_that_it_begins_with():
    drawn, bodies = random.Random(7), RecentBodies()
    tokens = [drawn.randrange(30_000) for _ in range(3_200)]
    rows = [added(bodies, json.dumps({"prompt": tokens[:size]}).encode()) for size in (200, 3_200)]
    assert [(row["cause"], row["conversation"]) for row in rows] == [("new", 1), ("extends", 1)]


def test_an_adapter_with_the_scale_0_is_no_change():
    bodies, messages = RecentBodies(), [{"role": "user", "content": "A question of some length, please."}]
    added(bodies, chat(messages, lora=[{"id": 0, "scale": 1.0}]))
    assert added(bodies, chat(messages, lora=[{"id": 1, "scale": 0.0}, {"id": 0, "scale": 1.0}]))["cause"] == "same"


def test_an_answer_to_a_request_that_is_no_longer_kept_is_not_counted():
    held = HeldBytes()
    bodies, messages = RecentBodies(requests=2, held=held), [{"role": "user", "content": "A question of some length."}]
    [first] = bodies.add("/v1/chat/completions", chat(messages))
    for text in ("Something else altogether.", "And a third conversation, by somebody."):
        [last] = bodies.add("/v1/chat/completions", chat([{"role": "user", "content": text}]))
    size = bodies.size
    bodies.read_answer(first, b'{"choices":[{"message":{"content":"%s"}}]}' % (b"answer " * 1_000))
    assert (bodies.size, held.kept) == (size, size)
    bodies.read_answer(last, b'{"choices":[{"message":{"content":"%s"}}]}' % (b"answer " * 1_000))
    assert bodies.size - size >= 7_000 and held.kept == bodies.size


@pytest.mark.parametrize(("less", "kept"), [(0, 3), (1, 1)])
def test_bodies_that_exactly_fill_the_room_are_kept(less, kept):
    """With a byte less, only those stay that take half of it."""
    room, raws = RecentBodies(), [next(conversation(number, "extends")) for number in (1, 2, 3)]
    for raw in raws:
        added(room, raw)
    alive = Alive(most=room.size - less, held=(held := HeldBytes()))
    for raw in raws:
        alive.add(raw)
    assert alive.numbers == [1, 2, 3][-kept:] and held.kept == alive.bodies.size <= room.size


def test_a_kept_body_has_its_number_its_conversation_and_that_of_the_body_before():
    bodies, first, second = RecentBodies(), conversation(1, "extends"), conversation(2, "extends")
    kept = [one for each in (first, second, first, second) for one in bodies.add("/v1/chat/completions", next(each))]
    assert [(one.number, one.before, one.conversation) for one in kept] == [(1, 0, 1), (2, 0, 2), (3, 1, 1), (4, 2, 2)]
    assert {one.forbids_reuse for one in kept} == {False} and all(one.shared > 0 for one in kept)
    [last] = bodies.add("/completion", b'{"prompt": "Something else altogether.", "cache_prompt": false}')
    assert (last.number, last.before, last.conversation, last.forbids_reuse) == (5, 0, 3, True)
    assert last.row["conversation"] == 3 and last.row["cause"] == "new"


def test_so_many_requests_are_kept_at_most():
    """Of each conversation the last one is kept, and the latest conversations are kept first."""
    alive, numbers = Alive(requests=4), []
    for number in range(6):
        alive.add(next(conversation(number, "extends")))
        numbers.append(alive.numbers)
    assert numbers == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [3, 4, 5], [3, 4, 5, 6]]
    alive, first, second = Alive(requests=4), conversation(1, "extends"), conversation(2, "extends")
    for each in (first, first, second, second, conversation(3, "extends")):
        alive.add(next(each))
    assert alive.numbers == [2, 4, 5]


@pytest.mark.parametrize(("prompt", "tokens"), [("abcdefgh", 2), ([1, 2, 3], 3), ([1, 2, "abcdefgh"], 10)])
def test_tokens_of_a_client_are_counted_and_texts_are_estimated(prompt, tokens):
    """Beside tokens, a character of a text is counted as a token."""
    [kept] = RecentBodies().add("/completion", json.dumps({"prompt": prompt}).encode())
    assert kept.row["estimated"] == tokens


def test_a_conversation_shares_its_beginning_with_another_one_under_the_same_adapters():
    bodies, rows = RecentBodies(), []
    system = {"role": "system", "content": "The rules of this place are many. " * 20}
    for question, scale in (("Who is it?", 1.0), ("What was that again?", 1.0), ("Why did they do so?", 0.5)):
        messages = [system, {"role": "user", "content": question}]
        rows.append(added(bodies, chat(messages, lora=[{"id": 0, "scale": scale}])))
    assert [row["cause"] for row in rows] == ["new"] * 3
    assert [row["estimated_common"] > 150 for row in rows] == [False, True, False]


def test_the_place_of_a_change_in_the_prompt_is_known_if_there_is_a_request_before():
    bodies = RecentBodies()
    rows = [added(bodies, json.dumps({"prompt": f"\u00e9 {'x' * 40} {end}"}).encode()) for end in "ab"]
    assert [(row["prompt_byte"], row["byte"], row["byte_at_least"]) for row in rows] == [
        (None, None, None), (44, 60, 60)]  # fmt: skip