"""Random conversations with accepted and rejected MTP drafts, and counts of cuts in the companion's context."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from cachesim.base.tokens import POS_INF
from cachesim.engines.base import Draft, Request
from cachesim.engines.ik_llama import start
from cachesim.engines.ik_llama.server import Server
from cachesim.events import Event, Log, SeqRm

MODELS = ("GGGA+M", "AAAA+M")


@dataclass(slots=True)
class Tally:
    """Counts over conversations."""

    conversations: int = 0
    requests: int = 0
    rounds: int = 0                                         # draft rounds
    cuts: int = 0                                           # removals to the end from target and companion
    refused: int = 0                                        # refused removals
    ahead: dict[int, int] = field(default_factory=dict)     # companion's end minus target's end -> answers

    def __str__(self) -> str:
        ends = ", ".join(f"{k:+d}: {n}" for k, n in sorted(self.ahead.items()))
        return (
            f"{self.conversations} conversations, {self.requests} requests, {self.rounds} draft rounds, "
            f"{self.cuts} cuts, {self.refused} refused; companion ahead by {ends}"
        )


def conversation(rng: np.random.Generator, length: int, least: int) -> list[Request]:
    """Draw requests that extend, repeat, cut and change the same text. Each round drafts at least ``least`` tokens; 0 =
    some rounds draft none, as if the head were unsure."""
    text = list(range(1000, 1000 + int(rng.integers(70, 110))))
    out, fresh = [], 10_000
    for _ in range(length):
        n = int(rng.integers(1, 24))
        answer = list(range(fresh, fresh + n))
        fresh += 100
        drafts, at = [], len(text)
        while at < len(text) + n:
            drafted = int(rng.integers(least, 5))
            right = int(rng.integers(0, drafted + 1))
            drafts.append(Draft(at, drafted, right))
            at += right + 1
        asked = Request(tuple(text), n, forced=tuple(answer), drafts=tuple(drafts), draft_else=least)
        out.append(replace(asked, cache_prompt=bool(rng.random() > 0.05)))
        held = text + answer
        keep = int(rng.integers(60, len(held) + 1)) if rng.random() < 0.6 else len(held)
        more = int(rng.integers(0, 30))
        text = [*held[:keep], *range(fresh, fresh + more)]
        fresh += 100
    return out


def run(rng: np.random.Generator, profile: str, requests: list[Request], model: str, tally: Tally) -> list[Event]:
    """Run a conversation under a profile. Return its events."""
    log = Log()
    flags = {
        "ctx_size": 1024, "batch_size": 64, "ubatch_size": 16, "spec_type": "mtp", "spec_draft_n_max": 3, "cache_ram":
        1, "ctx_checkpoints_tolerance": int(rng.integers(0, 8)), "ctx_checkpoints_interval": int(rng.integers(0, 80)),
    }  # fmt: skip
    server = start(profile, model, flags, "none", log)
    assert server.core.companion is not None
    tally.conversations += 1
    for request in requests:
        first = len(log.events)
        server.complete(request)
        _count(tally, server, log.events[first:])
    return log.events


def _count(tally: Tally, server: Server, events: list[Event]) -> None:
    tally.requests += 1
    tally.rounds += sum(event.ev == "spec_step" for event in events)
    trims = [event for event in events if isinstance(event, SeqRm) and event.p1 == POS_INF]
    tally.refused += sum(isinstance(event, SeqRm) and not event.ok for event in events)
    tally.cuts += len(trims)
    kv = server.core.companion.kv if server.core.companion else server.core.memory
    ahead = kv.pos_max(0) - server.core.memory.pos_max(0)
    tally.ahead[ahead] = tally.ahead.get(ahead, 0) + 1
