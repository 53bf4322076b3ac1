"""Parts of the report on request bodies: tokens after a change, fields beside texts, causes, simulated tokens."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from cachesim.tools.request_bodies.api_forms import CHAT
from cachesim.tools.request_bodies.body import Body, BodyMessage, BodyText, DifferenceTexts
from cachesim.tools.request_bodies.changed_text import DATE
from cachesim.tools.request_bodies.changed_tools import LIST, ORDER
from cachesim.tools.request_bodies.conversations import ConversationLink
from cachesim.tools.request_bodies.import_bodies import (
    ImportOptions,
    at,
    causes,
    fields_beside,
    import_bodies,
    invalidated_tokens,
    new_tokens,
    where,
)
from cachesim.tools.request_bodies.plain_render import BodyPlace
from cachesim.tools.request_bodies.prompt_causes import CAUSES, EXTENDS, NEW, PromptCause
from cachesim.tools.request_bodies.request_diff import link_requests
from cachesim.tools.request_bodies.tokenizer import EstimatingTokenizer
from tests.unit.tools.request_bodies.made import chat, found


def body(*texts, form=CHAT, system="", raw=False, tools=(), **parameters):
    """Return a body whose messages alternate between user and assistant."""
    said = [*([("system", system)] if system else []), *zip(("user", "assistant") * 9, texts, strict=False)]
    messages = [BodyMessage(role, f"messages[{i}]", (BodyText("text", f"messages[{i}].content", text),))
                for i, (role, text) in enumerate(said)]  # fmt: skip
    return Body(form, place="x.json", messages=messages, tools=[(f"tools[{i}]", tool) for i, tool in enumerate(tools)],
                parameters=parameters, chat=None if raw else [])  # fmt: skip


def record(made, before=-1, cause=EXTENDS, tokens=None, **more):
    [one] = link_requests([made], [None], EstimatingTokenizer())
    ids = one.ids if tokens is None else range(tokens)
    link = ConversationLink(before, 0, before, 0)
    return replace(one, ids=ids, link=link, cause=PromptCause(cause), **more)


NAMES = {"one": "a question of sixteen", "two": "an answer of sixteen", "three": "another question", "four": "more"}


def said(*names):
    return body(*(NAMES[name] for name in names))


@pytest.mark.parametrize(("old", "new", "begin"), [
    (said("one"), said("one", "two", "three"), "another question"),
    (said("one", "two", "three"), said("one", "two", "three"), None),
    (said("one"), said("three", "two"), "another question"), (said("one"), said("three"), "another question"),
    (said("one", "two"), said("one", "two", "three", "four"), "another question"),
    (said("one", "two", "three"), said("one", "four", "three"), None),
    (body("a", system="s"), body("b", system="t"), "b"),
])  # fmt: skip
def test_new_messages_are_those_at_the_end_that_were_neither_sent_nor_generated(old, new, begin):
    """The first message that the request before had not, or its answer, and everything after it."""
    before, now = record(old), record(new, 0)
    text = now.plain.text
    start = text.index("<|im_start|>assistant\n", text.rindex("<|im_end|>")) if begin is None else (
        text.rindex("<|im_start|>", 0, text.index(begin)))  # fmt: skip
    assert new_tokens(before, now, EstimatingTokenizer()) == len(EstimatingTokenizer().tokens(text[start:]))


@pytest.mark.parametrize(("more", "lost"), [
    ({"usable": 5}, [15, 25]), ({"usable": 20}, [0, 10]), ({"usable": 35}, [0, 0]),
    ({"usable": 5, "cause": EXTENDS}, [0, 0]), ({"usable": 5, "before": -1}, [0, 0]),
])  # fmt: skip
def test_of_a_raw_prompt_the_rest_of_the_shorter_one_is_lost(more, lost):
    one = record(body("b", raw=True), tokens=30, **{"before": 0, "cause": DATE, **more})
    befores = [record(body("a", raw=True), tokens=tokens) for tokens in (20, 40)]
    assert [invalidated_tokens([before, one], one, EstimatingTokenizer()) for before in befores] == lost


def test_of_a_chat_everything_but_new_messages_is_lost():
    records = [record(said("one")), record(said("three", "two", "one"), 0, DATE, tokens=100, usable=7)]
    new = new_tokens(*records, EstimatingTokenizer())
    assert invalidated_tokens(records, records[1], EstimatingTokenizer()) == 100 - 7 - new > 0
    assert invalidated_tokens(records, replace(records[1], usable=99), EstimatingTokenizer()) == 0


@pytest.mark.parametrize(("place", "cause", "part"), [
    (("messages[0].content", 5, "text", 0), DATE, "the system prompt"), (("messages[1]", 0, "text", 1), DATE,
                                                                        "a user message"),
    (("messages[2]", 0, "text", 2), DATE, "an answer"), (("messages[3]", 0, "text", 3), DATE, "the prompt"),
    (("", 0, "text", -1), DATE, "the prompt"), (("tools[0].name", 0, "tool", 0), DATE, "the tools"),
    (("functions[0]", 0, "tool", 0), DATE, "the tools"), (("messages[0].content", 5, "text", 0), ORDER, ""),
    (None, DATE, ""),
])  # fmt: skip
def test_the_part_of_the_prompt_is_named_unless_the_cause_names_it(place, cause, part):
    one = record(body("a", "b", system="s"), cause=cause, place=None if place is None else BodyPlace(*place))
    assert where(one) == part


def test_a_message_of_an_unknown_role_is_in_the_prompt():
    made = body("a")
    made.messages[0] = made.messages[0]._replace(role="critic")
    one = record(made, cause=DATE, place=BodyPlace("messages[0]", 0, "text", 0))
    assert where(one) == "the prompt"


def test_a_place_is_a_path_and_a_character():
    assert at(BodyPlace("p", 5, "text", 0)) == {"path": "p", "character": 5}
    assert at(None, "old_") == {"old_path": "", "old_character": None}


def test_causes_are_grouped_by_part_and_the_most_expensive_comes_first():
    place = BodyPlace("messages[0].content", 5, "text", 0)
    records = [record(body("a", system="s"), before, cause, usable=usable)
               for before, cause, usable in ((-1, NEW, 0), (0, DATE, 7), (1, ORDER, 9), (2, DATE, 8), (3, DATE, 3))]
    for number in (1, 3):
        seen = DifferenceTexts("s", f"b{number}", f"a{number}")
        records[number] = replace(records[number], place=place, seen=seen)
    records[4] = replace(records[4], place=BodyPlace("messages[1].content", 5, "text", 1))
    records[1] = replace(records[1], cause=PromptCause(DATE, "a detail"))
    found = causes(records, [0, 5, 11, 5, 0])
    assert [(one["cause"], one["where"], one["in_requests"], one["again"], one["most"], one["harmless"])
            for one in found] == [
        (ORDER, "", [2], 11, 9, False), (DATE, "the system prompt", [1, 3], 10, 8, False), (NEW, "", [0], 0, 0, True),
        (DATE, "a user message", [4], 0, 3, False)]  # fmt: skip
    assert found[1] == {
        "cause": DATE, "says": CAUSES[DATE].says, "where": "the system prompt", "path": "messages[0].content",
        "character": 5, "detail": "a detail", "in_requests": [1, 3], "again": 10, "advice": CAUSES[DATE].advice,
        "most": 8, "harmless": False,
        "evidence": {"text_common": "s", "text_before": "b1", "text_after": "a1", "previous": 0, "request": 1},
    }  # fmt: skip
    assert found[0]["evidence"] is None


A, B = {"name": "a"}, {"name": "b"}


def beside(old, new, templated=False, **more):
    before = record(old)
    now = replace(record(new, 0), **{"common": 99, "history": 50, **more})
    return [(one["name"], one["value_before"], one["value_after"], one["matters"])
            for one in fields_beside(before, now, templated)]  # fmt: skip


TOOL_PLACE = BodyPlace("tools[0]", 0, "tool", 0)


@pytest.mark.parametrize(("more", "found"), [
    ({}, [("tools", "1 tools", "added b", "perhaps")]),
    ({"place": TOOL_PLACE, "cause": PromptCause(LIST)}, []),
    ({"place": TOOL_PLACE._replace(kind="mark"), "cause": PromptCause(LIST)}, []),
    ({"place": TOOL_PLACE._replace(kind="text"), "cause": PromptCause(LIST)},
     [("tools", "1 tools", "added b", "perhaps")]),
    ({"place": TOOL_PLACE, "cause": PromptCause(DATE)}, [("tools", "1 tools", "added b", "perhaps")]),
])  # fmt: skip
def test_changed_tools_are_a_field_unless_they_are_the_cause(more, found):
    assert beside(body("a", tools=[A]), body("a", tools=[A, B]), **more) == found


def test_tools_in_another_order_are_named_so():
    assert beside(body("a", tools=[A, B]), body("a", tools=[B, A])) == [
        ("tools", "2 tools", "order of tools changed", "perhaps")]  # fmt: skip


@pytest.mark.parametrize(("templated", "more", "matters"), [
    (False, {}, "perhaps"), (True, {}, "no"), (True, {"cause": PromptCause(DATE)}, "perhaps"),
    (True, {"common": 50}, "no"), (True, {"common": 49}, "perhaps"),
])  # fmt: skip
def test_template_options_do_not_matter_if_the_prompt_was_rendered_again(templated, more, matters):
    """The history of the prompt has 50 characters."""
    old, new = body("a" * 60, enable_thinking=True, top_k=1), body("a" * 60, enable_thinking=False, top_k=2)
    assert beside(old, new, templated, **more) == [
        ("enable_thinking", "true", "false", matters), ("top_k", "1", "2", "no")]  # fmt: skip


@pytest.mark.parametrize(("form", "matters"), [(CHAT, "no"), ("Anthropic messages", "perhaps")])
def test_fields_of_messages_of_the_chat_api_do_not_matter_then(form, matters):
    old, new = body("a" * 60, form=form), body("a" * 60, form=form)
    new.messages[0] = new.messages[0]._replace(fields='{"name": "x"}')
    [(name, *_, found)] = beside(old, new, True)
    assert "name" in name and (found == "no") is (matters == "no")


def test_files_without_a_body_are_counted(tmp_path):
    (tmp_path / "a.json").write_text('{"prompt": "x y z"}')
    (tmp_path / "b.txt").write_text("text")
    data, _ = import_bodies([tmp_path], ImportOptions(model="A", server={"ctx_size": 512}))
    assert (data["skipped"], data["files"], data["simulation"]["flags"]) == (1, [str(tmp_path)], {"ctx_size": 512})
    assert (data["models"], data["rendering"], data["media"], data["conversations"]) == ([], "as sent", 0, 1)


@pytest.mark.parametrize(("file", "name", "id_"), [
    ("My File.json", "", "import-my-file"), ("x.json", "mine", "mine"), ("--.json", "", "import-bodies"),
    ("a_b.c.json", "", "import-a-b-c"), ("\u4e09.json", "", "import-bodies"),
    ("x" * 90 + ".json", "", "import-" + "x" * 73),
])  # fmt: skip
def test_a_scenario_has_the_name_of_its_file(tmp_path, file, name, id_):
    (tmp_path / file).write_text('{"prompt": "x y z"}')
    _, toml = import_bodies([tmp_path / file], ImportOptions(name=name))
    assert tomllib.loads(toml)["id"] == id_


def test_the_head_of_a_scenario_names_the_requests_of_its_causes_and_quotes_texts_only_if_asked(tmp_path):
    file = tmp_path / "x.jsonl"
    prompts = [f"The rules. It is {number}:00 now. {'All of the rest is the same. ' * 4}" for number in (10, 11)]
    file.write_text("".join(f'{{"prompt": "{prompt}"}}\n' for prompt in prompts))
    for with_text in (False, True):
        _, toml = import_bodies([file], ImportOptions(with_text=with_text))
        why = tomllib.loads(toml)["why"]
        assert "Requests 1: " in why and ("now." in why) is with_text


def test_the_tokens_of_a_simulation_are_those_of_its_requests(tmp_path):
    asked, answered = "Please read the file.", "It reads a table and prints it, line by line."
    data = found(tmp_path, chat(asked), chat(asked, answered, "Now sort it."), chat(asked, answered, "Now draw it."),
                 asking=ImportOptions(model="GA", server={"ctx_checkpoints": 0}))  # fmt: skip
    sums, rows = data["simulation"], data["requests"]
    assert sums["tokens"] == sums["reused"] + sums["new_tokens"] + sums["again"] + sums["not_kept"]
    assert sums["reused"] == sum(row["simulated"] for row in rows) > 0
    assert (sums["played"], sums["not_played"]) == (len(rows), 0)
    missing = [row["reusable"] - row["simulated"] for row in rows]
    assert [row["not_kept"] for row in rows] == [0, missing[1] - 1, missing[2]]       # no server has the answer's end
    assert sums["not_kept"] == sum(row["not_kept"] for row in rows) and rows[2]["not_kept"] > 0
