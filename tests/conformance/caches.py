"""Variants of the fixed naive cache with a single fault each, for every property of the suite."""

from __future__ import annotations

from tests.conformance.naive import FixedCache


class Complete(FixedCache):
    """Has all abilities and no fault. Evaluates a prompt in chunks of four; a client disconnects between two chunks."""

    def complete(self, prompt, n_predict, cache=True, cancel_after=None):
        if cancel_after is None:
            return super().complete(prompt, n_predict, cache)
        if cancel_after:
            reply = super().complete(prompt, cancel_after, cache)
            return {"tokens": reply["tokens"]}
        memory, cached = self.find(tuple(prompt))
        worked = prompt[: min(cached + 4, len(prompt))]
        memory, _ = self.toy.feed(memory, worked[cached:])
        self.leave(tuple(prompt), tuple(worked), memory)
        return {}

    def leave(self, prompt, worked, memory):
        """Called if a client disconnects after so many tokens of its prompt were evaluated."""
        self.keep(worked, memory)

    def burst(self, requests):
        return [self.complete(**request) for request in requests]


class Hasty(Complete):
    """Stores an interrupted prompt under its whole key."""

    def __init__(self):
        super().__init__("GG")

    def leave(self, prompt, worked, memory):
        self.keep(prompt, memory)


class Padded(Complete):
    """Pads concurrent prompts on the left, so that the padding enters the states."""

    def complete(self, prompt, n_predict, cache=True, cancel_after=None):
        return {**super().complete(prompt, n_predict, cache, cancel_after), "stored": None}

    def burst(self, requests):
        longest = max(len(request["prompt"]) for request in requests)
        replies = []
        for request in requests:
            padded = [0] * (longest - len(request["prompt"])) + request["prompt"]
            reply = self.complete(**{**request, "prompt": padded})
            counted = {"evaluated": len(request["prompt"]) - reply["cached"]} if "cached" in reply else {}
            replies.append({**reply, **counted} if counted else {})
        return replies


class Deaf(FixedCache):
    """Ignores that the cache is switched off."""

    def complete(self, prompt, n_predict, cache=True):
        return super().complete(prompt, n_predict)


class Miscounts(FixedCache):
    """Counts the token that is left to evaluate twice."""

    def complete(self, prompt, n_predict, cache=True):
        reply = super().complete(prompt, n_predict, cache)
        return {**reply, "cached": reply["cached"] + 1} if reply["cached"] else reply


class Boasts(FixedCache):
    """Reports more reused tokens than it ever saw."""

    def complete(self, prompt, n_predict, cache=True):
        return {**super().complete(prompt, n_predict, cache), "cached": len(prompt) - 1, "evaluated": 1}


class Labours(FixedCache):
    """Evaluates reused tokens again."""

    def complete(self, prompt, n_predict, cache=True):
        reply = super().complete(prompt, n_predict, cache)
        return {**reply, "evaluated": reply["evaluated"] + 2 * reply["cached"]}


class Embellishes(FixedCache):
    """Adds the generated token to the key of a state without it."""

    def complete(self, prompt, n_predict, cache=True):
        reply = super().complete(prompt, n_predict, cache)
        stored = [*reply["stored"][:-1], {"tokens": [*prompt, *reply["tokens"]], "length": len(prompt)}]
        return {**reply, "stored": stored}


class Overflows(FixedCache):
    """Holds a conversation more than it states."""

    def limits(self):
        return {"conversations": self.size - 1}


class Wavers(FixedCache):
    """Never gives the same answer twice."""

    said = 0

    def complete(self, prompt, n_predict, cache=True):
        Wavers.said += 1
        return {**super().complete(prompt, n_predict, cache), "fingerprint": Wavers.said}


class Shared(FixedCache):
    """All instances share their cache, so cold runs do not exist."""

    everything: dict = {}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.kept = Shared.everything


class Falls(FixedCache):
    """Divides by the number of tokens that a repeat leaves to evaluate."""

    def complete(self, prompt, n_predict, cache=True):
        if tuple(prompt) in self.kept:
            raise ZeroDivisionError("nothing is left")
        return super().complete(prompt, n_predict, cache)


class Never(FixedCache):
    """Reuses nothing."""

    def find(self, prompt):
        return self.toy.empty, 0


class Least:
    """Implements the minimum: returns tokens, keeps nothing."""

    def complete(self, prompt, n_predict):
        return {"tokens": [sum(prompt) % 1000] * n_predict}
