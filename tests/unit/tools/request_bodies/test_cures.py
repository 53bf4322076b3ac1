"""The cure of the costliest cause: it saves what the same change of the bodies saves when a person makes it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Callable, NamedTuple

import pytest

from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
from tests.unit.tools.request_bodies import client_shapes as shapes
from tests.unit.tools.request_bodies.test_planted_changes import TEXTS, in_each, note, planted

Body = dict[str, Any]
Edit = Callable[[list[Body]], Any]
NOTE = "[Keep the answers short, in the past tense.]"
REMINDER = "\n<reminder>Plan before you edit.</reminder>"


class Fault(NamedTuple):
    """Change of a client, and the same bodies after a person cured it."""

    shape: str
    change: Edit
    cure: Edit               # of the bodies of the shape


def system(bodies: list[Body], text: Callable[[int], str]) -> None:
    for number, body in enumerate(bodies):
        body["messages"][0]["content"] = text(number) + shapes.RULES


def reminders(bodies: list[Body]) -> None:
    for body in bodies:
        for message in body["messages"]:
            if message["role"] == "user":
                message["content"] += REMINDER


def kept_chapters(bodies: list[Body]) -> None:
    for count, body in enumerate(bodies, 1):
        for number in reversed(range(count)):
            text = f"Retrieved from the manual: chapter {number} " + "xyzw"[number] * 40
            body["messages"].insert(2 * number + 1, {"role": "system", "content": text})


def line_inserted(bodies: list[Body], number: int, text: str) -> None:
    for body in bodies:
        lines = body["prompt"].splitlines(keepends=True)
        lines.insert(number, text)
        body["prompt"] = "".join(lines)


def with_search(bodies: list[Body]) -> None:
    search = {"type": "function", "function": {"name": "search", "parameters": {}}}
    for body in bodies:
        body["tools"] = [*shapes.TOOLS, search]


def text_at(bodies: list[Body], text: str) -> None:
    """A text in front of the last line of the third prompt, and nowhere else."""
    lines = bodies[2]["prompt"].splitlines(keepends=True)
    bodies[2]["prompt"] = "".join([*lines[:3], text, *lines[3:]])


def answered(bodies: list[Body], first: int) -> None:
    """A past answer that the client rewrites in one request and in all that follow."""
    for body in bodies[first:]:
        body["messages"][2]["content"] = "The parser was right."


def turned(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its keys in the opposite order."""
    return dict(reversed(schema.items()))


def as_it_is(_bodies: list[Body]) -> None:
    """The bodies of the shape."""


