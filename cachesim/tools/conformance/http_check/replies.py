"""Parsing of a server's JSON replies. A field of a wrong type makes a reply unusable."""

from __future__ import annotations

from math import isfinite, log
from typing import Any, Mapping

from cachesim.base.errors import BadInput, counted, cut
from cachesim.base.json_shapes import INT64
from cachesim.tools.conformance.http_check.compare_answers import Place, ScoredAnswer
from cachesim.tools.conformance.protocol import Failed, Reply

LEAST = 1e-9                 # probability that stands for 0
SLACK = 1_024                # tokens of an answer beyond the requested number that are accepted
LETTERS = 64                 # largest average length of an accepted answer's tokens [characters]
LIKELIEST = 1_024            # accepted log-probabilities at a place


def native(said: Mapping[str, Any], asked: int) -> Reply:
    """Parse a reply of POST /completion. ``asked``: requested tokens. Raise Failed for a field of a wrong type, for an
    answer without a token, and for one that is much longer."""
    timings = _typed(said, "timings", Mapping) or {}
    evaluated, total = _counted(timings, "prompt_n"), _counted(said, "tokens_evaluated")
    cached = _counted(timings, "cache_n")
    if cached is None and total is not None and evaluated is not None and total >= evaluated:
        cached = total - evaluated
    ids = _token_ids(_limited(said.get("tokens"), asked))
    text = _limited(_typed(said, "content", str), asked)
    found = _limited(_typed(said, "completion_probabilities", list), asked)
    places = tuple(map(place, found or ()))
    if asked and not ids and not text and not any(places):
        raise Failed(f"an answer without a token to a request for {counted(asked, 'token')}")
    return Reply(ids or None, _answered(ids or None, text, places), cached, evaluated)


def _token_ids(found: Any) -> tuple[int, ...]:
    """Return the tokens of an answer, none if the server does not list them. Raise Failed for anything else."""
    ids = () if found is None else tokens(found)
    if ids is None:
        raise _wrong_type("tokens", "a list of token ids", found)
    return ids


KINDS: Mapping[type, str] = {Mapping: "an object", str: "a text", list: "a list"}


def _typed(said: Mapping[str, Any], key: str, kind: type) -> Any:
    """Return a field, None if it is absent or null. Raise Failed if it has another type."""
    found = said.get(key)
    if found is not None and not isinstance(found, kind):
        raise _wrong_type(key, KINDS[kind], found)
    return found


def _counted(said: Mapping[str, Any], key: str) -> int | None:
    """Return a count, None if it is absent or null. Raise Failed for anything else."""
    found = said.get(key)
    number = count(found)
    if found is not None and number is None:
        raise _wrong_type(key, "a count", found)
    return number


def _wrong_type(key: str, expected: str, found: Any) -> Failed:
    return Failed(f"unusable reply: {key}: expected {expected}, found {cut(repr(found), 40)}")


def _limited(found: Any, asked: int) -> Any:
    """Return a list or text of an answer. Raise Failed if it is much longer than the requested tokens."""
    most = (asked + SLACK) * (LETTERS if isinstance(found, str) else 1)
    if isinstance(found, list | str) and len(found) > most:
        unit = "characters" if isinstance(found, str) else "tokens"
        raise Failed(f"an answer of {len(found):,} {unit} to a request for {counted(asked, 'token')}")
    return found


def openai(said: Mapping[str, Any], asked: int) -> Reply | None:
    """Parse a reply of POST /v1/completions or /v1/chat/completions; return None if it has no answer. ``asked``:
    requested tokens. Raise Failed for a field of a wrong type, for an answer without a token that the model did not
    end, and for one that is much longer."""
    choice = first(said.get("choices"))
    message = _typed(choice, "message", Mapping) or {}
    text = _limited(_text_of(choice, message), asked)
    names, places = _logprobs(_typed(choice, "logprobs", Mapping) or {}, asked)
    if text is None and not message:
        return None
    if asked and not text and not any(places) and choice.get("finish_reason") != "stop":
        raise Failed(f"an answer without a token to a request for {counted(asked, 'token')}")
    usage, timings = _typed(said, "usage", Mapping) or {}, _typed(said, "timings", Mapping) or {}
    total = _counted(usage, "prompt_tokens")
    cached = _counted(_typed(usage, "prompt_tokens_details", Mapping) or {}, "cached_tokens")
    cached = _counted(timings, "cache_n") if cached is None else cached
    evaluated = total - cached if total is not None and cached is not None and cached <= total else None
    return Reply(None, _answered(names, text, places) or ScoredAnswer(names, "", ()), cached, evaluated)


