"""Drafts of a server: whether it drafts tokens, and answers without drafts.

A request for a single token is never drafted, since only a later token can be. An answer without drafts is therefore a
row of such requests. b11549 ignores ``speculative.n_max`` in a request, so a field cannot switch drafts off there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.http_check.compare_answers import Place, ScoredAnswer
from cachesim.tools.conformance.http_check.dialect import ServerFacts
from cachesim.tools.conformance.http_check.http_client import Exhausted, Http
from cachesim.tools.conformance.http_check.replies import count, mapping, tokens
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply

Serve = Callable[[Http, ServerFacts, CacheRequest, int], Reply]
PROBE = 24                   # tokens of a prompt and of its answer: n-gram drafts need a repetition of 12


def detect_drafts(http: Http, server: ServerFacts) -> bool:
    """True if llama-server reports drafted tokens, also for a prompt that repeats itself. Raise BadInput without a
    usable reply."""
    if server.dialect != "native":
        return False
    prompt = [server.tokens[(7 * number + server.used) % len(server.tokens)] for number in range(PROBE)]
    said: tuple[int, ...] = ()
    for asked in ((), prompt):
        body = {"prompt": [*prompt, *said, *asked], "n_predict": PROBE, "temperature": 0, "cache_prompt": False,
                "ignore_eos": True, "return_tokens": True}  # fmt: skip
        try:
            reply = mapping(http.post("/completion", body)[1])
        except Exhausted:
            return False
        except Failed as failed:
            raise BadInput(str(failed), file=http.url) from None
        if count(mapping(reply.get("timings")).get("draft_n")):
            return True
        said = (tokens(reply.get("tokens")) or ())[:PROBE]
    return False


def one_by_one(serve: Serve, http: Http, server: ServerFacts, ask: CacheRequest, slot: int) -> Reply:
    """Serve a request by one request per token, so that none is drafted. Raise Failed."""
    if ask.n_predict == 1 and ask.cancel_after is None:
        return serve(http, server, ask, slot)
    said: list[Reply] = []
    generated: list[int] = []
    places: list[Place] = []
    wanted = ask.n_predict if ask.cancel_after is None else max(1, ask.cancel_after)
    for _ in range(wanted):
        single = replace(ask, prompt=(*ask.prompt, *generated), n_predict=1, cancel_after=None)
        said.append(reply := serve(http, server, single, slot))
        if reply.refused:
            return reply
        if reply.tokens is None or len(reply.tokens) != 1:
            raise Failed("expected an answer of one token")
        generated += reply.tokens
        places += reply.fingerprint.places if isinstance(reply.fingerprint, ScoredAnswer) else ()
    answer = ScoredAnswer(tuple(generated), "", tuple(places)) if any(places) else None
    return Reply() if ask.cancel_after is not None else replace(said[0], tokens=tuple(generated), fingerprint=answer)
