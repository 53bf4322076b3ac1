"""Whole conversations with a server: each uses another feature.

``python -m tests.unit.engines.vllm.conversations`` rewrites their numbers (conversation_numbers.txt).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from cachesim.base.media_items import image_items
from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.server import Server
from cachesim.events import Log
from tests.unit.engines.feature_numbers import numbers_line, write

FILE = Path(__file__).with_name("conversation_numbers.txt")
P, Q = tuple(range(100, 140)), tuple(range(200, 220))


def server(model: str = "A", mode: str = "provenance", release: str = "0.33.0", **flags: object) -> Server:
    options = {"block_size": 8, "max_num_batched_tokens": 32, **flags}
    return ENGINE.start(ENGINE.rules(f"vllm@{release}"), model, options, mode, Log())


def evicted() -> Server:
    """A pool of seven blocks: the blocks of a conversation are evicted from its end."""
    srv = server(num_gpu_blocks=8)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    return srv


def preempted() -> Server:
    """Two requests whose answers do not fit into the pool together."""
    srv = server(num_gpu_blocks=9)
    srv.submit(Request(P[:30], 20))
    srv.submit(Request(Q, 20))
    while srv.working:
        srv.iterate()
    return srv


def window() -> Server:
    """Blocks that left the window are freed."""
    srv = server("W8 A")
    srv.complete(Request(P, 3))
    srv.complete(Request((*P, *Q), 2))
    return srv


def states() -> Server:
    """A recurrent state of the last complete block is kept."""
    srv = server("GA")
    srv.complete(Request(P, 3))
    srv.complete(Request((*P, *Q), 2))
    return srv


def drafts() -> Server:
    srv = server("A", speculative_method="ngram", num_speculative_tokens=3)
    srv.complete(Request(P, 12, draft_else=2))
    return srv


def offloaded() -> Server:
    """Chunks are stored in CPU memory, and loaded again."""
    srv = server(num_gpu_blocks=8, num_cpu_chunks=8, async_scheduling=False)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    return srv


def checkpoints() -> Server:
    """States are kept inside chunks, on a grid of four tokens; prompts part inside a block."""
    srv = server("GA", mamba_block_size=16, prefix_match_unit=4, mamba_prefill_checkpoint_alignment=4,
                 enable_mamba_shared_prefix_checkpoint=True)  # fmt: skip
    srv.complete(Request(P, 3))
    srv.complete(Request((*P, *Q), 2))
    srv.complete(Request((*P[:30], *Q), 2))
    srv.complete(Request((*P[:30], *Q[:14]), 2))
    return srv


def drafted_states() -> Server:
    """Drafts pass the ends of blocks of states: scratch blocks hold the states of the drafted tokens."""
    srv = server("GA", speculative_method="ngram", num_speculative_tokens=3)
    srv.complete(Request(P[:13], 10, draft_else=2))
    srv.complete(Request((*P[:13], *Q), 6, draft_else=3))
    return srv


def offloaded_states() -> Server:
    """States and rows of a hybrid are stored in CPU memory, and loaded again."""
    srv = server("GA", num_gpu_blocks=11, num_cpu_chunks=16)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    return srv


def offloaded_window() -> Server:
    """The chunks of a window are stored where prompts end."""
    srv = server("W8 A", num_gpu_blocks=16, num_cpu_chunks=16)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    return srv


def urgent() -> Server:
    """A request of higher priority takes the blocks of another one, which starts again."""
    srv = server(num_gpu_blocks=9, scheduling_policy="priority")
    srv.submit(Request(P[:30], 20, extra={"priority": 1}))
    srv.iterate()
    srv.submit(Request(Q, 20))
    while srv.working:
        srv.iterate()
    return srv


def together(srv: Server, *requests: Request) -> Server:
    """Send requests at once, and let them end."""
    for request in requests:
        srv.submit(request)
    while srv.working:
        srv.iterate()
    return srv


def crowded() -> Server:
    """Two requests run at a time, and their prompts are cut while several are known."""
    srv = server(max_num_seqs=2, long_prefill_token_threshold=12)
    return together(srv, Request(P[:30], 3), Request(Q, 2), Request(P[:9], 2))


def disconnected() -> Server:
    """Clients leave: one in its answer, one in its prompt, one while it waits."""
    srv = server(num_cpu_chunks=8, max_num_seqs=2, num_gpu_blocks=16)
    return together(srv, Request(P[:20], 9, cancel_at=22), Request(P, 9, cancel_at=12), Request(Q, 9, cancel_at=-1))


def pictures() -> Server:
    """Requests wait for the encoder, which has room for one image of 8 tokens."""
    first, second = image_items("x", 8, 4), image_items("y", 8, 4)
    srv = server(multimodal=True, max_num_batched_tokens=12)
    return together(srv, Request((*P[:3], *first), 2), Request((*second, *Q[:2]), 3), Request((*Q[:1], *first), 2))


def overlapped_drafts() -> Server:
    """Drafts of overlapping steps; an answer ends at the second one of three right drafts."""
    srv = server(num_gpu_blocks=64, speculative_method="ngram", num_speculative_tokens=3)
    srv.complete(Request(P[:17], 9, forced=tuple(range(300, 309)), eog=(305,), draft_else=3))
    return together(srv, Request(P[:17], 3, draft_else=1), Request(Q, 6, draft_else=2))


def restarted() -> Server:
    """A reset of the cache restarts running requests, whose tokens in flight are not delivered."""
    srv = server()
    for prompt in (P[:20], Q):
        srv.submit(Request(prompt, 4))
    for _ in range(2):
        srv.iterate()
    srv.scheduler.reset_prefix_cache(reset_running_requests=True)
    return together(srv)


def filled() -> Server:
    """Answers end where the context does."""
    srv = server(max_model_len=24)
    return together(srv, Request(Q, 9), Request(P[:22], 9))


def module_drafts() -> Server:
    """A drafter with a module for each draft: chunks leave the tokens that it reads ahead."""
    srv = server(max_num_batched_tokens=16, speculative_method="mtp", num_speculative_tokens=3, multi_module_mtp=True)
    return together(srv, Request(P[:17], 6, draft_else=2), Request(Q, 3, draft_else=3))


def loads_beside() -> Server:
    """Loads from CPU memory leave blocks to prompts in progress."""
    srv = server(num_gpu_blocks=13, num_cpu_chunks=16, max_num_batched_tokens=16)
    srv.complete(Request(P, 2))
    srv.complete(Request((*Q, *Q[:19:-1], *P[::-1]), 2))
    return together(srv, Request(Q[::-1], 3), Request((*P, *Q[:5]), 3), Request(P[:33], 3))


def frees_later() -> Server:
    """Blocks of a preempted request are free when the steps that write them are processed, because loads are not
    ordered with these."""
    srv = server(num_gpu_blocks=8, num_cpu_chunks=8)
    return together(srv, Request(P[:30], 10), Request(Q, 10), Request(P[:17], 2, cancel_at=17))


def parts_of_blocks() -> Server:
    """Hits end inside blocks, which are copied before a request writes in them."""
    srv = server("AS", kv_groups="A/8 S/8", prefix_match_unit=4, max_num_batched_tokens=13)
    srv.complete(Request(P[:13], 6))
    return together(srv, Request((*P[:12], *Q), 3), Request((*P[:12], *Q[::-1]), 2))


def every_block() -> Server:
    """A state is kept for every block, also with drafts, if prefixes are not cached."""
    srv = server("GA", enable_prefix_caching=False, speculative_method="ngram", num_speculative_tokens=2)
    return together(srv, Request(P[:21], 5, draft_else=2), Request(P[:21], 3, draft_else=1))


def references() -> Server:
    """Blocks between the prompt and a reference window are freed."""
    srv = server("A", "none", kv_groups="R6/4", max_num_batched_tokens=16)
    srv.complete(Request(P[:10], 20))
    return together(srv, Request((*P[:10], *Q[:3]), 2))


def chunks() -> Server:
    """Blocks of a complete chunk of chunked attention are freed."""
    srv = server("K16")
    srv.complete(Request(P, 3))
    return together(srv, Request((*P, *Q), 2), Request((*P[:20], *Q), 2))


def eagle_window() -> Server:
    """Lookups of a drafter's window drop a block."""
    srv = server("W8 A", speculative_method="eagle", num_speculative_tokens=2, disable_lookahead_block_hashes=True)
    srv.complete(Request(P, 6, draft_else=1))
    return together(srv, Request((*P, *Q[:9]), 4, draft_else=2), Request(P[:33], 2))


