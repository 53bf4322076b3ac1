"""A server of the released classes of SGLang (0.5.20 to 0.5.23), without model and GPU.

Released are the scheduler with both of its loops, the batches, requests, the tree, queue policy, admission, retraction,
the rows and tracked states of requests, their allocation, and the processing of results. Stand-ins are the worker
(``run_batch``), the free lists, and what does not concern the cache.
"""

import sys
from array import array
from collections import Counter, deque
from types import SimpleNamespace

import numpy as np

from tests.peers import sglang_slots as memory
from tests.peers import sglang_source as source
from tests.peers.sglang_host import attach, host_pools
from tests.peers.sglang_tree import released_cache

SAMPLING = {"ignore_eos": False, "custom_params": None}
END = 200                       # token that follows an answer
BUFFERED, LAZY = "extra_buffer", "extra_buffer_lazy"


def draft_facts(opts):
    """Return the settings of drafts as the released classes read them."""
    algorithm, steps = opts["speculative_algorithm"] or None, opts["speculative_num_steps"]
    return SimpleNamespace(speculative_algorithm=algorithm, speculative_num_steps=steps, speculative_eagle_topk=1,
                           speculative_num_draft_tokens=steps + 1)  # fmt: skip


def server_settings(opts, parts):
    """Return what the released classes read of the server's configuration."""
    strategy, grid = opts["mamba_radix_cache_strategy"] if 2 in parts else "", opts["state_grid"]
    states = source.Settings(enable_mamba_extra_buffer=strategy in (BUFFERED, LAZY),
                             enable_mamba_extra_buffer_lazy=strategy == LAZY,
                             mamba_max_states_per_path=opts["mamba_max_states_per_path"])  # fmt: skip
    most = opts["max_running_requests"]
    return {
        "parallel": source.Settings(attn_dcp_size=1, pp_max_micro_batch_size=most),
        "env": {"SGLANG_SWA_EVICTION_INTERVAL": opts["swa_eviction_interval"]},
        "memory": source.Settings(radix_eviction_policy=opts["radix_eviction_policy"]),
        "spec": draft_facts(opts),
        "serving": source.Settings(strip_thinking_cache=opts["strip_thinking_cache"]),
        "schedule": source.Settings(
            page_size=opts["page_size"], schedule_policy=opts["schedule_policy"], prefill_max_requests=None,
            chunked_prefill_size=opts["chunked_prefill_size"]),
        "exec": source.Settings(grid=grid, track_grid=int(np.lcm(grid, opts["mamba_track_interval"])), mamba=states),
    }  # fmt: skip


