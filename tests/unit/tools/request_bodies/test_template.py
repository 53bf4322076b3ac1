"""Rendering of chat templates in a sandbox with limits, and detection of past turns that a template changes."""

from __future__ import annotations

import json

import pytest

from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.import_bodies import ImportOptions
from cachesim.tools.request_bodies.template import TemplateRenderer, TemplateSource, is_template_option, read_template
from tests.unit.tools.request_bodies.made import LONG, TOOLS, chat, found

pytest.importorskip("jinja2")

STRIPS = (
    "{%- for m in messages -%}<|{{ m.role }}|>"
    "{%- if m.reasoning_content and loop.index0 > (messages|length - 3) -%}<think>{{ m.reasoning_content }}</think>"
    "{%- endif -%}{{ m.content }}{%- endfor -%}{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)
OPENS = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think>{% endif %}"
)


def bodies(*some):
    return bodies_of([FoundBody("x", one) for one in some])


def texts(source, *some):
    with TemplateRenderer(TemplateSource(source, {}), "t") as template:
        return [one and one.text for one in template.render(bodies(*some))]


def refused(source, *some):
    with pytest.raises(BadInput) as error:
        texts(source, *(some or [chat("hello")]))
    return str(error.value)


def thought(text):
    return {"role": "assistant", "content": text, "reasoning_content": "Let me think of it."}


def imported(tmp_path, source, *some):
    file = tmp_path / "t.jinja"
    file.write_text(source)
    return found(tmp_path, *some, asking=ImportOptions(template=str(file)))


def test_a_template_that_removes_past_reasoning_is_the_cause(tmp_path):
    one = [thought("It is a file."), {"role": "user", "content": "Read it."}]
    two = [*one, thought("I have read it."), {"role": "user", "content": "Write it."}]
    data = imported(tmp_path, STRIPS, chat("What is it?", *one), chat("What is it?", *two))
    last = data["requests"][1]
    assert (last["cause"], last["path"], last["character"]) == ("template", "messages[2].content", 0)
    assert data["causes"][0]["evidence"]["text_before"].startswith("<think>Let me think")
    assert last["characters"] == len(f"<|system|>{LONG}<|user|>What is it?<|assistant|>")


def test_opening_text_that_is_missing_in_the_history_is_a_separate_cause(tmp_path):
    data = imported(tmp_path, OPENS, chat("What is it?"), chat("What is it?", "It is a file.", "Read it."))
    assert data["requests"][1]["cause"] == "opening"


def test_a_template_that_keeps_past_turns_causes_no_change(tmp_path):
    data = imported(tmp_path, OPENS.replace("<think>", ""), chat("A?"), chat("A?", "B.", "C?"))
    assert data["requests"][1]["cause"] == "extends"


def test_tools_and_options_of_a_body_reach_the_template():
    source = "{{ tools | tojson }}{{ enable_thinking }}{{ reasoning_effort }}"
    body = chat("x", tools=TOOLS[:1], reasoning_effort="low", chat_template_kwargs={"enable_thinking": False})
    assert texts(source, body) == [json.dumps(TOOLS[:1]) + "Falselow"]
    assert texts("{{ tools is none }}", chat("x")) == ["True"]


def test_arguments_of_calls_are_objects_and_today_is_always_the_same_day():
    call = {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "function": {"name": "read", "arguments": '{"path": "a"}'}}]}  # fmt: skip
    source = "{{ messages[2].tool_calls[0].function.arguments.path }} {{ strftime_now('%d %B %Y') }}"
    assert texts(source, chat("x", call)) == ["a 01 January 2026"]


def test_the_same_messages_of_two_apis_are_the_same_prompt():
    source = ("{% for m in messages %}{{ m.role }}:{{ m.content }}:"
              "{{ m.tool_calls | tojson if m.tool_calls }};{% endfor %}")  # fmt: skip
    anthropic = {"system": "S", "messages": [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": [{"type": "text", "text": "t"},
                                          {"type": "tool_use", "id": "i", "name": "read", "input": {"path": "a"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "content": "r"}]}]}  # fmt: skip
    assert texts(source, anthropic) == [
        'system:S:;user:u:;assistant:t:[{"type": "function", "function": {"name": "read", "arguments": {"path": "a"}}}]'
        ";tool:r:;"]  # fmt: skip


@pytest.mark.parametrize("source, what", [
    ("{{ ''.__class__.__mro__ }}", "unsafe"), ("{{ messages.append(1) }}", "SecurityError"),
    ("{% include '/etc/passwd' %}", "no loader"), ("{% for %}", "not a chat template"),
    ("{{ raise_exception('no system') }}", "the template rejects the chat: no system"),
    ("{{ x.y.z }}", "UndefinedError"),
    ("{{ range(10**9) }}", "OverflowError"),
])  # fmt: skip
def test_a_broken_or_malicious_template_gives_a_one_line_error(source, what):
    error = refused(source)
    assert what in error and "\n" not in error


