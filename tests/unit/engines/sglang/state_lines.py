"""Lines about a scheduler and its tree after each turn of the loop: only what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.managers.scheduler import Scheduler
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import HOST_LETTERS, LETTERS
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.server import Server
from tests.unit.engines.sglang import conversations

REQUEST = {"prefix_len": "prefix", "extend_end": "chunk_end", "seq_len": "launched", "num_output_ids": "said",
           "decode_batch_idx": "decodes", "num_unread_tokens": "unread", "inflight_middle_chunks": "middle",
           "host_hit_length": "host", "swa_host_hit_length": "host_window", "mamba_host_hit_length": "host_state",
           "mamba_branching_seqlen": "state_branch", "swa_branching_seqlen": "window_branch"}  # fmt: skip
MEMORY = {"kv_committed_len": "computed", "kv_allocated_len": "slots", "cache_protected_len": "shared",
          "cache_inserted_len": "inserted", "swa_evicted_seqlen": "left_window", "mamba_pool_idx": "state",
          "mamba_ping_pong_track_buffer": "tracked", "mamba_last_track_seqlen": "last_track",
          "mamba_prev_track_seqlen": "track_before"}  # fmt: skip
MARKS = ("is_chunked", "is_retracted", "is_answered", "busy")


def request_line(req: Req) -> str:
    """Return what the scheduler knows of a request, without zeros."""
    numbers = {**{word: getattr(req, name) for name, word in REQUEST.items()},
               **{word: getattr(req.kv, name) for name, word in MEMORY.items()}}  # fmt: skip
    marks = [word for word in MARKS if getattr(req, word)]
    held = [f"{word}={number}".replace(" ", "") for word, number in numbers.items() if number not in (0, None)]
    end = [] if req.busy else [f"end={req.task.answer.stop_type}", f"held={len(req.task.answer.slot_tokens)}"]
    return " ".join([f"request {req.rid}", *held, *marks, *end])


def scheduler_line(scheduler: Scheduler) -> str:
    """Return queue, running requests and free places."""
    running = scheduler.running_batch
    pools = scheduler.pools
    parts = [f"queue={[req.rid for req in scheduler.waiting_queue]}", f"running={[req.rid for req in running.reqs]}"]
    if scheduler.chunked_req is not None:
        parts.append(f"chunked={scheduler.chunked_req.rid}")
    if running.batch_is_full:
        parts.append("full")
    parts.append(f"rows={pools.req_to_token_pool.available_size()}")
    return " ".join([*parts, free_line(scheduler)]).replace(", ", ",")


def free_line(scheduler: Scheduler) -> str:
    """Return the free slots of each part of the memory, and those in host memory; slots that evictions can free."""
    cache = scheduler.tree_cache
    components = cache.tree_core.components
    free = [component.available_size() for component in components.values()]
    evictable = [cache.schedulable_size(part) - size for part, size in zip(components, free, strict=True)]
    found = f"free={free} evictable={evictable}"
    if cache.cache_controller is not None:
        found += f" host={[pool.available_size() for pool in cache.cache_controller.mem_pool_host.values()]}"
    return found.replace(", ", ",")


def node_line(node: UnifiedTreeNode) -> str:
    """Return a node: its parent, tokens, parts, locks and uses."""
    assert node.parent is not None
    values = zip((*LETTERS, *HOST_LETTERS), (*node.value, *node.host_value), strict=True)
    parts = [letter for letter, value in values if value is not None]
    words = [f"node {node.id} of {node.parent.id} tokens {node.start}..{node.end} {'+'.join(parts)}"]
    for name, value in (("locks", node.lock_ref), ("host_locks", node.host_lock_ref)):
        if any(value):
            words.append(f"{name}={value}".replace(" ", ""))
    for name, count in (("uses", node.hit_count), ("priority", node.priority), ("boundary", node.window_lock_uuid)):
        if count:
            words.append(f"{name}={count}")
    return " ".join([*words, *(["pending"] if node.write_through_pending else [])])


def order_line(scheduler: Scheduler) -> str:
    """Return the nodes in the orders in which they are evicted."""
    core = scheduler.tree_cache.tree_core
    orders = {"leaves": sorted(core.evictable_device_leaves, key=core.leaf_rank),
              "host": sorted(core.evictable_host_leaves, key=core.leaf_rank), "both": core.full_host_duplicates,
              "loading": core.loading, "writing": core.write_through_nodes}  # fmt: skip
    for name, part in (("window", core.swa), ("state", core.mamba)):
        if part is not None:
            orders |= {name: [*part.lru_list.members()][::-1], f"host_{name}": [*part.host_lru_list.members()][::-1]}
    shown = {name: [node.id for node in nodes] for name, nodes in orders.items()}
    return " ".join(["order", *(f"{name}={numbers}".replace(" ", "") for name, numbers in shown.items() if numbers)])


class Changing:
    """Lines of which only those are kept that differ from the last one of their kind."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.last: dict[object, str] = {}

    def show(self, kind: object, line: str) -> None:
        if self.last.get(kind) != line:
            self.last[kind] = line
            self.lines.append(line)

    def gone(self, kinds: set[object]) -> None:
        """Note that lines of these kinds come no more."""
        for kind in [kind for kind in self.last if kind in kinds]:
            self.lines.append(f"gone {self.last.pop(kind).partition(' of ')[0]}")


def turns(conversation: Callable[..., Server], show: Callable[[Server, Changing], None],
          patch: pytest.MonkeyPatch) -> list[str]:  # fmt: skip
    """Return the lines that ``show`` adds after each turn of a conversation."""
    changing = Changing()
    start = conversations.server

    def started(*args: object, **flags: object) -> Server:
        srv = start(*args, **flags)
        run_step = srv.scheduler.run_step

        def turn() -> bool:
            worked = run_step()
            changing.lines.append("turn" if worked else "idle turn")
            show(srv, changing)
            return worked

        srv.scheduler.run_step = turn
        return srv

    with patch.context() as inside:
        inside.setattr(conversations, "server", started)
        conversation()
    return changing.lines


def show_requests(srv: Server, changing: Changing) -> None:
    """Add the scheduler, and its requests."""
    changing.show("scheduler", scheduler_line(srv.scheduler))
    for req in srv.slots:
        changing.show(req.rid, request_line(req))


def show_tree(srv: Server, changing: Changing) -> None:
    """Add the nodes of the tree, and their orders."""
    core = srv.scheduler.tree_cache.tree_core
    nodes = [*core.nodes()]
    for node in nodes:
        changing.show(node.id, node_line(node))
    changing.gone({kind for kind in changing.last if isinstance(kind, int)} - {node.id for node in nodes})
    changing.show("order", order_line(srv.scheduler))
    changing.show("free", free_line(srv.scheduler))


def sections_of(show: Callable[[Server, Changing], None], patch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the text of a file of these lines."""
    for conversation in conversations.CONVERSATIONS:
        yield from (f"== {conversation.__name__}", *turns(conversation, show, patch))
