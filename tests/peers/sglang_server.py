"""A server of the released classes of SGLang 0.5.23, without model and GPU.

Released are the requests, the tree, queue policy, admission, retraction, tracked states, and what the end of a chunk,
of a step and of a request does with the tree. The allocation of slots and the order of calls follow
`managers/scheduler.py` and `mem_cache/allocation.py`, which need torch.
"""

from array import array
from types import SimpleNamespace

import numpy as np

from tests.peers import sglang_slots as memory
from tests.peers import sglang_source as source
from tests.peers.sglang_tree import released_cache

SAMPLING = {"ignore_eos": False, "custom_params": None}


def draft_facts(opts):
    """Return the settings of drafts as the released classes read them."""
    algorithm, steps = opts["speculative_algorithm"] or None, opts["speculative_num_steps"]
    return SimpleNamespace(speculative_algorithm=algorithm, speculative_num_steps=steps, speculative_eagle_topk=1,
                           speculative_num_draft_tokens=steps + 1)  # fmt: skip


class RealServer:
    """The server. ``parts``: those of its tree; ``opts``: options by our names."""

    def __init__(self, real, parts, window, opts, requests):
        self.real, self.opts, self.page, self.parts = real, opts, opts["page_size"], parts
        self.buffered = opts["mamba_scheduler_strategy"] == "extra_buffer"
        self.spec = source.SETTINGS["spec"] = draft_facts(opts)
        grid = opts["state_grid"]
        source.SETTINGS |= {
            "env": {"SGLANG_SWA_EVICTION_INTERVAL": opts["swa_eviction_interval"], "SGLANG_RETRACT_DECODE_STEPS": 20},
            "memory": source.Settings(radix_eviction_policy=opts["radix_eviction_policy"]),
            "schedule": source.Settings(page_size=self.page, schedule_policy=opts["schedule_policy"]),
            "exec": source.Settings(
                grid=grid, track_grid=int(np.lcm(grid, opts["mamba_track_interval"])), mamba=source.Settings(
                    enable_mamba_extra_buffer=self.buffered and 2 in parts, enable_mamba_extra_buffer_lazy=False)),
        }  # fmt: skip
        kind = memory.WindowAllocator if 1 in parts else memory.Allocator
        self.slots = kind(opts["max_total_tokens"], self.page, opts["swa_tokens"])
        self.states = memory.StateSlots(opts["max_mamba_cache_size"])
        self.rows = self._rows(requests)
        self.cache = released_cache(real, parts, self.page, self.slots, self.rows, window,
                                    opts["radix_eviction_policy"], opts["mamba_max_states_per_path"], grid,
                                    self.buffered, opts["speculative_algorithm"] == "EAGLE")  # fmt: skip
        self.policy = real.policy.SchedulePolicy(opts["schedule_policy"], self.cache, False, False, False)
        self.batch = object.__new__(real.batch.ScheduleBatch)
        vars(self.batch).update(
            reqs=[], tree_cache=self.cache, token_to_kv_pool_allocator=self.slots, req_to_token_pool=self.rows,
            hisparse_coordinator=None, spec_algorithm=SimpleNamespace(is_none=lambda: not self.drafts),
            forward_mode=SimpleNamespace(is_decode=lambda: True), filter_batch=self.keep, forward_iter=0,
            model_config=SimpleNamespace(hf_text_config=SimpleNamespace(mamba_chunk_size=grid)))
        self.drafts = self.spec.speculative_num_steps if self.spec.speculative_algorithm else 0
        idle = ("_maybe_collect_routed_experts", "_maybe_collect_indexer_topk", "_prepare_kv_cache_release",
                "_maybe_collect_customized_info")  # fmt: skip
        self.processor = object.__new__(type("Processor", (real.processor,), dict.fromkeys(idle, lambda *args: None)))
        for name, value in {"tree_cache": self.cache, "draft_worker": None}.items():
            object.__setattr__(self.processor, name, value)
        self.waiting, self.chunked, self.full, self.ends = [], None, False, {}

    def _rows(self, requests):
        rows = object.__new__(self.real.pool)
        slots = np.zeros((requests, 2 * self.opts["max_total_tokens"]), np.int64).view(memory.Tensor)
        vars(rows).update(
            mamba_allocator=self.states, enable_mamba_extra_buffer=self.buffered, enable_mamba_extra_buffer_lazy=False,
            mamba_ping_pong_track_buffer_size=2, mamba_initial_tracking_slots=2, mamba_ckpt_pool=None,
            req_index_to_mamba_ping_pong_track_buffer_mapping=memory.no_states(requests),
            mamba_pool=SimpleNamespace(replayssm_write_pos=None, copy_from=lambda *args: None), req_to_token=slots,
            write=slots.__setitem__, free=lambda row: setattr(row.kv, "req_pool_idx", None))
        return rows

    def keep(self, keep_indices):
        self.batch.reqs = [self.batch.reqs[k] for k in keep_indices]

    def submit(self, number, prompt, answer, key, priority, accepted):
        """Receive a request; ``accepted`` draft tokens of each step are right."""
        row = self.real.batch.Req(
            rid=number, origin_input_text="", origin_input_ids=array("q", prompt), extra_key=key, priority=priority,
            sampling_params=SimpleNamespace(max_new_tokens=len(answer), **SAMPLING))  # fmt: skip
        row.time_stats = SimpleNamespace(wait_queue_entry_time=0, set_completion_time=lambda: None)
        row.staged_prefetch_plan, row.dllm_config, row.number = None, None, number
        self.ends[number] = answer, accepted
        self.waiting.append(row)

    def update(self):
        """Run a turn; return its records."""
        prefill = self.prefill()
        made = [prefill] if prefill is not None else []
        if not (made and made[0]["run"]) and self.batch.reqs:
            made.append(self.decode())
        return made

    # Prefill.

    def prefill(self):
        running, most = self.batch.reqs, self.opts["max_running_requests"]
        self.full = self.full and bool(running) and 1 not in self.parts
        if self.chunked is None and (self.full or not self.waiting or len(running) >= most):
            return None
        verdicts = []
        chosen = self.choose(verdicts)
        queue = [row.number for row in self.waiting]
        self.waiting = [row for row in self.waiting if row not in chosen]
        self.take_rows(chosen)
        run = [[row.number, row.prefix_len, row.extend_end, *self.track(row)] for row in chosen]
        for row in chosen:
            if row is not self.chunked:
                self.speak(row, 1)
                running.append(row)
        for row in [row for row in chosen if row is not self.chunked]:
            if row.finished():
                self.real.common.release_kv_cache(row, self.cache, checkpoint=True)
                self.leave(row)
            else:
                self.real.common.checkpoint_kv_cache(row, self.cache)
        if self.chunked in chosen:
            self.real.common.checkpoint_kv_cache(self.chunked, self.cache)
            self.full = False
        return self.record("prefill", run, chosen, queue=queue, verdicts=verdicts)

    def choose(self, verdicts):
        opts, running = self.opts, self.batch.reqs
        self.policy.calc_priority(self.waiting)
        adder = self.real.policy.PrefillAdder(
            self.page, self.cache, self.slots, self.batch, opts["new_token_ratio"], opts["max_prefill_tokens"],
            opts["chunked_prefill_size"])  # fmt: skip
        adder._account_prefill_cache_admission = lambda *args: None          # statistics
        result, held = self.real.policy.AddReqResult, len(running) + (self.chunked is not None)
        if self.chunked is not None:
            self.chunked.init_next_round_input()
            adder.chunked_req_limit = self.policy.shortest_prefill_chunk_limit(
                self.chunked, self.waiting, adder.rem_chunk_tokens, self.page)
            self.chunked = adder.add_chunked_req(self.chunked)
        held -= len(adder.can_run_list)
        for row in self.waiting:
            if (adder.budget_state() == result.OTHER or self.full
                    or held + len(adder.can_run_list) >= opts["max_running_requests"]):  # fmt: skip
                break
            row.init_next_round_input(self.cache)
            verdict = adder.add_one_req(row, self.chunked is not None, None)
            verdicts.append([row.number, verdict.name])
            if verdict != result.CONTINUE:
                self.full = verdict == result.NO_TOKEN and bool(running)
                self.revert(row, adder.can_run_list)
                break
        assert self.chunked is None or adder.new_chunked_req is None
        self.chunked = adder.new_chunked_req or self.chunked
        return adder.can_run_list

    def revert(self, row, chosen):
        """Take the state back from a request that was not admitted."""
        if row not in chosen:
            row.kv.mamba_cow_src_index = None
            if row.kv.holds_mamba:
                self.states.free(row.kv.mamba_pool_idx.unsqueeze(-1))
                row.kv.mamba_pool_idx = None

    def take_rows(self, rows):
        """Take rows, states and slots for a prefill step."""
        tracked = 2 * self.buffered
        if 2 in self.parts:
            need = sum((not row.kv.holds_mamba) + tracked * (row.kv.mamba_ping_pong_track_buffer is None)
                       for row in rows) - self.states.available_size()  # fmt: skip
            if need > 0:
                self.cache.evict_for_alloc(self.real.params.EvictParams(num_tokens=0, mamba_num=need))
        fresh = {row: not row.kv.holds_kv for row in rows}
        for row in rows:
            row.kv.req_pool_idx, row.kv.mamba_cow_src_index = row.number, None
            if 2 in self.parts and not row.kv.holds_mamba:
                row.kv.mamba_pool_idx = self.states.alloc(1)[0]
            if 2 in self.parts and tracked and row.kv.mamba_ping_pong_track_buffer is None:
                self.rows._alloc_ping_pong_buffer(row)
                self.rows.req_index_to_mamba_ping_pong_track_buffer_mapping[row.number] = (
                    row.kv.mamba_ping_pong_track_buffer)
        if rows:
            spare = self.page * len(rows) if self.page > 1 else 0
            self.slots.evict_to_free_tokens(self.cache, sum(row.extend_len for row in rows) + spare)
        for row in rows:
            if fresh[row]:
                row.kv.kv_allocated_len = row.prefix_len
                self.rows.req_to_token[row.number, : row.prefix_len] = self.cache.path_device_indices(row.last_node)
            self.allocate(row, row.extend_end)
            row.kv.kv_committed_len = row.extend_end

    def allocate(self, row, stop):
        slots, n = self.rows.req_to_token[row.number], row.kv.kv_allocated_len
        if stop > n:
            slots[n:stop] = self.slots.take(stop - n, int(slots[n - 1]) if n else 0, n)
            row.kv.kv_allocated_len = stop

    def track(self, row):
        """Return the length of the state that a chunk tracks."""
        if not (self.buffered and 2 in self.parts):
            return ()
        entry = self.batch._mamba_radix_cache_v2_req_prepare_for_extend(row)
        return (row.kv.mamba_last_track_seqlen,) if entry.track_mask else ()

    # Decode.

    def decode(self):
        batch, gone = self.batch, {}
        if not batch.check_decode_mem():
            retracted, _, oom = batch.retract_decode()
            self.waiting += retracted
            self.full = False
            gone = {"retracted": [row.number for row in retracted], "oom": [row.number for row in oom]}
        rows = list(batch.reqs)
        if rows:
            batch.maybe_evict_swa()
            self.allocate_step(rows)
        run, result = [], SimpleNamespace(num_correct_drafts_per_req_cpu=None, num_non_draft_tokens_per_req=1,
                                          grammar_retained_tokens=None)  # fmt: skip
        if self.drafts:
            result.num_correct_drafts_per_req_cpu = [min(self.drafts, self.ends[row.number][1]) for row in rows]
        spans = [1 + right for right in result.num_correct_drafts_per_req_cpu or [0] * len(rows)]
        for row, n in zip(rows, spans, strict=True):
            start = row.kv.kv_committed_len
            row.kv.kv_committed_len += n
            run.append([row.number, start, start + n])
        step = self.step(rows)
        for k, (row, n) in enumerate(zip(rows, spans, strict=True)):
            self.speak(row, n)
            self.processor._handle_finish_state_updated_req(row, step, result, k, None)
            if row.finished():
                self.leave(row)
        return self.record("decode", run, rows, **gone)

    def allocate_step(self, rows):
        """Allocate the slots of a decode step."""
        stops = [row.kv.kv_allocated_len + 1 for row in rows]
        need = len(rows) * self.page
        if self.drafts:
            _, stops, need = self.real.sizing.page_aligned_decode_alloc_lens(
                rows, reserve=self.real.sizing.get_alloc_reserve_per_decode(), page_size=self.page)
            need += len(rows) * self.page if need and self.page > 1 else 0
        if need:
            self.slots.evict_to_free_tokens(self.cache, need)
        for row, stop in zip(rows, stops, strict=True):
            self.allocate(row, stop)
            row.decode_batch_idx += 1

    def step(self, rows):
        """Return a decode step as the released classes read it."""
        made = SimpleNamespace(mamba_track_mask_cpu=None, mamba_track_buffer_indices=None,
                               spec_algorithm=self.batch.spec_algorithm, req_to_token_pool=self.rows)  # fmt: skip
        if self.buffered and 2 in self.parts:
            made.mamba_track_buffer_indices = [row.kv.mamba_next_track_idx for row in rows]
            if not self.drafts:
                grid = source.SETTINGS["exec"].track_grid
                made.mamba_track_mask_cpu = [row.kv.kv_committed_len % grid == 0 for row in rows]
                made.mamba_decode_batch_idx_cpu = [row.decode_batch_idx for row in rows]
        return made

    def speak(self, row, n):
        """Append tokens to an answer, and end it where it is complete."""
        answer = self.ends[row.number][0]
        at = len(row.output_ids)
        row.output_ids.extend([*answer[at : at + n], *[-1] * (at + n - len(answer))])
        if len(row.output_ids) >= len(answer):
            row.finished_reason, row.finished_len = "length", len(answer)

    def leave(self, row):
        self.batch.reqs.remove(row)
        self.full = False

    def record(self, op, run, rows, **more):
        gone = {name: more[name] for name in ("retracted", "oom") if more.get(name)}
        more = {name: more[name] for name in ("queue", "verdicts") if name in more}
        finished = [row.number for row in rows if row.finished()]
        return {"op": op, "run": run, **more, **gone, **({"finished": finished} if finished else {})}
