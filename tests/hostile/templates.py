"""Mutated chat templates in the style of real models, with arbitrary expressions of Jinja."""

from __future__ import annotations

import json

from tests.hostile.bodies import BODIES
from tests.hostile.mutant import Mutant
from tests.hostile.nasty import INTEGERS, TEXTS
from tests.hostile.trees import jumbled, mutated
from tests.hostile.written import flipped, to_json

CHATML = """{%- if tools %}
{{- '<|im_start|>system\\n# Tools\\n<tools>' }}
{%- for tool in tools %}
{{- '\\n' + (tool | tojson) }}
{%- endfor %}
{{- '\\n</tools><|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1, found=false) %}
{%- for message in messages[::-1] %}
{%- set index = (messages|length - 1) - loop.index0 %}
{%- if message.role == 'user' and not ns.found %}{% set ns.last = index %}{% set ns.found = true %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}{{- message.content.split('</think>')[-1].lstrip('\\n') }}{% endif %}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>' + call.function.name + ' ' + (call.function.arguments | tojson) + '</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>' }}{% endif %}
{%- endif %}
"""
LLAMA = """{{- bos_token }}
{%- if not date_string is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
{%- set system = messages[0]['content']|trim %}{%- set messages = messages[1:] %}
{%- else %}{%- set system = "" %}{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: " + date_string + "\\n\\n" + system + "<|eot_id|>" }}
{%- for message in messages %}
{%- if not (message.role == 'tool' or 'tool_calls' in message) %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + (message['content'] or '') | trim }}
{%- elif 'tool_calls' in message %}
{%- if not message.tool_calls|length == 1 %}{{- raise_exception("This model supports single tool-calls!") }}{%- endif %}
{{- '{"name": "' + message.tool_calls[0].function.name + '"}' }}
{%- else %}
{{- message.content | tojson }}
{%- endif %}
{{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""
TOOLS = """{%- macro render(properties, depth=0) -%}
{%- for name, value in (properties or {})|dictsort %}
{{- ' ' * depth + name + ': ' }}{% if value is mapping %}{{ render(value, depth + 1) }}{% else %}{{ value }}{% endif %}
{%- endfor %}
{%- endmacro -%}
{%- for tool in tools or [] %}{{ render(tool) }}{% endfor %}
{%- for m in messages %}
{%- if loop.first and m.role != 'system' %}{{ 'You help.' }}{% endif %}
{%- set text = m.content if m.content is string else (m.content or [])|map(attribute='text')|join(' ') %}
[{{ m.role | upper }}] {{ text | replace('\\n', ' ') | truncate(200) }}
{%- if loop.index is even and not loop.last %}{% continue %}{% endif %}
{{- eos_token if m.role == 'assistant' }}
{%- endfor %}
{{- '[ASSISTANT]' if add_generation_prompt }}
"""
BASES = (CHATML, LLAMA, TOOLS)
NAMES = (
    "messages", "tools", "bos_token", "message", "message.content", "message.role", "messages[0]", "loop.index",
    "loop", "ns", "range", "dict", "lipsum", "cycler", "joiner", "namespace", "self", "missing", "caller", "true",
    "none", "messages[0].content", "enable_thinking", "varargs", "kwargs", "raise_exception", "strftime_now", "tool",
)  # fmt: skip
LARGE = (
    "7**(10**8)", "10**(10**9)", "2**2**2**2**2**2", "'a'*1500000000", "[0]*1000000000", "('a'*2000000000)|length",
    "'a\\nb'|indent(2000000000)", "'x'|center(3000000000)", "'%3000000000d' % 1", "'%.999999999f' % 1.5", "-1**9",
    "1e308*10", "range(10**9)|list", "range(99999)|list|string", "lipsum(n=100000)", "'{:9999999999}'.format(1)",
    "'a'.ljust(10**10)", "('a'*9999)|wordwrap(1)", "(0,)*10**9", "1/0", "'a'|batch(10**9)|list", "''.join(messages)",
    "'a'.zfill(10**10)", "('%s'*99999) % messages", "'x'|replace('', 'y'*100000)", "10**9999|string", "1 << 10**9",
    "[[]]*99999999", "range(10**5)|sum", "'a'*10**5*10**5", "range(100000)|map('string')|join",
)  # fmt: skip
ESCAPES = (
    "''.__class__", "''.__class__.__mro__[1].__subclasses__()", "cycler.__init__.__globals__.os.popen('id').read()",
    "self._TemplateReference__context", "messages|attr('__class__')", "''['__cl' ~ 'ass__']", "lipsum.__globals__",
    "'{0.__class__}'.format(1)", "messages|map(attribute='__class__')|list", "(messages|first).__getitem__",
    "messages.append(messages)", "message.update({'a': message})", "range.__self__", "namespace(a=1).__dict__",
)  # fmt: skip
FILTERS = (
    "abs", "batch(3)", "capitalize", "center(80)", "default('x')", "dictsort", "e", "first", "float", "forceescape",
    "format(1)", "groupby('role')", "indent(4)", "int", "items", "join(', ')", "last", "length", "list", "lower",
    "map('upper')", "map(attribute='a.b.c')", "max", "min", "pprint", "reject", "rejectattr('role')",
    "replace('a', '')", "reverse", "round", "safe", "select('string')", "selectattr('role', 'equalto', 'user')",
    "slice(3)", "sort", "string", "striptags", "sum", "title", "tojson", "tojson(indent=99999)", "trim", "truncate(3)",
    "unique", "upper", "urlencode", "urlize", "wordcount", "wordwrap(5)", "xmlattr", "nofilter", "filesizeformat",
)  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "~", "==", "<", "in", "not in", "and", "or", "is", "[", "|")
STATEMENTS = (
    "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% from 'x' import y %}",
    "{% block a %}{% endblock %}", "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "{% for a in range(99999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
    "{% for a in messages recursive %}" "{{ loop(messages) }}{% endfor %}", "{% set x = EXPR %}",
    "{% if EXPR %}a{% else %}b{% endif %}", "{{ EXPR }}", "{% for a in EXPR %}{{ a }}{% endfor %}",
    "{% filter upper %}{{ EXPR }}{% endfilter %}", "{% call f() %}x{% endcall %}",
    "{% set a %}{{ EXPR }}{% endset %}{{ a * 999999 }}", "{% raw %}{{{% endraw %}",
    "{% generation %}x{% endgeneration %}", "{# " + "x" * 50_000 + " #}", "{% break %}", "{%", "{{", "#}",
    "{% endfor %}", "{% else %}", "{% do messages.append(1) %}", "{{ " + "(" * 300 + "1" + ")" * 300 + " }}",
    "{{ " + "-" * 3000 + "1 }}", "{{ " + "1+" * 3000 + "1 }}", "{% if 1 %}" * 30, "{{ raise_exception(EXPR) }}",
    "{{ strftime_now(EXPR) }}",
    "{% set ns = namespace(s='aa') %}{% for i in range(99) %}" "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% autoescape true %}{{ EXPR }}{% endautoescape %}", "{% with a = EXPR %}" "{{ a }}{% endwith %}",
    "{% for k, v in EXPR %}{{ k }}{% endfor %}", "{% trans %}x{% endtrans %}", "{% debug %}",
)  # fmt: skip
SOFT = 0.4                   # share of templates that can be rendered
SOUND = (
    "{% set x = messages | length %}", "{{ messages | tojson }}", "{% for m in messages %}{{ m.role }}{% endfor %}",
    "{{ bos_token }}", "{{ 'x' * 300 }}", "{{ messages[0].role | upper }}", "{{ messages[-1]['content'] | string }}",
    "{%- for m in messages | reverse %}{{ loop.index }}{% endfor -%}", "{{ strftime_now('%Y') }}",
    "{{ messages | map(attribute='role') | join(',') }}", "{% if tools is defined and tools %}t{% endif %}",
    "{{ undefined_name }}",
)  # fmt: skip
HASTY = ("--limit", "parser-time=1")          # CPU seconds


def expression(rng, depth=2):
    """Return an expression of Jinja."""
    how = rng.randrange(10)
    if how == 0:
        return rng.choice(rng.choice((LARGE, ESCAPES)))
    if how < 3 or not depth:
        return rng.choice((str(rng.choice(INTEGERS)), json.dumps(rng.choice(TEXTS)[:2000]), rng.choice(NAMES)))
    if how < 5:
        return rng.choice(NAMES)
    if how < 8:
        return f"({expression(rng, depth - 1)}) | {rng.choice(FILTERS)}"
    if how == 8:
        return f"{rng.choice(NAMES)}({expression(rng, depth - 1)})"
    sign = rng.choice(OPERATORS)
    return f"({expression(rng, depth - 1)}) {sign} {expression(rng, depth - 1)}" + ("]" if sign == "[" else "")


def bent_template(rng):
    """Return a chat template after 1 to 3 changes."""
    text = rng.choice(BASES)
    if rng.random() < SOFT:
        lines = text.split("\n")
        lines.insert(rng.choice((0, len(lines))), rng.choice(SOUND))
        return "\n".join(lines).encode()
    if rng.random() < 0.15:
        return flipped(text.encode(), rng)
    for _ in range(rng.choices((1, 2, 3), (5, 3, 2))[0]):
        text = rng.choice((_line, _expression, _expression, _statement, _statement))(text, rng)
    return text.encode("utf-8", "surrogatepass")


def _line(text, rng):
    """Drop, repeat or swap lines."""
    lines = text.split("\n")
    jumbled(lines, rng)
    return "\n".join(lines)


def _expression(text, rng):
    """Replace what is printed in a place."""
    parts = text.split("{{")
    at = rng.randrange(1, len(parts)) if len(parts) > 1 else 0
    if at:
        parts[at] = f" {expression(rng)} }}}}" + parts[at].partition("}}")[2]
    return "{{".join(parts)


def _statement(text, rng):
    """Insert a statement between lines, or in front of them."""
    lines = text.split("\n")
    made = rng.choice(STATEMENTS).replace("EXPR", expression(rng))
    lines.insert(rng.choice((0, rng.randrange(len(lines)))), made)
    return "\n".join(lines)


def bodies_to_import(rng):
    """Return a file of well-formed request bodies with messages."""
    return json.dumps(rng.choices(BODIES[:5], k=rng.randrange(1, 4))).encode()


def template(rng, number):
    """Return an import of request bodies with a mutated chat template."""
    source = bent_template(rng)
    name, data = "t.jinja", source
    if rng.random() < 0.2:
        text = source.decode("utf-8", "replace")
        found = [{"name": "default", "template": text}] if rng.random() < 0.5 else text
        tree = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": found}
        if rng.random() < 0.3:
            tree = mutated(tree, rng, {"x": [tree]})
        name, data = "tokenizer_config.json", to_json(tree).encode("utf-8", "surrogatepass")
    argv = ("import", "b.json", "--template", name, *rng.choice(((), (), ("--json",), ("-v",))))
    return Mutant("template", number, (*argv, *HASTY), {name: data, "b.json": bodies_to_import(rng)})
