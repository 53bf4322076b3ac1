"""Conversations in which each feature of a server is used: adapters, images, drafts, several completions, slot files,
shifts, lack of cells, disconnects, and the ways of older builds.

``python -m tests.unit.engines.llama_cpp.feature_conversations`` rewrites their numbers (feature_numbers.txt).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from cachesim.base.errors import BadInput
from cachesim.base.media_items import image_items
from cachesim.engines.base import BEFORE_A_SLOT, Draft
from tests.unit.engines.feature_numbers import numbers_line, write
from tests.unit.engines.llama_cpp.talk import Talk as PlainTalk
from tests.unit.engines.llama_cpp.talk import word
from tests.unit.engines.restore_points import Reported, differences

FILE = Path(__file__).with_name("feature_numbers.txt")
S, X, Y, Z = word("s", 30), word("x", 9), word("y", 40), word("z", 12)
M = word("m", 3)
CAT, DOG = image_items("cat", 16, 16), image_items("dog", 6, 3)
SCALES = "0.5,0,0@" + ".".join(map(str, M))
PLAIN, OTHER, ACTIVE, NEGATIVE = ({"lora": f"{name}"} for name in ("0:1", "1:1", "2:1", "2:-1"))


class Talk(PlainTalk):
    """A server whose reported restore points are compared with the actual ones whenever it has nothing left to do."""

    def __init__(self, kind: str, build: str, **flags: object) -> None:
        super().__init__(kind, build, **flags)
        self.told = self.log.listener = Reported()
        self.compared: list[object] = []

    def work(self) -> None:
        super().work()
        if not self.server.dead:
            ahead = {("slot", slot.id, 0) for slot in self.server.core.slots if self.profile in SAMPLED}
            self.compared.append(differences(self.told, self.server, ahead))


SAMPLED = ("llama_cpp@b1573",)
"""A build that lists a sampled token without its row: its slots have more tokens than are reported."""


def lora(build: str) -> Talk:
    """Requests under the server's adapters, under their own, with an aLoRA, and with lists that are refused."""
    talk = Talk("AA", build, lora_scaled=SCALES, parallel=2, ctx_size=512, batch_size=16, cache_reuse=4)
    talk.ask(S, 2)
    talk.ask(S + X, 2, extra=PLAIN, id_slot=1)
    talk.ask(S + M + X, 2, extra=ACTIVE, id_slot=1)
    talk.ask(S + M + X + Y, extra=ACTIVE, id_slot=1)
    talk.ask(S[:9] + S[12:] + M + X, extra=ACTIVE, id_slot=1)
    talk.ask(M + Z, extra=NEGATIVE)
    talk.ask(Z, extra={"lora": "7:1"})
    talk.server.set_adapters("1:0.5")
    talk.send(Z, 3), talk.send(X, 2, extra=PLAIN), talk.send(Y + M + S[:9], 2, extra=ACTIVE)
    talk.work()
    talk.send((5, -1), extra=OTHER), talk.send(word("long", 600), extra=PLAIN), talk.send(X + Z, 2, extra=OTHER)
    talk.work()
    return talk


def alora_at_once(build: str) -> Talk:
    """Prompts of an aLoRA in two slots at once, whose batches end at both invocations."""
    talk = Talk("AA", build, lora_scaled=SCALES, parallel=2, ctx_size=512, batch_size=64)
    talk.send(Y[:9] + M + X, 2, extra=ACTIVE), talk.send(S[:20] + M + X, 2, extra=ACTIVE)
    talk.work()
    talk.send(Y[:9] + M + X + Z, 2, extra=ACTIVE), talk.send(S[:20] + M + X + Z + M, 2, extra=ACTIVE)
    talk.work()
    return talk


