"""What does a user see? The short list of symptoms that scenarios are sorted by, and which of them some words mean."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from typing import Collection, Iterable, Mapping, NamedTuple, Sequence

from cachesim.scenarios.schema import Scenario


class Symptom(NamedTuple):
    """``text`` says in one line what is seen; ``words`` are others for it, as people write them."""

    text: str
    words: str


SYMPTOMS: Mapping[str, Symptom] = {
    "wrong-answer": Symptom(
        "the answer differs from a cold run: other tokens are in it",
        "wrong output, garbage, gibberish, incoherent, nonsense, corrupted, forgets, remembers, answers of "
        "another user, leak of another conversation, unrelated content, swapped answers, mixed up, degraded, loops, "
        "repeats itself, hallucinates, different result, not deterministic, contaminated, bleeds",
    ),
    "re-processed": Symptom(
        "much more of the prompt is evaluated than what is new",
        "re-processes everything, forcing full prompt re-processing, reprocess, re-evaluates, prefill again, "
        "from scratch, 0 % reuse, no reuse, cache miss, cached tokens 0, cache_n 0, cached_tokens, no hits, "
        "prompt processing every turn, slow first token, time to first token, checkpoints erased, invalidated"
        " context checkpoint, useless checkpoints, ignores the cache, cache not working, nothing cached, not used, "
        "not reused, not utilized, breaks the cache, broken, invalidates, recomputes, starts over, slow second "
        "prompt, slow follow-up, second request as slow as the first, no longer cached",
    ),
    "lost-conversation": Symptom(
        "a conversation comes back after others, and what was stored of it is gone",
        "switching between conversations, alternating, two agents, another client, another slot, comes back "
        "cold, evicted, overwritten, consumed, prompt cache entry vanishes, thrown away, lost, loses, idle slot "
        "cleared, gone after another chat",
    ),
    "error": Symptom(
        "the client gets an error, the server goes on",
        "HTTP 500, 400, 404, status, refused, rejected, invalid input batch, context size exceeded, request "
        "fails, too large, exception for one request, too long, llama_decode, ret -1",
    ),
    "crash": Symptom(
        "the server's process, or the thread that generates, ends",
        "crashes, abort, aborted, assertion, GGML_ASSERT, GGML_ABORT, dies, died, killed, segfault, hangs, "
        "stops answering, IndexError, ValueError, KeyError, shape error, thread dies, server down, exits, failed to "
        "remove sequence",
    ),
    "memory": Symptom(
        "the prompt cache holds more than its limit allows, or more than is of use",
        "memory grows, RAM, out of memory, OOM, leak of memory, limit ignored, not enforced, too many entries, "
        "--cache-ram, cache size, MiB, GiB",
    ),
    "slow": Symptom(
        "the answer is right and nothing is lost, but it takes longer than it should",
        "slow, tokens per second, t/s, speed, many small batches, waits, waiting, queue, blocked, stalls, "
        "drafts rejected, acceptance rate, low acceptance",
    ),
    "right": Symptom(
        "nothing is wrong: how it should be, or the counterpart of a fault",
        "correct, as expected, control, example, lesson, normal, ok",
    ),
}
"""The symptoms by name, in the order in which tables show them."""

_EMPTY = frozenset({
    "a", "all", "always", "an", "and", "are", "at", "be", "but", "by", "each", "every", "for", "from", "has",
    "have", "i", "in", "is", "it", "its", "me", "my", "no", "not", "of", "on", "or", "our", "so", "than", "that",
    "the", "their", "then", "there", "this", "time", "to", "very", "was", "we", "when", "with", "you", "your",
    "after", "as", "can", "do", "doe", "does", "doesn", "don", "even", "get", "just", "only", "s", "still", "t", "use",
    "using", "chat", "completion", "completions", "cpp", "llama", "llm", "model", "models", "request", "requests",
    "server",
})  # fmt: skip
"""Words that say nothing of a symptom: small ones, and those that every report has."""
CLOSE = 0.82                 # how alike two words are that are taken for the same
SHORT = 5                    # a shorter word has to be the same
ENOUGH = 0.3                 # the share of the words that has to be known


def stems(text: str) -> list[str]:
    """The words of a text that mean something, without their endings; ``re-processes`` and a flag are one word."""
    joined = re.sub(r"\bre-(?=[a-z])", "re", text.lower())
    joined = re.sub(r"\b(tokens? (per|a|/) ?second|tokens?/s|t/s)\b", "tps", joined)
    joined = re.sub(r"--[a-z]+(-[a-z]+)+", lambda flag: flag[0].replace("-", ""), joined)
    return [_stem(word) for word in re.findall(r"[a-z0-9_]+", joined) if word not in _EMPTY]


def _stem(word: str) -> str:
    for ending in ("ations", "ation", "ings", "ing", "ies", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not (ending == "s" and word.endswith("ss")):
            return word.removesuffix(ending)
    return word


@cache
def _known() -> dict[str, set[str]]:
    """The stems of every symptom's words."""
    return {name: set(stems(f"{name} {one.text} {one.words}")) for name, one in SYMPTOMS.items()}


def grouped(scenarios: Iterable[Scenario]) -> dict[str, list[Scenario]]:
    """Scenarios by symptom, in the order of the first of each; those without one under ""."""
    groups: dict[str, list[Scenario]] = {}
    for one in scenarios:
        groups.setdefault(one.symptom, []).append(one)
    return groups


def meant(text: str) -> list[str]:
    """The symptoms that a description means, best first; [] where none is known in it. A word counts for less where
    several symptoms have it."""
    return [text] if text in SYMPTOMS else meant_by(stems(text))


def meant_by(asked: Sequence[str]) -> list[str]:
    """The symptoms that some stems mean."""
    scores = {name: sum(_share(word, name) for word in asked) / max(1, len(asked)) for name in SYMPTOMS}
    best = max(scores.values())
    return [name for name, score in scores.items() if score == best] if best >= ENOUGH / 2 else []


def is_of(word: str, name: str) -> bool:
    """Does a stem describe the symptom, spelled like this?"""
    return word in _known()[name]


def _share(word: str, name: str) -> float:
    """What a word says for a symptom: 1 if it is known there only, less if elsewhere too, 0 if it is not. One that is
    spelled like another counts as that one only where no symptom has the word itself."""
    known = [other for other, words in _known().items() if word in words]
    known = known or [other for other, words in _known().items() if _like(word, words)]
    return 1 / len(known) if name in known else 0.0


def _like(word: str, words: Collection[str]) -> bool:
    return len(word) >= SHORT and bool(get_close_matches(word[:40], words, n=1, cutoff=CLOSE))
