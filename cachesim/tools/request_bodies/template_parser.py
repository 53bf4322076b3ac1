"""Parser of chat templates, run in a child process: compiles a template and renders chats.

The template runs in jinja2's ImmutableSandboxedEnvironment with the functions that Transformers and llama-server
provide: ``raise_exception``, ``tojson`` (keeps the order of keys) and ``strftime_now`` (always returns the same day).
Source: huggingface/transformers src/transformers/utils/chat_template_utils.py (_compile_jinja_template).
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Any, Callable, Mapping

from jinja2 import ChainableUndefined
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from cachesim.base.errors import BadInput
from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies.begun_answer import CONTINUED, EXAMINE, OPENS, begun_answer
from cachesim.tools.request_bodies.template_examination import examine

DAY = {"Y": "2026", "y": "26", "m": "01", "d": "01", "e": " 1", "B": "January", "b": "Jan", "A": "Thursday", "a": "Thu",
       "H": "00", "I": "12", "M": "00", "S": "00", "p": "AM", "j": "001", "F": "2026-01-01", "T": "00:00:00", "%": "%"}
"""strftime_now always returns this day, so that two renderings of a prompt are equal."""


def open_parser(first: Mapping[str, Any], data: bytes) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return the renderer of a template, see ``cachesim.base.parser_process``. ``first["kwargs"]``: variables of all
    chats. Raise BadInput for a broken template."""
    source = data.decode("utf-8", "surrogatepass")
    try:
        template = compiled(source)
    except MemoryError:
        raise
    except Exception as error:
        raise BadInput(f"not a chat template: {type(error).__name__}: {error}") from None

    def answer(chat: Mapping[str, Any]) -> dict[str, Any]:
        if chat.get(EXAMINE):
            return examine(compiled, source)
        return rendered(template, {**first["kwargs"], **chat})

    return answer


def compiled(source: str, filters: Mapping[str, Any] = MappingProxyType({}),
             tests: Mapping[str, Any] = MappingProxyType({}), undefined: bool = False) -> Any:
    """Return the template, compiled in the sandbox. Jinja evaluates constant expressions when it compiles. ``filters``
    and ``tests`` replace those of the sandbox; ``undefined``: entries of missing values are missing values, too."""

    def raise_exception(message: str) -> None:
        raise BadInput(f"the template rejects the chat: {message}")

    def tojson(value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None,
               sort_keys: bool = False) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: re.sub("%-?(.)", lambda code: DAY.get(code[1], "0"), str(form))
    if undefined:
        env.undefined = ChainableUndefined
    env.filters.update(filters)
    env.tests.update(tests)
    return env.from_string(source)


def rendered(template: Any, chat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rendered prompt of a chat, and its length without the text that begins the answer. The key
    CONTINUED has the answer that the prompt begins and how, OPENS whether the text that begins an answer is added."""
    continued = chat.get(CONTINUED)
    if continued is not None:
        text = begun_answer(template, chat, continued["message"], continued["way"])
        return {"text": text, "history": len(text)}
    rest = template.render({**chat, "add_generation_prompt": False})
    if not chat.get(OPENS, True):
        return {"text": rest, "history": len(rest)}
    whole = template.render({**chat, "add_generation_prompt": True})
    return {"text": whole, "history": common_prefix(whole, rest)}
