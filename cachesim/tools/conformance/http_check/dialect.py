"""Detection of a server's completion API and of the values that it reports.

    native   llama-server and ik_llama.cpp: POST /completion with token arrays, cache_prompt, timings
    openai   POST /v1/completions with token arrays, or with text (mlx_lm.server), or /v1/chat/completions:
             usage, and log-probabilities if the server returns them
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput, cut
from cachesim.engines.shared.known_models import OLDER, find
from cachesim.model.layer_kinds import KINDS
from cachesim.model.spec import parse
from cachesim.scenarios.option_checks import layers_named
from cachesim.tools.conformance.client_history import FEWEST
from cachesim.tools.conformance.http_check import replies
from cachesim.tools.conformance.http_check.adapters import Adapter, native_adapters, served_adapters
from cachesim.tools.conformance.http_check.compare_answers import TOP, ScoredAnswer
from cachesim.tools.conformance.http_check.http_client import Http, NoReply, NotJson
from cachesim.tools.conformance.http_check.openai_client import (
    CHAT,
    PIECES_NEEDED,
    Arrays,
    CacheNotEmptied,
    OpenAIClient,
    Pieces,
    PromptEncoding,
    RequestFormat,
    find_pieces,
)
from cachesim.tools.conformance.http_check.replies import first, mapping
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply

# Detection by trial: path, tokens or text, log-probabilities, a way to cold answers.
#
# The number of cached tokens that a server reports shows whether its cache was bypassed.

COMPLETIONS = "/v1/completions"
PATHS = ((COMPLETIONS, True), (COMPLETIONS, False), (CHAT, False))
LOGPROBS: Sequence[Mapping[str, Any]] = ({"logprobs": TOP}, {"logprobs": True, "top_logprobs": TOP}, {})
"""Request fields for log-probabilities, tried in order until the server accepts and fulfils them."""
RANGES = (range(1_000, 30_000), range(256, 2_000), range(64, 256))
"""Token ranges that most vocabularies have, tried in order until the last token is accepted."""
TEXT = " the of and to in"
EMPTYING = ("/flush_cache", "/reset_prefix_cache")
OTHERS = (1, 2, 4, 6, 8, 10, 12, 16, 24, 32, 64)
"""Numbers of other prompts that may evict everything from a cache."""
CHANGES: Sequence[dict[str, Any]] = (
    {"cold": {"cache_prompt": False}}, {"salt": "cache_salt"},
    *({"empty": path} for path in EMPTYING), *({"others": number} for number in OTHERS),
)  # fmt: skip
LONG = 100                   # length of the prompt [tokens] that tests the ways to a cold answer
GENERATED = 3                # length of the answer [tokens] that is sent back
UNKNOWN = 16                 # other prompts if the server does not report cached tokens


def detect_client(http: Http, model: str, paths: Sequence[tuple[str, bool]] = PATHS) -> OpenAIClient:
    """Detect how a server with OpenAI's paths expects requests. ``paths``: each with whether it gets token arrays.
    Raise BadInput if it answers no completion."""
    seen: dict[str, int] = {}
    for way in _ways(model, paths):
        spellings: list[PromptEncoding] = [Arrays(tokens) for tokens in RANGES] if way.arrays else [Pieces([TEXT])]
        for client in (OpenAIClient(http, way, spelling) for spelling in spellings):
            seen[way.path], reply = _tried(client)
            said = reply.fingerprint if reply is not None else None
            places = isinstance(said, ScoredAnswer) and any(said.places)
            if reply is not None and (places or not way.fields.get("logprobs")):
                return _measured(client)
    tried = ", ".join(f"{path}: {status or 'no HTTP'}" for path, status in seen.items())
    raise BadInput(f"neither llama-server nor an OpenAI-compatible server answers at this URL ({tried})", file=http.url)


def _ways(model: str, paths: Sequence[tuple[str, bool]]) -> Iterator[RequestFormat]:
    names: list[Mapping[str, Any]] = [{}, {"model": model}] if model else [{}]
    for (path, arrays), fields, name in product(paths, LOGPROBS, names):
        yield RequestFormat(path, arrays, {**name, **fields})


def _tried(client: OpenAIClient) -> tuple[int, Reply | None]:
    """Return status and reply of a completion. Raise BadInput if a key is required or the reply is late."""
    tokens = client.spelling.tokens
    try:
        status, said = client.post(client.spelling.prompt((tokens[0], tokens[-1])), {"max_tokens": 2})
    except NoReply as silent:
        raise BadInput(str(silent), file=client.http.url, hint="raise --timeout S") from None
    except Failed:
        return 0, None
    if status in (401, 403):
        replies.refused(status, said)
    try:
        return status, replies.openai(said, 2) if status == 200 and isinstance(said, Mapping) else None
    except Failed:
        return status, None


def _measured(client: OpenAIClient) -> OpenAIClient:
    """Return the client with its single-token pieces and a way to cold answers. Raise BadInput."""
    try:
        if not client.way.arrays:
            pieces, base = find_pieces(lambda some: client.length("".join(some)))
            if len(pieces) < PIECES_NEEDED:
                raise BadInput(f"expected {PIECES_NEEDED} pieces of text of one token each, found {len(pieces)}",
                               file=client.http.url)  # fmt: skip
            spelling = Pieces(pieces, base)
            client = OpenAIClient(client.http, client.way, spelling)
            _detect_lead(client, spelling)
        return _emptied(client)
    except Failed as failed:
        raise BadInput(str(failed), file=client.http.url) from None


def _detect_lead(client: OpenAIClient, spelling: Pieces) -> None:
    """Detect whether an answer lacks the leading space of its first token. If so, prompt, space and answer have the
    expected number of tokens. A piece follows them, since a prompt that equals a whole conversation has crashed
    servers. Raise Failed."""
    prompt, behind = "".join(spelling.pieces[:PIECES_NEEDED]), spelling.pieces[0]
    _, said = client.post(prompt, {"max_tokens": GENERATED})
    reply = replies.openai(said, GENERATED) if isinstance(said, Mapping) else None
    text = reply.fingerprint.text if reply is not None and isinstance(reply.fingerprint, ScoredAnswer) else ""
    whole = spelling.base + PIECES_NEEDED + GENERATED + 1
    spelling.lead = " " if text and client.length(f"{prompt} {text}{behind}") == whole else ""


def _emptied(client: OpenAIClient) -> OpenAIClient:
    """Return the client with a way to prevent the reuse of a prompt. Raise Failed, BadInput."""
    probe = CacheRequest(tuple(client.spelling.tokens[:LONG]))
    client.complete(probe)
    again = client.complete(probe)
    if not again.cached:
        client.way = replace(client.way, others=UNKNOWN, reports=again.cached is not None)
        return client
    plain = client.way
    for change in CHANGES:
        client.way = replace(plain, **change)
        try:
            reply = client.cold(probe, (1,))
        except (Failed, CacheNotEmptied):
            continue
        if reply.cached == 0 and not reply.refused:
            return client
    raise BadInput("the server's cache cannot be emptied, so there are no cold answers to compare with",
                   file=client.http.url, hint="use a server that supports cache_prompt or cache_salt")  # fmt: skip


# Sizes that a server states. Prompt lengths cluster around them: faults tend to occur at the end of a batch.

NAMES = ("n_batch", "n_ubatch", "n_swa", "sliding_window", "block_size", "page_size", "chunk_size")
CONTEXTS = ("n_ctx", "max_model_len", "context_length")
LARGEST, DEEP = 1 << 24, 4


def sizes_of(*said: Any) -> tuple[int, ...]:
    """Return the sizes of batches, blocks and windows anywhere in the server's JSON."""
    return tuple(sorted({size for one in said for name, size in _numbers(one, DEEP) if name in NAMES and size > 1}))


