"""A naive prefix cache, as one might write it for a hybrid model, and what the kit has to say about it.

Whole conversations are kept, the last few of them. A new prompt goes on from the one that shares most with it. Rows of
attention can be cut to any length; a recurrent state cannot go back, so with such layers a conversation is only used
if the prompt goes on from all of it. That is almost right.

    python -m tests.conformance.naive [fixed] [lines]       print the kit's report, or speak JSON lines
"""

from __future__ import annotations

import json
import sys

from cachesim.base.tokens import common_prefix
from cachesim.tools.conformance import Memory, Toy, conform


class NaiveCache:
    """Keeps ``size`` conversations of a model, the longest unused goes first."""

    def __init__(self, layers="GGGA", size=4):
        self.toy, self.size = Toy(layers), size
        self.recurrent = any(letter in layers for letter in "GSCH")
        self.kept = {}                                   # tokens -> memory behind them, oldest first

    def usable(self, held, prompt):
        """How many tokens of a conversation the prompt can go on from; one must be left to evaluate."""
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
        """The memory to go on from, and its length."""
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
    """The token that must be left is taken off before the state is compared with what it is used for."""

    def usable(self, held, prompt):
        shared = min(common_prefix(held, prompt), len(prompt) - 1)
        return 0 if self.recurrent and shared < len(held) else shared


def cut(memory, n):
    """The first ``n`` tokens of a memory. Its states are for ``memory.length`` tokens."""
    rows = tuple(None if one is None else one._replace(digest=one.digest[:n]) for one in memory.rows)
    return Memory(n, rows, memory.states)


def speak(cache):
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
        speak(chosen())
    else:
        print(conform(chosen, check=False))