def eagle_states() -> Server:
    """States where lookups of a drafter end: a block earlier."""
    srv = server("GA", speculative_method="eagle", num_speculative_tokens=1, disable_lookahead_block_hashes=True,
                 prefix_match_unit=4, mamba_block_size=16)  # fmt: skip
    srv.complete(Request(P, 3, draft_else=1))
    return together(srv, Request((*P, *Q), 2), Request((*P[:30], *Q), 3, draft_else=1))


def narrow() -> Server:
    """A step has three tokens: the last of three requests gets what the others leave."""
    srv = server(max_num_batched_tokens=3)
    return together(srv, Request(P[:2], 4), Request(P[:3], 3), Request(P[:7], 2), Request(Q[:2], 1))


def drafts_wait() -> Server:
    """A request with one token left waits for a step that has room for its drafts."""
    srv = server(max_num_batched_tokens=16, speculative_method="ngram", num_speculative_tokens=3)
    srv.complete(Request(P[:17], 1))
    return together(srv, Request(Q[:13], 2), Request(P[:17], 2))


def drafts_without_room() -> Server:
    """A request with one token left starts without drafts if the longest sequence has no room for them."""
    srv = server(max_num_batched_tokens=16, max_model_len=20, speculative_method="ngram", num_speculative_tokens=3)
    srv.complete(Request(P[:17], 1))
    together(srv, Request(Q[:13], 2), Request(P[:17], 2))
    return together(srv, Request(P[:9], 3, draft_else=1))