def images(kind: str, build: str, projector: str = "causal") -> Talk:
    """An image is evaluated in pieces, reused, met at the end of a prompt, and finds no cells."""
    talk = Talk(kind, build, mmproj=projector, batch_size=8 if projector == "causal" else 32, ubatch_size=4,
                checkpoint_min_step=0, parallel=2, kv_unified=True, context_shift=True, cache_reuse=4)  # fmt: skip
    talk.ask(S[:6] + DOG + X, 2)
    talk.ask(S[:6] + DOG + X[:3] + Z, 2)
    talk.ask(S[:6] + DOG)
    talk.ask(S + CAT + CAT + X, 2)
    talk.ask(word("wide", 200), id_slot=0)
    talk.ask(Y + CAT + CAT, id_slot=1)
    talk.ask((*S[:6], -1, 7), id_slot=1)
    return talk


def image_adapters() -> Talk:
    """An image is evaluated under the adapters of the batch before it."""
    talk = Talk("AA", "b11549", mmproj="causal", lora_scaled="0,0", parallel=2, ctx_size=512)
    talk.ask(S[:6] + DOG + X, 2, extra=PLAIN)
    talk.ask(S[:6] + DOG + X, 2, extra=OTHER)
    talk.ask(Z, 2, extra=PLAIN)
    return talk


def drafts(kind: str, build: str, **flags: object) -> Talk:
    """Drafts that are accepted, rejected in part, cut by n_predict, and made in two slots at once."""
    talk = Talk(kind, build, **{"parallel": 2, "ctx_size": 512, "spec_draft_n_max": 4, "checkpoint_min_step": 0,
                                **flags})  # fmt: skip
    talk.ask(S, 12, drafts=(Draft(30, 4, 4), Draft(35, 3, 1)))
    talk.ask(S + X, 9, drafts=(Draft(39, 4, 0), Draft(40, 4, 2)))
    talk.ask(Z, 4, draft_else=4, id_slot=1)
    talk.send(Y, 8, draft_else=3), talk.send(X, 8, drafts=(Draft(10, 3, 0), Draft(11, 2, 2)))
    talk.work()
    talk.ask(Y + S, 9, draft_else=2, eog=(), stop=("zz",))
    return talk


def split_drafts(build: str) -> Talk:
    """Drafts of three slots do not fit into a batch, and a draft is cut off by a prompt's view."""
    talk = Talk("A", build, spec_type="ngram-simple", spec_draft_n_max=4, parallel=3, ctx_size=768, batch_size=8,
                ubatch_size=4)  # fmt: skip
    for name in ("a", "b", "c"):
        talk.send(word(name, 9), 20, draft_else=4)
    talk.work()
    return talk


def completions(kind: str, build: str) -> Talk:
    """Three completions of a prompt, while another request runs, and after a disconnect."""
    talk = Talk(kind, build, parallel=3, ctx_size=768, batch_size=16, checkpoint_min_step=0)
    talk.ask(Y, 2, id_slot=1)
    talk.ask(S, 3, n_cmpl=3, children_forced=(X[:3], Z[:3]), id_slot=0)
    talk.send(Y + X, 6, id_slot=2)
    talk.server.iterate()
    talk.send(S + Z, 2, n_cmpl=2)
    talk.work()
    talk.ask(S + Y, 9, n_cmpl=3, cancel_at=72, cancel_order=(1, 0, 2))
    talk.ask(word("long", 800), n_cmpl=2)
    talk.ask(X, n_cmpl=4)
    talk.ask(S + M, 2)
    return talk


def decisions(build: str) -> Talk:
    """Decisions with a shared prefix and without, embeddings and rerankings that fit or not."""
    talk = Talk("A", build, parallel=3, ctx_size=768, batch_size=32, ubatch_size=32, pooling="mean")
    talk.ask(S[:20] + X, kind="decision", others=(S[:20] + Z, S[:20] + M))
    talk.ask(S, kind="decision", others=(Y,))
    talk.ask(S, kind="decision")
    talk.ask(S, kind="embedding"), talk.ask(S, kind="embedding"), talk.ask(Y, kind="rerank")
    talk.ask(S[:12] + X, 2, kind="infill")
    try:
        talk.ask(S, kind="decision", others=(X, Y, Z))
    except BadInput:
        talk.ask(X, 2)
    return talk