def context_of(default: int, *said: Any) -> int:
    """Return the context size of a slot in tokens."""
    found = [size for one in said for name, size in _numbers(one, DEEP) if name in CONTEXTS and size > 1]
    return min(found, default=default)


def _numbers(said: Any, deep: int) -> Iterator[tuple[str, int]]:
    inner = said.values() if isinstance(said, Mapping) else said if isinstance(said, list) else ()
    if isinstance(said, Mapping):
        yield from ((str(key), one) for key, one in said.items() if type(one) is int and one <= LARGEST)
    for one in inner if deep else ():
        yield from _numbers(one, deep - 1)


FALLBACK, CONTEXT = range(1_000, 30_000), 4_096
TINY = 10_000_000            # parameters of a model
MOST_SLOTS = 1_024           # slots of a server; llama.cpp has at most 256 sequences


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts about a server."""

    dialect: str                         # "native" or "openai"
    name: str                            # model, or path if unknown
    slots: int
    n_ctx: int                           # context size of a slot [tokens]
    tokens: Sequence[int]                # tokens that may be sent
    busy: str = ""                       # reason why overwriting its slots may disturb a user, "" = none
    used: int = 0                        # grows with every served request, so the next check sends other tokens
    client: OpenAIClient | None = None       # client for a server that is not native
    missing: Mapping[str, str] = field(default_factory=dict)         # ability that it lacks -> reason
    sizes: Sequence[int] = ()            # sizes of batches, blocks and windows that it states
    adapters: Sequence[Adapter] = ()
    vision: bool | None = None           # it takes images, None = it does not say
    drafts: bool = False                 # it drafts tokens
    is_tiny: bool = False                # its model is so small that an answer takes milliseconds
    chooses_rows: bool = False           # its model is known to choose the rows that it reads, or to compress them

    @property
    def cold_is_costly(self) -> bool:
        """True if a cold answer needs additional requests."""
        return self.client is not None and self.client.cold_is_costly


def identify_server(http: Http) -> ServerFacts:
    """Detect the kind of a server. Raise BadInput for an unknown or unusable server."""
    try:
        props, models = _get(http, "/props"), _get(http, "/v1/models")
        if isinstance(props, Mapping) and "total_slots" in props:
            return _native(http, props, models)
    except Failed as failed:
        raise BadInput(str(failed), file=http.url) from None
    named = str(first(mapping(models).get("data")).get("id", ""))
    model = cut(named, 200)
    client = detect_client(http, model)
    missing = {} if client.way.cold else {"cache": "requests cannot switch the cache off"}
    return ServerFacts("openai", model or client.way.path, 1, context_of(CONTEXT, models), client.spelling.tokens,
                  client=client, missing=missing, sizes=sizes_of(props, models),
                  adapters=served_adapters(models, named), chooses_rows=chooses_rows(named))  # fmt: skip


def _get(http: Http, path: str) -> Any:
    """Return the JSON at a path, None if it is not JSON. Raise Failed without a reply."""
    try:
        return http.get(path)
    except NotJson:
        return None


def _native(http: Http, props: Mapping[str, Any], models: Any) -> ServerFacts:
    n_ctx = context_of(CONTEXT, props)
    meta = mapping(first(mapping(models).get("data")).get("meta"))
    vocab = replies.count(meta.get("n_vocab")) or 0
    tokens: Sequence[int] = FALLBACK
    if vocab:
        tokens = range(min(1_000, vocab // 16), min(vocab, 30_000))
    if len(tokens) < FEWEST:
        raise BadInput(f"expected a vocabulary with at least {FEWEST} ordinary tokens, found {vocab} tokens",
                       file=http.url)  # fmt: skip
    slots = replies.count(props["total_slots"]) or 0
    if not 1 <= slots <= MOST_SLOTS:
        raise BadInput(f"total_slots: expected an integer from 1 to {MOST_SLOTS}, found {props['total_slots']!r:.40}",
                       file=http.url)  # fmt: skip
    named = [str(props.get(key) or "") for key in ("model_alias", "model_path")]
    name = next(filter(None, named), "llama-server")
    found = listed(http, "/slots")
    used = sum(replies.count(one.get("id_task")) or 0 for one in found)
    vision = mapping(props.get("modalities")).get("vision") is True
    return ServerFacts("native", cut(name, 60), slots, n_ctx, tokens, _busy(found),
                       used, sizes=sizes_of(props, models), adapters=native_adapters(listed(http, "/lora-adapters")),
                       vision=vision, is_tiny=0 < (replies.count(meta.get("n_params")) or 0) < TINY,
                       chooses_rows=any(map(chooses_rows, named)))  # fmt: skip


def chooses_rows(name: str) -> bool:
    """True if a name is that of a real model with layers that choose rows or compress them."""
    known = find(name)
    return known is not None and known not in OLDER


def layers_choose_rows(model: str) -> bool:
    """True if a model has layers that choose rows or compress them. ``model``: as a user names it: a real model, layers
    or a file. Raise BadInput for an unknown one."""
    if find(model):
        return chooses_rows(model)
    layers = layers_named(model, files=True)
    return any(KINDS[layer.kind].newest for layer in parse(layers.rpartition("-")[2]).layers)


def listed(http: Http, path: str) -> list[Mapping[str, Any]]:
    """Return the mappings in the list at a path, an empty list without such a list."""
    try:
        found = http.get(path)
    except Failed:
        return []
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _busy(found: Sequence[Mapping[str, Any]]) -> str:
    if any(one.get("is_processing") for one in found):
        return "a slot is processing a request"
    used = [one for one in found if one.get("n_prompt_tokens")]
    return f"{len(used)} slots hold conversations" if used else ""


PLACED = ("id_slot", "n_cmpl")
"""Fields of a request that its cold run does not have."""


def complete(http: Http, server: ServerFacts, ask: CacheRequest, slot: int) -> Reply:
    """Serve a request. ``slot``: id_slot, -1 = the server's own choice. Raise Failed."""
    return _complete_native(http, ask, slot) if server.client is None else server.client.complete(ask)