def shortened() -> Server:
    """A chunk that is shortened for a drafter with several modules may have no token left."""
    srv = server(max_num_batched_tokens=16, speculative_method="mtp", num_speculative_tokens=3, multi_module_mtp=True)
    return together(srv, Request(P[:14], 2), Request(Q[:3], 2), Request(P[:9], 2))


def whole_prompt() -> Server:
    """All chunks of a prompt are in CPU memory: its last token is evaluated again."""
    srv = server(num_gpu_blocks=5, num_cpu_chunks=8, async_scheduling=False)
    srv.complete(Request(P[:16], 2))
    srv.complete(Request(Q, 2))
    srv.complete(Request(P[:16], 2))
    return srv


def long_drafts() -> Server:
    """States of a prompt in chunks, and of a long answer with drafts."""
    srv = server("GA", max_num_batched_tokens=16, speculative_method="ngram", num_speculative_tokens=2)
    srv.complete(Request(P, 20, draft_else=1))
    return together(srv, Request((*P, *Q), 9, draft_else=2), Request(P[:20], 5))


def parts_loaded() -> Server:
    """A load replaces the part of a block that the pool has, if it is longer."""
    srv = server("GA", mamba_block_size=16, prefix_match_unit=4, num_cpu_chunks=24, num_gpu_blocks=18)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *Q[::-1], *P[::-1]), 2))
    srv.complete(Request((*P, *Q[:3]), 2))
    srv.complete(Request((*P[:38], *Q), 2))
    srv.complete(Request((*P, *Q), 2))
    return srv


CONVERSATIONS: dict[str, Callable[[], Server]] = {conversation.__name__: conversation for conversation in (
    evicted, preempted, window, states, drafts, offloaded, checkpoints, drafted_states, offloaded_states,
    offloaded_window, urgent, crowded, disconnected, pictures, overlapped_drafts, restarted, filled,
    module_drafts, loads_beside, frees_later, parts_of_blocks, every_block, references, chunks, eagle_window,
    eagle_states, narrow, drafts_wait, drafts_without_room, shortened, whole_prompt, long_drafts, parts_loaded,
)}  # fmt: skip


S, T = tuple(range(300, 330)), tuple(range(400, 436))
CPU, PRIORITY = {"num_cpu_chunks": 24}, {"scheduling_policy": "priority", "num_gpu_blocks": 9, "max_num_seqs": 3}
NGRAM = {"speculative_method": "ngram", "num_speculative_tokens": 3}
EAGLE = {"speculative_method": "eagle", "num_speculative_tokens": 2, "disable_lookahead_block_hashes": True}
PARTS = {"kv_groups": "A/8 S/8", "prefix_match_unit": 4, "mamba_prefill_checkpoint_alignment": 4}
GRID = {"mamba_block_size": 16, "prefix_match_unit": 4, "mamba_prefill_checkpoint_alignment": 4,
        "enable_mamba_shared_prefix_checkpoint": True}  # fmt: skip
