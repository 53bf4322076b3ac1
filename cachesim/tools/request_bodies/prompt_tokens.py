"""Token ids of the prompts of request bodies: those in a reply or in a body, or those of its text by a chat template
and a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachesim.base.errors import BadInput
from cachesim.engines.chat_bodies import TemplateUse
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body import Body
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.message_content import prompt_token_ids
from cachesim.tools.request_bodies.request_diff import render_request
from cachesim.tools.request_bodies.template import TemplateRenderer, read_template
from cachesim.tools.request_bodies.tokenizer import Tokenizer, read_tokenizer


class PromptTokens:
    """Reader of prompts. ``tokenizer``, ``template``: files, "" = texts, or chats, have no known tokens; ``profile``:
    rule set of the server that reads the bodies, "" = the default. A context manager; leaving it ends its child
    processes. Raise BadInput for unusable files."""

    def __init__(self, tokenizer: str = "", template: str = "", profile: str = "") -> None:
        self._profile = profile
        self._has_template = bool(template)
        source = read_template(Path(template)) if template else None
        self._template = TemplateRenderer(source, template)
        self._use = self._template.use() if template else TemplateUse()
        self._tokenizer: Tokenizer | None = read_tokenizer(Path(tokenizer)) if tokenizer else None

    def __enter__(self) -> PromptTokens:
        return self

    def __exit__(self, *_: object) -> None:
        self._template.__exit__()
        if self._tokenizer is not None:
            self._tokenizer.close()

    def of_body(self, found: FoundBody) -> list[list[int] | None]:
        """Return the token ids of each prompt of a request, as its reply or its body has them, None = not known."""
        listed = prompt_token_ids(found.answer)
        if listed is not None:
            return [listed]
        given = found.body.get("prompt")
        if isinstance(given, list):
            prompts = [given] if _are_tokens(given) else given
            if prompts and all(map(_are_tokens, prompts)):
                return [list(prompt) for prompt in prompts]
        try:
            return [self._of_text(body) for body in bodies_of([found])]
        except BadInput:
            return [None]

    def _of_text(self, body: Body) -> list[int] | None:
        """Return the token ids of a text. Raise BadInput if the template or the tokenizer refuses it."""
        if self._tokenizer is None or body.has_media or not (body.is_raw or self._has_template):
            return None
        # Only here: the engines take longer to import than all else that reads events
        from cachesim.scenarios.schema import DEFAULT_PROFILE
        from cachesim.tools.request_bodies.parsed_bodies import as_parsed

        [read] = as_parsed([body], self._profile or DEFAULT_PROFILE, TemplateUse() if body.is_raw else self._use)
        [prompt] = self._template.render([read])
        return list(self._tokenizer.tokens(render_request(read, prompt).text))


def _are_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(token) is int for token in value)
