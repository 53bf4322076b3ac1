"""Conversations in which each feature of mlx-lm's server is used, under several versions.

``python -m tests.unit.engines.mlx_lm.feature_conversations`` rewrites their numbers (feature_numbers.txt).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from cachesim.engines.base import Answer, Draft, Request
from cachesim.engines.chat_template import ChatTemplate
from cachesim.engines.mlx_lm import start
from cachesim.engines.mlx_lm.server import Server
from cachesim.events import Log
from tests.unit.engines.feature_numbers import numbers_line, write
from tests.unit.engines.mlx_lm.serving import chat, system, text, user
from tests.unit.engines.restore_points import Reported, differences

FILE = Path(__file__).with_name("feature_numbers.txt")
TERSE, THINKS = ChatTemplate("terse"), ChatTemplate("plain", True)
A, B = tuple(range(1, 31)), tuple(range(50, 75))


class Client:
    """A server and the answers to its requests. Compares the reported restore points with the actual ones after every
    burst."""

    def __init__(self, version: str, model: str, **flags: object) -> None:
        self.log = Log()
        self.told = self.log.listener = Reported()
        self.compared: list[object] = []
        self.server: Server = start(f"mlx_lm@{version}", model, flags, "provenance", self.log)
        self.answers: list[Answer] = []

    def burst(self, *requests: Request) -> None:
        self.answers += [self.server.submit(request) for request in requests]
        for _ in range(400):
            if not self.server.working:
                break
            self.server.iterate()
        self.compared.append(differences(self.told, self.server))


def chats(client: Client, template: ChatTemplate = ChatTemplate()) -> None:  # noqa: B008 - immutable
    """Chats with a common system prompt, alone and in bursts, with a seed, and one that a client leaves."""
    talk = partial(chat, template=template)
    client.burst(talk(system(), user(3)))
    client.burst(talk(system(), user(5)), talk(system(), user(3)), talk(system(9), user(2), n=6))
    client.burst(talk(system(), user(3)), talk(user(4)), talk(system(), user(3), n=20, cancel_at=40))
    client.burst(talk(system(), user(7), seed=True), talk(system(), user(7)))


def texts(client: Client) -> None:
    """Texts that repeat, extend, shorten and share the beginning of others, in bursts of several lengths."""
    client.burst(text(*A), text(*B, n=1))
    client.burst(text(*A), text(*A[:20], 90, 91), text(*A, 1000, 1001, 7))
    client.burst(text(*A[:12]), text(*B, 9, 8, 7, n=12), text(*B[:20], n=2), text(5))
    client.burst(text(*A, *B, n=25), text(*B, *A, n=2, cancel_at=30))
    client.burst(text(*A[:29]), text(*A, *B, 5))


def limited(client: Client) -> None:
    """More conversations than the prompt cache holds."""
    for first in (1, 100, 200, 300, 1):
        client.burst(text(*range(first, first + 12)), text(*range(first, first + 6), 9, 9))
    client.burst(chat(system(), user(3)), chat(system(), user(4)))


def drafts(client: Client) -> None:
    """A draft model: drafts are accepted in part, up to the limit, and made with a seed."""
    client.burst(text(*A, n=12, drafts=(Draft(30, 3, 1), Draft(32, 3, 3)), draft_else=2))
    client.burst(text(*A, *B, n=9, draft_else=3), text(*A[:9], n=5, draft_else=0))
    client.burst(text(*A, n=4, draft_else=1, seed=True), text(*A, n=20, draft_else=3, cancel_at=36))


MAKERS: dict[str, tuple[Callable[[Client], None], Callable[[], Client]]] = {}


def _add(script: Callable[[Client], None], version: str, model: str, name: str = "", **flags: object) -> None:
    told = " ".join(f"{option}={value}" for option, value in flags.items())
    title = f"{name or script.__name__} {version} {model} {told}".strip()
    MAKERS[title] = script, partial(Client, version, model, **flags)


for _version in ("0.32.2", "0.32.2-repaired", "0.31.1", "0.30.2", "0.28.3", "pr923", "pr1006c"):
    _add(chats, _version, "GA", prefill_step_size=8)
_add(partial(chats, template=TERSE), "0.32.2", "A", "terse", template="terse", prefill_step_size=7)
_add(partial(chats, template=THINKS), "0.31.0", "A", "thinks", thinking=True)
_add(partial(chats, template=THINKS), "0.32.2-repaired", "W8 A", "thinks", thinking=True)
for _version, _model in (("0.32.2", "W8 A"), ("0.32.2", "CA"), ("m1072", "GA"), ("m1019", "A"), ("0.24.1", "A"),
                         ("0.30.2", "GA")):  # fmt: skip
    _add(texts, _version, _model, prefill_step_size=16)
_add(texts, "0.32.2", "A", prefill_step_size=4, prompt_concurrency=2, decode_concurrency=2, ticks_per_slice=3)
_add(texts, "0.32.2-repaired", "A", prefill_step_size=1, max_kv_size=8)
_add(limited, "0.32.2", "A", prompt_cache_size=2)
_add(limited, "pr929", "A", prompt_cache_size=3, snapshot_interval=4)
_add(limited, "0.31.1", "GA", prompt_cache_bytes=20_000)
for _version, _model in (("0.32.2", "A"), ("0.32.2-repaired", "GA"), ("m1019", "W8 A"), ("0.28.3", "A")):
    _add(drafts, _version, _model, draft_model="A", num_draft_tokens=3, prefill_step_size=8)
_add(drafts, "0.32.2", "GA", draft_model="A")


def run(name: str) -> Client:
    """Run a conversation."""
    script, make = MAKERS[name]
    client = make()
    script(client)
    return client


def line_of(name: str, client: Client | None = None) -> str:
    """Return the numbers of a conversation."""
    client = client or run(name)
    kept = (len(key) for _, key in client.server.core.cache.lru.entries())
    return numbers_line(name, client.answers, kept, client.log.spent)


if __name__ == "__main__":
    write(FILE, MAKERS, line_of)