FAULTS: dict[str, Fault] = {
    **{name: Fault(*TEXTS[name][:2], as_it_is) for name in (
        "front of the history", "middle of the history", "reasoning removed", "thinking removed", "tool result cleared",
        "tools sorted", "tools removed", "another picture", "answer edited", "output edited",
        "text removed from a raw prompt", "message at another place")},
    "tool added": Fault(*TEXTS["tool added"][:2], with_search),
    "a reminder in the newest message": Fault("chat", TEXTS["reminder of the newest message"][1], reminders),
    "a note before the last message": Fault(
        "chat", TEXTS["note before the last two messages"][1],
        lambda bodies: [body["messages"].insert(1, {"role": "system", "content": NOTE}) for body in bodies]),
    "a note at the end": Fault(
        "chat", TEXTS["note at the end"][1],
        lambda bodies: [body["messages"].insert(2, {"role": "system", "content": NOTE}) for body in bodies]),
    "retrieved texts": Fault("chat", TEXTS["retrieved text"][1], kept_chapters),
    "a note among lines": Fault(
        "story", TEXTS["note among lines"][1],
        lambda bodies: line_inserted(bodies, 4, "[Note: in the style of a letter.]\n")),
    "a date": Fault(
        "chat", lambda bodies: system(bodies, "It is 2026-11-2{} 10:00. ".format),
        lambda bodies: system(bodies, lambda _: "It is 2026-11-20 10:00. ")),
    "two dates": Fault(
        "chat", lambda bodies: system(bodies, lambda n: f"It is 2026-11-2{n}.\n<env>today: 2026-11-2{n}</env>\n"),
        lambda bodies: system(bodies, lambda _: "It is 2026-11-20.\n<env>today: 2026-11-20</env>\n")),
    "an id": Fault(
        "agent", lambda bodies: system(bodies, lambda n: f"session_id: 7f3a9c0{n}b1\n"),
        lambda bodies: system(bodies, lambda _: "session_id: 7f3a9c00b1\n")),
    "a counter": Fault(
        "chat", lambda bodies: system(bodies, lambda n: f"Tokens used: {100 + n}\n"),
        lambda bodies: system(bodies, lambda _: "Tokens used: 100\n")),
    "a listing": Fault(
        "chat", lambda bodies: system(bodies, lambda n: "git status:\n" + "".join(f"M {c}.py\n" for c in "abcd"[n:])),
        lambda bodies: system(bodies, lambda _: "git status:\nM a.py\nM b.py\nM c.py\nM d.py\n")),
    "a billing header": Fault(
        "chat", lambda bodies: system(bodies, lambda n: f"x-anthropic-billing-header: cc_version=2; cch={n}a4{n};\n"),
        as_it_is),
    "another system prompt": Fault(
        "chat", lambda bodies: system(bodies[2:], lambda _: "Be kind to everybody. "), as_it_is),
    "white space": Fault(
        "chat", lambda bodies: [one["messages"][2].update(content=f"{shapes.ANSWERS[0]}  \n") for one in bodies[2:]],
        as_it_is),
    "an answer rewritten for good": Fault("chat", lambda bodies: answered(bodies, 2), as_it_is),
    "keys of a tool": Fault(
        "agent", lambda bodies: in_each(bodies[1:], lambda one: one.update(
            tools=[{**tool, "function": {**tool["function"], "parameters": turned(tool["function"]["parameters"])}}
                   for tool in shapes.TOOLS])), as_it_is),
    "a tool described anew": Fault(
        "agent", lambda bodies: in_each(bodies[1:], lambda one: one["tools"][0]["function"].update(description="x")),
        as_it_is),
    "a message inserted": Fault(
        "chat", lambda bodies: note(bodies[3], NOTE, 5),
        lambda bodies: bodies[3]["messages"].append({"role": "system", "content": NOTE})),
    "text inserted into a raw prompt": Fault(
        "story", lambda bodies: text_at(bodies, "[A letter comes.]\n") or bodies.pop(),
        lambda bodies: bodies[2].update(prompt=bodies[2]["prompt"] + "[A letter comes.]\n") or bodies.pop()),
}  # fmt: skip


def imported(folder: Path, bodies: list[Body], model: str, **options: Any) -> dict[str, Any]:
    file = folder / "bodies.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in bodies), "utf-8")
    return import_bodies([file], ImportOptions(model=model, **options))[0]


def evaluated(data: dict[str, Any]) -> int:
    tokens: int = data["simulation"]["tokens"]
    reused: int = data["simulation"]["reused"]
    return tokens - reused


cured: dict[tuple[str, str], int] = {}
"""Evaluated tokens of bodies, as text, under a model: many faults are cured to the same bodies."""


def evaluated_in(folder: Path, bodies: str, model: str) -> int:
    if (bodies, model) not in cured:
        cured[bodies, model] = evaluated(imported(folder, json.loads(bodies), model))
    return cured[bodies, model]


@pytest.mark.parametrize(("name", "model"), [
    *((name, "GGGA") for name in FAULTS), *((name, "AAAA") for name in list(FAULTS)[::4]),
])  # fmt: skip
def test_a_cure_saves_what_the_same_edit_of_the_bodies_saves(tmp_path, name, model):
    """Estimated tokens are rounded once for each prompt."""
    fault = FAULTS[name]
    data = imported(tmp_path, planted(fault.shape, fault.change), model, is_cured=True)
    by_hand = copy.deepcopy(shapes.SHAPES[fault.shape]())
    fault.cure(by_hand)
    saved = evaluated(data) - evaluated_in(tmp_path, json.dumps(by_hand), model)
    assert data["cure"]["evaluated"] == evaluated(data) and data["cure"]["first_requests"] == len(data["requests"])
    assert data["cure"]["saved"] == pytest.approx(saved, abs=len(by_hand)) and saved > 0


TEMPLATE = """{% for m in messages %}<{{ m.role }}>{{ KEPT }}{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"""
THOUGHT = "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
NEWEST = THOUGHT.replace("if m", "if loop.index > messages|length - 2 and m")


