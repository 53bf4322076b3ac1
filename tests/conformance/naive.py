"""Naive prefix cache for a hybrid model, as an example for the conformance suite.

It keeps the last few conversations. A new prompt continues from the conversation with which it shares most. Attention
rows can be cut to any length; a recurrent state cannot go back, so with such layers a conversation is used only if the
prompt continues all of it. That is almost right.

    python -m tests.conformance.naive [fixed] [lines]       print the report of the suite, or exchange JSON lines
"""

from __future__ import annotations

import json
import sys

from cachesim.base.tokens import common_prefix
from cachesim.tools.conformance import Memory, Toy, conform


class NaiveCache:
    """Keeps ``size`` conversations of a model; evicts the least recently used (LRU)."""

    def __init__(self, layers="GGGA", size=4):
        self.toy, self.size = Toy(layers), size
        self.recurrent = any(letter in layers for letter in "GSCH")
        self.kept = {}                                   # tokens -> memory after them, oldest first

    def usable(self, held, prompt):
        """Return how many tokens of a conversation the prompt can continue from; at least one is left to evaluate."""
        shared = common_prefix(held, prompt)
        if self.recurrent and shared < len(held):
            return 0
        return min(shared, len(prompt) - 1)

    def complete(self, prompt, n_predict, cache=True):
        """Generate ``n_predict`` tokens."""
        prompt = tuple(prompt)
        memory, cached = self.find(prompt) if cache else (self.toy.empty, 0)
        memory, said = self.toy.feed(memory, prompt[cached:])
        tokens = [said.token]
        while len(tokens) < n_predict:
            memory, said = self.toy.feed(memory, tokens[-1:])
            tokens.append(said.token)
        self.keep((*prompt, *tokens[:-1]), memory)
        return {
            "tokens": tokens, "fingerprint": f"{said.digest:016x}", "cached": cached,
            "evaluated": len(prompt) - cached, "used": {"conversations": len(self.kept)},
            "stored": [{"tokens": held, "length": kept.length} for held, kept in self.kept.items()],
        }  # fmt: skip

    def find(self, prompt):
        """Return the memory to continue from, and its length."""
        best = max(self.kept, key=lambda held: self.usable(held, prompt), default=())
        n = self.usable(best, prompt) if best else 0
        return (cut(self.kept[best], n), n) if n else (self.toy.empty, 0)

    def keep(self, tokens, memory):
        self.kept.pop(tokens, None)
        self.kept[tokens] = memory
        if len(self.kept) > self.size:
            del self.kept[next(iter(self.kept))]

    def limits(self):
        return {"conversations": self.size}

    def reset(self):
        self.kept.clear()


class FixedCache(NaiveCache):
    """Removes the token that must be evaluated before the state is compared with the prompt."""

    def usable(self, held, prompt):
        shared = min(common_prefix(held, prompt), len(prompt) - 1)
        return 0 if self.recurrent and shared < len(held) else shared


def cut(memory, n):
    """Return the first ``n`` tokens of a memory. Its states stay those after ``memory.length`` tokens."""
    rows = tuple(None if one is None else one._replace(digest=one.digest[:n]) for one in memory.rows)
    return Memory(n, rows, memory.states)


def logits_at(cache):
    """Serve JSON lines until stdin ends."""
    for line in sys.stdin:
        question = json.loads(line)
        do = question.pop("do")
        if do == "complete":
            try:
                reply = cache.complete(**question)
            except TypeError as error:
                reply = {"unsupported": str(error)}
        elif do == "limits":
            reply = {"limits": cache.limits()}
        elif do == "reset":
            reply = cache.reset() or {}
        else:
            reply = {"unsupported": f"no {do}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    chosen = FixedCache if "fixed" in sys.argv else NaiveCache
    if "lines" in sys.argv:
        logits_at(chosen())
    else:
        print(conform(chosen, check=False))
