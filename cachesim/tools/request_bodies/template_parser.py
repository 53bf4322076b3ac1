"""Parser of chat templates, run in a child process: compiles a template and renders chats.

The template runs in jinja2's ImmutableSandboxedEnvironment with the functions that Transformers and llama-server
provide: ``raise_exception``, ``tojson`` (keeps the order of keys) and ``strftime_now`` (always returns the same day).
Source: huggingface/transformers src/transformers/utils/chat_template_utils.py (_compile_jinja_template).
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Mapping

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from cachesim.base.errors import BadInput
from cachesim.base.tokens import common_prefix

DAY = {"Y": "2026", "y": "26", "m": "01", "d": "01", "e": " 1", "B": "January", "b": "Jan", "A": "Thursday", "a": "Thu",
       "H": "00", "I": "12", "M": "00", "S": "00", "p": "AM", "j": "001", "F": "2026-01-01", "T": "00:00:00", "%": "%"}
"""strftime_now always returns this day, so that two renderings of a prompt are equal."""


def open_parser(first: Mapping[str, Any], data: bytes) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return the renderer of a template, see ``cachesim.base.parser_process``. ``first["kwargs"]``: variables of all
    chats. Raise BadInput for a broken template."""
    try:
        template = compiled(data.decode("utf-8", "surrogatepass"))
    except MemoryError:
        raise
    except Exception as error:
        raise BadInput(f"not a chat template: {type(error).__name__}: {error}") from None
    return lambda chat: rendered(template, {**first["kwargs"], **chat})


def compiled(source: str) -> Any:
    """Return the template, compiled in the sandbox. Jinja evaluates constant expressions when it compiles."""

    def raise_exception(message: str) -> None:
        raise BadInput(f"the template rejects the chat: {message}")

    def tojson(value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None,
               sort_keys: bool = False) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: re.sub("%-?(.)", lambda code: DAY.get(code[1], "0"), str(form))
    return env.from_string(source)


def rendered(template: Any, chat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rendered prompt of a chat, and its length without the text that begins the answer."""
    whole = template.render({**chat, "add_generation_prompt": True})
    rest = template.render({**chat, "add_generation_prompt": False})
    return {"text": whole, "history": common_prefix(whole, rest)}
