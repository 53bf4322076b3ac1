"""Each cause, in a small conversation: its name, and the place where the change begins."""

from __future__ import annotations

import copy

import pytest

from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.changed_messages import MOVING
from cachesim.tools.request_bodies.import_bodies import ImportOptions
from cachesim.tools.request_bodies.plain_render import render_plain
from cachesim.tools.request_bodies.prompt_causes import (
    CAUSES,
    MOVED_LINES,
    PromptCause,
    cause_of_bodies,
    raw_cause,
)
from tests.unit.tools.request_bodies.made import LONG, TOOLS, chat, found

U1, A1, U2, A2, U3 = (
    "Please read the file and say what it does.", "It reads a table and prints it, line by line.",
    "Now change it so that it counts them.", "Done: it counts the lines and prints their number.",
    "Very good, now write a test for it, please.",
)  # fmt: skip
FRONT = "You help. "
HISTORY = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate((U1, A1, U2, A2, U3))]


def dated(text):
    return chat(U1, system=f"{FRONT}{text} {LONG}"), chat(U1, A1, U2, system=f"{FRONT}{text} {LONG}")


def systems(old, new):
    return [chat(U1, system=f"{FRONT}{old} {LONG}"), chat(U1, A1, U2, system=f"{FRONT}{new} {LONG}")]


def tooled(old, new):
    return [chat(U1, tools=old), chat(U1, A1, U2, tools=new)]


def key_order(tool):
    other = copy.deepcopy(tool)
    other["function"]["parameters"] = dict(reversed(other["function"]["parameters"].items()))
    return other


def said(text, **more):
    return {"role": "assistant", "content": text, **more}


def image(data):
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def texted(text):
    return {"type": "text", "text": text}


