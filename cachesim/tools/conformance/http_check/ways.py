"""How does a server want to be asked? Found out by trying: path, tokens or text, log-probabilities, cold answers.

What a server reports as cached shows whether its cache was out of the way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.http_check import replies
from cachesim.tools.conformance.http_check.http_client import Http, NoReply
from cachesim.tools.conformance.http_check.replies import TOP, Answered
from cachesim.tools.conformance.http_check.speaker import CHAT, AskingWay, NoCold, Speaker
from cachesim.tools.conformance.http_check.spelling import FEWEST, Arrays, Pieces, find_pieces
from cachesim.tools.conformance.protocol import Ask, Failed, Reply

COMPLETIONS = "/v1/completions"
LOGPROBS: Sequence[Mapping[str, Any]] = ({"logprobs": TOP}, {"logprobs": True, "top_logprobs": TOP}, {})
"""How servers are asked for log-probabilities; the first that they take and fulfil."""
RANGES = (range(1_000, 30_000), range(256, 2_000), range(64, 256))
"""Tokens that most vocabularies have; the first of which the last one is taken."""
TEXT = " the of and to in"
EMPTYING = ("/flush_cache", "/reset_prefix_cache")
OTHERS = (1, 2, 4, 6, 8, 10, 12, 16, 24, 32, 64)
"""Numbers of other prompts that may push everything out of a cache."""
LONG = 100                   # tokens of the prompt with which that is tried
GENERATED = 3                # tokens of an answer that is sent back
UNKNOWN = 16                 # other prompts where nobody says what they push out


def find_speaker(http: Http, model: str) -> Speaker:
    """Find out how a server with OpenAI's paths is asked. Raises BadInput where it answers no completion."""
    seen: dict[str, int] = {}
    for way in _ways(model):
        for speaker in _speakers(http, way):
            status, reply = _tried(speaker)
            seen[way.path] = status
            if reply is not None and (not way.fields.get("logprobs") or _places(reply)):
                return _measured(speaker)
    said = ", ".join(f"{path}: {status or 'no HTTP'}" for path, status in seen.items())
    raise BadInput(f"neither llama-server nor an OpenAI-compatible server answers there ({said})", file=http.url)


def _ways(model: str) -> Iterator[AskingWay]:
    names: list[Mapping[str, Any]] = [{}, {"model": model}] if model else [{}]
    for path, arrays in ((COMPLETIONS, True), (COMPLETIONS, False), (CHAT, False)):
        for fields in LOGPROBS:
            yield from (AskingWay(path, arrays, {**name, **fields}) for name in names)


def _speakers(http: Http, way: AskingWay) -> Iterator[Speaker]:
    if not way.arrays:
        yield Speaker(http, way, Pieces([TEXT]))
    for tokens in RANGES if way.arrays else ():
        yield Speaker(http, way, Arrays(tokens))


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


def _places(reply: Reply) -> bool:
    return isinstance(reply.fingerprint, Answered) and any(reply.fingerprint.places)


def _measured(speaker: Speaker) -> Speaker:
    """The speaker with the pieces that are one token each, and with a way to a cold answer. Raises BadInput."""
    try:
        if not speaker.way.arrays:
            pieces, base = find_pieces(lambda some: speaker.length("".join(some)))
            if len(pieces) < FEWEST:
                raise BadInput(f"only {len(pieces)} pieces of text are one token each, {FEWEST} are needed",
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
    prompt, behind = "".join(spelling.pieces[:FEWEST]), spelling.pieces[0]
    _, said = speaker.post(prompt, {"max_tokens": GENERATED})
    reply = replies.openai(said) if isinstance(said, Mapping) else None
    text = reply.fingerprint.text if reply is not None and isinstance(reply.fingerprint, Answered) else ""
    whole = spelling.base + FEWEST + GENERATED + 1
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
    for change in _changes():
        speaker.way = replace(plain, **change)
        try:
            reply = speaker.cold(probe, (1,))
        except (Failed, NoCold):
            continue
        if reply.cached == 0 and not reply.refused:
            return speaker
    raise BadInput("its cache cannot be emptied: no cold answer is to be had", file=speaker.http.url)


def _changes() -> Iterator[dict[str, Any]]:
    yield {"cold": {"cache_prompt": False}}
    yield {"salt": "cache_salt"}
    yield from ({"empty": path} for path in EMPTYING)
    yield from ({"others": number} for number in OTHERS)
