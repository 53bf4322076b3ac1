"""What the child process that renders chat templates returns."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput

pytest.importorskip("jinja2")

from cachesim.tools.request_bodies.template_parser import open_parser

CHAT = {"messages": [{"content": "hi", "b": 1, "a": [2]}], "tools": None}


def rendered(source, **kwargs):
    return open_parser({"kwargs": kwargs}, source.encode("utf-8", "surrogatepass"))(CHAT)


def test_a_prompt_has_its_length_without_the_text_that_begins_the_answer():
    assert rendered("{{ messages[0].content }}{% if add_generation_prompt %}<a>{% endif %}") == {
        "text": "hi<a>", "history": 2}  # fmt: skip
    assert rendered("{{ messages[0].content }}") == {"text": "hi", "history": 2}


def test_variables_of_all_chats_are_known_and_those_of_a_chat_precede_them():
    assert rendered("{{ x }} {{ tools }}", x=3, tools=4)["text"] == "3 None"


def test_blocks_leave_no_lines_as_in_transformers():
    assert rendered("a\n  {% if true %}\nb\n  {% endif %}\nc")["text"] == "a\nb\nc"


def test_loops_can_be_left():
    source = "{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}"
    assert rendered(source)["text"] == "13"


@pytest.mark.parametrize("call, text", [
    ("tojson", '{"content": "hi", "b": 1, "a": [2]}'),
    ("tojson(sort_keys=true)", '{"a": [2], "b": 1, "content": "hi"}'),
    ("tojson(separators=(',', ':'))", '{"content":"hi","b":1,"a":[2]}'),
])  # fmt: skip
def test_json_keeps_the_order_of_keys_and_takes_the_options_of_transformers(call, text):
    assert rendered(f"{{{{ messages[0] | {call} }}}}")["text"] == text
    assert rendered("{{ 'é' | tojson }} {{ 'é' | tojson(ensure_ascii=true) }}")["text"] == '"é" "\\u00e9"'
    assert rendered("{{ [1] | tojson(indent=1) }}")["text"] == "[\n 1\n]"


def test_the_day_is_always_the_same():
    assert rendered("{{ strftime_now('%d %b %Y, %-d %q%%') }}")["text"] == "01 Jan 2026, 01 0%"


@pytest.mark.parametrize("source, message", [
    ("{% for %}", "not a chat template: TemplateSyntaxError"), ("{{ nothing.at.all }}", "is undefined"),
])  # fmt: skip
def test_a_broken_template_is_refused_with_its_error(source, message):
    with pytest.raises(Exception, match=message):
        rendered(source)


def test_a_template_may_reject_a_chat():
    with pytest.raises(BadInput, match="the template rejects the chat: no tools"):
        rendered("{{ raise_exception('no tools') }}")