def test_the_cure_of_a_template_is_the_template_that_renders_past_turns_unchanged(tmp_path):
    files = {name: tmp_path / f"{name}.jinja" for name in ("newest", "all")}
    for file, kept in zip(files.values(), (NEWEST, THOUGHT), strict=True):
        file.write_text(TEMPLATE.replace("{{ KEPT }}", kept), "utf-8")
    newest, every = (
        imported(tmp_path, shapes.agent(), "AAAA", template=str(file), is_cured=True) for file in files.values()
    )
    assert (newest["cure"]["cause"], every["cure"]) == ("template", None)
    assert newest["cure"]["saved"] == pytest.approx(evaluated(newest) - evaluated(every), abs=4)


def test_the_cure_of_reasoning_that_is_not_sent_back_sends_it_back(tmp_path):
    def recorded(is_returned: bool) -> list[Body]:
        exchanges = []
        for body, answer in zip(shapes.chat(), shapes.ANSWERS, strict=True):
            thought = {"reasoning_content": "I think about it for a while. " * 6}
            for message in body["messages"] if is_returned else ():
                message.update(thought if message["role"] == "assistant" else {})
            message = {"role": "assistant", "content": answer, **thought}
            exchanges.append({"request": body, "response": {"choices": [{"message": message}]}})
        return exchanges

    kept, dropped = (imported(tmp_path, recorded(is_returned), "AAAA", is_cured=True) for is_returned in (True, False))
    assert (kept["cure"], dropped["cure"]["cause"]) == (None, "answer reasoning")
    assert dropped["cure"]["saved"] == pytest.approx(evaluated(dropped) - evaluated(kept), abs=4)


def test_one_list_of_adapters_saves_what_several_lose(tmp_path):
    def story(*lists: int) -> list[Body]:
        lists_of = zip(shapes.story(), lists, strict=True)
        return [{**body, "lora": [{"id": number, "scale": 1.0}]} for body, number in lists_of]

    data = imported(tmp_path, story(0, 1, 0, 1), "AAAA", is_cured=True)
    saved = evaluated(data) - evaluated(imported(tmp_path, story(0, 0, 0, 0), "AAAA"))
    assert data["cure"]["cause"] == "adapters" and data["cure"]["saved"] == pytest.approx(saved, abs=4)


def test_an_edit_of_the_newest_message_has_no_cure(tmp_path):
    bodies = shapes.chat()[:2]
    other = copy.deepcopy(bodies[-1])
    other["messages"][-1]["content"] = "Now write a test that shows nothing."
    data = imported(tmp_path, [*bodies, other], "AAAA", is_cured=True)
    assert (data["requests"][-1]["cause"], data["cure"]) == ("edited", None)


def test_a_change_after_the_requests_that_are_run_again_has_a_cure_without_a_number(tmp_path):
    """Long answers: only the first requests are run again."""
    messages: list[Body] = [{"role": "user", "content": "Tell me all."}]
    bodies = []
    for number in range(12):
        bodies.append({"messages": copy.deepcopy(messages)})
        messages += [{"role": "assistant", "content": f"{number} words. " * 250}, {"role": "user", "content": "More."}]
    early, late = copy.deepcopy(bodies), copy.deepcopy(bodies)
    for changed, first in ((early, 2), (late, 10)):
        for body in changed[first:]:
            body["messages"][1]["content"] += "And more."
    cures = [imported(tmp_path, changed, "A", is_cured=True)["cure"] for changed in (early, late)]
    assert [(one["saved"] is None, one["first_requests"] < 10) for one in cures] == [(False, True), (True, True)]


def test_an_assumed_model_is_compared_with_another_one(tmp_path):
    bodies = planted(*FAULTS["a note among lines"][:2])
    hybrid = imported(tmp_path, bodies, "GGGA", is_cured=True, other_model="AAAA")["cure"]
    dense = imported(tmp_path, bodies, "AAAA", is_cured=True)["cure"]
    assert hybrid["other_model"] == {"model": "AAAA", "evaluated": dense["evaluated"], "saved": dense["saved"]}
    assert dense["other_model"] is None and dense["saved"] < hybrid["saved"]
