"""Whole conversations with a server. The tests of this folder and those below say what they must lead to."""

from __future__ import annotations

from collections.abc import Callable

from cachesim.engines.mlx_lm.server import Server
from tests.unit.engines.mlx_lm.serving import burst, chat, listened, system, text, user


def segments() -> Server:
    """Chats with one system prompt: the second one finds its segment, the third one the whole first conversation."""
    srv, _ = listened("0.32.2", "GGGA", "none")
    burst(srv, chat(system(), user(3)))
    burst(srv, chat(system(), user(5)), chat(system(), user(3)))
    return srv


def trimmed() -> Server:
    """Two texts at once; a third one shares the beginning of the first, whose entry is trimmed for it."""
    srv, _ = listened("0.32.2", "A", "none")
    burst(srv, text(*range(1, 9)), text(*range(20, 30)))
    burst(srv, text(*range(1, 7), 50, 51))
    return srv


def rotating() -> Server:
    """A window of eight positions; an entry that is longer than the window is not trimmed."""
    srv, _ = listened("0.32.2", "W8 A", "none")
    burst(srv, text(*range(1, 13), n=6))
    burst(srv, text(*range(1, 13), 50, 51))
    burst(srv, text(*range(1, 7), 60))
    return srv


def limited() -> Server:
    """Two entries at most: the oldest is removed."""
    srv, _ = listened("0.32.2", "A", "none", prompt_cache_size=2)
    for first in (1, 20, 40):
        burst(srv, text(*range(first, first + 8)))
    burst(srv, text(*range(1, 9)))
    return srv


def older() -> Server:
    """Before segments one entry is stored for each request, and an entry that is used is taken out."""
    srv, _ = listened("0.31.0", "A", "none")
    burst(srv, text(*range(1, 9)))
    burst(srv, text(*range(1, 9), 1000, 1001, 1002, 30))
    return srv


CONVERSATIONS: tuple[Callable[[], Server], ...] = (segments, trimmed, rotating, limited, older)