@pytest.mark.long
def test_constants_are_evaluated_under_the_limits(lift):
    lift(PARSER_TIME=1)
    assert "t: the chat template takes too long" in refused("{% set x = 7**(10**8) %}hi")


def test_output_is_limited(lift):
    lift(PARSER_OUTPUT=1000)
    error = refused("{% for a in range(9999) %}abc{% endfor %}")
    assert "the output of the chat template is too long" in error and "--limit parser-output" in error


def test_a_template_may_write_more_for_longer_chats(lift):
    lift(PARSER_OUTPUT=1000)
    assert texts("{{ messages[1].content * 3 }}", chat("x" * 9000)) == ["x" * 27_000]


def test_lone_surrogates_reach_the_prompt():
    assert texts("{{ messages[1].content }}\ud801", chat("a\ud800")) == ["a\ud800\ud801"]


def test_templates_are_read_from_jinja_files_and_configurations(tmp_path):
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({"chat_template": "{{ bos_token }}x", "bos_token": {"content": "<s>"}}))
    with TemplateRenderer(read_template(file), "") as template:
        assert [one.text for one in template.render(bodies(chat("a")))] == ["<s>x"]
    several = [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]
    file.write_text(json.dumps({"chat_template": several}))
    assert read_template(file).source == "d"
    file.write_text("{}")
    with pytest.raises(BadInput, match="contains no chat template"):
        read_template(file)


def test_a_template_in_a_configuration_is_as_short_as_in_a_file(tmp_path):
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({"chat_template": "x" * (limits.SCENARIO_BYTES.now + 1)}))
    with pytest.raises(BadInput, match="template is larger than allowed"):
        read_template(file)


def test_without_jinja2_the_error_names_the_package_to_install(monkeypatch, tmp_path):
    (tmp_path / "jinja2.py").write_text("raise ImportError(name='jinja2')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    error = refused("x")
    assert error.startswith("the chat template needs the package jinja2, which is not installed (pip install 'jinja2>=")


@pytest.mark.parametrize("templates", [[], ["x"], [{"name": "default"}], None, 5])
def test_a_configuration_without_a_template_is_refused(tmp_path, templates):
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({"chat_template": templates}))
    with pytest.raises(BadInput, match="contains no chat template"):
        read_template(file)


def test_of_named_templates_the_default_is_taken_else_the_first(tmp_path):
    file = tmp_path / "tokenizer_config.json"
    named = [{"name": "tools", "template": "T"}, {"name": "default", "template": "D"}]
    for templates, source in ((named, "D"), (named[:1], "T")):
        file.write_text(json.dumps({"chat_template": templates}))
        assert read_template(file).source == source


@pytest.mark.parametrize(("value", "text"), [("<s>", "<s>"), ({"content": "<s>"}, "<s>"), ({"content": 5}, ""),
                                            (None, ""), (5, "")])  # fmt: skip
def test_special_tokens_of_a_configuration_are_variables(tmp_path, value, text):
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({"chat_template": "x", "bos_token": value, "eos_token": "</s>"}))
    assert read_template(file) == TemplateSource("x", {"bos_token": text, "eos_token": "</s>"})


def test_a_template_of_a_file_has_no_special_tokens(tmp_path):
    (tmp_path / "t.jinja").write_text("{{ x }}")
    assert read_template(tmp_path / "t.jinja") == TemplateSource("{{ x }}", {"bos_token": "", "eos_token": ""})
    (tmp_path / "t.json").write_text("[1]")
    with pytest.raises(BadInput) as error:
        read_template(tmp_path / "t.json")
    assert (error.value.cause, error.value.file) == ("contains no chat template", str(tmp_path / "t.json"))


def test_raw_prompts_are_not_rendered():
    raw = {"prompt": "a"}
    assert texts("x", raw, raw) == [None, None] and texts("x", raw, chat("a")) == [None, "x"]
    with TemplateRenderer(TemplateSource("{% broken", {}), "t") as template:
        assert template.render(bodies(raw)) == [None]


@pytest.mark.parametrize(("name", "is_option"), [
    ("thinking", True), ("chat_template_kwargs", True), ("chat_template_kwargs.a", True), ("top_k", False),
    ("thinking.a", False), ("chat_template", False),
])  # fmt: skip
def test_variables_of_templates_are_options(name, is_option):
    assert is_template_option(name) is is_option


def test_the_file_of_a_template_that_is_too_long_is_named(tmp_path, lift):
    lift(SCENARIO_BYTES=50)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({"chat_template": "x" * 51}))
    with pytest.raises(BadInput, match="template is larger than allowed") as bad:
        read_template(file)
    assert bad.value.file == str(file)
