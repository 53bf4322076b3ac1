"""Recordings of vLLM's scheduler and cache manager: their header as options, their steps on our server."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.engines.base import Answer
from cachesim.engines.base import Request as ClientRequest
from cachesim.engines.capabilities import Option
from cachesim.engines.shared.class_recording import ClassRecording, StepPlayer, answer_so_far, marked
from cachesim.engines.vllm.core.scheduler import Scheduler, waiting_queue
from cachesim.engines.vllm.core.scheduler_output import OffloadingConnectorMetadata, RequestOutput, SchedulerOutput
from cachesim.engines.vllm.kv_cache_planning import KINDS
from cachesim.engines.vllm.request import Request
from cachesim.engines.vllm.rules.blocks import DENSE
from cachesim.engines.vllm.rules.schedule import FCFS, PRIORITY
from cachesim.engines.vllm.server import Server, StepInFlight
from cachesim.engines.vllm.worker.draft_rows import DraftRowsWrong

LETTERS = {kind: letter for letter, kind in KINDS.items()}
METHODS = {None: "", "ngram": "ngram", "mtp_hash": "mtp"}
SAME = ("num_blocks:num_gpu_blocks", "max_model_len", "max_num_batched_tokens", "max_num_seqs",
        "long_prefill_token_threshold", "caching:enable_prefix_caching", "policy:scheduling_policy", "watermark",
        "reserve_full:scheduler_reserve_full_isl", "async_scheduling", "num_spec:num_speculative_tokens",
        "shared_prefix_checkpoint:enable_mamba_shared_prefix_checkpoint", "dcp:decode_context_parallel_size")


def setup(config: Mapping[str, Any]) -> tuple[str, dict[str, Option]]:
    """Return model and options of a recording."""
    words = [f"{LETTERS[one['kind']]}{one.get('window', one.get('chunk', ''))}" for one in config["groups"]]
    groups = [f"{word}/{one['block_size']}{'e' * one['eagle']}"
              for word, one in zip(words, config["groups"], strict=True)]  # fmt: skip
    spec = config["spec"]
    retention = config["retention"]
    flags = {name.rpartition(":")[2]: config[name.partition(":")[0]] for name in SAME}
    flags |= {
        "kv_groups": " ".join(groups), "prefix_cache_retention_interval": DENSE if retention is None else retention,
        "prefix_match_unit": config["prefix_match_unit"] or 0, "speculative_method": METHODS.get(spec, "eagle"),
        "multi_module_mtp": spec == "mtp_hash", "disable_lookahead_block_hashes": spec == "eagle_drop",
        "disable_eagle_block_drop": spec == "eagle_keep",
        "multimodal": config.get("images", False), "mamba_cache_mode": config.get("mamba_cache_mode", "align"),
        "mamba_prefill_checkpoint_alignment": config["ckpt_align"] or 0,
    }  # fmt: skip
    flags |= config.get("offload", {})
    layers = ["A" if word.startswith("R") else word for word in words]
    return " ".join(sorted(layers, key=lambda word: word != "S")), flags      # wrong rows mark no state in a recording


class Player(StepPlayer):
    """Performs the steps of a recording on a server. Hashes are numbered by first appearance."""

    named: Mapping[str, str] = {"priority": "priority", "salt": "cache_salt", "lora": "lora"}

    def __init__(self, server: Server, data: Mapping[str, Any]) -> None:
        super().__init__(server, data)
        self.names: dict[int, int] = {}
        server.points.reports = False

    def number(self, digest: int) -> int:
        """Return the number of a hash in the recording."""
        return self.names.setdefault(digest, len(self.names))

    def rows(self, stop: int | None = None) -> list[list[Any]]:
        found = super().rows(stop)
        for row in found:
            if row[0] in ("key", "evict"):
                row[2] = self.number(row[2]) if row[0] == "key" else [*map(self.number, row[2])]
        return found

    def _op_add(self, step: Mapping[str, Any]) -> dict[str, Any]:
        fields = super()._op_add(step)
        hashes = self.server.slots[-1].block_hashes
        return {**fields, "hashes": [*map(self.number, hashes)]} if hashes else fields

    def _op_reset(self, step: Mapping[str, Any]) -> dict[str, Any]:
        return {"ok": self.server.scheduler.reset_prefix_cache(step["running"]), "ev": self.rows()}

    def _op_schedule(self, step: Mapping[str, Any]) -> dict[str, Any]:
        server: Server = self.server
        connector = server.scheduler.connector
        if connector is not None:               # the real order is that of a set
            connector.finished_reqs.sort(key=lambda request: step["ended"].index(request.request_id))
        accepted = {run[0]: run[4] for run in step.get("run", ()) if len(run) > 3}
        made = server.begin_step(accepted)
        self.said = (self._judged(req_id, result) for req_id, result in made.model_runner_output.items())
        output = made.scheduler_output
        fields = {"run": _scheduled(made), "zero": output.new_block_ids_to_zero,
                  "copies": [*map(list, output.kv_cache_block_copies)],
                  **_transferred(output.kv_connector_metadata)}  # fmt: skip
        if server.model is not None:
            events = server.log.events[self.first :]
            marks = {event.request for event in events if isinstance(event, DraftRowsWrong)}
            wrong = marked(step, "draft_wrong")
            fields["drafts wrong"] = [] if marks == wrong else [sorted(marks), sorted(wrong)]
        return {**fields, "ev": self.rows()}

    def _judged(self, req_id: int, result: RequestOutput) -> tuple[int, ClientRequest, Answer]:
        request: Request = self.server.slots[req_id]
        held = tuple(request.text.token_ids[: result.num_evaluated_tokens])
        return answer_so_far(req_id, held, list(result.outputs), request.task.answer.keys)

    def _op_update(self, step: Mapping[str, Any]) -> dict[str, Any]:
        server: Server = self.server
        done = server.batch_queue.popleft() if server.batch_queue else StepInFlight(SchedulerOutput(), {})
        requests: list[Request] = [server.slots[req_id] for req_id in done.scheduler_output.num_scheduled_tokens]
        fresh = [request for request in requests if not request.task.answer.tokens]
        finished = server.scheduler.update_from_output(done.scheduler_output, done.model_runner_output)
        server.scheduler.update_connector_output(step.get("ended", ()))
        for number, drafts in step.get("drafts", {}).items():
            request = server.slots[int(number)]
            drafting = request.busy and not request.is_prefill_chunk
            server.scheduler.update_draft_token_ids({request.request_id: list(drafts) if drafting else []})
        cached = {str(request.request_id): request.task.answer.cache_n for request in fresh
                  if request.task.answer.tokens}  # fmt: skip
        return {"finished": [request.request_id for request in finished], "cached": cached, "state": self._state(),
                "ev": self.rows()}

    def _state(self) -> dict[str, Any]:
        scheduler = self.server.scheduler
        waiting = self._in_queues(scheduler.waiting)
        return {"free": list(scheduler.kv_cache_manager.block_pool.free_block_queue),
                "running": [request.request_id for request in scheduler.running],
                "waiting": [request.request_id for request in waiting],
                "computed": {str(request.request_id): request.num_computed_tokens for request in scheduler.running}}

    def _in_queues(self, waiting: Sequence[Request]) -> list[Request]:
        """Return the waiting requests as the queues of the release hold them: those that go first, then the others."""
        scheduler: Scheduler = self.server.scheduler
        left = sorted(waiting, key=lambda request: request.order) if scheduler.policy == PRIORITY else list(waiting)
        found = []
        while left:
            at: int = scheduler.rules.next_waiting(FCFS, waiting_queue(left)).value
            found.append(left.pop(at))
        return found

    def _op_died(self, step: Mapping[str, Any]) -> dict[str, Any]:
        self.server.scheduler.schedule()
        return {"op": "schedule", "ev": self.rows()}

    def _op_final(self, step: Mapping[str, Any]) -> dict[str, Any]:
        if step.get("died"):
            return {}
        return {"pool": self._keyed_blocks(), "cpu": self._chunks(), **self._state()}

    def _keyed_blocks(self) -> list[list[Any]]:
        """Return each block with keys: number, users, first key, its prefix, and further keys."""
        pool = self.server.scheduler.kv_cache_manager.block_pool
        found = []
        for block in range(pool.num_gpu_blocks):
            keys = [[self.number(key // pool.num_groups), key % pool.num_groups] for key in pool.keys_of(block)]
            if keys:
                first, *more = keys
                row = [block, pool.ref_cnt[block], *first, pool.block_hash_num_tokens[block]]
                found.append([*row, more] if more else row)
        return found

    def _chunks(self) -> list[list[int]]:
        """Return each chunk in CPU memory: place, hash, group, and users."""
        connector = self.server.scheduler.connector
        if connector is None:
            return []
        places = sorted((place, key) for key, place in connector.manager.places.items())
        return [[place, self.number(block_hash), group, connector.manager.users[block_hash, group]]
                for place, (block_hash, group) in places]


def _scheduled(step: StepInFlight) -> list[list[int]]:
    """Return the requests of a step: number, computed tokens, tokens, and with drafts those and the accepted ones."""
    rows = []
    output = step.scheduler_output
    for req_id, data in output.scheduled_reqs.items():
        row = [req_id, data.num_computed_tokens, output.num_scheduled_tokens[req_id]]
        drafts = output.scheduled_spec_decode_tokens[req_id]
        rows.append([*row, len(drafts), step.model_runner_output[req_id].num_accepted_drafts] if drafts else row)
    return rows


def _transferred(metadata: OffloadingConnectorMetadata) -> dict[str, list[list[list[int]]]]:
    """Return the copies of the transfers of a step."""
    stores = [*metadata.store_jobs, *metadata.jobs_to_flush]
    return {"loads": [[*map(list, job.copies)] for job in metadata.load_jobs],
            "stores": [[*map(list, job.copies)] for job in stores]}


def undecided(data: Mapping[str, Any]) -> str:
    """Return why the answers of a recording cannot be judged."""
    kinds = {one["kind"] for one in data["config"]["groups"]}
    return "reference windows are not computed" if "rswa" in kinds else ""


CLASSES = ClassRecording(setup, Player, lambda step: marked(step, "wrong"), undecided)
