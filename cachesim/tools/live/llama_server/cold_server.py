"""Comparison of an answer with that of a server without a cache: tokens and log-probabilities.

The cold server is a second process of the same binary: equal flags without drafts, no prompt cache, no checkpoints, and
`cache_prompt` false, which empties the slot before each request. With one thread and F32 K/V the arithmetic is
reproducible; only another placement of the cells in the K/V buffer changes log-probabilities slightly. See
live/FORMAT.md, "How one is made".
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.tools.live.llama_server.client import Client

DRAFTING = ("--spec-type", "--spec-draft-n-max", "--spec-draft-n-min", "--spec-draft-p-min", "-md", "--model-draft",
            *(f"--spec-{kind}-{size}" for kind in ("ngram-simple", "ngram-map-k", "ngram-map-k4v")
              for size in ("size-n", "size-m")),
            "--spec-ngram-mod-n-match", "--spec-ngram-mod-n-min", "--spec-ngram-mod-n-max")
"""Flags with a value that only affect drafts."""
UNCACHED = ("--cache-ram", "0", "--ctx-checkpoints", "0", "-lv", "1")
KEPT = ("prompt", "n_predict", "n_keep", "n_discard", "max_tokens", "lora")
"""Request fields that determine the computation."""

Probabilities = list[dict[int, float]]
"""For every generated token the likeliest ids and their log-probabilities."""


def cold_flags(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the flags of the cold server for a server with these flags."""
    kept: list[str] = []
    words = iter(flags)
    for word in words:
        if word in DRAFTING:
            next(words, None)
        else:
            kept.append(word)
    return (*kept, *UNCACHED)


def cold_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request for the cold server."""
    return {**{name: request[name] for name in KEPT if name in request}, "cache_prompt": False, "id_slot": 0}


def ask_cold(client: Client, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the cold server's answer, None if it refuses."""
    reply = client.complete(cold_request(request))
    return reply.body if reply.status == 200 else None


def probabilities(body: Mapping[str, Any]) -> Probabilities:
    """Return the likeliest tokens per generated token; fewer if the server omits some (drafts)."""
    out = []
    for place in body.get("completion_probabilities") or ():
        top = place.get("top_logprobs") or place.get("top_probs") or ()
        out.append({int(one["id"]): float(one["logprob"]) for one in top if "logprob" in one})
    return out


def compare(body: Mapping[str, Any], cold: Mapping[str, Any]) -> dict[str, Any]:
    """Return the comparison in the format of a recording. ``max_dlogprob`` covers the tokens up to and including the
    first different token, among ids that both answers list."""
    ours, theirs = list(body["tokens"]), list(cold["tokens"])
    out: dict[str, Any] = {"equal": ours == theirs}
    upto = len(ours)
    if not out["equal"]:
        short = min(len(ours), len(theirs))
        upto = out["first_diff"] = next((i for i in range(short) if ours[i] != theirs[i]), short)
    hot, cool = probabilities(body), probabilities(cold)
    places = zip(hot[: upto + 1], cool[: upto + 1], strict=False)
    gaps = [abs(a[token] - b[token]) for a, b in places for token in a.keys() & b.keys()]
    if gaps:
        out["max_dlogprob"] = float(f"{max(gaps):.3g}")
    if not out["equal"]:
        best = sorted(cool[upto].values(), reverse=True) if upto < len(cool) else []
        if len(best) > 1:
            out["cold_margin"] = float(f"{best[0] - best[1]:.3g}")
        out["tokens"] = theirs
    return out


def inexact(cold: Mapping[str, Any], rounding: float) -> bool:
    """True if a comparison shows more than rounding."""
    return not cold["equal"] or cold.get("max_dlogprob", 0.0) > rounding
