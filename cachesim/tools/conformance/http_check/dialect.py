"""How is a server asked for a completion of tokens, and what does it report? Found out by asking.

    native   llama-server and ik_llama.cpp: POST /completion with token arrays, cache_prompt, timings
    openai   POST /v1/completions with token arrays, or with text (mlx_lm.server), or /v1/chat/completions:
             usage, log-probabilities where they are given
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput, cut
from cachesim.tools.conformance.client_history import FEWEST
from cachesim.tools.conformance.http_check import replies
from cachesim.tools.conformance.http_check.http_client import Http, NoReply, NotJson
from cachesim.tools.conformance.http_check.openai_client import (
    CHAT,
    PIECES_NEEDED,
    Arrays,
    AskingWay,
    NoCold,
    Pieces,
    Speaker,
    Spelling,
    find_pieces,
)
from cachesim.tools.conformance.http_check.replies import TOP, Answered, first, mapping
from cachesim.tools.conformance.protocol import Ask, Failed, Reply

# How does a server want to be asked? Found out by trying: path, tokens or text, log-probabilities, cold answers.
#
# What a server reports as cached shows whether its cache was out of the way.

COMPLETIONS = "/v1/completions"
LOGPROBS: Sequence[Mapping[str, Any]] = ({"logprobs": TOP}, {"logprobs": True, "top_logprobs": TOP}, {})
"""How servers are asked for log-probabilities; the first that they take and fulfil."""
RANGES = (range(1_000, 30_000), range(256, 2_000), range(64, 256))
"""Tokens that most vocabularies have; the first of which the last one is taken."""
TEXT = " the of and to in"
EMPTYING = ("/flush_cache", "/reset_prefix_cache")
OTHERS = (1, 2, 4, 6, 8, 10, 12, 16, 24, 32, 64)
"""Numbers of other prompts that may push everything out of a cache."""
CHANGES: Sequence[dict[str, Any]] = (
    {"cold": {"cache_prompt": False}}, {"salt": "cache_salt"},
    *({"empty": path} for path in EMPTYING), *({"others": number} for number in OTHERS),
)  # fmt: skip
LONG = 100                   # tokens of the prompt with which that is tried
GENERATED = 3                # tokens of an answer that is sent back
UNKNOWN = 16                 # other prompts where nobody says what they push out


def find_speaker(http: Http, model: str) -> Speaker:
    """Find out how a server with OpenAI's paths is asked. Raises BadInput where it answers no completion."""
    seen: dict[str, int] = {}
    for way in _ways(model):
        spellings: list[Spelling] = [Arrays(tokens) for tokens in RANGES] if way.arrays else [Pieces([TEXT])]
        for speaker in (Speaker(http, way, spelling) for spelling in spellings):
            seen[way.path], reply = _tried(speaker)
            said = reply.fingerprint if reply is not None else None
            places = isinstance(said, Answered) and any(said.places)
            if reply is not None and (places or not way.fields.get("logprobs")):
                return _measured(speaker)
    tried = ", ".join(f"{path}: {status or 'no HTTP'}" for path, status in seen.items())
    raise BadInput(f"neither llama-server nor an OpenAI-compatible server answers there ({tried})", file=http.url)


def _ways(model: str) -> Iterator[AskingWay]:
    names: list[Mapping[str, Any]] = [{}, {"model": model}] if model else [{}]
    paths = ((COMPLETIONS, True), (COMPLETIONS, False), (CHAT, False))
    for (path, arrays), fields, name in product(paths, LOGPROBS, names):
        yield AskingWay(path, arrays, {**name, **fields})


def _tried(speaker: Speaker) -> tuple[int, Reply | None]:
    """Status of one completion, and its reply. Raises BadInput where a key is wanted, or nothing comes in time."""
    tokens = speaker.spelling.tokens
    try:
        status, said = speaker.post(speaker.spelling.prompt((tokens[0], tokens[-1])), {"max_tokens": 2})
    except NoReply as silent:
        raise BadInput(str(silent), file=speaker.http.url, hint="--timeout S waits longer") from None
    except Failed:
        return 0, None
    if status in (401, 403):
        replies.refused(status, said)
    return status, replies.openai(said) if status == 200 and isinstance(said, Mapping) else None


