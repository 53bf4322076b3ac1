"""The fixed naive cache with one fault each: what every property of the kit is there to find."""

from __future__ import annotations

from tests.conformance.naive import FixedCache


class Complete(FixedCache):
    """Able to do everything, and right. A prompt is worked on in chunks of four, and a hang-up comes between two."""

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
        """A client has gone away when so much of its prompt was worked on."""
        self.keep(worked, memory)

    def burst(self, requests):
        return [self.complete(**request) for request in requests]


class Hasty(Complete):
    """Files a prompt that was cut off under all of it."""

    def __init__(self):
        super().__init__("GG")

    def leave(self, prompt, worked, memory):
        self.keep(prompt, memory)


class Padded(Complete):
    """Prompts that are served together are padded on the left, and the padding goes into the states."""

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
    """Does not hear that no cache is wanted."""

    def complete(self, prompt, n_predict, cache=True):
        return super().complete(prompt, n_predict)


class Miscounts(FixedCache):
    """Counts the token that is left to evaluate twice."""

    def complete(self, prompt, n_predict, cache=True):
        reply = super().complete(prompt, n_predict, cache)
        return {**reply, "cached": reply["cached"] + 1} if reply["cached"] else reply


class Boasts(FixedCache):
    """Says that more was reused than it ever saw."""

    def complete(self, prompt, n_predict, cache=True):
        return {**super().complete(prompt, n_predict, cache), "cached": len(prompt) - 1, "evaluated": 1}


class Labours(FixedCache):
    """Evaluates what it reused once more."""

    def complete(self, prompt, n_predict, cache=True):
        reply = super().complete(prompt, n_predict, cache)
        return {**reply, "evaluated": reply["evaluated"] + 2 * reply["cached"]}


class Embellishes(FixedCache):
    """Files the generated token under the state that it is not in."""

    def complete(self, prompt, n_predict, cache=True):
        reply = super().complete(prompt, n_predict, cache)
        stored = [*reply["stored"][:-1], {"tokens": [*prompt, *reply["tokens"]], "length": len(prompt)}]
        return {**reply, "stored": stored}


class Overflows(FixedCache):
    """Holds one conversation more than it says."""

    def limits(self):
        return {"conversations": self.size - 1}


class Wavers(FixedCache):
    """Never says the same twice."""

    said = 0

    def complete(self, prompt, n_predict, cache=True):
        Wavers.said += 1
        return {**super().complete(prompt, n_predict, cache), "fingerprint": Wavers.said}


class Shared(FixedCache):
    """All instances share what they keep, so none is ever cold."""

    everything: dict = {}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.kept = Shared.everything


class Falls(FixedCache):
    """Divides by what a repeat leaves."""

    def complete(self, prompt, n_predict, cache=True):
        if tuple(prompt) in self.kept:
            raise ZeroDivisionError("nothing is left")
        return super().complete(prompt, n_predict, cache)


class Never(FixedCache):
    """Reuses nothing."""

    def find(self, prompt):
        return self.toy.empty, 0


class Least:
    """Does what is asked for at least: tokens. Keeps nothing."""

    def complete(self, prompt, n_predict):
        return {"tokens": [sum(prompt) % 1000] * n_predict}