INTERVAL = "prefix_cache_retention_interval"
SERVERS: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("0.33.0", "A", {**CPU, "num_gpu_blocks": 11}), ("0.33.0", "A", {**CPU, **NGRAM, "num_gpu_blocks": 11}),
    ("0.33.0", "A", {**CPU, **EAGLE, "num_gpu_blocks": 12, "offload_prompt_only": False}),
    ("0.33.0", "A", {**CPU, "num_gpu_blocks": 12, "blocks_per_chunk": 2, "async_scheduling": False}),
    ("0.30.0", "A", {**CPU, "num_gpu_blocks": 11}), ("0.33.0-repaired", "A", {**CPU, "num_gpu_blocks": 11}),
    ("0.33.0", "A", {"num_cpu_chunks": 9, "num_gpu_blocks": 11, "eviction_policy": "arc", "store_threshold": 2}),
    ("0.33.0", "W8 A", {**CPU, "num_gpu_blocks": 22}), ("0.33.0", "W8 A", {**CPU, **EAGLE, "num_gpu_blocks": 24}),
    ("0.33.0", "W8 A", {**CPU, "num_gpu_blocks": 24, "blocks_per_chunk": 2, "offload_prompt_only": False}),
    ("0.30.0", "W8 A", {**CPU, "num_gpu_blocks": 22}), ("0.33.0", "K16 A", {**CPU, "num_gpu_blocks": 22}),
    ("0.33.0", "GA", {**CPU, "num_gpu_blocks": 18}), ("0.33.0", "GA", {**CPU, **NGRAM, "num_gpu_blocks": 22}),
    ("0.33.0", "GA", {**CPU, "num_gpu_blocks": 22, "mamba_block_size": 16, "prefix_match_unit": 4}),
    ("0.30.0", "GA", {**CPU, "num_gpu_blocks": 18}),
    ("0.33.0", "AS", PARTS), ("0.33.0", "AS", {**PARTS, INTERVAL: -1}), ("0.33.0", "AS", {**PARTS, INTERVAL: 16}),
    ("0.33.0", "AS", {**PARTS, **NGRAM, INTERVAL: -1}), ("0.33.0-repaired", "AS", PARTS), ("0.31.0", "AS", PARTS),
    ("0.33.0", "GA", GRID), ("0.33.0", "GA", {**GRID, **EAGLE}), ("0.33.0", "GA", {**GRID, INTERVAL: 16}),
    ("0.33.0", "GA", {"long_prefill_token_threshold": 12, INTERVAL: 8}), ("0.33.0", "A", PRIORITY),
    ("0.33.0", "A", {**PRIORITY, **NGRAM, "max_num_batched_tokens": 12}),
    ("0.33.0", "W8 A", {**PRIORITY, "num_gpu_blocks": 17, "async_scheduling": False}),
    ("0.33.0", "A", {**NGRAM, "num_gpu_blocks": 9, "max_num_batched_tokens": 12}),
)  # fmt: skip


def crowd(release: str, model: str, flags: dict[str, object]) -> Server:
    """Conversations with common beginnings one after another, then several at once, of which a client leaves one."""
    srv = server(model, release=release, max_model_len=-1, **flags)       # as many tokens as the pool holds
    for prompt, n in ((P, 3), ((*Q, *P[:20]), 9), (P, 2), ((*P[:30], *Q), 2), (S, 12), (P[:36], 3), ((*Q, *S), 2)):
        srv.complete(Request(prompt, n, draft_else=2))
    together(srv, *(Request(prompt, n, draft_else=1, cancel_at=at, extra={"priority": priority} if priority else {})
                    for prompt, n, at, priority in (
                        (P[:38], 12, None, 2), (T, 9, None, 0), ((*P[:20], *T), 4, 30, 1), (P[:38], 6, None, 0))))
    return together(srv, Request((*P, *S), 3), Request((*T, *Q[:9]), 3))


for _release, _model, _flags in SERVERS:
    _name = " ".join(["crowd", _release, _model, *(f"{name}={value}" for name, value in _flags.items())])
    CONVERSATIONS[_name] = partial(crowd, _release, _model, _flags)


@cache
def run(name: str) -> Server:
    """Return the server after a conversation. A test must not change it."""
    return CONVERSATIONS[name]()


def usable_lengths(srv: Server) -> list[int]:
    """Return the lengths of the prefixes that can be found after a conversation."""
    return sorted(srv.inspection.points.prefix(key).end for key in srv.inspection.kept())


def line_of(name: str) -> str:
    """Return the numbers of a conversation."""
    srv = run(name)
    return numbers_line(name, (request.task.answer for request in srv.slots), usable_lengths(srv), srv.log.spent)


if __name__ == "__main__":
    write(FILE, CONVERSATIONS, line_of)