def _measured(speaker: Speaker) -> Speaker:
    """The speaker with the pieces that are one token each, and with a way to a cold answer. Raises BadInput."""
    try:
        if not speaker.way.arrays:
            pieces, base = find_pieces(lambda some: speaker.length("".join(some)))
            if len(pieces) < PIECES_NEEDED:
                raise BadInput(f"only {len(pieces)} pieces of text are one token each, {PIECES_NEEDED} are needed",
                               file=speaker.http.url)  # fmt: skip
            spelling = Pieces(pieces, base)
            speaker = Speaker(speaker.http, speaker.way, spelling)
            _find_lead(speaker, spelling)
        return _emptied(speaker)
    except Failed as failed:
        raise BadInput(str(failed), file=speaker.http.url) from None


def _find_lead(speaker: Speaker, spelling: Pieces) -> None:
    """Does an answer lack the space that its first token began with? With it, prompt and answer are as many tokens as
    they were; something comes behind them, since a prompt that is all of a conversation has ended servers. Raises
    Failed."""
    prompt, behind = "".join(spelling.pieces[:PIECES_NEEDED]), spelling.pieces[0]
    _, said = speaker.post(prompt, {"max_tokens": GENERATED})
    reply = replies.openai(said) if isinstance(said, Mapping) else None
    text = reply.fingerprint.text if reply is not None and isinstance(reply.fingerprint, Answered) else ""
    whole = spelling.base + PIECES_NEEDED + GENERATED + 1
    spelling.lead = " " if text and speaker.length(f"{prompt} {text}{behind}") == whole else ""


def _emptied(speaker: Speaker) -> Speaker:
    """The speaker with what keeps a prompt from being reused. Raises Failed, BadInput."""
    probe = Ask(tuple(speaker.spelling.tokens[:LONG]))
    speaker.complete(probe)
    again = speaker.complete(probe)
    if not again.cached:
        speaker.way = replace(speaker.way, others=UNKNOWN, reports=again.cached is not None)
        return speaker
    plain = speaker.way
    for change in CHANGES:
        speaker.way = replace(plain, **change)
        try:
            reply = speaker.cold(probe, (1,))
        except (Failed, NoCold):
            continue
        if reply.cached == 0 and not reply.refused:
            return speaker
    raise BadInput("its cache cannot be emptied: no cold answer is to be had", file=speaker.http.url)


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
    used = sum(task for one in found if isinstance(task := one.get("id_task"), int) and task > 0)
    return ServerFacts("native", cut(name, 60), slots if isinstance(slots, int) else 1, n_ctx, tokens, _busy(found),
                       used, sizes=sizes_of(props, models))  # fmt: skip


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
    return _complete_native(http, ask, slot) if server.speaker is None else server.speaker.complete(ask)


def cold(http: Http, server: ServerFacts, ask: Ask, slot: int) -> Reply:
    """The reply with nothing in the cache. Raises Failed."""
    ask = replace(ask, cache=False, cancel_after=None)
    return _complete_native(http, ask, slot) if server.speaker is None else server.speaker.cold(ask)


def _complete_native(http: Http, ask: Ask, slot: int) -> Reply:
    body = {"prompt": list(ask.prompt), "n_predict": ask.n_predict, "temperature": 0, "cache_prompt": ask.cache,
            "ignore_eos": True, "n_probs": TOP, "return_tokens": True, **({"id_slot": slot} if slot >= 0 else {})}
    if ask.cancel_after is not None:
        http.hang_up("/completion", {**body, "stream": True}, ask.cancel_after)
        return Reply()
    status, said = http.post("/completion", body)
    if status != 200 or not isinstance(said, Mapping) or "error" in said:
        return replies.refused(status, said)
    return replies.native(said)
