"""Recordings of vLLM's scheduler and cache manager: their header as options, their steps on our server."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.engines.base import Answer, Request
from cachesim.engines.capabilities import Option
from cachesim.engines.shared.class_recording import ClassRecording, StepPlayer, answer_so_far, marked
from cachesim.engines.vllm.layout import KINDS
from cachesim.engines.vllm.row import DraftRowsWrong
from cachesim.engines.vllm.rules.blocks import DENSE
from cachesim.engines.vllm.rules.schedule import PRIORITY
from cachesim.engines.vllm.scheduler import Part, Step
from cachesim.engines.vllm.server import Server

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
    spec, retention = config["spec"], config["retention"]
    flags = {name.rpartition(":")[2]: config[name.partition(":")[0]] for name in SAME}
    flags |= {
        "kv_groups": " ".join(groups), "prefix_cache_retention_interval": DENSE if retention is None else retention,
        "prefix_match_unit": config["prefix_match_unit"] or 0, "speculative_method": METHODS.get(spec, "eagle"),
        "multi_module_mtp": spec == "mtp_hash", "disable_lookahead_block_hashes": spec == "eagle_drop",
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
        self.names, server.reports = dict[int, int](), False

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
        fields, hashes = super()._op_add(step), self.server.slots[-1].hashes
        return {**fields, "hashes": [*map(self.number, hashes)]} if hashes else fields

    def _op_reset(self, step: Mapping[str, Any]) -> dict[str, Any]:
        return {"ok": self.server.reset_cache(step["running"]), "ev": self.rows()}

    def _op_schedule(self, step: Mapping[str, Any]) -> dict[str, Any]:
        server = self.server
        server.ended.sort(key=lambda row: step["ended"].index(row.id))      # the real order is that of a set
        made = server.schedule()
        parts: list[Part] = [*made.parts.values()]
        run = [[part.row.id, part.start, part.n] for part in parts]
        server.evaluate(made, {run[0]: run[4] for run in step.get("run", ()) if len(run) > 3})
        for row, part in zip(run, parts, strict=True):
            row += (len(part.drafts), part.accepted) if part.drafts else ()
        self.said = map(_judged, parts)
        fields = {"run": run, "zero": made.zeroed, "copies": [*map(list, made.copies)],
                  "loads": [[*map(list, one.copies)] for one in made.loads],
                  "stores": [[*map(list, one.copies)] for one in (*made.stores, *made.flushed)]}
        if server.model is not None:
            marks = {event.request for event in server.log.events[self.first :] if isinstance(event, DraftRowsWrong)}
            wrong = marked(step, "draft_wrong")
            fields["drafts wrong"] = [] if marks == wrong else [sorted(marks), sorted(wrong)]
        return {**fields, "ev": self.rows()}

    def _op_update(self, step: Mapping[str, Any]) -> dict[str, Any]:
        server = self.server
        done = server.flying.popleft() if server.flying else Step()
        fresh = [part.row for part in done.parts.values() if not part.row.task.answer.tokens]
        finished = server.process(done)
        server.end_transfers(step.get("ended", ()))
        for number, drafts in step.get("drafts", {}).items():
            row = server.slots[int(number)]
            row.drafts = list(drafts) if row.busy and not row.prefill else []
        cached = {str(row.id): row.found for row in fresh if row.task.answer.tokens}
        return {"finished": [row.id for row in finished], "cached": cached, "state": self._state(), "ev": self.rows()}

    def _state(self) -> dict[str, Any]:
        server, waiting = self.server, self.server.waiting
        if server.opts.scheduling_policy == PRIORITY:
            waiting = sorted(waiting, key=lambda row: row.order)
        waiting = sorted(waiting, key=lambda row: not row.computed)
        return {"free": list(server.pool.free), "running": [row.id for row in server.running],
                "waiting": [row.id for row in waiting],
                "computed": {str(row.id): row.computed for row in server.running}}

    def _op_died(self, step: Mapping[str, Any]) -> dict[str, Any]:
        self.server.schedule()
        return {"op": "schedule", "ev": self.rows()}

    def _op_final(self, step: Mapping[str, Any]) -> dict[str, Any]:
        pool = self.server.pool
        names = {block: [[self.number(key // pool.groups), key % pool.groups] for key in pool.keys(block)]
                 for block in range(0 if step.get("died") else pool.n)}
        out = [[block, pool.refs[block], *first, pool.tokens[block], *([more] if more else ())]
               for block, (first, *more) in ((block, keys) for block, keys in names.items() if keys)]
        chunks = self.server.transfers.offload
        cpu = [[place, self.number(digest), group, chunks.users[digest, group]]
               for place, (digest, group) in sorted((place, key) for key, place in chunks.places.items())]
        return {} if step.get("died") else {"pool": out, "cpu": cpu, **self._state()}


def _judged(part: Part) -> tuple[int, Request, Answer]:
    row, n = part.row, part.start + part.n - len(part.drafts) + part.accepted
    return answer_so_far(row.id, tuple(row.text[:n]), list(part.outputs), row.task.answer.keys)


def undecided(data: Mapping[str, Any]) -> str:
    """Return why the answers of a recording cannot be judged."""
    config = data["config"]
    kinds = {one["kind"] for one in config["groups"]}
    if "mamba" in kinds and config["async_scheduling"] and config["num_spec"]:
        return "states of drafts with async_scheduling are not computed"
    return "reference windows are not computed" if "rswa" in kinds else ""


CLASSES = ClassRecording(setup, Player, lambda step: marked(step, "wrong"), undecided)