def slot_files(kind: str, build: str, **flags: object) -> Talk:
    """Slots are saved, restored whole and cut, erased, and restored from an empty slot's file."""
    talk = Talk(kind, build, **{"checkpoint_min_step": 0, "parallel": 2, "ctx_size": 512, **flags})
    with TemporaryDirectory() as folder:
        full, empty = Path(folder, "full"), Path(folder, "empty")
        talk.replies = [talk.server.slot("save", 1, empty)]
        talk.ask(S, 3, id_slot=0)
        talk.ask(S + X, 3, id_slot=0)
        talk.replies += [talk.server.slot("save", 0, full), talk.server.slot("restore", 1, full)]
        talk.ask(S + X + Z, 2, id_slot=1)
        talk.replies += [talk.server.slot("restore", 0, full, percent) for percent in (60, 3, 99)]
        talk.replies += [talk.server.slot("restore", 1, empty), talk.server.slot("restore", 2, full)]
        talk.replies += [talk.server.slot("erase", 0)]
        talk.ask(S + X, 2, id_slot=0)
    return talk


def shifts(kind: str, build: str, **flags: object) -> Talk:
    """A full context: with a given number of tokens to keep and discard, of two completions, of a long prompt."""
    talk = Talk(kind, build, **{"context_shift": True, "checkpoint_min_step": 0, "parallel": 2, **flags})
    room = talk.server.core.settings.n_ctx_slot
    talk.ask(word("a", room - 6), 12, n_keep=4, id_slot=0)
    talk.ask(word("b", room - 3), 9, n_keep=-1, id_slot=0)
    talk.ask(word("c", room - 3), 9, n_discard=7, id_slot=1)
    talk.ask(word("d", room - 2), 6, n_cmpl=2)
    talk.ask(word("e", room + 90), 2, n_keep=8, id_slot=0)
    talk.ask(word("b", room - 20) + X, 2, n_keep=8, id_slot=0)
    return talk


def lack_of_cells(kind: str, build: str, **flags: object) -> Talk:
    """Slots share the cells: idle ones are purged, batches are halved, loads fail, and requests at work fail."""
    talk = Talk(kind, build, **{"parallel": 3, "kv_unified": True, "cache_ram": 1, "checkpoint_min_step": 0,
                                "cache_idle_slots": False, **flags})  # fmt: skip
    for number in range(3):
        talk.ask(word(f"{number}", 70), 2, id_slot=number)
    talk.ask(word("0", 70) + word("more", 90), 3, id_slot=0)
    talk.send(word("4", 100), 40, id_slot=1), talk.send(word("5", 110), 40, id_slot=2)
    talk.work()
    talk.ask(word("0", 70) + X, 2), talk.ask(word("1", 70) + X, 2)
    return talk


def disconnects(build: str) -> Talk:
    """Clients disconnect while they wait, during the prompt, during the answer, and with a deferred request."""
    talk = Talk("R", build, parallel=1, batch_size=8, checkpoint_min_step=0)
    talk.ask(Y, 9, cancel_at=16)
    talk.ask(Y + X, 9, cancel_at=52)
    talk.send(Y + Z, 3), talk.send(S, 3, cancel_at=BEFORE_A_SLOT), talk.send(X, 2), talk.send(Z, 2, id_slot=0)
    talk.server.iterate()
    talk.work()
    return talk


def ends(build: str) -> Talk:
    """Answers end with a stop word, with a token that ends them, with their limit, or with the context."""
    talk = Talk("A", build, context_shift=False)
    talk.ask(S, 6, stop=("t",)), talk.ask(S, 6, forced=X, eog=(X[2],)), talk.ask(S, 0), talk.ask(S + X, 3)
    talk.ask(word("a", 250), 12)
    talk.ask(word("a", 258))
    talk.ask(())
    return talk