class Worker:
    """What the device knows of each row: the number of computed tokens, and how many tokens the state in each slot
    includes (``states``; ``host_states``: in host memory), with states in the slots that the released batch names. Its
    next token is that of the answer. ``foreign``: states with which rows started, and the tokens before, if they
    differ."""

    def __init__(self, real, ends, drafts, track_grid):
        self.real, self.ends, self.drafts, self.track_grid = real, ends, drafts, track_grid
        self.lengths, self.states, self.host_states, self.foreign = {}, {}, {}, []
        self.unread = {}                    # tokens of the prompts of rows that no step evaluates

    def run(self, batch):
        """Evaluate a batch; return what was evaluated, and the result as the processor reads it."""
        run, tokens, extend = [], [], batch.forward_mode.is_extend()
        if extend:
            self.copy_and_clear(batch)
        for k, row in enumerate(batch.reqs):
            answer, right = self.ends[row.number]
            start = prefix_of(row) if extend else self.lengths[row.number]
            n = end_of(row) - start if extend else 1 + min(self.drafts, right)
            run.append([row.number, start, start + n])
            if extend and tracks(batch, k):
                run[-1].append(row.kv.mamba_last_track_seqlen)
            self.lengths[row.number] = start + n
            if row.kv.holds_mamba:
                held = self.states.get(int(row.kv.mamba_pool_idx), 0)
                if extend and held != start:
                    self.foreign.append((row.number, start, held))
                self.states[int(row.kv.mamba_pool_idx)] = start + n
                self.track(batch, k, row, start, start + n)
            if extend:
                left = len(row.origin_input_ids) + len(row.output_ids) - start - n
                self.unread[row.number] = 0 if row.inflight_middle_chunks else left
            at = start + n + self.unread[row.number] - len(row.origin_input_ids)
            made = 1 if extend else n
            said = [answer[i] if 0 <= i < len(answer) else END for i in range(at + 1 - made, at + 1)]
            tokens += said + [END] * ((1 if extend else 1 + self.drafts) - made)
        return run, self.result(tokens, [1 if extend else one[2] - one[1] for one in run])

    def copy_and_clear(self, batch):
        """Give rows that start the states that the batch names."""
        clear = batch.mamba_clear_indices
        self.states.update({int(slot): 0 for slot in (() if clear is None else clear)})
        if batch.mamba_cow_src_indices is not None:
            for have, want in zip(batch.mamba_cow_src_indices, batch.mamba_cow_dst_indices, strict=True):
                self.states[int(want)] = self.states.get(int(have))       # None: no step wrote it

    def track(self, batch, k, row, start, stop):
        """Copy the state of a request to the slot that the batch names, if the step reaches a tracked length."""
        if batch.forward_mode.is_extend():
            if tracks(batch, k):
                self.states[int(batch.mamba_track_indices[k])] = row.kv.mamba_last_track_seqlen
        elif self.drafts and row.kv.mamba_ping_pong_track_buffer is not None:
            if stop // self.track_grid > start // self.track_grid:
                self.states[self.slot_of_draft(batch, k)] = stop // self.track_grid * self.track_grid
        elif batch.mamba_track_mask_cpu and batch.mamba_track_mask_cpu[k]:
            self.states[int(batch.mamba_track_indices[k])] = stop

    def slot_of_draft(self, batch, k):
        """Return the slot that a step with drafts tracks in, as the released preparation of its verification says."""
        twin = batch.copy()
        self.real.prepare_track(twin)
        return int(twin.mamba_track_indices[k])

    def result(self, tokens, spans):
        return SimpleNamespace(
            copy_done=None, auxiliary_host_output=None, routed_experts_output=None, indexer_topk_output=None,
            logits_output=SimpleNamespace(customized_info=None, hidden_states=None, sampling_mask_output=None),
            next_token_ids=memory.tensor(tokens), extend_input_len_per_req=None,
            extend_logprob_start_len_per_req=None, can_run_cuda_graph=False, grammar_advanced=False,
            grammar_retained_tokens=None, num_correct_drafts_per_req_cpu=None, num_non_draft_tokens_per_req=1,
            accept_lens=memory.tensor(spans), speculative_output_stride=1 + self.drafts, block_accept_lens=None,
            cap_lens=None, num_correct_drafts=0, num_block_accept_tokens=0, num_cap_tokens=0,
            get_num_generated_tokens=lambda n: 0)  # fmt: skip


def tracks(batch, k):
    """True if a prefill step tracks a state of the request with this place."""
    name = "mamba_prefill_track_mask_cpu"               # from 0.5.21 on
    mask = getattr(batch, name if name in vars(batch) else "mamba_track_mask")
    return mask is not None and len(mask) and bool(mask[k])


def prefix_of(row):
    """Return the first token that a prefill step evaluates of a request."""
    return row.prefix_len if "prefix_len" in vars(row) else len(row.prefix_indices)


def end_of(row):
    """Return the token behind the last one that a prefill step evaluates of a request."""
    return row.extend_range.end if "extend_range" in vars(row) else row.extend_end


class Constant:
    """The tracker of the share of answers that admission reserves; here it stays as it is."""

    def __init__(self, ratio):
        self.ratio = ratio

    current = property(lambda self: self.ratio, lambda self, ratio: None)

    def decay_step(self):
        pass


def idle(**named):
    """Return an object with these attributes, all of whose other methods do nothing."""
    return type("Idle", (), {**named, "__getattr__": lambda self, name: lambda *args, **kwargs: None})()


