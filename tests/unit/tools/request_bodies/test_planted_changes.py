"""One planted change in a history of each kind of client: its cause or its field is named, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import pytest

from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
from cachesim.tools.request_bodies.prompt_causes import CAUSES, EXTENDS, HARMLESS
from cachesim.tools.request_bodies.report import headline
from tests.unit.tools.request_bodies import client_shapes as shapes
from tests.unit.tools.request_bodies.made import found

Body = dict[str, Any]
REPORTED = Path(__file__).parents[5] / "shared" / "bodies"


def message(body: Body, number: int, **fields: Any) -> None:
    body["messages"][number].update(fields)


def without(body: Body, number: int, name: str) -> None:
    del body["messages"][number][name]


def note(body: Body, text: str, depth: int) -> None:
    body["messages"].insert(len(body["messages"]) - depth, {"role": "system", "content": text})


def moving_note(bodies: list[Body], depth: int, text: str = "[Keep the answers short, in the past tense.]") -> None:
    for body in bodies:
        note(body, text, depth)


def line_note(bodies: list[Body], depth: int) -> None:
    for body in bodies:
        lines = body["prompt"].splitlines(keepends=True)
        lines.insert(len(lines) - depth, "[Note: in the style of a letter.]\n")
        body["prompt"] = "".join(lines)


def reminder(bodies: list[Body]) -> None:
    """A reminder after the newest user message, which is never sent again."""
    for body in bodies:
        body["messages"][-1]["content"] += "\n<reminder>Plan before you edit.</reminder>"


def retrieved(bodies: list[Body]) -> None:
    """A system message before the last message, with another text each time."""
    for number, body in enumerate(bodies):
        note(body, f"Retrieved from the manual: chapter {number} " + "xyzw"[number] * 40, 1)


def swapped_results(bodies: list[Body]) -> None:
    bodies[2]["messages"][2], bodies[2]["messages"][4] = bodies[2]["messages"][4], bodies[2]["messages"][2]


def summary(bodies: list[Body]) -> None:
    for body in bodies[2:]:
        short = "Summary of the conversation so far: the parser is fixed."
        body["messages"][1:5] = [{"role": "user", "content": short}]


def in_each(bodies: list[Body], change: Callable[[Body], Any]) -> None:
    for body in bodies[1:]:
        change(body)


def first_part(body: Body) -> Body:
    part: Body = body["messages"][1]["content"][1]["image_url"]
    return part


TEXTS: dict[str, tuple[str, Callable[[list[Body]], Any], str, str]] = {
    # shape, change, cause, path of the first change ("" = not compared)
    "note before the last two messages": ("chat", lambda b: moving_note(b, 1), "moving text", "messages[1]"),
    "note before the last three messages": ("chat", lambda b: moving_note(b[1:], 3) or b.pop(0), "moving text",
                                            "messages[1]"),
    "note at the end": ("chat", lambda b: moving_note(b, 0), "moving text", "messages[2]"),
    "note of an agent": ("agent", lambda b: moving_note(b, 1), "moving text", "messages[1]"),
    "retrieved text": ("chat", retrieved, "moving text", "messages[1]"),
    "note among lines": ("story", lambda b: line_note(b, 3), "moving text", "prompt"),
    "note before the last line": ("story", lambda b: line_note(b, 1), "moving text", "prompt"),
    "reminder of the newest message": ("chat", reminder, "tail", "messages[1].content"),
    "first message loses a block": (
        "chat", lambda b: message(b[0], 1, content=f"<context>file a.py</context> {shapes.TASKS[0]}"), "tail",
        "messages[1].content"),
    "summary": ("chat", summary, "summary", "messages[1].content"),
    "front of the history": ("chat", lambda b: b[3]["messages"].__delitem__(slice(1, 5)), "truncated",
                             "messages[1].content"),
    "middle of the history": ("chat", lambda b: b[3]["messages"].__delitem__(slice(3, 5)), "removed messages",
                              "messages[3].content"),
    "reasoning removed": ("agent", lambda b: without(b[2], 2, "reasoning_content"), "reasoning removed", ""),
    "thinking removed": ("anthropic", lambda b: b[2]["messages"][1]["content"].pop(0), "reasoning removed", ""),
    "tool result cleared": ("agent", lambda b: message(b[3], 3, content="[old result cleared]"), "pruned",
                            "messages[3].content"),
    "tool added": ("agent", lambda b: in_each(b[1:], lambda one: one.update(tools=[*shapes.TOOLS, {
        "type": "function", "function": {"name": "search", "parameters": {}}}])), "tools", ""),
    "tools sorted": ("agent", lambda b: in_each(b[1:], lambda one: one["tools"].reverse()), "order of tools", ""),
    "tools removed": ("anthropic", lambda b: in_each(b[1:], lambda one: one.pop("tools")), "tools", ""),
    "another picture": ("pictures", lambda b: first_part(b[2]).update(url="data:image/png;base64,AAAA"), "image",
                        "messages[1].content[1]"),
    "answer edited": ("chat", lambda b: message(b[2], 2, content="The parser was right."), "answer",
                      "messages[2].content"),
    "output edited": ("responses", lambda b: b[2]["input"][2].update(output="nothing"), "tool result",
                      "input[2].output"),
    "text removed from a raw prompt": (
        "story", lambda b: b[2].update(prompt=b[2]["prompt"].replace("Bot: part 1 tells of ship 7.\n", "")),
        "removed text", "prompt"),
    "message at another place": ("chat", swapped_results, "answer", "messages[2].content"),
}  # fmt: skip
FIELDS: dict[str, tuple[str, Callable[[list[Body]], Any], str, str]] = {
    # shape, change, field, whether it matters
    "name removed": ("named", lambda b: without(b[2], 1, "name"), "messages[1].name", "perhaps"),
    "name changed": ("named", lambda b: message(b[2], 3, name="bob"), "messages[3].name", "perhaps"),
    "name added": ("chat", lambda b: message(b[2], 1, name="ada"), "messages[1].name", "perhaps"),
    "call id made anew": ("agent", lambda b: b[2]["messages"][2]["tool_calls"][0].update(id="call_zz"),
                          "messages[2].tool_calls[0].id", "perhaps"),
    "result of another call": ("agent", lambda b: message(b[2], 3, tool_call_id="call_zz"), "messages[3].tool_call_id",
                               "perhaps"),
    "call id of an item": ("responses", lambda b: b[2]["input"][1].update(call_id="fc_x"), "input[1].call_id",
                           "perhaps"),
    "tool choice": ("agent", lambda b: b[2].update(tool_choice="none"), "tool_choice", "perhaps"),
    "tool choice removed": ("agent", lambda b: b[2].pop("tool_choice"), "tool_choice", "perhaps"),
    "template option": ("named", lambda b: b[2].update(chat_template_kwargs={"enable_thinking": True}),
                        "chat_template_kwargs.enable_thinking", "perhaps"),
    "template options removed": ("named", lambda b: b[2].pop("chat_template_kwargs"),
                                 "chat_template_kwargs.enable_thinking", "perhaps"),
    "effort": ("responses", lambda b: b[2].update(reasoning={"effort": "high"}), "reasoning.effort", "perhaps"),
    "budget": ("anthropic", lambda b: b[2]["thinking"].update(budget_tokens=2048), "thinking.budget_tokens", "perhaps"),
    "salt": ("chat", lambda b: b[2].update(cache_salt="a"), "cache_salt", "yes"),
    "temperature": ("story", lambda b: b[2].update(temperature=0.1), "temperature", "no"),
    "a field of no API": ("chat", lambda b: b[2].update(flavour="mint"), "flavour", "unknown"),
}  # fmt: skip


def planted(shape: str, change: Callable[[list[Body]], Any]) -> list[Body]:
    bodies = shapes.SHAPES[shape]()
    change(bodies)
    return bodies


def causes_of(data: dict[str, Any]) -> list[str]:
    return [one["cause"] for one in data["requests"] if one["cause"] not in HARMLESS]


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_a_history_without_a_change_has_no_finding(tmp_path, shape):
    data = found(tmp_path, *shapes.SHAPES[shape]())
    assert [one["cause"] for one in data["requests"]] == ["new", *[EXTENDS] * 3]
    assert all(one["parameters"] == [] for one in data["requests"]) and data["again"] == 0
    assert headline(data).plain.startswith("no changed prompts: 4 requests")


@pytest.mark.parametrize("name", TEXTS)
def test_a_planted_change_of_a_text_is_named(tmp_path, name):
    shape, change, cause, path = TEXTS[name]
    data = found(tmp_path, *planted(shape, change))
    assert data["conversations"] == 1 and causes_of(data)[:1] == [cause]
    first = next(one for one in data["requests"] if one["cause"] == cause)
    assert not path or first["path"] == path
    assert CAUSES[cause].says in [one["says"] for one in data["causes"]]


@pytest.mark.parametrize("name", FIELDS)
def test_a_planted_change_of_a_field_is_named(tmp_path, name):
    shape, change, field, matters = FIELDS[name]
    data = found(tmp_path, *planted(shape, change))
    assert data["conversations"] == 1 and causes_of(data) == []
    named = {(one["name"], one["matters"]) for request in data["requests"] for one in request["parameters"]}
    assert named == {(field, matters)}
    unproved = headline(data).plain.startswith("no changed texts: 4 requests")
    assert unproved == (matters in ("perhaps", "unknown"))


@pytest.mark.parametrize(("shape", "change"), [
    ("chat", lambda b: message(b[2], 2, refusal="no")),
    ("anthropic", lambda b: b[2]["messages"][1]["content"][0].update(signature="x")),
    ("anthropic", lambda b: b[2]["messages"][0]["content"][0].update(cache_control={"type": "ephemeral"})),
], ids=["refusal added", "signature changed", "cache mark moved"])  # fmt: skip
def test_a_change_of_a_field_that_the_server_drops_is_no_change(shape, change, tmp_path):
    data = found(tmp_path, *planted(shape, change))
    assert causes_of(data) == [] and not any(one["parameters"] for one in data["requests"])


@pytest.mark.parametrize("name", ["name removed", "template option"])
@pytest.mark.parametrize("used", [True, False])
def test_with_a_template_it_is_known_whether_a_field_changes_the_prompt(tmp_path, name, used):
    """A template that writes names and the option into the prompt, and a template that writes neither."""
    template = tmp_path / "chat.jinja"
    more = "{{ m.name }}{{ enable_thinking }}" if used else ""
    template.write_text("{% for m in messages %}<{{ m.role }}>" + more + "{{ m.content }}\n{% endfor %}")
    shape, change, field, _ = FIELDS[name]
    file = tmp_path / "bodies.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in planted(shape, change)))
    data = import_bodies([file], ImportOptions(template=str(template)))[0]
    changed = [one for one in data["requests"] if one["parameters"]]
    assert {one["name"] for request in changed for one in request["parameters"]} == {field}
    assert causes_of(data)[:1] == (["fields"] if used else [])
    assert {one["matters"] for request in changed for one in request["parameters"]} == {"perhaps" if used else "no"}
    assert not used or data["causes"][0]["detail"] == field


def reported(name: str) -> dict[str, Any]:
    file = REPORTED / f"{name}.jsonl"
    if not file.exists():
        pytest.skip(f"the reported bodies are not here: {file}")
    return import_bodies([file], ImportOptions())[0]


def test_the_reported_first_message_that_changes_is_one_conversation():
    data = reported("first-message-changes")
    one = data["requests"][1]
    assert (data["conversations"], one["previous"], one["cause"]) == (1, 0, "tail")
    assert (one["path"], one["character"]) == ("messages[1].content", 14)


@pytest.mark.parametrize(("name", "depth"), [("note-at-fixed-depth", "4 lines before the end"),
                                             ("note-in-chat", "3 messages before the end")])  # fmt: skip
def test_the_reported_notes_are_texts_that_move(name, depth):
    data = reported(name)
    assert data["conversations"] == 1 and {*causes_of(data)} == {"moving text"}
    assert len(causes_of(data)) == len(data["requests"]) - 1 and data["causes"][0]["detail"] == depth
    assert "put it last" in data["causes"][0]["advice"]
