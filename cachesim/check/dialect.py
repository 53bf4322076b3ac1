"""How is a server asked for a completion of tokens, and what does it report? Found out by asking.

    native   llama-server and ik_llama.cpp: POST /completion with token arrays, cache_prompt, timings
    openai   POST /v1/completions with token arrays (vLLM, SGLang, llama-server, ...): usage, log-probabilities
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from cachesim.check.http import Http
from cachesim.conformance.protocol import Ask, Failed, Reply
from cachesim.errors import BadInput, cut

TOP = 4                      # log-probabilities that are compared
FALLBACK = range(1_000, 30_000)


@dataclass(frozen=True, slots=True)
class Server:
    """What is known of a server: its dialect, model, slots, and the tokens that may be sent. ``busy``: why somebody may
    mind that its slots are overwritten, "" = nobody."""

    dialect: str
    name: str
    slots: int
    n_ctx: int
    tokens: Sequence[int]
    busy: str = ""


def find_out(http: Http) -> Server:
    """Ask a server what it is. Raises BadInput for one that is of no known kind, or cannot be used."""
    try:
        props = http.get("/props")
        models = http.get("/v1/models")
    except Failed as failed:
        raise BadInput(str(failed), file=http.url) from None
    if isinstance(props, Mapping) and "total_slots" in props:
        return _native(http, props, models)
    if isinstance(models, Mapping) and isinstance(models.get("data"), list):
        return Server("openai", _model(models), 1, 4096, FALLBACK)
    raise BadInput("neither llama-server nor an OpenAI-compatible server answers there", file=http.url,
                   hint="--key KEY if it wants one")  # fmt: skip


def _native(http: Http, props: Mapping[str, Any], models: Any) -> Server:
    settings = props.get("default_generation_settings")
    n_ctx = settings.get("n_ctx", 4096) if isinstance(settings, Mapping) else 4096
    meta = _first(models).get("meta")
    vocab = meta.get("n_vocab", 0) if isinstance(meta, Mapping) else 0
    tokens: Sequence[int] = FALLBACK
    if isinstance(vocab, int) and vocab > 0:
        tokens = range(min(1_000, vocab // 16), min(vocab, 30_000))
    slots = props["total_slots"]
    name = str(props.get("model_alias") or props.get("model_path") or "llama-server")
    return Server("native", cut(name, 60), slots if isinstance(slots, int) else 1, n_ctx, tokens, _busy(http))


def _busy(http: Http) -> str:
    try:
        slots = http.get("/slots")
    except Failed:
        return ""
    found = [one for one in slots if isinstance(one, Mapping)] if isinstance(slots, list) else []
    if any(one.get("is_processing") for one in found):
        return "a slot is processing a request"
    used = [one for one in found if one.get("n_prompt_tokens")]
    return f"{len(used)} slots hold conversations" if used else ""


def _model(models: Any) -> str:
    return cut(str(_first(models).get("id", "model")), 200)


def _first(models: Any) -> Mapping[str, Any]:
    data = models.get("data") if isinstance(models, Mapping) else None
    return data[0] if isinstance(data, list) and data and isinstance(data[0], Mapping) else {}


def complete(http: Http, server: Server, ask: Ask, slot: int) -> Reply:
    """Serve one request. ``slot``: where, -1 = the server's own choice. Raises Failed."""
    if server.dialect == "native":
        return _complete_native(http, ask, slot)
    return _complete_openai(http, server, ask)


def _complete_native(http: Http, ask: Ask, slot: int) -> Reply:
    body = {
        "prompt": list(ask.prompt), "n_predict": ask.n_predict, "temperature": 0, "cache_prompt": ask.cache,
        "ignore_eos": True, "n_probs": TOP, "return_tokens": True, **({"id_slot": slot} if slot >= 0 else {}),
    }  # fmt: skip
    if ask.cancel_after is not None:
        http.hang_up("/completion", {**body, "stream": True}, ask.cancel_after)
        return Reply()
    status, said = http.post("/completion", body)
    if status != 200 or not isinstance(said, Mapping):
        return _refused(status, said)
    timings = _mapping(said.get("timings"))
    evaluated = timings.get("prompt_n")
    total = said.get("tokens_evaluated")
    cached = timings.get("cache_n")
    if cached is None and isinstance(total, int) and isinstance(evaluated, int):
        cached = total - evaluated
    probabilities = said.get("completion_probabilities")
    first = _mapping(probabilities[0] if isinstance(probabilities, list) and probabilities else None)
    return Reply(_tokens(said.get("tokens")), _top(first.get("top_logprobs") or first.get("probs")),
                 _count(cached), _count(evaluated))  # fmt: skip


def _complete_openai(http: Http, server: Server, ask: Ask) -> Reply:
    body = {"model": server.name, "prompt": list(ask.prompt), "max_tokens": ask.n_predict, "temperature": 0,
            "logprobs": TOP, "cache_prompt": ask.cache}  # fmt: skip
    if ask.cancel_after is not None:
        http.hang_up("/v1/completions", {**body, "stream": True}, ask.cancel_after)
        return Reply()
    status, said = http.post("/v1/completions", body)
    choices = said.get("choices") if isinstance(said, Mapping) else None
    if status != 200 or not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return _refused(status, said)
    usage = _mapping(said.get("usage"))
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    total = usage.get("prompt_tokens")
    evaluated = total - cached if isinstance(total, int) and isinstance(cached, int) else None
    found = choices[0].get("logprobs")
    top = found.get("top_logprobs") if isinstance(found, Mapping) else None
    text = tuple(str(choices[0].get("text", "")).encode())
    return Reply(text, _top(top[0]) if isinstance(top, list) and top else None, _count(cached), _count(evaluated))


def _refused(status: int, said: Any) -> Reply:
    """A client error is an answer; anything else is none. Raises Failed."""
    error = said.get("error") if isinstance(said, Mapping) else None
    text = error.get("message") if isinstance(error, Mapping) else error
    if status in (401, 403):
        raise BadInput("the server wants a key", hint="--key KEY")
    if 400 <= status < 500:
        return Reply(refused=f"{status}: {cut(str(text or 'refused'), 80)}")
    raise Failed(f"status {status}: {cut(str(text or said), 80)}")


def _top(found: Any) -> list[float] | None:
    """The largest log-probabilities, in order: which tokens they belong to may differ where two are almost equal."""
    if isinstance(found, Mapping):
        numbers: list[Any] = list(found.values())
    elif isinstance(found, list):
        numbers = [one.get("logprob", one.get("prob")) for one in found if isinstance(one, Mapping)]
    else:
        return None
    plain = sorted((float(one) for one in numbers if isinstance(one, int | float)), reverse=True)
    return plain[:TOP] or None


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _tokens(found: Any) -> tuple[int, ...] | None:
    good = isinstance(found, list) and all(isinstance(one, int) and one >= 0 for one in found)
    return tuple(found) if good else None


def _count(found: Any) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None
