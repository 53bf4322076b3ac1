"""Symptoms that classify scenarios, and recognition of symptoms in a user's words."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from typing import Collection, Mapping, NamedTuple, Sequence

from cachesim.scenarios.failure_words import failure_named


class Symptom(NamedTuple):
    """A symptom: ``text`` describes it in a line, ``words`` lists other descriptions as users write them."""

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
        "prompt processing every turn, slow first token, time to first token, ttft, checkpoints erased, invalidated"
        " context checkpoint, useless checkpoints, ignores the cache, cache not working, nothing cached, not used, "
        "not reused, not utilized, breaks the cache, broken, invalidates, recomputes, starts over, slow second "
        "prompt, slow follow-up, second request as slow as the first, no longer cached",
    ),
    "lost-conversation": Symptom(
        "a conversation continues after others, and its stored state is gone",
        "switching between conversations, alternating, two agents, another client, another slot, comes back "
        "cold, evicted, overwritten, consumed, prompt cache entry vanishes, thrown away, lost, loses, idle slot "
        "cleared, gone after another chat",
    ),
    "error": Symptom(
        "the client gets an error, the server continues",
        "HTTP 500, 400, 404, status, refused, rejected, invalid input batch, context size exceeded, request "
        "fails, too large, exception for one request, too long, llama_decode, ret -1",
    ),
    "crash": Symptom(
        "the server's process or its worker thread ends",
        "crashes, abort, aborted, assertion, GGML_ASSERT, GGML_ABORT, dies, died, killed, segfault, hangs, "
        "stops answering, IndexError, ValueError, KeyError, shape error, thread dies, server down, exits, failed to "
        "remove sequence",
    ),
    "memory": Symptom(
        "the prompt cache exceeds its limit, or holds useless entries",
        "memory grows, RAM, out of memory, OOM, leak of memory, limit ignored, not enforced, too many entries, "
        "--cache-ram, cache size, MiB, GiB",
    ),
    "slow": Symptom(
        "the answer is correct and nothing is re-evaluated, but it takes too long",
        "slow, tokens per second, t/s, speed, many small batches, waits, waiting, queue, blocked, stalls, "
        "drafts rejected, acceptance rate, low acceptance",
    ),
    "right": Symptom(
        "correct behaviour, or the counterpart of a fault",
        "correct, as expected, control, example, lesson, normal, ok",
    ),
}
"""Symptoms by name, in the order of tables."""

_EMPTY = frozenset({
    "a", "all", "always", "an", "and", "are", "at", "be", "but", "by", "each", "every", "for", "from", "has",
    "have", "i", "in", "is", "it", "its", "me", "my", "no", "not", "of", "on", "or", "our", "so", "than", "that",
    "the", "their", "then", "there", "this", "time", "to", "very", "was", "we", "when", "with", "you", "your",
    "after", "as", "can", "do", "doe", "does", "doesn", "don", "even", "get", "just", "only", "s", "still", "t", "use",
    "using", "chat", "completion", "completions", "cpp", "llama", "llm", "model", "models", "request", "requests",
    "server",
})  # fmt: skip
"""Stop words: function words, and words that occur in every report."""
CLOSE = 0.82                 # minimum similarity of two words (difflib ratio) to count as equal
SHORT = 5                    # words with fewer letters must be equal
ENOUGH = 0.3                 # minimum share of known words in a description


def stems(text: str) -> list[str]:
    """Return the stems of the words of a text, without stop words. ``re-processes`` and flags are single words."""
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
    """Return the stems of the words of every symptom."""
    return {name: set(stems(f"{name} {symptom.text} {symptom.words}")) for name, symptom in SYMPTOMS.items()}


def meant(text: str) -> list[str]:
    """Return the symptoms with the highest score in a description; [] if it contains too few known words. A word that
    several symptoms share counts less. A word that names a failure decides alone."""
    if text in SYMPTOMS:
        return [text]
    failure = failure_named(text)
    return [failure] if failure else symptoms_of_stems(stems(text))


def symptoms_of_stems(words: Sequence[str]) -> list[str]:
    """Return the symptoms with the highest score for some stems; [] if too few of them are known."""
    scores = {name: sum(_share(word, name) for word in words) / max(1, len(words)) for name in SYMPTOMS}
    best = max(scores.values())
    return [name for name, score in scores.items() if score == best] if best >= ENOUGH / 2 else []


def describes(word: str, name: str) -> bool:
    """True if a stem occurs in the description of a symptom, in exactly this spelling."""
    return word in _known()[name]


def _share(word: str, name: str) -> float:
    """Return the weight of a word for a symptom: 1 / number of symptoms that have the word, 0 if this symptom lacks it.
    Words with a similar spelling count only if no symptom has the word itself."""
    known = [symptom for symptom, words in _known().items() if word in words]
    known = known or [symptom for symptom, words in _known().items() if _like(word, words)]
    return 1 / len(known) if name in known else 0.0


def _like(word: str, words: Collection[str]) -> bool:
    return len(word) >= SHORT and bool(get_close_matches(word[:40], words, n=1, cutoff=CLOSE))