class RealServer:
    """The server. ``parts``: those of its tree; ``opts``: options by our names; ``requests``: most of them."""

    def __init__(self, real, parts, window, opts, requests):
        self.real, self.opts, self.page, self.parts = real, opts, opts["page_size"], parts
        settings = server_settings(opts, parts)
        source.SETTINGS |= settings
        source.set_environment(settings["env"])
        self.states_of = settings["exec"].mamba
        self.overlap = not opts["disable_overlap_schedule"]
        self.drafts = opts["speculative_num_steps"] if opts["speculative_algorithm"] else 0
        kind = memory.WindowAllocator if 1 in parts else memory.Allocator
        self.slots = kind(opts["max_total_tokens"], self.page, opts["swa_tokens"])
        self.states = memory.StateSlots(opts["max_mamba_cache_size"])
        self.rows = self._rows()
        self.cache = released_cache(
            real, parts, self.page, self.slots, self.rows, window, opts["radix_eviction_policy"],
            opts["mamba_max_states_per_path"], opts["state_grid"], self.states_of.enable_mamba_extra_buffer,
            opts["speculative_algorithm"] == "EAGLE", lazy=self.states_of.enable_mamba_extra_buffer_lazy)  # fmt: skip
        self.hosts = {}
        if opts["enable_hierarchical_cache"]:
            self.hosts = host_pools(parts, opts, opts["max_total_tokens"], opts["swa_tokens"],
                                    opts["max_mamba_cache_size"])  # fmt: skip
            attach(real, self.cache, self.hosts, opts["hicache_write_policy"], self.slots, self.states,
                   self.move_states)  # fmt: skip
        self.ends, self.made, self.ended, self.tried = {}, [], [], Counter()
        self.worker = Worker(real, self.ends, self.drafts, settings["exec"].track_grid)
        self.rows.mamba_pool.copy_from = self.copy_state
        self.scheduler = self._scheduler()

    def _rows(self):
        real, opts, most = self.real, self.opts, self.opts["max_running_requests"]
        rows = object.__new__(real.hybrid_rows if 2 in self.parts else real.rows)
        table = np.zeros((most + 1, 2 * opts["max_total_tokens"]), np.int64).view(memory.Tensor)
        tracked = 1 + self.overlap
        first = 1 if self.states_of.enable_mamba_extra_buffer_lazy else tracked
        if not self.states_of.enable_mamba_extra_buffer:
            first = 0
        vars(rows).update(
            size=most, device="cpu", req_to_token=table, free_slots=list(range(1, most + 1)),
            req_generation=np.zeros(most + 1, np.int64), _aux_cache=None, mamba_allocator=self.states,
            enable_mamba_extra_buffer=self.states_of.enable_mamba_extra_buffer,
            enable_mamba_extra_buffer_lazy=self.states_of.enable_mamba_extra_buffer_lazy,
            mamba_ping_pong_track_buffer_size=tracked, mamba_initial_tracking_slots=first, mamba_ckpt_pool=None,
            req_index_to_mamba_index_mapping=memory.no_states(most + 1),
            req_index_to_mamba_ping_pong_track_buffer_mapping=memory.no_states(most + 1, tracked),
            mamba_pool=SimpleNamespace(replayssm_write_pos=None, replayssm_spec_write_pos=None,
                                       copy_from=lambda *args: None))  # fmt: skip
        return rows

    def _scheduler(self):
        """Return the released scheduler with its loop, around these pools."""
        real, opts = self.real, self.opts
        one = object.__new__(scheduler_class(real.scheduler))
        policy = real.policy.SchedulePolicy(opts["schedule_policy"], self.cache, False, False, False)
        chunk = opts["chunked_prefill_size"]
        vars(one).update(
            server=self, turns=0, pending=deque(), tree_cache=self.cache, page_size=self.page,
            token_to_kv_pool_allocator=self.slots, req_to_token_pool=self.rows, policy=policy, waiting_queue=[],
            chunked_req=None, running_batch=real.batch.ScheduleBatch(reqs=[], batch_is_full=False), last_batch=None,
            enable_overlap=self.overlap, enable_skip_finishing_decode=False, is_generation=True,
            spec_algorithm=algorithm(self.drafts), is_hybrid_swa=1 in self.parts,
            chunked_prefill_size=chunk if chunk > 0 else None, max_prefill_tokens=opts["max_prefill_tokens"],
            max_running_requests=opts["max_running_requests"], max_prefill_bs=0, processed_tokens_counter=0,
            new_token_ratio_tracker=Constant(opts["new_token_ratio"]),
            priority_scheduling_preemption_threshold=0, disaggregation_mode=real.NULL_MODE, forward_ct=0,
            model_config=SimpleNamespace(
                vocab_size=1 << 30, is_encoder_decoder=False, self_opened_think_start_ids=None,
                hf_text_config=SimpleNamespace(mamba_chunk_size=opts["state_grid"])),
            beam_coordinator=idle(pending_member_rows=lambda self, batch: 0), output_streamer=idle(
                stream_output=lambda self, reqs, *args: one.server.ended.extend(
                    row.number for row in reqs if row.finished() and row.number not in one.server.told)),
            grammar_manager=idle(has_waiting_grammars=lambda self: False), tp_worker=idle(
                model_runner=SimpleNamespace(attn_backend=None, prefill_aware_swa=False)),
            dp_attn_adapter=idle(maybe_prepare_mlp_sync_batch=lambda self, batch, **more: batch,
                                 maybe_convert_decode_to_extend=lambda self, batch: batch),
            ngram_embedding_manager=idle(prepare_for_forward=lambda self, batch, **more: batch),
            metrics_reporter=idle(num_generated_tokens=0, forward_ct_decode=0, enable_metrics=False),
            load_inquirer=idle(), invariant_checker=idle(), _prefill_decode_interval_remaining=0,
            prefill_decode_interval=0,
        )  # fmt: skip
        vars(one).update(dict.fromkeys((
            "_engine_paused", "enable_unified_memory", "require_mlp_sync",
            "enable_hicache_storage", "enable_unified_cache_external_linker", "enable_lmcache", "enable_hisparse",
            "enable_priority_preemption", "enable_priority_scheduling", "enable_lora", "is_mixed_chunk", "enable_fpm",
            "_sched_idled", "abort_on_priority_when_disabled"), False))  # fmt: skip
        vars(one).update(dict.fromkeys((
            "dllm_config", "hisparse_coordinator", "min_free_slots_delayer", "prefill_delayer", "dynamic_chunk_sizer",
            "truncation_align_size", "decode_offload_manager", "_pending_chunked_abort_req"), None))  # fmt: skip
        one.enable_hierarchical_cache = opts["enable_hierarchical_cache"]
        one.batch_result_processor = self._processor(one)
        if "get_prefill_adder_class" not in vars(real.scheduler):
            sys.modules[real.scheduler.__module__].PrefillAdder = adder_class(real.policy.PrefillAdder, one)
        self.told = set()
        return one

    def _processor(self, scheduler):
        made = object.__new__(self.real.processor)
        named = ("is_generation", "enable_overlap", "model_config", "token_to_kv_pool_allocator", "tree_cache",
                 "req_to_token_pool", "metrics_reporter", "output_streamer", "beam_coordinator")  # fmt: skip
        more = {"enable_overlap_mlx": False, "draft_worker": None, "decode_offload_manager": None,
                "hisparse_coordinator": None, "model_worker": idle(), "metrics_collector": idle()}  # fmt: skip
        for name, value in {**{name: getattr(scheduler, name) for name in named}, **more}.items():
            object.__setattr__(made, name, value)
        return made

    def submit(self, number, prompt, answer, key, priority, accepted, limit):
        """Receive a request; ``accepted`` draft tokens of each step are right. The answer ends with its last token;
        ``limit``: most tokens that it may have."""
        sampling = SimpleNamespace(max_new_tokens=limit, stop_token_ids={answer[-1]},
                                   stop_strs=[], stop_regex_strs=[], **SAMPLING)  # fmt: skip
        row = self.real.batch.Req(
            rid=number, origin_input_text="", origin_input_ids=array("q", prompt), extra_key=key, priority=priority,
            sampling_params=sampling, vocab_size=1 << 30)  # fmt: skip
        row.time_stats = idle(wait_queue_entry_time=0)
        row.staged_prefetch_plan, row.dllm_config, row.number = None, None, number
        row.reasoning_tokens = 1                        # its answer contains reasoning
        self.ends[number] = answer, accepted
        self.scheduler.waiting_queue.append(row)
        return row

    def copy_state(self, have, want):
        """Copy a state to another slot."""
        self.worker.states[int(want[0])] = self.worker.states[int(have[0])]

    def move_states(self, direction, transfers):
        """Copy states to host memory or back."""
        worker = self.worker
        for one in transfers:
            if one.name == self.real.pools.MAMBA:
                for device, host in zip(one.device_indices, one.host_indices, strict=True):
                    if direction == "write":
                        worker.host_states[int(host)] = worker.states.get(int(device))
                    else:
                        worker.states[int(device)] = worker.host_states[int(host)]

    @property
    def is_busy(self):
        """True if a request is waiting, runs, or has results on their way."""
        one = self.scheduler
        return bool(one.waiting_queue or one.chunked_req or one.pending or one.last_batch or one.running_batch.reqs)

    def update(self):
        """Run a turn of the released loop; return its records."""
        self.made, self.ended, one = [], [], self.scheduler
        one.turns, one.gone = 1, {}
        (one.event_loop_overlap if self.overlap else one.event_loop_normal)()
        if one.gone:
            self.record("decode", [], **one.gone)
        if self.ended and not (self.made and self.made[-1]["run"]):
            self.record("none", [])
        self.told.update(self.ended)
        if self.ended:
            self.made[-1]["finished"] = self.ended
        return self.made

    def record(self, op, run, **more):
        self.made.append({"op": op, "run": run, **{name: value for name, value in more.items() if value is not None}})


