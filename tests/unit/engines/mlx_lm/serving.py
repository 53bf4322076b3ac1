"""Servers and bursts for the tests of this folder. [S(n), u(k)] is the chat of the specification's examples."""

from __future__ import annotations

from cachesim.engines.base import Request
from cachesim.engines.chat_template import ChatMessage, ChatTemplate, render
from cachesim.engines.mlx_lm import start
from cachesim.engines.mlx_lm.events import Inserted
from cachesim.engines.mlx_lm.model_layout import rows_of
from cachesim.events import Log
from cachesim.judging.compare_answer import Judge
from tests.unit.engines.restore_points import Reported


def server(profile="0.32.2", model="GGGA", mode="provenance", **flags):
    return start(f"mlx_lm@{profile}", model, flags, mode, Log())


def listened(*args, **flags):
    """Start a server that collects its reported restore points; it reports them only to a listener."""
    srv, told = server(*args, **flags), Reported()
    srv.log.listener = told
    return srv, told


def user(k, first=20):
    return ChatMessage("user", tuple(range(first, first + k)))


def system(n=6):
    return ChatMessage("system", tuple(range(1, n + 1)))


def chat(*messages, n=3, first=1000, template=ChatTemplate(), **more):  # noqa: B008
    """Return a chat whose answer is ``n`` tokens from ``first`` on."""
    prompt = render(messages, template)
    return Request(prompt, n, forced=tuple(range(first, first + n)), messages=messages, **more)


def text(*prompt, n=3, first=1000, **more):
    return Request(prompt, n, forced=tuple(range(first, first + n)), **more)


def burst(srv, *requests):
    """Submit requests at once and run the server until it is idle."""
    answers = [srv.submit(request) for request in requests]
    while srv.working:
        srv.iterate()
    return answers


def keys(srv):
    """Return the lengths of the stored keys by queue, oldest first."""
    return {kind: [len(key) for _, key in items] for kind, items in srv.core.cache.lru.queues().items() if items}


def inserted(srv):
    """Return (length, type) of every insert so far, in order."""
    return [(event.n_tokens, event.cache_type) for event in srv.log.events if isinstance(event, Inserted)]


def offsets(srv):
    """Return {length of key: tokens that its first K/V layer counts} of all entries."""
    return {len(key): int(next(held for held in map(rows_of, entry.layers) if held is not None).offset)
            for (_, key), entry in srv.core.cache.lru.entries().items()}


def stored(srv):
    """Return all entries as the judge sees them."""
    return [srv.inspection.stored(key) for key in srv.inspection.kept()]


def sound(srv):
    """True if every entry holds its key."""
    judge = Judge(srv.core.machine.model)
    return all(judge.stored(entry).equal_cold for entry in stored(srv))
