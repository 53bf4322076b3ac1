"""Drawn requests on a server of SGLang, and digests of its turns: those of released servers are stored, ours must give
the same.

A case is a number: it draws options of a server, and 40 requests. Between two requests there are as many turns as the
released server needed.
"""

import hashlib
import json
import random

from cachesim.engines.base import Request
from cachesim.engines.sglang import ENGINE
from cachesim.engines.sglang.events import SchedulerStep
from cachesim.engines.sglang.rules.host import POLICIES as WRITES
from tests.peers.sglang_campaign import DIGITS, POLICIES
from tests.shared import ROOT

END = 200                       # token that follows an answer
MOST = 400                      # turns until all requests are answered
LENGTH = 40                     # requests of a case
STORED = ROOT / "tests" / "unit" / "engines" / "sglang" / "released_servers.json"

QUEUES = ("fcfs", "fcfs", "lpm", "dfs-weight", "lof", "shortest-prefill-first")
MODELS = {(0,): "A", (0, 1): "W{} A", (0, 2): "GA", (0, 1, 2): "W{} A G"}


def draw_server(draw, parts, rules):
    """Draw the options of a server with a small pool. ``rules``: those of its release."""
    page, tokens = draw.choice([1, 1, 2, 4]), draw.choice([96, 128, 240])
    strategy = draw.choice(["no_buffer", "extra_buffer", "extra_buffer_lazy"]) if 2 in parts else "no_buffer"
    overlap = draw.random() < 0.7 if 2 not in parts or strategy == "extra_buffer" else strategy != "no_buffer"
    page = page if strategy != "no_buffer" or 2 not in parts else 1
    drafts = draw.choice(["", "", "EAGLE", "NGRAM"])
    host = draw.random() < 0.6 and rules.hosts_parts
    queues = [name for name in QUEUES if name in rules.queue_policies]
    return {
        "page_size": page, "max_total_tokens": tokens, "max_prefill_tokens": 64,
        "swa_tokens": draw.choice([tokens, tokens // 2 // page * page]) if 1 in parts else 0,
        "chunked_prefill_size": draw.choice([8, 16, 64]), "max_running_requests": draw.choice([2, 4, 8]),
        "schedule_policy": draw.choice(queues),
        "radix_eviction_policy": draw.choice(POLICIES), "in_batch_threshold": 32,
        "new_token_ratio": draw.choice([0.0, 0.2, 0.7]), "swa_eviction_interval": draw.choice([1, 4]),
        "mamba_radix_cache_strategy": strategy,
        "max_mamba_cache_size": draw.choice([26, 30, 40]), "mamba_track_interval": draw.choice([4, 8]),
        "mamba_max_states_per_path": draw.choice([-1, -1, 1, 2]), "state_grid": page * draw.choice([1, 2]),
        "speculative_algorithm": drafts, "speculative_num_steps": draw.choice([1, 3]),
        "draft_window": draw.choice([0, 12]) if drafts else 0, "disable_overlap_schedule": not overlap,
        "enable_hierarchical_cache": host, "hicache_ratio": draw.choice([0.3, 0.5, 1.0, 2.0]),
        "hicache_write_policy": draw.choice(WRITES), "strip_thinking_cache": draw.random() < 0.3,
    }  # fmt: skip


def draw_compressed(draw, rules):
    """Draw the options of a server of DeepSeek V4: pages of 256, and a small pool of windows."""
    drawn, tokens = draw_server(draw, (0, 1), rules), 256 * draw.choice([20, 40, 80])
    return drawn | {
        "page_size": 256, "max_total_tokens": tokens, "swa_tokens": 256 * draw.choice([8, 12, 20]),
        "max_prefill_tokens": 8192, "chunked_prefill_size": draw.choice([256, 512, 2048]), "state_grid": 256,
        "speculative_algorithm": draw.choice(["", "EAGLE"]), "draft_window": 0, "enable_hierarchical_cache": False,
        "swa_eviction_interval": draw.choice([1, 4, 128]),
    }  # fmt: skip


class Case:
    """The server and the requests of a number. ``rules``: those that tell what the release has."""

    def __init__(self, number, rules, is_compressed=False):
        self.draw = random.Random(number)
        self.parts = (0, 1) if is_compressed else self.draw.choice(list(MODELS))
        self.opts = draw_compressed(self.draw, rules) if is_compressed else draw_server(self.draw, self.parts, rules)
        self.window = 128 if is_compressed else self.draw.choice([3, 6, 10])
        self.longest = 2000 if is_compressed else 50

    def start(self, rules, mode):
        """Return our server, under the rules of a name or of a rule set."""
        return ENGINE.start(rules, MODELS[self.parts].format(self.window), self.opts, mode)

    def requests(self):
        """Yield the requests, each with its answer; it may end with the last token of a shorter one."""
        draw = self.draw
        texts = [tuple(draw.randrange(50) for _ in range(self.longest + 10)) for _ in range(3)]
        for _ in range(LENGTH):
            prompt = (*draw.choice(texts)[: draw.randrange(1, self.longest)], draw.randrange(50))
            answer, key = tuple(range(100, 101 + draw.randrange(20))), draw.choice(["", "", "", "k"])
            priority, right = draw.randrange(2), draw.randrange(4)
            limit = len(answer) + 8 * (draw.random() < 0.5)
            extra = {"extra_key": key, "priority": priority}
            yield Request(prompt, limit, forced=(*answer, *[END] * 8), draft_else=right, eog=answer[-1:],
                          extra=extra), answer  # fmt: skip

    def most_turns(self, number):
        """Return the most turns between a request and the next one."""
        return self.draw.choice([0, 1, 1, 3, 12 if number < LENGTH - 1 else MOST])


class Told:
    """What a server did: its turns, and what its pools and its tree hold after each of them. ``counts``: turns after
    each request."""

    def __init__(self):
        self.counts, self.sum = [], hashlib.sha256()

    def add(self, turns, ours):
        """Add a turn."""
        said = ["ended"] if ours.dead else [turns, facts(ours)]
        self.sum.update(json.dumps(said).encode())

    @property
    def digest(self):
        """Digest of all turns."""
        return self.sum.hexdigest()[:DIGITS]


def turn_of(event):
    """Return a turn as the released server records it: only its prefill step shows tracked states."""
    turn = event.record()
    return turn if turn["op"] == "prefill" else {**turn, "run": [run[:3] for run in turn["run"]]}


def facts(ours):
    """Return the free lists, the sizes of the tree, its nodes, and what requests have in their rows."""
    pools, parts, tree = ours.scheduler.pools, ours.context.tree_components, ours.scheduler.tree_cache.tree_core
    kv = pools.token_to_kv_pool_allocator
    both = [pools.swa_allocator.full_attn_allocator, pools.swa_allocator.swa_attn_allocator] if 1 in parts else [kv]
    free = [[*one.free_pages] for one in both]
    if 2 in parts:
        free.append([*pools.req_to_token_pool.mamba_allocator.free_slots])
    sizes = [(one.evictable_size, one.protected_size) for one in tree.components.values()]
    nodes, todo = [], [tree.root_node]
    while todo:
        children = list(todo.pop().children.values())
        todo += children
        nodes += [[list(map(str, node.key)), node.hit_count,
                   [None if (value := node.value[part]) is None else [value] if part == 2 else value.tolist()
                    for part in parts], [node.lock_ref[part] for part in parts]] for node in children]  # fmt: skip
    rows = [[row.rid, row.kv.kv_committed_len, row.kv.kv_allocated_len, row.kv.cache_protected_len,
             pools.req_to_token_pool.read(row.rid, 0, row.kv.kv_allocated_len).tolist()] for row in ours.running]
    return [free, sizes, nodes, rows]


def digest(rules, number, counts, drawn_by=None):
    """Return the digest of a case on our server. ``counts``: turns after each request; ``drawn_by``: rules that tell
    what the release has, None = these."""
    case, told = Case(number, drawn_by or rules), Told()
    ours = case.start(rules, "none")
    for place, (turns, (request, _)) in enumerate(zip(counts, case.requests(), strict=False)):
        ours.submit(request)
        ours.take_tasks()
        case.most_turns(place)
        for _ in range(turns):
            first = len(ours.log.events)
            ours.update()
            told.add([turn_of(event) for event in ours.log.events[first:] if isinstance(event, SchedulerStep)], ours)
            if ours.dead:
                return told.digest
    return told.digest


def stored():
    """Return the stored cases by release: number, turns after each request, digest of the released server."""
    return json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
