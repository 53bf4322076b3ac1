"""The server: requests in, a step per round, tokens out.

Source: sgl-project/sglang python/sglang/srt/managers/scheduler.py Scheduler.event_loop_normal (0.5.23).
"""

from __future__ import annotations

from cachesim.base.tokens import TokenList
from cachesim.engines.sglang.flags import EAGLE
from cachesim.engines.sglang.inspection import Inspection, TreeCells
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.managers.scheduler import Scheduler
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.sglang.request_length import scheduler_refusal, tokenizer_refusal
from cachesim.engines.sglang.runtime_context import get_runtime_context
from cachesim.engines.shared.request_queue import ReceivedRequest, Refusal, RequestQueue, key_of


class Server(RequestQueue):
    """A server of a given version. ``slots``: all requests received so far."""

    rules: Rules

    def start_memory(self) -> None:
        """Start the scheduler with an empty memory."""
        self.context = get_runtime_context(self.rules, self.kind, self.opts, self.log)
        self.scheduler = Scheduler(self.context, self.model, self.sampler)
        self.schedule = self.scheduler.notes
        self.published_events = self.scheduler.kv_events_publisher
        self.waiting = self.scheduler.waiting_queue
        self.running = self.scheduler.running_batch.reqs
        self.longest = self.scheduler.max_req_input_len
        self.inspection = Inspection(self.context, self.slots, self.unfinished, self.scheduler)
        self.cache_cells = TreeCells(self.context, self.scheduler.tree_cache.tree_core)

    def refusal(self, n: int, max_tokens: int) -> Refusal | None:
        """Return the error of the tokenizer for a prompt of ``n`` tokens that does not fit the context, or that of the
        scheduler; None if it is accepted."""
        args = self.context.server_args
        reserved = args.speculative_num_steps + 1 if args.speculative_algorithm == EAGLE else 0
        refused = None
        if args.context_len:
            refused = tokenizer_refusal(n + reserved, max_tokens, args.context_len, self.rules.fills_context)
        return refused or scheduler_refusal(n, self.longest)

    def new_row(self, task: ReceivedRequest) -> Req:
        """Return a received request, the next of ``slots``."""
        fields = task.request.extra
        names = (str(fields.get("extra_key", "")), str(fields.get("cache_salt", "")))
        return Req(len(self.slots), task, TokenList(task.request.prompt), extra_key=names, key=key_of(*names),
                   priority=int(fields.get("priority", 0)))  # fmt: skip

    def enqueue(self, row: Req) -> None:
        """Let a received request wait."""
        self.scheduler.add_request(row)

    def abort(self, row: Req) -> None:
        """End a request whose client left."""
        self.scheduler.abort_request(row)

    def work(self) -> None:
        """Run a step."""
        self.stalled = not self.scheduler.run_step()
