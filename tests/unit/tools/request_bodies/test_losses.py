"""Cost of a change to a prompt in tokens, and the cause that it is attributed to."""

from __future__ import annotations

import pytest

from tests.unit.tools.request_bodies.made import LONG, TOOLS, chat, found

FIRST, ANSWER, NEXT = "Please read the file. " * 8, "It reads a table. " * 8, "Now change it. " * 8
LINE = len("<|im_start|>user\n<|im_end|>\n")


def last(tmp_path, *bodies):
    data = found(tmp_path, *bodies)
    return data["requests"][-1], data


def test_new_messages_are_not_lost_by_a_change_before_them(tmp_path):
    """An edited system prompt invalidates the message after it; the answer and the newest message are new."""
    one, data = last(tmp_path, chat(FIRST, system=f"A {LONG}"), chat(FIRST, ANSWER, NEXT, system=f"B {LONG}"))
    behind = len(NEXT) + LINE + len("<|im_start|>assistant\n")
    assert one["new_tokens"] == pytest.approx(behind / 4, abs=1)
    assert one["again"] == one["tokens"] - one["reusable"] - one["new_tokens"] > 0
    assert data["again"] == one["again"] and data["losing"] == [1]


@pytest.mark.parametrize("system", [LONG, ""])
def test_a_changed_tool_invalidates_the_tokens_after_it_except_the_new_message(tmp_path, system):
    other = {**TOOLS[1], "function": {**TOOLS[1]["function"], "description": "does another thing"}}
    tools = [TOOLS[0], other, TOOLS[2]]
    one, _ = last(tmp_path, chat(FIRST, system=system, tools=TOOLS),
                  chat(FIRST, {"role": "user", "content": NEXT}, system=system, tools=tools))  # fmt: skip
    behind = len(NEXT) + LINE + len("<|im_start|>assistant\n")
    assert one["cause"] == "a tool" and one["new_tokens"] == pytest.approx(behind / 4, abs=1)


def test_an_extension_loses_nothing_and_an_unrelated_prompt_is_new(tmp_path):
    data = found(tmp_path, chat(FIRST), chat(FIRST, ANSWER, NEXT), chat("Something else is asked here.", system="x"))
    assert [one["again"] for one in data["requests"]] == [0, 0, 0] and data["losing"] == [] and data["again"] == 0
    assert data["conversations"] == 2 and data["requests"][1]["reusable_from"] == 0


def test_raw_prompts_lose_the_tokens_of_the_previous_prompt(tmp_path):
    text = "".join(f"{number:03d} " for number in range(100))                       # 400 characters
    data = found(tmp_path, {"prompt": text}, {"prompt": text[:300] + "#" * 200})
    assert (data["requests"][1]["reusable"], data["requests"][1]["again"]) == (75, 25)
    assert data["requests"][1]["new_tokens"] == 25


def test_causes_are_grouped_and_the_most_expensive_comes_first(tmp_path):
    said = [FIRST, ANSWER, NEXT]
    data = found(tmp_path, chat(FIRST, system=f"10:01 {LONG}"), chat(FIRST, system=f"10:02 {LONG}"),
                 chat(*said, system=f"10:03 {LONG}"), chat(*said[:1], ANSWER.upper(), NEXT, system=f"10:03 {LONG}"))
    [date, answer, new] = data["causes"]
    assert (date["cause"], date["in_requests"], date["where"]) == ("date", [1, 2], "the system prompt")
    assert date["again"] == sum(one["again"] for one in data["requests"][1:3]) > answer["again"] > 0
    assert (answer["cause"], answer["in_requests"], answer["where"]) == ("answer", [3], "")
    assert (new["cause"], new["in_requests"], new["harmless"], new["again"]) == ("new", [0], True, 0)
    assert date["evidence"]["previous"] == 0 and date["evidence"]["request"] == 1
    assert data["most"] == max(one["reusable"] for one in data["requests"][1:])


@pytest.mark.parametrize("role, where", [
    ("system", "the system prompt"), ("user", "a user message"), ("tool", "a tool result"),
])  # fmt: skip
def test_a_date_is_reported_with_its_part_of_the_prompt(tmp_path, role, where):
    def body(day):
        said = {"role": role, "content": f"{LONG} On 2026-11-{day} it was so. {LONG}"}
        return chat({"role": "user", "content": "Go on, please, and say it."}, said, {"role": "user", "content": NEXT})

    _, data = last(tmp_path, body("21"), body("22"))
    assert (data["causes"][0]["cause"], data["causes"][0]["where"]) == ("date", where)


def test_a_date_in_a_tool_is_reported_as_a_date(tmp_path):
    def body(day):
        return chat(FIRST, tools=[{**TOOLS[0], "function": {**TOOLS[0]["function"], "description": f"2026-11-{day}"}}])

    _, data = last(tmp_path, body("21"), body("22"))
    assert (data["causes"][0]["cause"], data["causes"][0]["where"]) == ("date", "the tools")
    assert data["causes"][0]["path"] == "tools[0].function.description" and data["causes"][0]["character"] == 9
