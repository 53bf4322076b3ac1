"""The steps of whole conversations, with what the scheduler knows after each of them (steps.txt)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.vllm.core.scheduler import Scheduler
from cachesim.engines.vllm.core.scheduler_output import NewRequestData, SchedulerOutput
from cachesim.engines.vllm.request import Request
from cachesim.engines.vllm.server import Server
from tests.unit.engines.event_lines import sections
from tests.unit.engines.vllm import conversations

EXPECTED = sections(Path(__file__).with_name("steps.txt"))
COUNTS = {"num_output_placeholders": "places", "num_in_flight_tokens": "flight", "num_stale_output_tokens": "stale",
          "num_preemptions": "preempted", "shared_prefix_boundary": "junction"}  # fmt: skip


def scheduled(output: SchedulerOutput) -> str:
    """Return a step: tokens of each request from the first one on, its drafts, then work on blocks and transfers."""
    parts = ["step"]
    for number, data in output.scheduled_reqs.items():
        drafts = output.scheduled_spec_decode_tokens[number]
        parts.append(f"{'new ' * isinstance(data, NewRequestData)}{number}:{output.num_scheduled_tokens[number]}"
                     f"@{data.num_computed_tokens}{'' if data.samples_token else '..'}{drafts or ''}")  # fmt: skip
    metadata = output.kv_connector_metadata
    jobs = {name.partition("_")[0]: [job.copies for job in getattr(metadata, name)]
            for name in ("load_jobs", "store_jobs", "jobs_to_flush")}  # fmt: skip
    work = {"zero": output.new_block_ids_to_zero, "copies": output.kv_cache_block_copies, **jobs,
            "states": [[(state.block_id, state.boundary_tokens) for state in states]
                       for states in output.boundary_state_offloads.values()]}  # fmt: skip
    return " ".join([*parts, *(f"{name}={value}".replace(" ", "") for name, value in work.items() if value)])


def known(request: Request) -> str:
    """Return what the scheduler knows of a request."""
    counts: dict[str, object] = {word: getattr(request, name) for name, word in COUNTS.items()}
    if request.is_finished:
        answer = request.task.answer
        reused = ",".join(f"{n}-from-{source}" for source, n in answer.reused.items() if n)
        counts |= {"reused": reused, "said": len(answer.tokens), "held": len(answer.slot_tokens),
                   "end": answer.stop_type}  # fmt: skip
    marks = [word for word in ("is_prefill_chunk", "is_skipped", "drop_stale_output") if getattr(request, word)]
    return " ".join([f"  {request.request_id} {request.status.name.lower()} {request.num_computed_tokens} of "
                     f"{request.num_tokens} cached={request.num_cached_tokens}",
                     *(f"{word}={count}" for word, count in counts.items() if count), *marks])  # fmt: skip


class Watched:
    """Lines of what a scheduler does: steps, and each request whose line differs from its last one."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.lines: list[str] = []
        self.shown: dict[int, str] = {}
        self.scheduler, self.schedule, self.update = scheduler, scheduler.schedule, scheduler.update_from_output
        scheduler.schedule, scheduler.update_from_output = self.on_schedule, self.on_update

    def on_schedule(self) -> SchedulerOutput:
        output = self.schedule()
        self.show(scheduled(output))
        return output

    def on_update(self, *results: object) -> list[Request]:
        finished = self.update(*results)
        self.show(f"done {[request.request_id for request in finished]}")
        return finished

    def show(self, line: str) -> None:
        """Add a line with the free blocks, then the requests that changed: running, waiting, ended."""
        scheduler = self.scheduler
        deferred = scheduler.deferred_frees.blocks()
        loading = [request.request_id for request in scheduler.finished_recving]
        more = f"{f' deferred={deferred}' if deferred else ''}{f' loading={loading}' if loading else ''}"
        self.lines.append(f"{line} free={scheduler.kv_cache_manager.block_pool.get_num_free_blocks()}{more}")
        ended = [request for request in scheduler.requests.values() if request.is_finished]
        for request in (*scheduler.running, *scheduler.waiting, *ended):
            if self.shown.get(request.request_id) != known(request):
                self.shown[request.request_id] = known(request)
                self.lines.append(known(request))


def steps(conversation: Callable[[], Server], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    watched: list[Watched] = []
    start = conversations.server

    def started(*args: str, **flags: object) -> Server:
        srv = start(*args, **flags)
        watched.append(Watched(srv.scheduler))
        return srv

    monkeypatch.setattr(conversations, "server", started)
    conversation()
    return watched[0].lines


@pytest.mark.parametrize("conversation", [one for one in conversations.CONVERSATIONS if one.__name__ in EXPECTED])
def test_a_conversation_has_these_steps(conversation: Callable[[], Server], monkeypatch: pytest.MonkeyPatch) -> None:
    assert steps(conversation, monkeypatch) == EXPECTED[conversation.__name__]
