"""Comparison of each request body with the previous one of its conversation, over the latest requests.

The comparison is that of ``import``. A bounded number of requests is kept in memory: when a limit is reached, only the
last request of each conversation stays, the latest conversations first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Sequence

from cachesim.base.errors import cut
from cachesim.base.limits import WATCHED_VALUES
from cachesim.base.tokens import common_prefix
from cachesim.base.untrusted_files import parse_json
from cachesim.engines.registry import engine_of
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body import Body
from cachesim.tools.request_bodies.body_files import FoundBody, is_body
from cachesim.tools.request_bodies.body_stages import NO_ANSWER, ComparedBody, KnownAnswer, RelatedBody, RenderedBody
from cachesim.tools.request_bodies.conversations import ConversationLink, ConversationLinker, core_text, spoken_text
from cachesim.tools.request_bodies.import_bodies import at, fields_beside, where
from cachesim.tools.request_bodies.message_content import answer_of
from cachesim.tools.request_bodies.parsed_bodies import as_parsed
from cachesim.tools.request_bodies.prompt_causes import CAUSES
from cachesim.tools.request_bodies.request_diff import (
    AdapterPrefix,
    RequestComparison,
    compare,
    relate,
    render_request,
)
from cachesim.tools.request_bodies.shared_prefixes import SharedPrefix
from cachesim.tools.request_bodies.tokenizer import EstimatingTokenizer, Tokenizer, TokenPrompts
from cachesim.tools.watch.held_bytes import KEPT, HeldBytes, bytes_of
from cachesim.tools.watch.shared_parts import SharedParts, message_bytes, part_bytes, short_values, tool_bytes
from cachesim.tools.watch.shortened_body import ShortenedBody

Adapters = tuple[tuple[int, float], ...]
REQUESTS = 1_000             # requests that are kept, at most
REQUEST = 4_096              # bytes of the objects of a request, at most
NAME = 200                   # characters of a model's name or of a path in a row, at most


@dataclass(slots=True, weakref_slot=True)
class KeptBody:
    """Request that later requests are compared with."""

    record: ComparedBody
    raw: ShortenedBody           # its body
    conversation: int            # number of its conversation, from 1
    adapters: Adapters
    number: int = 0              # of the body, from 1
    before: int = 0              # number of the body that it was compared with, 0 = none
    forbids_reuse: bool = False  # it sets cache_prompt to false
    own: int = 0                 # bytes that only this request takes
    shared: int = 0              # bytes of its parts, which other requests may share
    answer: KnownAnswer = NO_ANSWER                          # to the request
    row: dict[str, Any] = field(default_factory=dict)        # what its comparison found


class RecentBodies:
    """The latest requests, and their conversations. ``most``: bytes that they may take; ``profile``: rule set of the
    server that reads them."""

    def __init__(self, requests: int = REQUESTS, most: int = KEPT, held: HeldBytes | None = None,
                 profile: str = DEFAULT_PROFILE) -> None:  # fmt: skip
        self._profile = profile
        self._requests = requests
        self._most = most
        self._held = held or HeldBytes()
        self._kept: list[KeptBody] = []
        self._own = self._conversations = self._bodies = 0
        self._clear()

    def _clear(self) -> None:
        """Forget all relations between the requests."""
        self._texts: list[str] = []
        self._linker, self._parts = ConversationLinker(self._texts), SharedParts()
        core_text.cache_clear()
        spoken_text.cache_clear()

    def read_for(self, profile: str) -> None:
        """Read the next requests as the server of a rule set does. Requests that another server's reading gave are
        forgotten, because the two cannot be compared."""
        if engine_of(profile).chat_bodies(profile) != engine_of(self._profile).chat_bodies(self._profile):
            self._kept = []
            self._own = 0
            self._clear()
        self._profile = profile

    @property
    def size(self) -> int:
        """Bytes that the requests take."""
        return self._own + self._parts.size

    def add(self, url: str, raw: bytes) -> list[KeptBody]:
        """Compare the prompts of a request body with the requests before, and keep them. [] if it does not ask for a
        completion. Raise BadInput for a body that cannot be read or has too many values."""
        value = parse_json(raw, what="body", values=WATCHED_VALUES)
        if not is_body(value):
            return []
        bodies = as_parsed(bodies_of([FoundBody("", value, url)]), self._profile)
        adapters = [_adapters(body) for body in bodies]
        del value
        bodies = [_without_values(body) for body in bodies]
        short = ShortenedBody(raw)
        return [self._add(body, short, own) for body, own in zip(bodies, adapters, strict=True)]

    def _add(self, body: Body, raw: ShortenedBody, adapters: Adapters) -> KeptBody:
        """Compare a prompt with those before, and keep it."""
        rendered = render_request(body)
        if len(self._kept) >= self._requests:
            self._shrink()
        rendered = self._parts.share(rendered)
        tokenizer: Tokenizer = TokenPrompts() if body.of_tokens else EstimatingTokenizer()
        known = [one.record for one in self._kept]
        related = relate(rendered, self._link(rendered), known, tokenizer)
        under = self._prefix_under(adapters, related)
        answers = [one.answer for one in self._kept]
        return self._keep(compare(related, known, answers, tokenizer, under), raw, adapters)

    def _prefix_under(self, adapters: Adapters, record: RelatedBody) -> AdapterPrefix | None:
        """Return what a request shares with those before under its adapters, None if all have the same."""
        same = [number for number, one in enumerate(self._kept) if one.adapters == adapters]
        if len(same) == len(self._kept):
            return None
        return AdapterPrefix(_best(self._texts, record.text, same), record.link.before in same)

    def _keep(self, comparison: RequestComparison, raw: ShortenedBody, adapters: Adapters) -> KeptBody:
        """Keep a request that was compared, and count its bytes."""
        record = comparison.request
        before = self._kept[record.link.before] if record.link.before >= 0 else None
        if before is None:
            self._conversations += 1
        self._bodies += 1
        kept = KeptBody(
            record=record, raw=raw, conversation=before.conversation if before else self._conversations,
            adapters=adapters, number=self._bodies, before=before.number if before else 0,
            forbids_reuse=record.body.parameters.get("cache_prompt") is False,
        )  # fmt: skip
        kept.shared = _shared_bytes(record)
        kept.row = _row(kept, before)
        self._kept.append(kept)
        self._count(kept)
        if before is not None:
            before.answer = comparison.previous_answer
            self._count(before)                  # its answer may be known now
        if self.size > self._most:
            self._shrink()
        self._held.kept = self.size
        return kept

    def _count(self, kept: KeptBody) -> None:
        """Count the bytes of a request again."""
        self._own -= kept.own
        kept.own = _own_bytes(kept)
        self._own += kept.own

    def _link(self, request: RenderedBody) -> ConversationLink:
        """Assign a request to a conversation."""
        self._linker.shared.append(_best(self._texts, request.text, range(len(self._texts))))
        self._texts.append(request.text)
        return self._linker.add(request.body)

    def _shrink(self) -> None:
        """Keep the last request of each conversation, as far as they take half of the room."""
        kept = list[KeptBody]()
        seen = set[int]()
        size = 0
        for one in reversed(self._kept):
            if one.conversation in seen:
                continue
            seen.add(one.conversation)
            size += one.own + one.shared
            if 2 * size > self._most or 2 * len(kept) >= self._requests:
                break
            kept.append(one)
        self._kept, self._own = kept[::-1], 0
        self._clear()
        for one in self._kept:
            shared = self._parts.share(one.record)
            one.record = replace(shared, link=self._link(shared))
            one.own = 0
            self._count(one)

    def row(self, kept: KeptBody) -> dict[str, Any]:
        """Return what the comparison of a request found."""
        return kept.row

    def read_answer(self, kept: KeptBody, reply: bytes) -> None:
        """Store the answer to a request, so that the next request shows whether the client sends it back."""
        answer = answer_of(reply.decode("utf-8", "replace"))
        kept.record = replace(kept.record, body=replace(kept.record.body, answer=answer))
        number = next((number for number, one in enumerate(self._kept) if one is kept), None)
        if number is not None:
            self._linker.learn_answer(number, kept.record.body)
            self._count(kept)
            self._held.kept = self.size


def _row(kept: KeptBody, previous: KeptBody | None) -> dict[str, Any]:
    """Return what the comparison of a request with the previous one of its conversation found."""
    record = kept.record
    cause, place = CAUSES[record.cause.name], at(record.place)
    names = [] if previous is None else fields_beside(previous.record, record, templated=False)
    first = None if previous is None else previous.raw.difference(kept.raw)
    return {
        "conversation": kept.conversation, "model": cut(record.body.model, NAME), "cause": record.cause.name,
        "says": cause.says, "detail": cut(record.cause.detail, NAME), "where": where(record),
        "path": cut(place["path"], NAME), "character": place["character"],
        "byte": first.byte if first is not None and first.is_exact else None,
        "byte_at_least": None if first is None else first.byte,
        "prompt_byte": None if previous is None else record.bytes, "harmless": record.is_harmless,
        "estimated": record.tokens, "estimated_common": record.usable, "advice": cause.advice,
        "parameters": [one["name"] for one in names if one["matters"] != "no"],
    }  # fmt: skip


def _shared_bytes(record: RenderedBody) -> int:
    """Return the bytes of the parts of a request, although other requests may share them."""
    tools = sum(tool_bytes(path, tool) for path, tool in record.body.tools)
    return tools + sum(map(part_bytes, record.plain.parts)) + sum(map(message_bytes, record.body.messages))


def _own_bytes(kept: KeptBody) -> int:
    """Return the bytes of a request without the parts that it may share."""
    record, body = kept.record, kept.record.body
    texts = [record.text, kept.answer.text, body.url, body.model, *(record.seen or ()), *(body.answer or ())]
    arrays = [record.plain.starts, record.plain.messages, record.plain.begins]
    pointers = 8 * (len(record.plain.parts) + len(body.messages) + len(body.tools))
    rest = bytes_of([texts, arrays, body.parameters, kept.adapters, kept.row])
    return kept.raw.memory + pointers + rest + REQUEST


def _without_values(body: Body) -> Body:
    """Return a body without long values of parameters, and without the messages for chat templates: they contain the
    images."""
    chat: list[dict[str, Any]] | None = None if body.chat is None else []
    return replace(body, parameters=short_values(body.parameters), chat=chat)


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
