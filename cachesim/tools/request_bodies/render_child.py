"""Child process that renders chats with a chat template, and limits its own CPU time and memory.

It reads a JSON object, {"template", "kwargs", "seconds", "characters", "chats": [{"messages", ...}]}, and writes a JSON
line for each chat: {"text", "history"} or {"error"}. The template runs in jinja2's ImmutableSandboxedEnvironment with
the functions that Transformers and llama-server provide: ``raise_exception``, ``tojson`` (keeps the order of keys) and
``strftime_now`` (always returns the same day). The module imports nothing from cachesim, so that it starts quickly.
Source: huggingface/transformers src/transformers/utils/chat_template_utils.py (_compile_jinja_template).
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from typing import Any

MEMORY = 1 << 30             # address space [bytes], more than Python and jinja2 need
DAY = {"Y": "2026", "y": "26", "m": "01", "d": "01", "e": " 1", "B": "January", "b": "Jan", "A": "Thursday", "a": "Thu",
       "H": "00", "I": "12", "M": "00", "S": "00", "p": "AM", "j": "001", "F": "2026-01-01", "T": "00:00:00", "%": "%"}
"""strftime_now always returns this day, so that two renderings of a prompt are equal."""


class Refused(Exception):
    """Rejection of a chat by the template (``raise_exception``)."""


def bound(seconds: int) -> None:
    """Limit CPU time and address space of this process."""
    try:
        import resource
    except ImportError:                          # not available on Windows
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def compiled(source: str) -> Any:
    """Return the template, compiled in the sandbox."""
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: str) -> None:
        raise Refused(str(message))

    def tojson(value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None,
               sort_keys: bool = False) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: re.sub("%-?(.)", lambda code: DAY.get(code[1], "0"), str(form))
    return env.from_string(source)


def rendered(template: Any, chat: dict[str, Any], most: int) -> dict[str, Any]:
    """Return the rendered prompt of a chat, and its length without the text that begins the answer; or an error."""
    try:
        whole = _bounded(template, {**chat, "add_generation_prompt": True}, most)
        rest = _bounded(template, {**chat, "add_generation_prompt": False}, most)
    except Refused as error:
        return {"error": f"the template rejects the chat: {error}"[:300]}
    except (MemoryError, RecursionError, OverflowError) as error:
        return {"error": f"the template exceeds its limits ({type(error).__name__})"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    history = next((i for i, (a, b) in enumerate(zip(whole, rest, strict=False)) if a != b), min(len(whole), len(rest)))
    return {"text": whole, "history": history}


def _bounded(template: Any, values: dict[str, Any], most: int) -> str:
    """Return the rendered text. Raises MemoryError beyond ``most`` characters."""
    size, out = 0, []
    for piece in template.generate(values):
        size += len(piece)
        if size > most:
            raise MemoryError
        out.append(piece)
    return "".join(out)


def main() -> int:
    """Render the chats described by the JSON object on stdin."""
    job = json.load(sys.stdin)
    try:
        template = compiled(job["template"])
    except ImportError:
        sys.stdout.write(json.dumps({"missing": True}) + "\n")
        return 0
    except Exception as error:
        sys.stdout.write(json.dumps({"broken": f"{type(error).__name__}: {error}"[:300]}) + "\n")
        return 0
    bound(job["seconds"])
    for chat in job["chats"]:
        found = rendered(template, {**job["kwargs"], **chat}, job["characters"])
        job["characters"] -= len(found.get("text", ""))
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
