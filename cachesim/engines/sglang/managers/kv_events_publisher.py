"""Publisher of the KV events of the radix tree.

Source: sgl-project/sglang python/sglang/srt/managers/scheduler_components/kv_events_publisher.py, metrics_reporter.py
(0.5.23).
"""

from __future__ import annotations

from cachesim.base.errors import BadInput, NotInBuild
from cachesim.engines.server_parts import EventBatch, EventHashing, PublishedEvents
from cachesim.engines.sglang.mem_cache.kv_event_recorder import KVCacheEventRecorder
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_core import UnifiedTreeCore
from cachesim.engines.sglang.runtime_context import RuntimeContext

DECODE_LOG_INTERVAL = 40            # default of --decode-log-interval


class KVEventsPublisher(PublishedEvents):
    """The events of a server. They are published after each prefill step, after every 40th decode step, and when the
    server is idle, where it reports its statistics. ``is_idle``: the next turns of its loop find no work."""

    def __init__(self, context: RuntimeContext, tree_core: UnifiedTreeCore) -> None:
        self.context = context
        self.tree_core = tree_core
        self.recorder: KVCacheEventRecorder | None = None
        self.published: list[EventBatch] = []
        self.forward_ct_decode = 0
        self.is_idle = True

    def start(self, hashing: EventHashing) -> None:
        """Publish the events from now on. Raise BadInput for a choice of hashes, which the server does not have, and
        for what is not modelled."""
        if hashing != EventHashing():
            raise BadInput("this server has one hash function, without a seed")
        if not self.context.rules.publishes_events:
            raise NotInBuild(f"KV events are not modelled for {self.context.rules.name}", hint="a later release")
        if self.context.server_args.enable_hierarchical_cache:
            raise BadInput("KV events of HiCache are not modelled", hint="enable_hierarchical_cache 0")
        self.recorder = KVCacheEventRecorder(self.context.page_size)
        self.recorder.record_all_cleared()
        self.tree_core.kv_events = self.recorder

    def step_processed(self, is_prefill: bool) -> None:
        """Note that the results of a step were processed."""
        self.forward_ct_decode += not is_prefill
        if is_prefill or self.forward_ct_decode % DECODE_LOG_INTERVAL == 0:
            self.publish()

    def publish(self) -> None:
        """Publish the queued events."""
        if self.recorder is not None and self.recorder.events:
            self.published.append(EventBatch(self.recorder.take()))

    def take(self) -> list[EventBatch]:
        """Return the batches that were published since the last call. An idle server has published all events."""
        if self.is_idle:
            self.publish()
        taken = self.published
        self.published = []
        return taken