def algorithm(drafts):
    """Return the kind of drafts as the released classes ask for it."""
    no = dict.fromkeys(("is_dflash_family", "is_uno", "supports_grammar_overlap"), lambda: False)
    return SimpleNamespace(is_none=lambda: not drafts, **no)


def scheduler_class(released):
    """Return the released scheduler with stand-ins for its worker and for what reaches it from outside. ``turns``:
    turns that its loop runs; ``pending``: its queue of results."""

    class Scheduler(released):
        gracefully_exit = property(lambda self: not self.turns)
        result_queue = property(lambda self: self.pending, lambda self, value: None)

        def ingest_requests(self):
            self.turns -= 1

        def get_prefill_adder_class(self):
            return adder_class(super().get_prefill_adder_class(), self)

        def _get_new_batch_prefill_raw(self, **asked):
            self.tried = None
            made, running = super()._get_new_batch_prefill_raw(**asked)
            if made is None and self.tried is not None:
                self.server.record("prefill", [], **self.tried)
            return made, running

        @property
        def ipc_channels(self):
            """The channel to the tokenizer, as older releases use it in place of ``send_abort_output``."""
            return SimpleNamespace(send_to_tokenizer=SimpleNamespace(
                send_output=lambda abort, req: self.send_abort_output(abort, req)))

        def _add_request_to_queue(self, req, is_retracted=False):
            self.gone.setdefault("retracted", []).append(req.number)
            super()._add_request_to_queue(req, is_retracted)

        def run_batch(self, batch):
            run, result = self.server.worker.run(batch)
            extend = batch.forward_mode.is_extend()
            self.server.record("prefill" if extend else "decode", run, **(self.tried if extend else self.gone))
            self.gone = {}
            return result

        def process_batch_result(self, batch, result):
            process = self.batch_result_processor
            if batch.forward_mode.is_decode():
                process.process_batch_result_decode(batch, result)
            else:
                process.process_batch_result_prefill(batch, result)
            if "flush_pending_backups" in vars(type(self.tree_cache)):             # from 0.5.21 on
                self.tree_cache.flush_pending_backups()

        def _prefetch_kvcache(self, req):
            pass

        def _abort_on_queued_limit(self, req):
            return False

        def send_abort_output(self, abort, req):
            self.gone.setdefault("oom", []).append(req.number)

        def launch_batch_sample_if_needed(self, result, batch):
            pass

        def _apply_war_barrier(self):
            pass

        def on_idle(self):
            pass

    return Scheduler


def adder_class(released, scheduler):
    """Return the released admission, whose queue and verdicts are recorded."""

    class PrefillAdder(released):
        def __init__(self, *args, **more):
            super().__init__(*args, **more)
            scheduler.tried = {"queue": [row.number for row in scheduler.waiting_queue], "verdicts": []}

        def _account_prefill_cache_admission(self, *args):
            pass

        def add_one_req(self, row, **more):
            verdict = super().add_one_req(row, **more)
            scheduler.tried["verdicts"].append([row.number, verdict.name])
            return verdict

    return PrefillAdder