def cold(http: Http, server: ServerFacts, ask: CacheRequest, slot: int) -> Reply:
    """Serve a request without its cache, as a single completion. Raise Failed."""
    fields = {name: value for name, value in ask.fields.items() if name not in PLACED}
    ask = replace(ask, cache=False, cancel_after=None, fields=fields)
    return _complete_native(http, ask, slot) if server.client is None else server.client.cold(ask)


def _complete_native(http: Http, ask: CacheRequest, slot: int) -> Reply:
    body = {"prompt": list(ask.prompt), "n_predict": ask.n_predict, "temperature": 0, "cache_prompt": ask.cache,
            "ignore_eos": True, "n_probs": TOP, "return_tokens": True, **({"id_slot": slot} if slot >= 0 else {}),
            **ask.fields}
    if ask.cancel_after is not None:
        http.hang_up("/completion", {**body, "stream": True}, ask.cancel_after)
        return Reply()
    status, said = http.post("/completion", body)
    if isinstance(said, list) and "n_cmpl" in ask.fields:
        return _first_other([replies.native(mapping(one), ask.n_predict) for one in said[:MOST_COMPLETIONS]])
    if status != 200 or not isinstance(said, Mapping) or "error" in said:
        return replies.refused(status, said)
    return replies.native(said, ask.n_predict)


MOST_COMPLETIONS = 64        # completions of a request that are read


def _first_other(said: Sequence[Reply]) -> Reply:
    """Return the first completion that differs from the first one, by default the first. Raise Failed without any."""
    if not said:
        raise Failed("expected the completions of a prompt, found none")
    alike = (said[0].tokens, said[0].fingerprint)
    other = next((one for one in said if (one.tokens, one.fingerprint) != alike), said[0])
    return replace(said[0], tokens=other.tokens, fingerprint=other.fingerprint)
