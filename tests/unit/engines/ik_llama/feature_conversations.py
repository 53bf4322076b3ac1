"""Conversations in which each feature of ik_llama.cpp's server is used, under several versions.

``python -m tests.unit.engines.ik_llama.feature_conversations`` rewrites their numbers (feature_numbers.txt).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from cachesim.base.media_items import image_items
from cachesim.engines.base import Answer, Draft, Request
from cachesim.engines.ik_llama import start
from cachesim.engines.ik_llama.server import Server
from cachesim.engines.shared.vocab import PIECES
from cachesim.events import Log
from tests.unit.engines.feature_numbers import numbers_line, write
from tests.unit.engines.restore_points import Reported, differences

FILE = Path(__file__).with_name("feature_numbers.txt")
BASE = {"ctx_size": 512, "batch_size": 64, "ubatch_size": 16, "parallel": 1, "cache_ram": 0, "context_shift": False}
P, Q, R = tuple(range(1000, 1080)), tuple(range(2000, 2040)), tuple(range(3000, 3012))
CAT, DOG = image_items("cat", 16, 16), image_items("dog", 6, 3)


class Client:
    """A server, and the answers to its requests and slot actions."""

    def __init__(self, version: str, model: str, mode: str = "provenance", *, heard: bool = False, **flags: object):
        self.log = Log()
        self.log.listener = (lambda event: None) if heard else None
        self.server: Server = start(f"ik_llama@{version}", model, {**BASE, **flags}, mode, self.log)
        self.answers: list[Answer] = []
        self.replies: list[object] = []

    def send(self, prompt: tuple[int, ...], n: int = 1, **more: object) -> None:
        self.answers.append(self.server.submit(Request(tuple(prompt), n, **more)))

    def ask(self, prompt: tuple[int, ...], n: int = 1, **more: object) -> None:
        self.send(prompt, n, **more)
        self.work()

    def work(self, most: int = 400) -> None:
        for _ in range(most):
            if not self.server.working:
                return
            self.server.iterate()


class Compared(Client):
    """Compares the reported restore points with the actual ones whenever the server has nothing left to do."""

    def __init__(self, version: str, model: str, **flags: object) -> None:
        super().__init__(version, model, **flags)
        self.told = self.log.listener = Reported()
        self.compared: list[list[object]] = []

    def work(self, most: int = 400) -> None:
        super().work(most)
        if not self.server.dead:
            self.compared.append(differences(self.told, self.server))


def words(*pieces: str) -> tuple[int, ...]:
    """Return the tokens of the recorded vocabulary with these texts."""
    return tuple(PIECES.index(piece) for piece in pieces)


def checkpoints(client: Client) -> None:
    """Checkpoints are created at intervals and at the end, restored, erased and evicted."""
    client.ask(P + Q, 3)
    client.ask((*P[:70], *R), 9)
    client.ask((*P[:70], *R), 2), client.ask(P[:20], 2), client.ask(P + Q + R, 20), client.ask(R[:3], 1)
    client.ask((), 1), client.ask(P, 2, cache_prompt=False)


def prompt_cache(client: Client) -> None:
    """Slots are saved, found, loaded and evicted; a conversation that continues another one replaces it."""
    for prompt in (P, Q, P + R, Q + R, P[:40], R, (*P, *R, *Q)):
        client.ask(prompt, 3)
    client.ask(tuple(range(5000, 5400)), 2), client.ask(P + Q, 2)


def texts(client: Client) -> None:
    """Equal text with other tokens, and reasoning, counts as common or not."""
    client.ask((*P[:30], *words("Ban", "x")), 2)
    client.ask((*P[:30], *words("Ba", "n", "y"), *R), 2)
    client.ask((*P[:30], *words("Ba", " ", "n", "y"), *R, *words("<think>"), 7, 8, *words("</think>"), 9), 4)
    client.ask((*P[:30], *words("Ba", "n", "y"), *R, 9, 10), 2)


def slots(client: Client) -> None:
    """Requests in several slots at once, named ones, and more than there are slots."""
    client.ask(P, 2), client.ask(Q, 2), client.ask((*P[:50], *Q), 2), client.ask(R, 2, id_slot=0)
    client.send(P + R, 5), client.send(Q + R, 5), client.send(R + Q, 3), client.send(P, 2, id_slot=1)
    client.work()
    client.ask(P, 30, cancel_at=90, extra={"stream": False}), client.ask(P + R, 9, cancel_at=85)
    client.ask(P + Q, 3, id_slot=7)


def drafts(client: Client) -> None:
    """Drafts are accepted, rejected in part, and end with n_predict or the context."""
    client.ask(P[:30], 9, forced=Q[:9], drafts=(Draft(30, 3, 1), Draft(32, 3, 0), Draft(33, 2, 2)))
    client.ask((*P[:30], *Q[:5], *R), 6, draft_else=2)
    client.ask(P[:26], 3), client.ask(P, 12, draft_else=3), client.ask(tuple(range(5000, 5500)), 20, draft_else=3)


def shifts(client: Client) -> None:
    """A full context, a prompt that is too long, and prompts after both, with what they keep and discard."""
    client.ask(P * 3, 30, n_keep=4), client.ask(P * 3 + Q, 2), client.ask(P * 6, 3), client.ask(P * 6 + R, 3, n_keep=40)
    client.ask(P * 5, 2, n_keep=-1, n_discard=50), client.ask(P * 3, 30, cache_prompt=False), client.ask(P * 3, 9)


def images(client: Client) -> None:
    """Images are evaluated, reused, met at the end of a prompt, cut, and found inside a shift."""
    client.ask((*P[:9], *CAT, *Q[:9]), 2), client.ask((*P[:9], *CAT, *Q[:4], *P), 2)
    client.ask((*P[:9], *CAT, *DOG, *R), 3), client.ask((*P[:9], *DOG, *P, *P, *CAT, *R), 60)
    client.ask((*P[:9], *CAT, *DOG), 2), client.ask((*P[:3], -1, 5), 2), client.ask(R, 2)


def lack_of_cells(client: Client) -> None:
    """The slots have more tokens than there are cells."""
    for number in range(4):
        client.send(tuple(range(4000 + 100 * number, 4070 + 100 * number)), 40, id_slot=number)
    client.work()
    client.ask(P, 3), client.ask(Q, 3)


def slot_files(client: Client) -> None:
    """Slots are saved, restored, erased; with and without checkpoints."""
    with TemporaryDirectory() as folder:
        file, other = Path(folder, "a"), Path(folder, "b")
        client.ask(P, 4)
        client.replies += [client.server.slot("save", 0, file), client.server.slot("erase", 0)]
        client.ask(Q[:20], 2)
        client.replies += [client.server.slot("save", 0, other), client.server.slot("restore", 0, file)]
        client.ask(P + R, 3)
        client.replies += [client.server.slot("restore", 0, other)]
        client.ask(Q + R, 3), client.ask(P[:70] + R, 2)


def carried(client: Client) -> None:
    """The system prompt, and the parser of a chat, outlive their requests."""
    client.ask(P, 3, extra={"parser": True}), client.ask(P + Q, 3)
    client.ask((*R, *P), 2, extra={"system_tokens": 12}), client.ask(P + Q, 2), client.ask(P[:40], 2)


MAKERS: dict[str, tuple[Callable[[Client], None], Callable[[], Compared]]] = {}


def _add(script: Callable[[Client], None], version: str, model: str, **flags: object) -> None:
    told = " ".join(f"{name}={value}" for name, value in flags.items())
    MAKERS[f"{script.__name__} {version} {model} {told}".strip()] = script, partial(Compared, version, model, **flags)


for _version in ("main", "2491", "2195-draft", "1679", "1310"):
    _add(checkpoints, _version, "GGGA", ctx_checkpoints=3, ctx_checkpoints_interval=32)
_add(checkpoints, "main", "deepseek4-states", ctx_checkpoints=3, ctx_checkpoints_tolerance=0)
_add(checkpoints, "main", "W8 A", swa_compress=True)
_add(checkpoints, "pr1888", "SS", ctx_checkpoints_interval=16)
for _version in ("main", "main-repaired", "pr1877"):
    _add(prompt_cache, _version, "GGA", cache_ram=1)
_add(prompt_cache, "main", "A", cache_ram=-1, cache_ram_n_min=50, cache_ram_similarity=0.25)
_add(texts, "main", "A", cache_ram=1)
_add(texts, "2020", "GA", cache_ram=1, reasoning_tokens="none")
_add(texts, "973", "A", cache_ram=1)
for _version, _model in (("main", "GGGA"), ("1743", "GGA"), ("645", "A")):
    _add(slots, _version, _model, parallel=2)
for _version, _how in (("main", "per-step"), ("main-repaired", "auto"), ("2195", "cpu"), ("1949", "gpu-fallback"),
                       ("1698", "auto")):  # fmt: skip
    _add(drafts, _version, "GGA+M", spec_type="mtp", spec_draft_n_max=3, spec_ckpt_mode=_how, ubatch_size=2)
_add(drafts, "main", "A+M", spec_type="mtp", spec_draft_n_max=3, companion_recurrent=True)
_add(drafts, "pr1889", "GA+M", spec_type="mtp", spec_draft_n_max=3, companion_recurrent=True, drafts_from_rows=True)
_add(drafts, "1992", "A", spec_type="ngram-simple", spec_draft_n_max=4)
for _version, _model in (("main", "A"), ("main-repaired", "GA"), ("1008", "A"), ("954", "A"), ("main", "W8 A")):
    _add(shifts, _version, _model, context_shift=True, ctx_size=256)
_add(shifts, "main", "A", ctx_size=256)
for _version, _model, _kind in (("main", "A", "causal"), ("main", "qwen35d64", "causal"),
                                ("1889-base", "W8 A", "gemma3")):  # fmt: skip
    _add(images, _version, _model, mmproj=_kind, context_shift=True, ctx_size=256)
for _version, _model in (("main", "A"), ("main-repaired", "GGA"), ("1743", "W8 A")):
    _add(lack_of_cells, _version, _model, parallel=4, ctx_size=256, flash_attn=False, cache_ram=1)
for _version in ("main", "main-repaired", "1743", "1295"):
    _add(slot_files, _version, "GGGA", ctx_checkpoints_interval=32)
for _version in ("main", "1889-base"):
    _add(carried, _version, "A", cache_ram=1)


def run(name: str) -> Compared:
    """Run a conversation."""
    script, make = MAKERS[name]
    client = make()
    script(client)
    return client


def line_of(name: str, client: Compared | None = None) -> str:
    """Return the numbers of a conversation."""
    client = client or run(name)
    return numbers_line(name, client.answers, (len(slot.tokens) for slot in client.server.core.slots), client.log.spent)


if __name__ == "__main__":
    write(FILE, MAKERS, line_of)