def _text_of(choice: Mapping[str, Any], message: Mapping[str, Any]) -> str | None:
    """Return the text of an answer, of a chat also what the model thought; None without any. Raise Failed for a field
    of a wrong type."""
    fields = (_typed(choice, "text", str), _typed(message, "content", str), _typed(message, "reasoning", str))
    known: list[str] = [text for text in fields if text is not None]
    return next(filter(None, known), known[0] if known else None)


def _logprobs(found: Mapping[str, Any], asked: int) -> tuple[tuple[Any, ...] | None, tuple[Place, ...]]:
    """Return generated tokens and the likeliest tokens at each place, from a completion (``top_logprobs``) or a chat
    (``content``). All requests are greedy, so the likeliest token was generated: some servers name another."""
    content = _limited(_typed(found, "content", list), asked)
    top = _limited(_typed(found, "top_logprobs", list), asked)
    listed = top or [] if content is None else content
    places = tuple(map(place, listed))
    names = tuple(max(one, key=lambda key: one[key]) for one in places if one)
    return (names if len(names) == len(places) and names else None), places


def place(found: Any) -> Place:
    """Return the likeliest tokens at a place from a mapping of tokens to log-probabilities, or a list of entries."""
    if isinstance(found, Mapping | list) and len(found) > LIKELIEST:
        raise Failed(f"{len(found):,} log-probabilities at a place of an answer")
    if isinstance(found, Mapping):
        for key in ("top_logprobs", "top_probs", "probs"):
            if isinstance(found.get(key), Mapping | list):
                return place(found[key])             # empty for a drafted token
        return {key: float(one) for key, one in found.items() if _number(one) and key != "logprob"}
    kept = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    likely = {name(one, -number): _logprob(one) for number, one in enumerate(kept, 1)}
    return {key: one for key, one in likely.items() if one is not None}


def name(token: Mapping[str, Any], default: Any = "") -> Any:
    """Return a token's id, or its text, or ``default`` if it has neither."""
    return next((token[key] for key in ("id", "token", "tok_str") if isinstance(token.get(key), int | str)), default)


def _logprob(token: Mapping[str, Any]) -> float | None:
    if _number(token.get("logprob")):
        return float(token["logprob"])
    return log(max(LEAST, float(token["prob"]))) if _number(token.get("prob")) else None


def _answered(ids: tuple[Any, ...] | None, text: Any, places: tuple[Place, ...]) -> ScoredAnswer | None:
    """Return the answer, None if only its tokens are known, which are compared by themselves."""
    shown = text if isinstance(text, str) else ""
    return ScoredAnswer(ids, shown, places) if any(places) or shown else None


def refused(status: int, said: Any) -> Reply:
    """Return a client error as a refusal. Raise Failed for any other error, BadInput if a key is required."""
    error = said.get("error") if isinstance(said, Mapping) else None
    text = error.get("message") if isinstance(error, Mapping) else error
    if status in (401, 403):
        raise BadInput("the server requires a key", hint="--key KEY")
    if 400 <= status < 500:
        return Reply(refused=f"{status}: {cut(str(text or 'refused'), 80)}")
    if status == 200:
        raise Failed(f"no answer in the reply: {cut(str(said), 80)}")
    raise Failed(f"status {status}: {cut(str(text or said), 80)}")


def first(found: Any) -> Mapping[str, Any]:
    """Return the first item of a list as a mapping, by default an empty mapping."""
    return mapping(found[0]) if isinstance(found, list) and found else {}


def mapping(found: Any) -> Mapping[str, Any]:
    """Return the mapping, an empty mapping for anything else."""
    return found if isinstance(found, Mapping) else {}


def tokens(found: Any) -> tuple[int, ...] | None:
    """Return token ids, None for anything else."""
    good = isinstance(found, list) and all(type(one) is int and 0 <= one <= INT64 for one in found)
    return tuple(found) if good else None


def count(found: Any) -> int | None:
    """Return a count, None for anything else."""
    return found if type(found) is int and 0 <= found <= INT64 else None


def _number(found: Any) -> bool:
    return (type(found) is int and abs(found) <= INT64) or (type(found) is float and isfinite(found))
