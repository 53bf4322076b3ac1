"""Chat templates: reading the template of a model, and rendering prompts in a child process with limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.gguf_header import is_gguf, read_gguf
from cachesim.base.limits import SCENARIO_BYTES
from cachesim.base.untrusted_files import read_json, read_text
from cachesim.engines.chat_bodies import TemplateUse
from cachesim.tools.request_bodies.begun_answer import CONTINUED, EXAMINE, OPENS
from cachesim.tools.request_bodies.body import Body, encoded

if TYPE_CHECKING:
    from cachesim.base.bounded_child import BoundedChild

PARSER = "cachesim.tools.request_bodies.template_parser"
KEY = "tokenizer.chat_template"
OPTIONS = ("reasoning_effort", "enable_thinking", "thinking")
"""Fields of a body that templates read in addition to ``chat_template_kwargs``."""


def is_template_option(name: str) -> bool:
    """True if a changed parameter is a variable of chat templates."""
    return name in OPTIONS or name.partition(".")[0] == "chat_template_kwargs"


class Prompt(NamedTuple):
    """Rendered prompt. ``history``: its length without the text that begins the answer."""

    text: str
    history: int


class TemplateSource(NamedTuple):
    """Source of a chat template, and the special tokens that it may refer to."""

    source: str
    kwargs: Mapping[str, str]


def read_template(path: Path) -> TemplateSource:
    """Return the template in a Jinja file, a ``tokenizer_config.json`` or a GGUF. Raise BadInput."""
    if is_gguf(path):
        return _template(read_gguf(path, (KEY,)).get(KEY), {}, path)
    if path.suffix == ".json":
        config = read_json(path)
        config = config if isinstance(config, dict) else {}
        source = config.get("chat_template")
        if isinstance(source, list):             # several named templates
            named = {str(entry.get("name")): entry.get("template") for entry in source if isinstance(entry, dict)}
            source = named.get("default", next(iter(named.values()), None))
        return _template(source, {key: _token(config.get(key)) for key in ("bos_token", "eos_token")}, path)
    return _template(read_text(path, SCENARIO_BYTES, "template"), {}, path)


def _template(source: Any, kwargs: Mapping[str, str], path: Path) -> TemplateSource:
    """Return the template. Raise BadInput if the source is not a text."""
    if not isinstance(source, str) or not source.strip():
        raise BadInput("contains no chat template", file=str(path))
    SCENARIO_BYTES.check(len(encoded(source)), "template is larger than allowed", file=str(path))
    return TemplateSource(source, {"bos_token": "", "eos_token": "", **kwargs})


def _token(value: Any) -> str:
    """Return the text of a special token, "" if it has none."""
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


class TemplateRenderer:
    """Renderer of the chat template of an import. The template runs in a child process, which starts when it is needed.
    A context manager; leaving it ends the child."""

    def __init__(self, source: TemplateSource | None, file: str) -> None:
        """``source``: the template, None = prompts are rendered plainly. ``file``: its path, for messages."""
        self._source = source
        self._file = file
        self._child: BoundedChild | None = None

    def __enter__(self) -> TemplateRenderer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.close()

    def use(self) -> TemplateUse:
        """Return what the template does with the messages of a chat. Raise BadInput if it is broken or exceeds its
        limits."""
        if self._source is None:
            return TemplateUse()
        return TemplateUse(source=self._source.source, **self._parser(self._source).ask({EXAMINE: True}))

    def render(self, bodies: Sequence[Body]) -> list[Prompt | None]:
        """Return the rendered prompts of these bodies, None for those that are rendered plainly. Raise BadInput if the
        template is broken, exceeds its limits, or rejects a body."""
        if self._source is None or all(body.is_raw for body in bodies):
            return [None for _ in bodies]
        parser = self._parser(self._source)
        return [None if body.is_raw else _rendered(parser, body) for body in bodies]

    def _parser(self, source: TemplateSource) -> BoundedChild:
        """Return the child process: a new one if there is none, or if the last one ended with an error."""
        if self._child is None or not self._child.is_open:
            from cachesim.base.bounded_child import BoundedChild

            first = {"kwargs": dict(source.kwargs)}
            self._child = BoundedChild(PARSER, "the chat template", self._file, first, encoded(source.source))
        return self._child


def _rendered(child: BoundedChild, body: Body) -> Prompt:
    """Return the rendered prompt of a body. Raise BadInput with the number of the request."""
    try:
        return Prompt(**child.ask(_chat(body)))
    except BadInput as error:
        raise BadInput(f"request {body.number}: {error.cause}", file=error.file, hint=error.hint) from None


def _chat(body: Body) -> dict[str, Any]:
    """Return the variables of a template for a body."""
    given = body.parameters.get("chat_template_kwargs")
    options = {key: value for key, value in given.items() if isinstance(key, str)} if isinstance(given, dict) else {}
    options |= {key: body.parameters[key] for key in OPTIONS if key in body.parameters}
    options.pop("messages", None)
    chat = body.chat or []
    given = {**options, "messages": chat, "tools": [tool for _, tool in body.tools] or None, OPENS: body.opens_answer}
    if body.continued is None:
        return given
    return {**given, "messages": chat[:-1], CONTINUED: {"message": chat[-1], "way": body.continued.value}}
