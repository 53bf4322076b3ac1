"""Chat templates: reading the template of a model, and rendering prompts in a child process with limits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, cut
from cachesim.base.extras import install_command
from cachesim.base.limits import RENDERED, SCENARIO_BYTES, TEMPLATE_TIME, TRACE_BYTES
from cachesim.base.untrusted_files import parse_json, read_bytes, read_text
from cachesim.tools.request_bodies.body import Body
from cachesim.tools.request_bodies.tokenizer import gguf_metadata, is_gguf

CHILD = Path(__file__).with_name("render_child.py")
OPTIONS = ("reasoning_effort", "enable_thinking", "thinking")
"""Fields of a body that templates read in addition to ``chat_template_kwargs``."""


class Prompt(NamedTuple):
    """Rendered prompt. ``history``: its length without the text that begins the answer."""

    text: str
    history: int


class TemplateSource(NamedTuple):
    """Source of a chat template, and the special tokens that it may refer to."""

    source: str
    kwargs: Mapping[str, str]


def read_template(path: Path) -> TemplateSource:
    """Return the template in a Jinja file, a ``tokenizer_config.json`` or a GGUF. Raises BadInput."""
    if is_gguf(path):
        values = gguf_metadata(path, ("tokenizer.chat_template",))
        return _template(values.get("tokenizer.chat_template"), {}, path)
    if path.suffix == ".json":
        config = parse_json(read_bytes(path, TRACE_BYTES), str(path))
        config = config if isinstance(config, dict) else {}
        source = config.get("chat_template")
        if isinstance(source, list):             # several named templates
            named = {entry.get("name"): entry.get("template") for entry in source if isinstance(entry, dict)}
            source = named.get("default", next(iter(named.values()), None))
        return _template(source, {key: _token(config.get(key)) for key in ("bos_token", "eos_token")}, path)
    return _template(read_text(path, SCENARIO_BYTES, "template"), {}, path)


def _template(source: Any, kwargs: Mapping[str, str], path: Path) -> TemplateSource:
    """Return the template. Raises BadInput if the source is not a text."""
    if not isinstance(source, str) or not source.strip():
        raise BadInput("contains no chat template", file=str(path))
    return TemplateSource(source, {"bos_token": "", "eos_token": "", **kwargs})


def _token(value: Any) -> str:
    """Return the text of a special token, "" if it has none."""
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def render(template: TemplateSource, bodies: Sequence[Body], file: str) -> list[Prompt | None]:
    """Return the rendered prompts of these bodies, None for raw prompts. Raises BadInput if the template is broken,
    exceeds its limits, or rejects a body."""
    chats = [_chat(body) for body in bodies if not body.raw]
    if not chats:
        return [None for _ in bodies]
    job = {"template": template.source, "kwargs": dict(template.kwargs), "seconds": TEMPLATE_TIME.now,
             "characters": RENDERED.now, "chats": chats}  # fmt: skip
    try:
        done = subprocess.run([sys.executable, "-P", str(CHILD)], input=json.dumps(job).encode(),
                              capture_output=True, check=False)  # fmt: skip
    except OSError as error:
        why = (error.strerror or "cannot be started").lower()
        raise BadInput(f"failed to start the child process that renders chat templates: {why}", file=file) from None
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.endswith(b"}")]
    if lines and "missing" in lines[0]:
        raise BadInput("a chat template needs jinja2, which is not installed", hint=install_command("import"))
    if lines and "broken" in lines[0]:
        raise BadInput(f"not a chat template: {cut(lines[0]['broken'], 200)}", file=file)
    answers = iter(lines)
    return [None if body.raw else _prompt(next(answers, None), body, file) for body in bodies]


def _prompt(found: Any, body: Body, file: str) -> Prompt:
    """Return the rendered prompt in a reply of the child process. Raises BadInput."""
    if found is None:
        raise TEMPLATE_TIME.exceeded(f"the template ran out of time or memory at request {body.number}", file=file)
    if "error" in found:
        raise BadInput(f"request {body.number}: {cut(found['error'], 200)}", file=file)
    return Prompt(found["text"], found["history"])


def _chat(body: Body) -> dict[str, Any]:
    """Return the variables of a template for a body."""
    given = body.parameters.get("chat_template_kwargs")
    options = {key: value for key, value in given.items() if isinstance(key, str)} if isinstance(given, dict) else {}
    options |= {key: body.parameters[key] for key in OPTIONS if key in body.parameters}
    options.pop("messages", None)
    return {**options, "messages": body.chat, "tools": [tool for _, tool in body.tools] or None}


