"""Forms of tools and messages that a server undoes: no change of the prompt, and no cause."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cachesim.base.tokens import common_prefix
from cachesim.cli.main import main
from cachesim.engines.chat_bodies import TemplateUse
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.changed_tools import KEYS
from cachesim.tools.request_bodies.import_bodies import ImportOptions
from cachesim.tools.request_bodies.parsed_bodies import as_parsed
from cachesim.tools.request_bodies.template import TemplateRenderer, TemplateSource
from tests.unit.tools.request_bodies.made import found

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}}
FUNCTION = {"name": "weather", "description": "Weather of a city", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
TURNED = {"function": {name: FUNCTION[name] for name in reversed(FUNCTION)}, "type": "function"}
TURNED_OUTSIDE = {"function": FUNCTION, "type": "function"}
TURNED_SCHEMA = {"type": "function", "function": {**FUNCTION, "parameters": dict(reversed(SCHEMA.items()))}}


def chat(tool: Any, *turns: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": "You are helpful. " * 40}, {"role": "user", "content": "Hello. " * 30}]
    roles = ("assistant", "user")
    messages += [{"role": roles[number % 2], "content": text} for number, text in enumerate(turns)]
    return {"messages": messages, "tools": [tool]}


def causes(path, capsys, tools: list[Any], *options: str) -> list[str]:
    """Return the causes of a loss that ``import`` finds in a conversation whose requests have these tools."""
    bodies = [chat(tool, *(["Yes.", "More."] * number)) for number, tool in enumerate(tools)]
    file = path / "bodies.jsonl"
    file.write_text("\n".join(map(json.dumps, bodies)), "utf-8")
    main(["import", str(file), "--json", "-q", *options])
    found = json.loads(capsys.readouterr().out)["bodies"]["causes"]
    return [cause["cause"] for cause in found if not cause["harmless"]]


@pytest.mark.parametrize("profile", ["llama_cpp", "ik_llama", "vllm"])
def test_an_order_of_keys_that_the_server_undoes_is_no_cause(profile, tmp_path, capsys):
    assert causes(tmp_path, capsys, [TOOL, TURNED, TOOL], "-p", profile) == []


def test_sglang_undoes_the_order_around_a_function_and_keeps_the_order_within(tmp_path, capsys):
    assert causes(tmp_path, capsys, [TOOL, TURNED_OUTSIDE, TOOL], "-p", "sglang") == []
    assert causes(tmp_path, capsys, [TOOL, TURNED, TOOL], "-p", "sglang") == [KEYS]


def test_a_server_that_hands_tools_on_as_they_are_sees_their_order(tmp_path, capsys):
    assert causes(tmp_path, capsys, [TOOL, TURNED_OUTSIDE, TOOL], "-p", "mlx_lm") == [KEYS]


@pytest.mark.parametrize("profile", ["llama_cpp", "vllm"])
def test_the_order_of_keys_in_a_schema_is_a_cause_everywhere(profile, tmp_path, capsys):
    assert causes(tmp_path, capsys, [TOOL, TURNED_SCHEMA, TOOL], "-p", profile) == [KEYS]


@pytest.mark.parametrize(("tool", "written"), [
    ({"name": "w", "strict": True, "type": "function"},
     {"type": "function", "name": "w", "description": "", "parameters": {}}),
    ({"type": "web_search", "name": "w"}, {"type": "web_search", "name": "w"}),
    ({"type": "function", "function": {"description": "no name"}},
     {"type": "function", "function": {"description": "no name"}}),
    ("not a tool", "not a tool"),
], ids=["without a function", "another kind", "no name", "no object"])  # fmt: skip
def test_only_functions_of_a_known_form_are_written_again(tool, written):
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": [tool]}
    [read] = as_parsed(bodies_of([FoundBody("x", body)]), "llama_cpp@b11549")
    assert read.tools == [("tools[0]", written)]


def test_llama_server_drops_all_tools_of_the_responses_api_but_functions():
    tools = [{"type": "web_search"}, {"type": "function", "name": "w", "strict": True}]
    [read] = as_parsed(bodies_of([FoundBody("x", {"input": "hi", "tools": tools})]), "llama_cpp@b11549")
    function = {"name": "w", "description": "", "parameters": {}}
    assert read.tools == [("tools[1]", {"type": "function", "function": function})]


# Changes of the form of a message, and the answer of a real server.

CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.c", "line": 3}'}}
BASE = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Read it.\nAll of it."},
    {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "int main"},
    {"role": "assistant", "content": "It is short."},
    {"role": "user", "content": "Thanks."},
]
DUMP = "{% for one in messages %}MSG={{ one | tojson }}\n{% endfor %}{% if add_generation_prompt %}GO{% endif %}"
MARK = {"cache_control": {"type": "ephemeral"}}


def texts(*some: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in some]


def call(**function: Any) -> dict[str, Any]:
    return {"tool_calls": [{**CALL, "function": {**CALL["function"], **function}}]}


FORMS: dict[str, tuple[int, dict[str, Any], int | None]] = {
    # number of the message, its other fields, first byte that differs in POST /apply-template of b11549 (None = none)
    "role developer": (0, {"role": "developer"}, None),
    "role user": (0, {"role": "user"}, 14),
    "one block": (1, {"content": texts("Read it.\nAll of it.")}, None),
    "blocks at the line end": (1, {"content": texts("Read it.", "All of it.")}, None),
    "blocks elsewhere": (1, {"content": texts("Read it.\nAll", " of it.")}, 93),
    "cache mark": (1, {"content": [{**texts("Read it.\nAll of it.")[0], **MARK}]}, None),
    "name": (1, {"name": "ada"}, 101),
    "empty name": (1, {"name": ""}, None),
    "empty content": (2, {"content": ""}, None),
    "empty list": (2, {"content": []}, None),
    "arguments as an object": (2, call(arguments={"path": "a.c", "line": 3}), None),
    "arguments without spaces": (2, call(arguments='{"path":"a.c","line":3}'), None),
    "arguments in another order": (2, call(arguments='{"line": 3, "path": "a.c"}'), 252),
    "float for an integer": (2, call(arguments='{"path": "a.c", "line": 3.0}'), None),
    "another number": (2, call(arguments='{"path": "a.c", "line": 3.5}'), 275),
    "escaped letter": (2, call(arguments='{"path": "\\u0061.c", "line": 3}'), None),
    "index of a call": (2, {"tool_calls": [{**CALL, "index": 0}]}, None),
    "id of a call": (2, {"tool_calls": [{**CALL, "id": "c2"}]}, 287),
    "refusal": (2, {"refusal": "no"}, None),
    "other reasoning": (2, {"reasoning_content": "Hmm."}, 168),
    "reasoning beside": (2, {"reasoning": "Hmm.", "thinking": "Hmm."}, None),
    "no reasoning": (2, {"reasoning_content": ""}, 145),
    "name of a result": (3, {"name": "read"}, 338),
    "no calls": (4, {"tool_calls": []}, None),
    "white space": (4, {"content": "It is short. "}, 409),
}


def with_form(number: int, fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**message, **fields} if at == number else message for at, message in enumerate(BASE)]


def test_the_prompts_of_two_forms_differ_where_those_of_the_real_server_do():
    pytest.importorskip("jinja2")
    chats = [BASE, *(with_form(number, fields) for number, fields, _ in FORMS.values())]
    sent = bodies_of([FoundBody("x", {"messages": messages}) for messages in chats])
    with TemplateRenderer(TemplateSource(DUMP, {}), "t") as template:
        base, *others = [one.text for one in template.render(as_parsed(sent, "llama_cpp@b11549", template.use()))]
    first = [None if other == base else common_prefix(base, other) for other in others]
    assert dict(zip(FORMS, first, strict=True)) == {name: first for name, (_, _, first) in FORMS.items()}


def chat_of(body: dict[str, Any], url: str = "") -> list[dict[str, Any]]:
    [read] = as_parsed(bodies_of([FoundBody("x", body, url)]), "llama_cpp@b11549")
    assert read.chat is not None
    return read.chat


USE = {"type": "tool_use", "id": "t1", "name": "read", "input": {"line": 3.0}}
READ = {"type": "function", "function": {"name": "read", "arguments": {"line": 3}}, "id": "t1"}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": texts("int ", "main"), "is_error": False}
ITEMS = [
    {"type": "reasoning", "id": "r1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
    {"type": "function_call", "id": "f1", "call_id": "t1", "name": "read", "arguments": '{"line":3}'},
    {"type": "function_call_output", "call_id": "t1", "output": "int main"},
]


@pytest.mark.parametrize("body", [
    {"system": texts("Be ", "brief."), "messages": [
        {"role": "user", "content": texts("Read it.")}, {"role": "assistant", "content": [THOUGHT, USE]},
        {"role": "user", "content": [RESULT, {**texts("Go on.")[0], **MARK}]}]},
    {"input": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Read it."}, *ITEMS]},
], ids=["Anthropic messages", "responses"])  # fmt: skip
def test_bodies_of_other_apis_become_the_messages_of_the_real_server(body):
    """Those that ``GET /slots`` of b11549 shows, with a template that writes messages as JSON."""
    asked = {"role": "user", "content": "Read it."}
    answer = {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [READ]}
    result = {"role": "tool", "content": "int main", "tool_call_id": "t1"}
    begin = [{"role": "system", "content": "Be brief."}, asked, answer]
    more = [{"role": "user", "content": "Go on."}] if "system" in body else []
    assert chat_of(body) == [*begin, *more, result]


CALL = {"type": "function", "function": {"name": "f", "arguments": "{x"}}
ASKED = {"role": "user", "content": "a"}


@pytest.mark.parametrize(("body", "where"), [
    ({"messages": [ASKED]}, None), ({"messages": [{"role": "user"}]}, "messages[0]"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0]"),
    ({"messages": [ASKED, {"role": "user", "content": [{"type": "text"}]}]}, "messages[1]"),
    ({"messages": [ASKED, {"role": "assistant", "tool_calls": "x"}, ASKED]}, "messages[1]"),
    ({"messages": [ASKED, {"role": "assistant", "content": "c", "reasoning_content": 5}, ASKED]}, "messages[1]"),
    ({"messages": [ASKED, *[{"role": "assistant", "content": "b"}] * 2]}, "two answers"),
    ({"messages": [ASKED, {"role": "assistant", "content": "c", "tool_calls": [CALL]}, ASKED]}, None),
    ({"instructions": "x", "input": [{"type": "odd"}]}, "an item"),
])  # fmt: skip
def test_a_body_that_the_server_refuses_is_said_to_be_refused(body, where, tmp_path):
    """As b11549 answers, with errors 400 and 500 or, where None is expected, with a prompt."""
    (request,) = found(tmp_path, {"model": "m", **body})["requests"]
    assert request["refusal"].startswith(where) if where else request["refusal"] == ""


def test_an_answer_at_the_end_begins_the_new_answer(tmp_path):
    """b11549 renders the chat without it, adds the text that begins an answer, then its blocks with an empty line."""
    pytest.importorskip("jinja2")
    template = tmp_path / "dump.jinja"
    template.write_text(DUMP)
    options = ImportOptions(profile="llama_cpp@b11549", template=str(template))
    begun = [BASE[1], {"role": "assistant", "content": texts("It", "is")}]
    whole = [BASE[1], {"role": "assistant", "content": "It\n\nis short."}, BASE[5]]
    data = found(tmp_path, {"messages": begun}, {"messages": whole}, asking=options)
    assert data["requests"][1]["characters"] == len('MSG={"role": "user", "content": "Read it.\\nAll of it."}\n')
    data = found(tmp_path, {"messages": begun}, {"messages": whole})
    assert data["requests"][1]["cause"] == "extends"


@pytest.mark.parametrize(("content", "calls", "use"), [
    ("m.content", "c.function.arguments | tojson", {}),
    ("m.content", "c.function.arguments", {"reads_arguments": False}),
    ("m.content if m.content is string else m.content[0].text", "c.function.arguments | tojson",
     {"iterates_content": True}),
    ("m.content[0].text", "c.function.arguments.path",
     {"iterates_content": True, "writes_strings": False, "reads_arguments": False}),
    ("m.content if m.role != 'system' else ''", "c.function.arguments | tojson", {"reads_system": False}),
    ("m.content", "c.function.arguments.arg", {}),
], ids=["usual", "arguments as text", "lists, too", "lists only", "no system", "one argument"])  # fmt: skip
def test_the_use_of_a_template_is_what_the_real_server_finds(content, calls, use):
    """``GET /props`` of b11549 lists it: ``chat_template_caps``."""
    pytest.importorskip("jinja2")
    inner = f"{{% for c in m.tool_calls or [] %}}{{{{ {calls} }}}}{{% endfor %}}"
    source = f"{{% for m in messages %}}{{{{ {content} }}}}{inner}{{% endfor %}}"
    with TemplateRenderer(TemplateSource(source, {}), "t") as template:
        assert template.use() == TemplateUse(source=source, **use)


def test_mlx_lm_joins_texts_without_anything_between_them(tmp_path):
    """mlx_lm/server.py process_message_content (0.32.2, read)."""
    whole, parts = ({"messages": [{"role": "user", "content": content}]} for content in ("It is", texts("It ", "is")))
    data = found(tmp_path, whole, parts, asking=ImportOptions(profile="mlx_lm@0.30.2"))
    assert data["requests"][1]["cause"] == "same"
