"""How is a server asked for a completion of tokens, and what does it report? Found out by asking.

    native   llama-server and ik_llama.cpp: POST /completion with token arrays, cache_prompt, timings
    openai   POST /v1/completions with token arrays, or with text (mlx_lm.server), or /v1/chat/completions:
             usage, log-probabilities where they are given
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput, cut
from cachesim.tools.conformance.http_check import replies
from cachesim.tools.conformance.http_check.http_client import Http, NotJson
from cachesim.tools.conformance.http_check.replies import TOP, first, mapping
from cachesim.tools.conformance.http_check.speaker import Speaker
from cachesim.tools.conformance.http_check.ways import find_speaker
from cachesim.tools.conformance.protocol import Ask, Failed, Reply
from cachesim.tools.conformance.vocabulary_map import FEWEST

# Which sizes does a server state? Lengths of prompts crowd around them: a batch's end is where things happen.

NAMES = ("n_batch", "n_ubatch", "n_swa", "sliding_window", "block_size", "page_size", "chunk_size")
CONTEXTS = ("n_ctx", "max_model_len", "context_length")
LARGEST, DEEP = 1 << 24, 4


def sizes_of(*said: Any) -> tuple[int, ...]:
    """Sizes of batches, blocks and windows that are somewhere in what a server says of itself."""
    return tuple(sorted({size for one in said for name, size in _numbers(one, DEEP) if name in NAMES and size > 1}))


def context_of(default: int, *said: Any) -> int:
    """Tokens that a slot takes."""
    found = [size for one in said for name, size in _numbers(one, DEEP) if name in CONTEXTS and size > 1]
    return min(found, default=default)


def _numbers(said: Any, deep: int) -> Iterator[tuple[str, int]]:
    inner = said.values() if isinstance(said, Mapping) else said if isinstance(said, list) else ()
    if isinstance(said, Mapping):
        yield from ((str(key), one) for key, one in said.items() if type(one) is int and one <= LARGEST)
    for one in inner if deep else ():
        yield from _numbers(one, deep - 1)


FALLBACK, CONTEXT = range(1_000, 30_000), 4_096


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What is known of a server: its dialect, model, slots, and the tokens that may be sent. ``busy``: why somebody may
    mind that its slots are overwritten, "" = nobody. ``used``: grows with every request that it served, so that other
    tokens are sent the next time. ``speaker``: who asks it, where it is not asked natively; ``missing``: what it cannot
    be asked for, with the reason; ``sizes`` of batches, blocks and windows that it states."""

    dialect: str
    name: str
    slots: int
    n_ctx: int
    tokens: Sequence[int]
    busy: str = ""
    used: int = 0
    speaker: Speaker | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    sizes: Sequence[int] = ()

    @property
    def dear(self) -> bool:
        """Returns True if a cold answer takes requests of its own."""
        return self.speaker is not None and self.speaker.dear


def find_out(http: Http) -> ServerFacts:
    """Ask a server what it is. Raises BadInput for one that is of no known kind, or cannot be used."""
    try:
        props, models = _get(http, "/props"), _get(http, "/v1/models")
        if isinstance(props, Mapping) and "total_slots" in props:
            return _native(http, props, models)
    except Failed as failed:
        raise BadInput(str(failed), file=http.url) from None
    model = cut(str(first(mapping(models).get("data")).get("id", "")), 200)
    speaker = find_speaker(http, model)
    missing = {} if speaker.way.cold else {"cache": "no request can switch the cache off"}
    return ServerFacts("openai", model or speaker.way.path, 1, context_of(CONTEXT, models), speaker.spelling.tokens,
                  speaker=speaker, missing=missing, sizes=sizes_of(props, models))  # fmt: skip


def _get(http: Http, path: str) -> Any:
    """What is at a path, None for what is no JSON. Raises Failed where nothing answers."""
    try:
        return http.get(path)
    except NotJson:
        return None


def _native(http: Http, props: Mapping[str, Any], models: Any) -> ServerFacts:
    n_ctx = context_of(CONTEXT, props)
    vocab = mapping(first(mapping(models).get("data")).get("meta")).get("n_vocab", 0)
    tokens: Sequence[int] = FALLBACK
    if isinstance(vocab, int) and vocab > 0:
        tokens = range(min(1_000, vocab // 16), min(vocab, 30_000))
    if len(tokens) < FEWEST:
        raise BadInput(f"a vocabulary of {vocab} tokens: histories need {FEWEST} that are no special ones",
                       file=http.url)  # fmt: skip
    slots = props["total_slots"]
    name = str(props.get("model_alias") or props.get("model_path") or "llama-server")
    found = _slots(http)
    tasks = [one.get("id_task") for one in found]
    used = sum(one for one in tasks if isinstance(one, int) and one > 0)
    n_slots = slots if isinstance(slots, int) else 1
    sizes = sizes_of(props, models)
    return ServerFacts("native", cut(name, 60), n_slots, n_ctx, tokens, _busy(found), used, sizes=sizes)


def _slots(http: Http) -> list[Mapping[str, Any]]:
    try:
        slots = http.get("/slots")
    except Failed:
        return []
    return [one for one in slots if isinstance(one, Mapping)] if isinstance(slots, list) else []


def _busy(found: Sequence[Mapping[str, Any]]) -> str:
    if any(one.get("is_processing") for one in found):
        return "a slot is processing a request"
    used = [one for one in found if one.get("n_prompt_tokens")]
    return f"{len(used)} slots hold conversations" if used else ""


def complete(http: Http, server: ServerFacts, ask: Ask, slot: int) -> Reply:
    """Serve one request. ``slot``: where, -1 = the server's own choice. Raises Failed."""
    if server.speaker is not None:
        return server.speaker.complete(ask)
    return _complete_native(http, ask, slot)


def cold(http: Http, server: ServerFacts, ask: Ask, slot: int) -> Reply:
    """The reply with nothing in the cache. Raises Failed."""
    ask = replace(ask, cache=False, cancel_after=None)
    if server.speaker is not None:
        return server.speaker.cold(ask)
    return _complete_native(http, ask, slot)


def _complete_native(http: Http, ask: Ask, slot: int) -> Reply:
    body = {
        "prompt": list(ask.prompt), "n_predict": ask.n_predict, "temperature": 0, "cache_prompt": ask.cache,
        "ignore_eos": True, "n_probs": TOP, "return_tokens": True, **({"id_slot": slot} if slot >= 0 else {}),
    }  # fmt: skip
    if ask.cancel_after is not None:
        http.hang_up("/completion", {**body, "stream": True}, ask.cancel_after)
        return Reply()
    status, said = http.post("/completion", body)
    if status != 200 or not isinstance(said, Mapping) or "error" in said:
        return replies.refused(status, said)
    return replies.native(said)