CASES = {
    "iso time": (systems("Now: 2026-11-21T10:00:13Z.", "Now: 2026-11-21T10:00:59Z."), "date",
                 "messages[0].content", len(FRONT) + len("Now: 2026-11-21T10:00:")),
    "date in words": (systems("Today is November 21, 2026.", "Today is November 22, 2026."), "date",
                      "messages[0].content", len(FRONT) + len("Today is November 2")),
    "weekday": (systems("Today is Friday.", "Today is Saturday."), "date", "messages[0].content",
                len(FRONT) + len("Today is ")),
    "clock": (systems("It is 9:59 AM.", "It is 10:01 AM."), "date", "messages[0].content", len(FRONT) + len("It is ")),
    "epoch": (systems("ts=1795255813", "ts=1795255999"), "date", "messages[0].content", len(FRONT) + len("ts=1795255")),
    "uuid": (systems("Id 1f0c2c1e-9a54-4e0e-8d0e-0242ac120002", "Id 7d444840-9dc0-11d1-b245-5ffdce74fad2"), "id",
             "messages[0].content", len(FRONT) + 3),
    "request id": (systems("req_8fk3Jd92k", "req_92kdjf83K"), "id", "messages[0].content", len(FRONT) + 4),
    "cache buster": (systems("nonce: blue", "nonce: green"), "id", "messages[0].content", len(FRONT) + 7),
    "git status": (systems("git status:\n M a.py", "git status:\n M b.py"), "listing", "messages[0].content",
                   len(FRONT) + len("git status:\n M ")),
    "usage": (systems("Context: 12,000 tokens used", "Context: 15,000 tokens used"), "counter",
              "messages[0].content", len(FRONT) + len("Context: 1")),
    "other system prompt": (systems("Be kind", "Be brief"), "system prompt", "messages[0].content", len(FRONT) + 3),
    "order of tools": (tooled(TOOLS, TOOLS[::-1]), "order of tools", "tools[0].function.name", 1),
    "order of keys": (tooled(TOOLS, [*TOOLS[:2], key_order(TOOLS[2])]), "order of keys",
                      "tools[2].function.parameters", None),
    "a tool more": (tooled(TOOLS[:2], TOOLS), "tools", None, None),
    "no tools any more": (tooled(TOOLS, []), "tools", None, None),
    "another definition": (tooled(TOOLS, [{**TOOLS[0], "function": {**TOOLS[0]["function"], "description": "x"}},
                                          *TOOLS[1:]]), "a tool", "tools[0].function.description", 0),
    "reasoning field removed": ([chat(U1, said(A1, reasoning_content="Hm."), U2), chat(U1, said(A1), U2, A2, U3)],
                                "reasoning removed", "messages[2].content", 0),
    "think tags removed": ([chat(U1, said(f"<think>\nHm.\n</think>\n\n{A1}"), U2), chat(U1, A1, U2, A2, U3)],
                           "reasoning removed", "messages[2].content", 0),
    "reasoning added": ([chat(U1, A1, U2), chat(U1, said(A1, reasoning_content="Hm."), U2, A2, U3)],
                        "reasoning added", "messages[2].reasoning_content", 0),
    "trimmed": ([chat(U1, A1 + "\n", U2), chat(U1, A1, U2, A2, U3)], "whitespace", "messages[2].content", len(A1) - 0),
    "image changed": ([chat(user(texted(U1), image("AAAA")), A1, U2), chat(user(texted(U1), image("BBBB")), A1, U2, A2,
                                                                           U3)], "image", "messages[1].content[1]",
                      None),
    "truncated": ([chat(U1, A1, U2, A2, U3), chat(U2, A2, U3, "It has a test now.", U1)], "truncated",
                  "messages[1].content", 0),
    "summarised": ([chat(U1, A1, U2, A2, U3), chat(f"Summary of the conversation so far: {U1[:12]}", A2, U3)],
                   "summary", "messages[1].content", 0),
    "edited": ([chat(U1, A1, U2, A2, U3), chat(U1, A1, "Now rename it, please.")], "edited", "messages[3].content", 4),
    "answer changed": ([chat(U1, A1, U2), chat(U1, "It reads a list instead.", U2, A2, U3)], "answer",
                       "messages[2].content", len("It reads a ")),
    "old result cleared": (
        [chat(U1, A1, {"role": "tool", "content": "line " * 90}, A2, U3),
         chat(U1, A1, {"role": "tool", "content": "[cleared]"}, A2, U3, A1, U2)], "pruned", "messages[3].content", 0),
    "reminder gone": ([chat(U1, A1, f"{U2}\nRemember: be brief."), chat(U1, A1, U2, A2, U3)], "tail",
                      "messages[3].content", None),
    "inserted": ([chat(U1, A1, U2), chat({"role": "user", "content": "A note of the day."}, *HISTORY)], "inserted",
                 "messages[1].content", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_cause_has_its_name_and_place(tmp_path, name):
    bodies, cause, path, character = CASES[name]
    data = found(tmp_path, *bodies)
    one = data["requests"][1]
    assert (one["cause"], one["previous"], one["conversation"]) == (cause, 0, 0)
    assert path is None or one["path"] == path
    assert character is None or one["character"] == character
    assert CAUSES[cause].says in [entry["says"] for entry in data["causes"]]


def test_a_billing_header_is_recognised(tmp_path):
    """The converters of llama.cpp from b8906 on and of ik_llama.cpp (8337e4c) undo its change; others do not."""
    bodies = []
    for cch, more in (("fa690", []), ("0aaa9", HISTORY[1:3])):
        header = f"x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch={cch};"
        system = [{"type": "text", "text": header}, {"type": "text", "text": LONG}]
        bodies.append({"system": system, "messages": [{"role": "user", "content": U1}, *more], "max_tokens": 9})
    for profile in ("llama_cpp@b8916", "ik_llama@1134"):
        assert found(tmp_path, *bodies, asking=ImportOptions(profile=profile))["requests"][1]["cause"] == "extends"
    data = found(tmp_path, *bodies, asking=ImportOptions(profile="llama_cpp@b8450"))
    assert data["requests"][1]["cause"] == "billing header"
    assert (data["requests"][1]["path"], data["requests"][1]["character"]) == ("system[0].text", header.index("0aaa9"))
    assert data["forms"] == ["Anthropic messages"]


def test_an_extended_or_repeated_prompt_loses_nothing(tmp_path):
    data = found(tmp_path, chat(U1), chat(U1, A1, U2), chat(U1, A1, U2), chat(U1, A1, U2, A2, U3), chat(U1))
    assert [one["cause"] for one in data["requests"]] == ["new", "extends", "same", "extends", "back"]
    assert data["again"] == 0 and data["losing"] == []


def test_another_conversation_is_new(tmp_path):
    data = found(tmp_path, chat(U1), chat("What is the capital of France?"), chat(U1, A1, U2),
                 chat("What is the capital of France?", "Paris.", "And of Spain, if you know?"))  # fmt: skip
    assert [(one["cause"], one["conversation"], one["previous"]) for one in data["requests"]] == [
        ("new", 0, -1), ("new", 1, -1), ("extends", 0, 0), ("extends", 1, 1)]  # fmt: skip


def test_missing_reasoning_is_detected_if_the_answer_is_recorded(tmp_path):
    answer = {"choices": [{"message": {"role": "assistant", "reasoning_content": "Hm, let me see.", "content": A1}}]}
    data = found(tmp_path, {"request": chat(U1), "response": answer}, {"request": chat(U1, A1, U2)})
    assert data["requests"][1]["cause"] == "answer reasoning"
    data = found(tmp_path, {"request": chat(U1), "response": answer},
                 {"request": chat(U1, said(A1, reasoning_content="Hm, let me see."), U2)})  # fmt: skip
    assert data["requests"][1]["cause"] == "extends"


def test_causes_of_a_raw_prompt(tmp_path):
    def prompt(text):
        return {"prompt": text, "n_predict": 4}

    old = f"{LONG}<|im_start|>user\n{U1}<|im_end|>\n<|im_start|>assistant\n<think>\nHm.\n</think>\n\n{A1}<|im_end|>\n"
    new = old.replace("<think>\nHm.\n</think>\n\n", "") + U2
    cases = [
        (prompt(f"{LONG} It is 10:00. {LONG}"), prompt(f"{LONG} It is 10:01. {LONG}"), "date"),
        (prompt(f"{LONG}{U1}{A1}{U2}"), prompt(f"{LONG}{U2}"), "removed text"), (prompt(old), prompt(new),
                                                                             "reasoning removed"),
        (prompt(LONG), prompt(LONG + U1), "extends"), (prompt(f"{LONG} a  b {U1}"), prompt(f"{LONG} a b {U1}"),
                                                       "whitespace"),
    ]  # fmt: skip
    for a, b, cause in cases:
        data = found(tmp_path, a, b)
        assert (data["requests"][1]["cause"], data["forms"]) == (cause, ["native completion"])
    assert data["requests"][1]["bytes"] == len(LONG) + 3


def test_white_space_in_a_raw_prompt_is_recognised_by_the_following_words(tmp_path):
    data = found(tmp_path, {"prompt": "Say hello  to the world"}, {"prompt": "Say hello to the world"})
    assert data["requests"][1]["cause"] == "whitespace"


def test_tokens_of_the_client_are_exact(tmp_path):
    data = found(tmp_path, {"prompt": [*range(100)]}, {"prompt": [*range(60), 7, *range(61, 120)]})
    one = data["requests"][1]
    assert data["tokens_exact"] and (one["shared"], one["tokens"]) == (60, 120)
    assert (one["path"], one["character"]) == ("prompt", 60)


W, V = "word " * 50, "vord " * 50             # longer than what is compared


@pytest.mark.parametrize(("old", "new", "cause", "detail"), [
    ("one two three", "one two", "back", ""),
    ("ab  c d e f", "ab c d e f", "whitespace", ""),
    ("ab  c d e f g", "ab c d e f x", "whitespace", ""),             # the next four words are the same
    ("ab  c d e f", "ab c d g f", "text", ""),             # the fourth is another
    ("ab  c", "ab c", "text", ""),                         # one word is not enough
    ("ab  c d", "ab c d", "whitespace", ""),
    (f"ab {V}{W}end", f"ab {W}end", "removed text", "250 characters"),
    (f"ab {W}end", f"ab {V}{W}end", "inserted text", "250 characters"),
    (f"ab {V}{W}end", f"ab {W}", "removed text", "250 characters"),
    (f"ab xyz{W}end", f"ab {W}end", "removed text", "3 characters"),
    (f"ab xyz{W[:14]}", f"ab {W[:14]}", "text", ""),       # too short to be found again
    (f"ab xyz{W[:15]}", f"ab {W[:15]}", "text", ""), (f"x{W}", W, "removed text", "1 character"),
    ("one two three four five  six seven eight", "one two three four five six seven eight", "whitespace", ""),
    (f"ab {'c' * 193} d e f", f"ab\n{'c' * 193} d e f", "whitespace", ""),   # the fourth word ends with 200 characters
    (f"ab {'c' * 194} d e f", f"ab\n{'c' * 194} d e g", "whitespace", ""),   # it is not among them
    ("a <think>r</think> b <think>s</think> c d e f", "a <think>r</think> b c d e f", "reasoning removed", ""),
    (f"ab xyz{W[:16]}", f"ab {W[:16]}", "removed text", "3 characters"),
    (f"ab {W}end", f"ab  {W}end", "whitespace", ""), (f"ab x{W}end", f"ab xx{W}end", "inserted text", "1 character"),
    (f"ab xx{W}end", f"ab x{W}end", "removed text", "1 character"),
    ("a <think>b</think> c d e f", "a  c d e f", "reasoning removed", ""),
])  # fmt: skip
def test_a_raw_prompt_differs_by_the_smallest_change_that_explains_it(old, new, cause, detail):
    at = common_prefix(old, new)
    assert raw_cause(old, new, at) == PromptCause(cause, detail)


def test_tools_that_only_moved_to_a_new_system_message_are_not_the_cause(tmp_path):
    data = found(tmp_path, chat(U1, system="", tools=TOOLS), chat(U1, A1, U2, system="Be kind.", tools=TOOLS))
    assert data["requests"][1]["cause"] == "inserted"


def test_an_image_that_changed_with_its_text_is_the_cause(tmp_path):
    data = found(tmp_path, chat(user(image("AAAA"), texted(U1)), A1, U2),
                 chat(user(image("BBBB"), texted(f"{U1} And why.")), A1, U2, A2, U3))  # fmt: skip
    assert (data["requests"][1]["cause"], data["requests"][1]["path"]) == ("image", "messages[1].content[0]")


def test_a_chat_and_a_raw_prompt_differ_in_their_text():
    said = "a question of some length is here"
    bodies = bodies_of([FoundBody("x", {"prompt": f"{said}, and then more"}), FoundBody("x", chat(f"{said}, but"))])
    for old, new in (bodies, bodies[::-1]):
        prompts = render_plain(old), render_plain(new)
        at = common_prefix(prompts[0].text, prompts[1].text)
        assert cause_of_bodies(old, new, *prompts, at) == PromptCause("text")


@pytest.mark.parametrize(("same", "cause"), [
    (63, PromptCause("removed text", "65 characters")), (64, PromptCause("text")),
])  # fmt: skip
def test_removed_text_ends_where_64_characters_follow(same, cause):
    """A text of as many equal characters stands before the place where all of the rest follows."""
    rest = "".join(chr(0x4E00 + at) for at in range(80))
    assert raw_cause(f"ab#{rest[:same]}#{rest}", f"ab{rest}", 2) == cause


def test_a_system_message_that_was_inserted_changes_the_system_prompt(tmp_path):
    note = {"role": "system", "content": "A note of the day."}
    bodies = [{"messages": [*before, *chat(U1, *more)["messages"]]} for before, more in (((), ()), ((note,), (A1, U2)))]
    assert found(tmp_path, *bodies)["requests"][1]["cause"] == "system prompt"


def test_the_first_difference_decides_although_the_tools_changed_too(tmp_path):
    data = found(tmp_path, chat(U1, system="Be kind", tools=TOOLS), chat(U1, A1, U2, system="Go on", tools=TOOLS[:1]))
    assert data["requests"][1]["cause"] == "system prompt"


@pytest.mark.parametrize(("name", "detail"), [("truncated", "2 messages"), ("inserted", "1 message")])
def test_a_change_of_the_history_has_the_number_of_its_messages(tmp_path, name, detail):
    assert found(tmp_path, *CASES[name][0])["requests"][1]["detail"] == detail


@pytest.mark.parametrize(("old", "new", "cause"), [
    ("A: one\n[a note for all]\nB: two\nA:", "A: one\nB: two\nA: three\n[a note for all]\nB: four\nA:",
     PromptCause(MOVING, "2 lines before the end")),
    ("one\n[a note for all]\ntwo", "one\ntwo\nthree\n[a note for all]\nfour",
     PromptCause(MOVING, "1 line before the end")),
    ("one\n[a note for all]\ntwo\nthree", "one\ntwo\nthree\n[a note for all]\nfour\nfive\nsix",
     PromptCause(MOVED_LINES)),
])  # fmt: skip
def test_lines_at_a_fixed_distance_from_the_end_are_moving_and_others_moved(old, new, cause):
    assert raw_cause(old, new, common_prefix(old, new)) == cause


@pytest.mark.parametrize("profile", ["llama_cpp@b11549", "vllm@0.33.0"])
def test_reasoning_of_the_responses_api_that_is_left_out_has_its_name(profile, tmp_path):
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Let me see."}]}
    asked, more = ({"role": "user", "content": text} for text in ("What is in this file?", "And its name?"))
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A parser."}]}
    inputs = [[asked, thought, said, more], [asked, said, more, said, asked]]
    bodies = [{"model": "m", "instructions": LONG, "input": items} for items in inputs]
    row = found(tmp_path, *bodies, asking=ImportOptions(profile=profile))["requests"][1]
    assert (row["cause"], row["path"]) == ("reasoning removed", "input[1].content[0].text")
