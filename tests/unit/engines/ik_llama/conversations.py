"""Whole conversations with a server. The tests of this folder and those below say what they must lead to."""

from __future__ import annotations

from collections.abc import Callable

from cachesim.base.media_items import image_items
from cachesim.engines.base import Draft, Request
from cachesim.engines.ik_llama import start
from cachesim.engines.ik_llama.server import Server
from cachesim.events import Log

BASE = {"ctx_size": 512, "batch_size": 64, "ubatch_size": 16, "parallel": 1, "cache_ram": 0, "context_shift": False}
P, Q = tuple(range(1000, 1080)), tuple(range(2000, 2040))


def server(model: str, **flags: object) -> Server:
    return start("ik_llama@main", model, {**BASE, **flags}, "none", Log())


def checkpoints() -> Server:
    """Checkpoints near the end of a prompt and after its answer; a prompt that ends before all of them."""
    srv = server("GGGA", ctx_checkpoints=2)
    srv.complete(Request(P, 3))
    srv.complete(Request((*P, 1, 2), 2))
    srv.complete(Request(P[:60], 2))
    return srv


def prompt_cache() -> Server:
    """A conversation is stored, and loaded again."""
    srv = server("A", cache_ram=64)
    srv.complete(Request(P, 3))
    srv.complete(Request(Q, 2))
    srv.complete(Request((*P, *Q[:9]), 2))
    return srv


def two_slots() -> Server:
    srv = server("A", parallel=2)
    srv.complete(Request(P, 2))
    srv.complete(Request(Q, 2))
    srv.complete(Request((*P[:50], *Q), 2))
    return srv


def drafts() -> Server:
    srv = server("GGGA+M", spec_type="mtp", spec_draft_n_max=3)
    srv.complete(Request(P[:30], 9, forced=Q[:9], drafts=(Draft(30, 3, 1), Draft(32, 3, 0), Draft(33, 2, 2))))
    srv.complete(Request(P[:26], 3))
    return srv


def shifted() -> Server:
    """A full context loses half of its tokens after the first four, and then a prompt is too long."""
    srv = server("A", context_shift=True, ctx_size=256)
    srv.complete(Request(P * 3, 30, n_keep=4))
    srv.complete(Request(P * 6, 3))
    return srv


def image() -> Server:
    srv = server("A", mmproj="causal")
    srv.complete(Request((*P[:9], *image_items("cat", 16, 16), *Q[:9]), 2))
    srv.complete(Request((*P[:9], *image_items("cat", 16, 16), *Q[:4], *P), 2))
    return srv


CONVERSATIONS: tuple[Callable[[], Server], ...] = (checkpoints, prompt_cache, two_slots, drafts, shifted, image)
