"""Comparison of each request body with the previous one of its conversation, over the latest requests.

The comparison is that of ``import``. A bounded number of requests is kept in memory: when the limit is reached, only
the last request of each conversation stays, the latest conversations first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.tokens import common_prefix
from cachesim.base.untrusted_files import parse_json
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body import Body, changed
from cachesim.tools.request_bodies.body_files import FoundBody, TextPool, is_body
from cachesim.tools.request_bodies.conversations import ConversationLinker, Link, core_text, spoken_text
from cachesim.tools.request_bodies.import_bodies import at, where
from cachesim.tools.request_bodies.message_content import answer_of
from cachesim.tools.request_bodies.plain_render import render_plain
from cachesim.tools.request_bodies.prompt_causes import CAUSES
from cachesim.tools.request_bodies.request_diff import PromptRecord, find_usable, relate
from cachesim.tools.request_bodies.shared_prefixes import SharedPrefix
from cachesim.tools.request_bodies.tokenizer import Estimate, Tokenizer, TokenPrompts

Adapters = tuple[tuple[int, float], ...]
REQUESTS, CHARACTERS = 1_000, 1 << 25        # requests and characters of prompts that are kept, at most


@dataclass(slots=True)
class KeptBody:
    """Request that later requests are compared with."""

    record: PromptRecord
    raw: bytes                   # its body, as sent
    conversation: int            # number of its conversation, from 1
    adapters: Adapters


class RecentBodies:
    """The latest requests, and their conversations."""

    def __init__(self, requests: int = REQUESTS, characters: int = CHARACTERS) -> None:
        self._most = requests, characters
        self._kept: list[KeptBody] = []
        self._size = self._conversations = 0
        self._clear()

    def _clear(self) -> None:
        """Forget all relations between the requests."""
        self._texts: list[str] = []
        self._linker, self._pool = ConversationLinker(self._texts), TextPool()
        core_text.cache_clear()
        spoken_text.cache_clear()

    def add(self, url: str, raw: bytes) -> list[KeptBody]:
        """Compare the prompts of a request body with the requests before, and keep them. [] if it does not ask for a
        completion. Raises BadInput for a body that cannot be read."""
        value = parse_json(raw, what="body")
        if not is_body(value):
            return []
        return [self._add(body, raw) for body in bodies_of([self._pool.shared(FoundBody("", value, url))])]

    def _add(self, body: Body, raw: bytes) -> KeptBody:
        """Compare a prompt with those before, and keep it."""
        plain = render_plain(body)
        if not plain.text:
            raise BadInput("empty prompt")
        if len(self._kept) >= self._most[0] or self._size + len(plain.text) > self._most[1]:
            self._shrink()
        tokenizer: Tokenizer = TokenPrompts() if body.of_tokens else Estimate()
        record = PromptRecord(body, plain.text, plain.history, plain, self._link(body, plain.text))
        record.ids = tokenizer.tokens(record.text)
        records = [*(one.record for one in self._kept), record]
        relate(records, record, False, tokenizer)
        adapters = _adapters(body)
        same = [number for number, one in enumerate(self._kept) if one.adapters == adapters]
        if len(same) < len(self._kept):
            keys = [*(one.adapters for one in self._kept), adapters]
            find_usable(records, record, tokenizer, _best(self._texts, record.text, same), keys)
        before = record.link.before
        self._conversations += before < 0
        number = self._kept[before].conversation if before >= 0 else self._conversations
        self._kept.append(KeptBody(record, raw, number, adapters))
        self._size += len(plain.text)
        return self._kept[-1]

    def _link(self, body: Body, text: str) -> Link:
        """Assign a request to a conversation."""
        self._linker.shared.append(_best(self._texts, text, range(len(self._texts))))
        self._texts.append(text)
        return self._linker.add(body)

    def _shrink(self) -> None:
        """Keep the last request of each conversation, as far as they take half of the room."""
        kept, seen, size = list[KeptBody](), set[int](), 0
        for one in reversed(self._kept):
            if one.conversation in seen:
                continue
            seen.add(one.conversation)
            size += len(one.record.text)
            if 2 * size > self._most[1] or 2 * len(kept) >= self._most[0]:
                break
            kept.append(one)
        self._kept = kept[::-1]
        self._size = sum(len(one.record.text) for one in kept)
        self._clear()
        for one in self._kept:
            one.record.link = self._link(one.record.body, one.record.text)

    def row(self, kept: KeptBody) -> dict[str, Any]:
        """Return what the comparison of a request found."""
        record, before = kept.record, kept.record.link.before
        cause, previous = CAUSES[record.cause.name], self._kept[before] if before >= 0 else None
        names = [] if previous is None else changed(previous.record.body.parameters, record.body.parameters)
        return {
            "conversation": kept.conversation, "model": record.body.model, "cause": record.cause.name,
            "says": cause.says, "detail": record.cause.detail, "where": where(record), **at(record.place),
            "byte": None if previous is None else common_prefix(previous.raw, kept.raw),
            "prompt_byte": None if previous is None else record.bytes, "harmless": record.harmless,
            "estimated": record.tokens, "estimated_common": record.usable, "advice": cause.advice,
            "parameters": [one["name"] for one in names if one["matters"] != "no"],
        }  # fmt: skip


def read_answer(kept: KeptBody, reply: bytes) -> None:
    """Store the answer to a request, so that the next request shows whether the client sends it back."""
    kept.record.body.answer = answer_of(reply.decode("utf-8", "replace"))


def _adapters(body: Body) -> Adapters:
    """Return the adapters that a request names with a scale that is not 0."""
    return tuple(sorted((number, scale) for number, scale in body.adapters.items() if scale))


def _best(texts: Sequence[str], text: str, numbers: Sequence[int]) -> SharedPrefix:
    """Return the text among these numbers with the longest common prefix, the latest of several."""
    best = SharedPrefix(-1, 0)
    for number in reversed(numbers):
        other, size = texts[number], best.size
        if size < len(text) and size < len(other) and other[size] == text[size]:
            found = common_prefix(other, text)
            best = SharedPrefix(number, found) if found > size else best
    return best
