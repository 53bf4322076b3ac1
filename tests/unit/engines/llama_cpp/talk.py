"""A simulated server for tests, with words for token lists and answers and events for results."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

from cachesim.engines.base import Request
from cachesim.engines.llama_cpp.flags import Options
from cachesim.engines.llama_cpp.memory.model_layout import model_kind
from cachesim.engines.llama_cpp.profiles import PROFILES
from cachesim.engines.llama_cpp.server import Server
from cachesim.engines.shared.flags import options_of
from cachesim.events import Log
from cachesim.judging.compare_answer import Judge
from cachesim.model import make_model

MODELS = {"A": "AA", "W": "W8 A", "R": "SS", "H": "GA", "HW": "C W8"}
ROUNDS = 2000            # more than any test needs
SMALL = {"ctx_size": 256, "batch_size": 64, "ubatch_size": 4, "parallel": 1}


def word(name, n, first=0):
    """Return tokens first .. first+n-1 of a word; different words share no token."""
    base = 1000 + crc32(name.encode()) % 900_000 * 1000
    return tuple(range(base + first, base + first + n))


class Talk:
    """A server. ``ask`` waits for the answer, ``send`` does not. ``is_heard``: an observer listens, so that restore
    points are logged."""

    is_heard = False

    def __init__(self, kind="A", profile="b10587", mode="provenance", rules=None, **flags):
        self.log, self.profile = Log(), f"llama_cpp@{profile}"
        self.log.listener = (lambda event: None) if self.is_heard else None
        shape = model_kind(MODELS.get(kind, kind))
        model = None if mode == "none" else make_model(shape.spec, exact=mode == "exact")
        table = replace(PROFILES[self.profile], **(rules or {}))
        shape = replace(shape, form=table)
        self.server = Server(table, shape, options_of(Options, {**SMALL, **flags}), model, self.log)
        self.judge = Judge(self.server.core.context.model)
        self.requests, self.answers, self.replies = {}, [], []

    def send(self, prompt, n=1, **more):
        request = Request(tuple(prompt), n_predict=n, **more)
        answer = self.server.submit(request)
        self.requests[answer.request] = request
        self.answers.append(answer)
        return answer

    def ask(self, prompt, n=1, **more):
        answer = self.send(prompt, n, **more)
        self.work()
        return answer

    def work(self):
        server = self.server
        for _ in range(ROUNDS):
            if not (server.core.queue or any(slot.busy for slot in server.core.slots)):
                return
            server.iterate()
            server.core.memory.check()
        raise AssertionError(f"the server still works after {ROUNDS} rounds")

    def events(self, answer, *kinds):
        """Return the logged events of a request, optionally only of some kinds, in the format of a trace."""
        found = [e.record(one_slot=len(self.server.core.slots) == 1) for e in self.log.of(answer.request) if e.logged]
        return [e for e in found if not kinds or e["ev"] in kinds]

    def kinds(self, answer, *kinds):
        return [e["ev"] for e in self.events(answer, *kinds)]

    def lengths(self, slot=0):
        """Return n_tokens of the slot's checkpoints, oldest first."""
        return [c.facts.n_tokens for c in self.server.core.slots[slot].checkpoints]

    def held(self):
        """Return the number of tokens per slot."""
        return [len(slot.tokens) for slot in self.server.core.slots]

    def entries(self):
        """Return the lengths of the prompt-cache entries, oldest first."""
        return [len(entry.tokens) for entry in self.server.core.cache.entries]

    def right(self, answer):
        """True if the answer, and the state after it, equal those of a cold run."""
        slot = self.server.inspection.live(answer.id_slot) if answer.status == 200 and not answer.died else None
        return self.judge.judge(self.requests[answer.request], answer, slot).equal_cold


def reuse(*answers):
    """Return (cache_n, prompt_n) of each answer."""
    return [(a.cache_n, a.prompt_n) for a in answers]


__all__ = ["MODELS", "Talk", "reuse", "word"]
