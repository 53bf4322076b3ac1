"""Recordings of SGLang's classes: their header as options, their steps on our server."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.engines.base import Answer, Output, Request
from cachesim.engines.capabilities import Option
from cachesim.engines.sglang.events import SchedulerStep
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import LETTERS, MAMBA
from cachesim.engines.sglang.server import Server
from cachesim.engines.shared.class_recording import ClassRecording, StepPlayer, answer_so_far
from cachesim.model import HiddenOutput

NAMES = ("full", "swa", "mamba")
SAME = {"page_size": "page_size", "tokens": "max_total_tokens", "swa_tokens": "swa_tokens",
        "states": "max_mamba_cache_size", "max_running": "max_running_requests",
        "chunked_prefill_size": "chunked_prefill_size", "max_prefill_tokens": "max_prefill_tokens",
        "schedule_policy": "schedule_policy", "eviction_policy": "radix_eviction_policy",
        "new_token_ratio": "new_token_ratio", "strategy": "mamba_radix_cache_strategy", "grid": "state_grid",
        "track_interval": "mamba_track_interval", "max_states_per_path": "mamba_max_states_per_path"}  # fmt: skip


def setup(config: Mapping[str, Any]) -> tuple[str, dict[str, Option]]:
    """Return model and options of a recording. Its environment set the thresholds of the queue, and gave window slots
    back at every token."""
    parts = config["kind"].split("_")
    layers = [{"full": "A", "swa": f"W{config.get('window')}", "mamba": "G"}[part] for part in parts]
    flags = {ours: config[name] for name, ours in SAME.items() if config.get(name) is not None}
    flags.setdefault("chunked_prefill_size", -1)
    more = {"in_batch_threshold": 8, "swa_eviction_interval": 1, "disable_overlap_schedule": True}
    return " ".join(reversed(layers)), {**flags, **more}


class Player(StepPlayer):
    """Performs the steps of a recording. A turn of the server that starts no prefill step continues with a decode step;
    the recording has two steps then."""

    named: Mapping[str, str] = {"extra_key": "extra_key", "salt": "cache_salt", "priority": "priority"}

    def __init__(self, server: Server, data: Mapping[str, Any]) -> None:
        super().__init__(server, data)
        self.turns: list[dict[str, Any]] = []

    def _turn(self, step: Mapping[str, Any]) -> dict[str, Any]:
        server: Server = self.server
        first = self.first
        if not self.turns:
            server.update()
            for at, event in enumerate(server.log.events[first:], first):
                if isinstance(event, SchedulerStep):
                    self.turns.append({**event.record(), "ev": self.rows(at)})
            result = server.scheduler.last_result
            if server.model is not None and result is not None:
                self.said = [_said(one.req, one.end, hidden)
                             for one, hidden in zip(result.ranges, result.hidden_states, strict=True)]  # fmt: skip
        fields: dict[str, Any] = self.turns.pop(0) if self.turns else {"op": "idle"}
        if "sizes" in step:
            fields["sizes"] = self._sizes()
        if "tree" in step:
            fields["tree"] = self._tree()
        return fields

    _op_prefill = _op_decode = _op_idle = _turn

    def _op_final(self, step: Mapping[str, Any]) -> dict[str, Any]:
        return {"tree": self._tree(), "sizes": self._sizes()}

    def _sizes(self) -> dict[str, list[int]]:
        components = self.server.scheduler.tree_cache.tree_core.components
        return {NAMES[part]: [one.available_size(), one.evictable_size, one.protected_size]
                for part, one in components.items()}  # fmt: skip

    def _tree(self) -> list[list[Any]]:
        rows: list[list[Any]] = []
        core = self.server.scheduler.tree_cache.tree_core
        for node in core.nodes():
            present = "".join(letter for letter, value in zip(LETTERS, node.value, strict=True) if value is not None)
            assert node.parent is not None
            locks = [node.lock_ref[part] for part in core.components]
            state = [node.end] if node.value[MAMBA] is not None else []
            rows.append([node.id, node.parent.id, node.start, node.end, present, locks, *state])
        return rows


def _said(req: Req, end: int, hidden: HiddenOutput | None) -> tuple[int, Request, Answer]:
    """Return the outputs of a request in a step, which evaluated its tokens up to ``end``, as an answer to be
    judged."""
    held = tuple(req.token_identities(0, end))
    digests = [] if hidden is None else [int(digest) for digest in hidden.digest]
    first = end - len(digests)
    outputs = [Output(first + at, digest, None) for at, digest in enumerate(digests)]
    return answer_so_far(req.rid, held, outputs)


CLASSES = ClassRecording(setup, Player, lambda step: {int(request) for request in step.get("bad", {})})