def lists(build: str) -> Talk:
    """Requests with cache_prompt false leave what the build lists of them."""
    talk = Talk("A", build, batch_size=16, context_shift=True, cache_reuse=4)
    talk.ask(S, 3), talk.ask(S + X, 3, cache_prompt=False), talk.ask(S + X, 3), talk.ask(S[:9] + S[15:] + X, 2)
    talk.ask(word("long", 290), 2, n_keep=5)
    return talk


CONVERSATIONS: dict[str, Callable[[], Talk]] = {
    **{f"lora {build}": partial(lora, build) for build in (
        "b11549", "b11549-lora-tried", "b11549-repaired", "b7400")},
    **{f"alora_at_once {build}": partial(alora_at_once, build) for build in ("b11549", "b11549-repaired", "b6914")},
    **{f"images {kind} {build} {projector}": partial(images, kind, build, projector) for kind, build, projector in (
        ("A", "b11549", "causal"), ("qwen35-GA", "b11549", "causal"), ("W", "b11549-repaired", "gemma3"),
        ("qwen2vl", "b11549-proposed", "causal"))},
    "image_adapters": image_adapters,
    "drafts H": partial(drafts, "H", "b10587", spec_type="ngram-simple"),
    "drafts A": partial(drafts, "A", "b11549", spec_type="ngram-simple"),
    "drafts MTP": partial(drafts, "GA+M", "b11549", spec_type="draft-mtp", spec_draft_n_max=3, ubatch_size=16),
    "drafts of a model": partial(drafts, "H", "b11549", spec_type="draft-simple", model_draft="W8 A"),
    "drafts of their own": partial(drafts, "A", "b4265", spec_type="draft-simple", model_draft="AA"),
    "split_drafts b11549": partial(split_drafts, "b11549"), "split_drafts b9713": partial(split_drafts, "b9518"),
    **{f"completions {kind} {build}": partial(completions, kind, build) for kind, build in (
        ("R", "b11549"), ("W", "b11549-repaired"), ("A", "b7789"), ("A", "b7400"))},
    "decisions b11549": partial(decisions, "b11549"), "decisions b10587": partial(decisions, "b10587"),
    **{f"slot_files {kind} {build}": partial(slot_files, kind, build) for kind, build in (
        ("H", "b11549"), ("A", "b11549-proposed"), ("W", "b10587"), ("R", "b7400"))},
    "slot_files of drafts": partial(slot_files, "GA+M", "b11549", spec_type="draft-mtp"),
    "slot_files of adapters": partial(slot_files, "AA", "b11549-repaired", lora_scaled="1,0"),
    **{f"shifts {kind} {build}": partial(shifts, kind, build) for kind, build in (
        ("A", "b11549"), ("R", "b10587"), ("H", "b8916"), ("A", "b6160"), ("A", "b1573"))},
    **{f"lack_of_cells {kind} {build}": partial(lack_of_cells, kind, build) for kind, build in (
        ("A", "b11549"), ("H", "b10587"), ("HW", "b11549-repaired"), ("A", "b6998"), ("A", "b6160"))},
    "lack_of_cells for drafts": partial(lack_of_cells, "A", "b11549", spec_type="draft-simple", model_draft="AA"),
    "disconnects b11549": partial(disconnects, "b11549"), "disconnects b8271": partial(disconnects, "b8271"),
    **{f"ends {build}": partial(ends, build) for build in ("b11549", "b6160", "b4579")},
    **{f"lists {build}": partial(lists, build) for build in ("b11549", "b5308", "b4579", "b2781")},
}  # fmt: skip


def run(name: str) -> Talk:
    """Run a conversation."""
    return CONVERSATIONS[name]()


def line_of(name: str, talk: Talk | None = None) -> str:
    """Return the numbers of a conversation."""
    talk = talk or run(name)
    return numbers_line(name, talk.answers, talk.held(), talk.log.spent)


if __name__ == "__main__":
    write(FILE, CONVERSATIONS, line_of)
