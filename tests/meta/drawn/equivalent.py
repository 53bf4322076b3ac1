"""Faults that change nothing that a caller can notice, each with a proof that another person can check."""

EQUIVALENT: dict[str, str] = {
    "tools/conformance/protocol.py, _count: `1` -> `2` at 10 of number = -1":
        "every negative number is refused in the next line, and the message has the value instead of it",
    "engines/ik_llama/decode.py, _evaluated: `or` -> `and` at 16 of if task is None or slot.state is State.LEAVING:":
        "a slot without a task, or leaving, is not loading, and its place is -1, which no batch has",
    "engines/ik_llama/decode.py, _accepted: `1` -> `0` at 41 of slot.at, slot.is_drafting, slot.draft = -1, False, []":
        "until the next batch sets it, only later views of this batch read it, and they begin behind place 0",
    "engines/ik_llama/decode.py, _accepted: `-` dropped at 40 of slot.at, slot.is_drafting, slot.draft = -1, False, []":
        "until the next batch sets it, only later views of this batch read it, and they do not have place 1",
    "model/norms.py, head_norm: argument `out=mean` dropped at 52 of "
    "y: Values = o * (DELTA_UNIT * 2.0**18 / np.sqrt(mean, out=me":
        "the root is then a new array instead of the one of the mean, which is not read again",
    'engines/shared/command_line.py, CommandLine.drafts_by_model: argument `"none"` dropped at 81 of return any('
    'kind.startswith("draft-") for kind in str(self.op':
        "without spec_type the text is then None instead of none; neither begins with draft-",
    "tools/server_logs/line_ties.py, LineTies._adopt: `<` -> `<=` at 56 of before = [line for line in request.lines if "
    "line.number < pr":
        "the prefix is a line of another group, so that no line of the request has its number",
    'tools/server_logs/line_prefixes.py, _message_after: `1` -> `2` at 55 of if (found := _FIELDS.search(line, 0, '
    'line.rfind("|") + 1)) i':
        "the pattern ends at its first bar after the bracket, which is never after the last bar of the line",
    "tools/server_logs/tied_requests.py, PossibleBuilds.__init__: `0` -> `1` at 27 of self._since, self._until = 0, 0":
        "it is only compared with the number of a build that ended a spelling, and these are greater than 1",
    "scenarios/real_builds.py, seen_text: `<` -> `<=` at 60 of before = "
    "[build for build in found.absent if _number(build) ":
        "a line of SEEN_ON.txt has a single mark for a build, so a build of absent is never the oldest of shown",
    "scenarios/real_builds.py, seen_text: `>` -> `>=` at 59 of after = "
    "[build for build in found.absent if _number(build) >":
        "a line of SEEN_ON.txt has a single mark for a build, so a build of absent is never the newest of shown",
    "replay/schedule_search.py, ScheduleAttempt._before_hang_ups: returns None at 7 of return False":
        "its only caller asks whether the result is true",
    "base/console.py, _console_class: condition False at 3 of if shown == plain:":
        "a text without a control character is then copied sign by sign, with the same spans",
    "base/errors.py, cut: condition False at 3 of if text.isprintable():":
        "printable_line returns a printable text as it is; the condition only saves an import",
    "model/weights.py, embed_tokens: `*` -> `//` at 65 of "
    "x[at] = grid.add_residual(x[at], np.rint(x[at] @ a / D)[:, N":
        "b is 1 or -1, and the other factor is a whole number",
    "replay/schedule_search.py, ScheduleAttempt._compare: bound dropped at 44 of "
    "new, self.compared = self.server.log.events[self.compared :]":
        "new events only tell whether to compare again; without any the comparison has the same result",
    "model/attention.py, _QueryBlock._weights: condition False at 28 of "
    "np.subtract(best, scores if at_hand else self._scores(block)":
        "the scores at hand are those that are then computed again, by the same call into the same buffer",
    'judging/token_radix.py, TokenRadix._walk: `min` -> `max` at 6 of own = min(stop, node.stop)':
        "the two slices that are compared end with the shorter of the lists, so that their common prefix is the same",
    "engines/ik_llama/server_state.py, Core.cell_position: `>=` -> `>` at 87 of "
    "return self.position(slot.tokens, index - inside.number if i":
        "the position after 0 tokens is 0",
    "engines/ik_llama/speculative_decoding.py, make_draft: `>=` -> `>` at 63 of "
    "left = request.n_predict - slot.n_decoded if request.n_predi":
        "with n_predict 0 an answer ends with its first token, before a draft is made",
    "engines/ik_llama/memory/context.py, Context._compute: `<=` -> `<` at 71 of "
    "blind = self._blind(ubatch, first, n_kv, low) if kv.has_nan ":
        "a token whose own cell is read is not blind, so that the search finds none",
    "engines/ik_llama/memory/context.py, Context._compute: `<=` -> `<` at 80 of "
    "blind = self._blind(ubatch, first, n_kv, low) if kv.has_nan ":
        "a token whose own cell is read is not blind, so that the search finds none",
    "engines/ik_llama/prefill_chunk.py, add_prompt: `>` -> `>=` at 27 of if stop == length and stop > before:":
        "a round begins with a token of the prompt left: a slot that has evaluated its prompt is generating",
    "engines/ik_llama/server_state.py, Core.evaluated: argument `grown=True` dropped at 78 of "
    'self.points.changed(slot, "overwritten", self.overwritten[sl':
        "the ranges of the checkpoints, which are unchanged, are then computed again; equal ones are not reported",
    "engines/ik_llama/server_state.py, Core.evaluated: `True` -> `False` at 86 of "
    'self.points.changed(slot, "overwritten", self.overwritten[sl':
        "the ranges of the checkpoints, which are unchanged, are then computed again; equal ones are not reported",
    "engines/ik_llama/speculative_decoding.py, make_draft: `True` -> `False` at 15 of saved, keeps = True, True":
        "it is read only for a model with states, for which the rule sets it",
    'engines/ik_llama/context_shift.py, shorten_prompt: `0` -> `1` at 54 of _cut(srv, slot, task, '
    'CacheShift(there.n_keep, gone), 0, dec':
        "the positions moved are those from the end of the removed block up to 1, and the block has at least a token",
    'engines/llama_cpp/snapshot.py, Inspection.stored: `1` -> `0` at 36 of request = PromptInpu'
    'ts(n, n, n, n + 1, facts.pos_min, settin':
        "the prompt that continues a checkpoint is longer or equal; no rule that restores reads its length",
    'engines/llama_cpp/memory/cells.py, Cells.save_at: `1` -> `2` at 21 of self.extents.forget(-1)':
        "forget takes each negative number for all sequences",
    'engines/vllm/kv_offload/cpu_manager.py, LRUCachePolicy.__init__: `0` -> `1` at 12 of self.last = 0':
        "the ranks, which are only compared, are then all larger by 1; 0, which no rank has, is the access without one",
    'engines/llama_cpp/memory/recurrent.py, RecurrentCache.state_read: `1` -> `2` at 78 of sources = '
    'find_slot(self.meta, Ubatch((TokenRun(seq, state.p':
        "find_slot reads this number only if the sequence continues in a cell of its own, and it was removed from all",
    "engines/llama_cpp/rules/checkpoint_create.py, space_when_full: `break` -> `continue` at 0 of break":
        "nothing is erased once the condition is true, so that it is true for all later checkpoints, too",
    "engines/llama_cpp/rules/context_shift.py, reuse_chunks: `<` -> `<=` at 26 of while c < len(held) and p < "
    "len(asked):":
        "no token follows the last one, so that the last round finds 0 equal tokens; a block has at least 1",
    "engines/llama_cpp/memory/ubatch_view.py, UbatchStore._visible: condition False at 31 of known = (table.pos[at], "
    "at) if isinstance(cells, range) else":
        "cells in a row hold ascending positions, of which sort_by_position makes the same pair, only more slowly",
    "engines/llama_cpp/memory/cells.py, Cells.reach: `>` -> `>=` at 8 of if stop > len(self.pos):":
        "grown_size then returns the length that there is, and copies of the same length replace the arrays",
    "engines/llama_cpp/memory/context.py, Context.defer_token: returns None at 7 of return False":
        "its only caller asks whether the result is true",
    'engines/llama_cpp/memory/ubatch.py, split_equal: condition False at 3 of if len(todo) == 1 and not n_keep_tail:':
        "the loop cuts a single stretch every n_ubatch tokens, as split_seq does, only more slowly",
    "tools/advise/ranking.py, _suggestions: `is` -> `is not` at 53 of "
    "[one for one in good if can_be_had(one, base, facts) is cert":
        "the two groups are then joined in the other order, and sorted by a key that has the group before the tokens",
    "tools/run/run_command.py, run: condition True at 3 of if wanted(args):, line 2 of its kind":
        "write_pictures asks the same and writes nothing; the condition only saves an import",
    "tools/request_bodies/tokenizer_parser.py, _split: `False` -> `True` at 92 of "
    'cut_at = {"type": "Split", "pattern": {"Regex": pattern}, "b':
        "Isolated makes pieces of the matches and of the texts between them, whichever of both are called matches",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache._free_overlap: `<` -> `<=` at 9 of "
    "if first < taken:":
        "with first equal to taken both slices of slots are empty, and to free none changes nothing",
    "engines/mlx_lm/unbatched_generation.py, SpeculativeRequest._echo: `1` -> `2` at 33 of "
    "pos = offsets(self.draft_caches, 1)[0]":
        "the number of rows says how often an offset that all share is repeated; only the first one is read",
    "engines/mlx_lm/generator.py, SegmentGenerator._begin_answers: `1` -> `2` at 27 of "
    "self.step(batch, [row.take(1) for row in batch.rows])":
        "the batch has only the rows whose single segment has a single token, and take returns no more than there are",
    "engines/vllm/prefix_points.py, PrefixPoints._extend: condition True at 59 of todo += reversed("
    "[longer for longer in one.below(block) if l":
        "groups with windows or chunks have pieces at multiples of a block only; at other lengths the reach stays 0",
    "engines/vllm/core/scheduler.py, Scheduler._waits_for_remote_kvs: returns None at 7 of return False, "
    "line 2 of its kind":
        "its only caller asks whether the result is true",
    "engines/sglang/managers/schedule_batch.py, ScheduleBatch.retract_decode: `1` -> `2` at 17 of "
    "if len(order) <= 1 and not self.check_decode_mem([reqs[at] f":
        "the loop before it ends with two requests only if they fit, and then they fit here, too",
    "engines/sglang/managers/scheduler.py, Scheduler._admit_requests: `break` -> `continue` at 0 of break":
        "budgets do not change without a further request, so that each later turn of the loop ends here, too",
    "engines/sglang/managers/scheduler.py, Scheduler._admit_requests: `break` -> `continue` at 0 of break, "
    "line 2 of its kind":
        "a full batch stays full, so that each later turn of the loop ends here, too",
    "engines/sglang/pool_sizes.py, resolved: `True` -> `False` at 57 of "
    "overlaps = rules.overlaps(opts.disable_overlap_schedule, Tru":
        "both rules read it only for the running state as the source, which the next argument denies",
    "engines/sglang/mem_cache/memory_pool.py, ReqToTokenPool.write: `>` -> `>=` at 8 of if stop > len(row):":
        "grown_size then returns the length that there is, and a copy of the same slots replaces the row",
    "engines/sglang/mem_cache/memory_pool.py, consecutive_until: `1` -> `2` at 23 of first = max(0, start - 1)":
        "a pair more is compared, of row[:start], which is consecutive",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache.insert: `<=` -> `<` at 33 of "
    "is_equal = is_held and child.end <= params.limit":
        "a held node begins the key, so that _match_len finds all of its tokens, too",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache.insert: `True` -> `False` at 34 of "
    "self._refresh_lru(node, is_insert=True)":
        "only the state at the end then becomes the most recent one, which _commit_mamba has made it before",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache.evict: `>=` -> `>` at 15 of "
    "if freed[part] >= quota or component.available_size() >= wan":
        "with quota = asked the other condition then holds, too, and with a larger quota no node is left to evict",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache._insert_req: argument "
    "`held=() if req.lock is None el` dropped at 100 of inserted_len=kv.cache_inserted_len, priority=req.priority, m":
        "the walk then finds the same nodes among the children; the held path only saves the search",
    "engines/sglang/mem_cache/unified_cache/components/listed.py, ListedComponent.count_host_lock: `>` -> `>=` at 10 "
    "of elif step > 0 and node.host_lock_ref[self.component_type] ==":
        "a step is 1 or -1",
    "engines/sglang/mem_cache/unified_cache/components/listed.py, ListedComponent.refresh_lru: `break` -> `continue` "
    "at 0 of break":
        "the span does not grow any longer, so that each later turn of the loop ends here, too",
    "engines/sglang/mem_cache/unified_cache/components/swa.py, SWAComponent.nodes_to_load: `break` -> `continue` at 0 "
    "of break":
        "the span does not grow any longer, so that each later turn of the loop ends here, too",
    "engines/sglang/mem_cache/unified_cache/unified_tree_core.py, UnifiedTreeCore.dfs_weight_order: `0` -> `1` at 30 "
    "of weight[one] = weight.get(one, 0) + len(numbers)":
        "every weight is then larger by 1; they are only compared with each other",
    "engines/sglang/mem_cache/unified_cache/unified_tree_core.py, UnifiedTreeCore.collect_full_device_indices: `break` "
    "-> `continue` at 0 of break":
        "the position does not change any longer, so that each later turn of the loop ends here, too",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache._commit_mamba: assignment forgotten at 0 of "
    "node.last_access_time = core.get_and_increase_time_counter()":
        "the walk has just made the node more recent than all others but its children, and only that order counts",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache.checkpoint_into_tree: condition True at 3 of "
    "if self.swa is not None and not is_finished:, line 2 of its kind":
        "only windows have a branch, and a finished request frees the same window slots in the same order afterwards",
    "engines/sglang/mem_cache/memory_pool.py, MambaPool.read: condition False at 13 of "
    "return {} if slot is None else self.mamba_cache.get(slot, {}":
        "no states are written for the slot None",
    "engines/sglang/rules/schedule.py, chunk_share: `2` -> `1` at 31 of "
    "for one in waiting if chunk >= 2 * page else ():":
        "with a chunk of less than two pages the first request, of at least a page, ends the loop",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache.insert: assignment forgotten at 0 of "
    "node.last_access_time = core.get_and_increase_time_counter()":
        "this is the time of the root, which is never evicted; times are only compared with each other",
    "engines/sglang/mem_cache/allocator.py, SWATokenToKVPoolAllocator._grow_mapping: condition True at 3 of "
    "if need > known:":
        "grown_size returns the known length then, and the table is copied as it is",
    "engines/sglang/mem_cache/allocator.py, SWATokenToKVPoolAllocator._grow_mapping: `>` -> `>=` at 8 of "
    "if need > known:":
        "grown_size returns the known length then, and the table is copied as it is",
    "engines/sglang/mem_cache/allocator.py, SWATokenToKVPoolAllocator._grow_mapping: `1` -> `2` at 26 of "
    "need = int(slots.max()) + 1":
        "the table only has a place more, which no slot has yet",
    "engines/vllm/core/scheduler.py, Scheduler._waits_for_remote_kvs: returns None at 7 of return False":
        "its only caller asks whether the result is true",
    "engines/vllm/kv_offload/connector_scheduler.py, OffloadingConnectorScheduler._update_req_states: `or` -> `and` "
    "at 34 of if not self.sliding_window_groups or not self.allocated_bloc":
        "without groups with windows, or without taken blocks, no block is forgotten in the loop after it",
    "engines/vllm/kv_offload/transfer_jobs.py, TransferJobs.offer: `>` -> `>=` at 7 of "
    "if end > first and not self.groups[number].is_state:":
        "with end equal to first there are no chunks from first to end",
    "engines/vllm/prefix_points.py, PrefixPoints._flip: condition True at 3 of if longer.end - one.end == block:":
        "a prefix that ends inside a block is never whole, so that its turn in the loop changes nothing",
    "replay/replay.py, TraceReplay.step: condition True at 31 of "
    "before = self.server.fork() if longer else self.server":
        "the copy is only sent the longer drafts; without any it is not read, and a fork changes no server",
    "engines/vllm/kv_offload/cpu_manager.py, CPUOffloadingManager.offer: condition True at 41 of "
    "if learned := [key for key in missing if key not in access.s":
        "without a chunk that is newly missing neither the policy nor the request learns anything",
    "engines/vllm/kv_offload/cpu_manager.py, LRUCachePolicy.insert: `0` -> `1` at 33 of "
    "self.ranks[key] = (self._next(), 0) if at is None else (self":
        "the first entry is a new number, which no other rank has, so that the second one is never compared",
    "engines/mlx_lm/caches/kv_cache.py, QuantizedKVCache._with_room: `0` -> `1` at 39 of "
    "if self.offset + new <= columns(packed[0]):":
        "codes, scales and biases of a packed buffer are created, grown and cut together, with as many columns each",
    "tools/server_logs/logical_lines.py, _messages: `break` -> `continue` at 0 of break":
        "the next rounds meet the same text and condition, and change nothing",
    "tools/server_logs/import_log.py, _models: `1` -> `2` at 54 of "
    'return ("GGGA", "S") if facts.get("attention_layers", 1) els':
        "the number is only asked whether it is 0",
    "tools/server_logs/import_log.py, _longest_batch: `<=` -> `<` at 50 of "
    "usual = next((size for size in BATCHES if longest <= size <=":
        "a longest step that is a usual size is then returned as the longest step: no other size is within 8 tokens",
    "tools/server_logs/progress_numbers.py, add_progress: `<=` -> `<` at 30 of "
    "few = counted if len(counted) <= MOST else [*counted[: MOST ":
        "the two halves of MOST lines are all of them",
    "tools/server_logs/progress_numbers.py, add_least_evaluated: `<` -> `<=` at 40 of "
    "if done and (known is None or known.low < done):":
        "of a known range and one that begins at the same number and has no end, the known one is kept with its lines",
    "tools/server_logs/slot_contents.py, held_by_window: `max` -> `min` at 7 of "
    "return max((int(at) + high - low + 1 for low, high, at in lo":
        "of one check there is one number at most",
    "tools/server_logs/slot_contents.py, SlotText.notation: `<` -> `<=` at 59 of "
    "cuts = sorted({0, self.size, *(mark for mark in marks if 0 <":
        "0 is one of the cuts anyway",
    "tools/server_logs/slot_contents.py, SlotText.notation: `<` -> `<=` at 66 of "
    "cuts = sorted({0, self.size, *(mark for mark in marks if 0 <":
        "the size is one of the cuts anyway",
    "tools/server_logs/before_the_log.py, _left_by: `0` -> `1` at 19 of return ProvenRange(0, None)":
        "it is compared with the tokens of an entry that was reused, which has one at least",
    "tools/server_logs/assumed_lengths.py, _by_shares: `<=` -> `<` at 49 of "
    "if keep is None or similar is None or similar[0] <= 0:":
        "the lower end of a printed share is not 0: it is negative for 0, and positive for all others",
    "tools/server_logs/slot_numbers.py, _held: `<=` -> `<` at 62 of "
    "if lcp is None or lcp.high is None or keep is None or keep[0":
        "the lower end of a printed share is not 0: it is negative for 0, and positive for all others",
    "tools/server_logs/slot_numbers.py, _held: `0` -> `1` at 59 of "
    "if lcp is None or lcp.high is None or keep is None or keep[0":
        "a negative lower end of the share gives a negative upper end of the contents, which is below their lower end",
    "tools/server_logs/server_runs.py, ServerRuns._find: `0` -> `1` at 49 of "
    "for run in runs if logged.stamp >= (run.stamp or 0) - SLACK)":
        "no time stamp is negative, and 1 us - SLACK is",
    "tools/server_logs/server_runs.py, ServerRuns._is_restart: `<` -> `<=` at 50 of "
    "return logged.task in run.launched or logged.task < min(run.":
        "the least launched task is a launched one",
    "tools/server_logs/log_causes.py, _bodies: `0` -> `1` at 22 of start, pieces, size = 0, [], 0":
        "the line at which a body begins sets it before it is read",
    "tools/server_logs/log_causes.py, _bodies: `0` -> `1` at 19 of pieces, size = [], 0":
        "without pieces the size is set by the next body that begins, before it is compared",
    "tools/server_logs/log_causes.py, _bodies: `0` -> `1` at 19 of pieces, size = [], 0, line 2 of its kind":
        "without pieces the size is set by the next body that begins, before it is compared",
    "tools/server_logs/conclusions.py, possible_profiles: `0` -> `1` at 27 of "
    "low, high = max((end[0] or 0 for end in ends), default=0), m":
        "it is compared with the build of a later rule set, and no build of one is 1 or lower",
    "tools/server_logs/conclusions.py, possible_profiles: `0` -> `1` at 55 of "
    "low, high = max((end[0] or 0 for end in ends), default=0), m":
        "it is compared with the build of a later rule set, and no build of one is 1 or lower",
    "tools/server_logs/assumed_history.py, _assumed: argument `with_ledger=False` dropped at 51 of "
    "run = run_judged(assumed, assumed.profiles[0], MODE, with_le":
        "only the answers of the run are read; the ledger is left out to save its work",
    "tools/server_logs/cause_statements.py, cause_statements: `0` -> `1` at 23 of "
    'numbers["lost"] = lost[0] if lost[0] == lost[1] else list(lo':
        "it is taken where both numbers are equal",
    "tools/server_logs/client_changes.py, SlotPrompts.change: `0` -> `1` at 50 of "
    "prompt, end = self._left.get(request.slot, (None, 0)) if req":
        "without a known prompt the tokens beside it are not read",
    "tools/server_logs/client_changes.py, SlotPrompts.change: `0` -> `1` at 91 of "
    "prompt, end = self._left.get(request.slot, (None, 0)) if req":
        "without a known prompt the tokens beside it are not read",
    "tools/server_logs/unnamed_ties.py, UnnamedTies._answered: `1` -> `2` at 37 of "
    'evaluated = numbers.get("n_tokens", -1) - numbers["cache_n"]':
        "without the tokens of a prompt the difference is negative in both cases, and is only compared with 0",
    "tools/server_logs/unnamed_ties.py, _found_nothing: `any` -> `all` at 7 of "
    'return any(line.number_of("prompts") == 0 for line in reques':
        "an active request begins with a line of its search, and gets no other",
    "tools/server_logs/found_numbers.py, share_range: `>` -> `>=` at 47 of "
    "return found if found is not None and found[1] > 0 and found":
        "no end of a printed share is 0: half a unit of its last digit is added, and 3e-7 of the share",
    "tools/server_logs/found_numbers.py, share_range: `<=` -> `<` at 64 of "
    "return found if found is not None and found[1] > 0 and found":
        "no end of a printed share is 1: half a unit of its last digit is subtracted, and 3e-7 of the share",
    "tools/server_logs/reconstruct.py, ScenarioBuilder.__init__: `0` -> `1` at 63 of "
    "self.word_names, self.most, self.stopped_early = word_names(":
        "build, which its callers call first, sets it before it sends a request",
    "tools/server_logs/logical_lines.py, _boundary: `2` -> `1` at 17 of if end - first < 2:":
        "with one digit before the seconds, its place is the only one of fits, which is returned as certain",
    'tools/server_logs/logical_lines.py, LogicalLineReader._pieces: `0` -> `1` at 36 of text[:1] != "|" and '
    'logged.prefix > 0)  # fmt: skip':
        "each alternative of a prefix matches two characters or more",
    "tools/live/llama_server/client.py, at_once: call forgotten at 0 of pool.shutdown(wait=False, "
    "cancel_futures=True)      # a call":
        "each call has a thread, so that none waits to begin; the threads end when the pool is collected",
    "tools/live/llama_server/tasks.py, lost_tokens: `1` -> `2` at 91 of return one and came_to_its_end(task, "
    'len(request["prompt"]),':
        "it is compared with a number of tokens first, which is never negative",
    "tools/live/llama_server/server.py, RoundFilter.__init__: `0.0` -> `1.0` at 14 of self._since = 0.0               "
    "# time of the first of them":
        "it is read only while at least MANY rounds were empty, the first of which has set it",
    "tools/conformance/client_history.py, History.asked: condition True at 59 of return tuple(step.asked for step in "
    "self.scenario.steps if i":
        "history_from_tree, which alone makes histories, refuses all other steps",
    "tools/server_logs/reconstruct.py, ScenarioBuilder._check_prompts: `0` -> `1` at 106 of lines = "
    "early_lines(printed_lines(request.logged, self.sessi":
        "_take has given each request that was sent its length, which is at least 1",
    "tools/conformance/jsonl_adapter.py, StderrTail._read: `1` -> `2` at 40 of while chunk := os.read(stream.fileno(), "
    "1 << 16):":
        "it is the most that is read at once; all chunks are joined",
    "tools/conformance/suite.py, _check_arguments: `True` -> `False` at 24 of chosen(plan.only, known=True)":
        "only whether the call raises is used, and that does not depend on it",
    "tools/watch/analysis.py, Analysis._finish: condition True at 33 of "
    "for row in self._lines.rest() if self._from.log else ():":
        "without a log no line was read, so that no row is left; the condition saves the import of grammars",
    "tools/watch/log_follower.py, LogFollower._is_replaced: returns None at 7 of return False":
        "its only caller asks whether the result is true",
    "tools/watch/log_follower.py, LogFollower._is_replaced: returns None at 7 of return False                     "
    "# renamed: the server may s":
        "its only caller asks whether the result is true",
    "tools/watch/log_follower.py, LogFollower.__init__: `True` -> `False` at 17 of self._has_size = True            "
    "# False for a file whose si":
        "it is read where the position is greater than 0, and the first data before that has set it",
    "tools/watch/exchanges.py, ConnectionReader._read_reply: returns None at 7 of return False":
        "its only caller asks whether the result is true",
    "tools/watch/exchanges.py, ConnectionReader._next: `200` -> `201` at 43 of "
    "self._client.send(h11.Response(status_code=200, headers=[(\"c":
        "the response only advances the state of h11, for which 200 and 201 are alike; its bytes go nowhere",
    "tools/watch/command.py, server_address: `0` -> `1` at 19 of host, port = None, 0":
        "without a host the next condition holds, whatever the port",
    "tools/watch/recent_bodies.py, _best: condition True at 3 of if size < len(text) and size < len(other) and "
    "other[size] ==":
        "a longer common prefix has an equal sign there; without one the next line keeps the best",
    "tools/watch/relay.py, _HeadedSide.take_cause: condition True at 3 of if self._is_awaited:":
        "nothing is held then, and the next request of the client forgets the cause",
    "tools/watch/shortened_body.py, ShortenedBody.__init__: condition True at 47 of "
    "self._data = _IMAGE.sub(self._shorten, raw) if len(raw) > LO":
        "a shorter body has no room for an image; the condition saves the search",
    "tools/watch/shortened_body.py, ShortenedBody.__init__: `>` -> `>=` at 56 of "
    "self._data = _IMAGE.sub(self._shorten, raw) if len(raw) > LO":
        "a body of LONG bytes has no room for an image and its quotes",
    "tools/watch/shortened_body.py, ShortenedBody._shorten: bound dropped at 32 of "
    "rest = memoryview(found.string)[place:end]":
        "bodies that differ before this place differ there first, so that no digest of theirs is compared",
    "tools/watch/shortened_body.py, ShortenedBody.difference: `<` -> `<=` at 26 of "
    "if number >= 0 and common < one._digests[number] + DIGEST:":
        "a quote follows each image, so that bodies with an equal digest are equal in the next byte, too",
    "tools/watch/paired_halves.py, ClientHalf.is_refused: `0` -> `1` at 34 of "
    'return (self.row.get("status") or 0) >= REFUSED':
        "1 is as little a refusal as 0",
    "tools/watch/paired_halves.py, WaitingHalves._fitting: `0` -> `1` at 52 of "
    "most = max((agreed for _, agreed in found), default=0)":
        "it is the default for no exchange that fits, of which none is returned then",
    "tools/watch/frames.py, FrameQueue.put: `1` -> `2` at 44 of before, held = self._last.get(connection, "
    "(-1, bytearray()))":
        "no frame has a negative kind",
    'tools/watch/joined_rows.py, JoinedRows._counted: argument `""` dropped at 102 of '
    "loss = None if half is None or half.is_refused else self.los":
        "a cause of None has as little a loss as the empty text",
    "tools/server_logs/derivations.py, _may_change: returns None at 7 of return False                                "
    "          # fewe":
        "its only caller asks whether the result is true",
    'tools/server_logs/line_ties.py, _is_child: `any` -> `all` at 7 of return any(line.read.numbers.get("is_child") '
    "for line in req":
        "a named request in a slot has a launch; with a second one it is doubtful already",
    "tools/server_logs/reconstruct.py, ScenarioBuilder._fill_prompt_cache: `1` -> `0` at 69 of "
    "self._send_earlier(self.texts.shared.prefix(between - 1), [b":
        "only an answer of more than 1 token is sent; the last token of an answer is not in the slot",
    "tools/server_logs/reconstruct.py, ScenarioBuilder._try: condition True at 3 of if playing is None:":
        "in a group the next call resets the server to the state before the group, whichever state it is in",
    "tools/live/llama_server/export/script.py, make_script: `False` -> `True` at 62 of "
    'run = run_judged(scenario, profile, "provenance", with_ledge':
        "the ledger, which takes longer, is not read",
    'tools/request_bodies/import_bodies.py, import_bodies: argument `""` dropped at 62 of '
    "scales = str(options.server.get(scales_option(options.profil":
        "it is then the text None, which states as few scales as the empty text",
    "tools/request_bodies/media_parts.py, split_at_media: `break` -> `continue` at 0 of break":
        "there is no marker after the same place for the next one either",
    "tools/watch/recent_bodies.py, RecentBodies._add: condition True at 3 of if len(same) < len(self._kept):":
        "without other adapters the same earlier requests are compared once more, with the same result",
    "tools/watch/recent_bodies.py, RecentBodies._add: `<` -> `<=` at 13 of if len(same) < len(self._kept):":
        "without other adapters the same earlier requests are compared once more, with the same result",
    "tools/watch/recent_bodies.py, RecentBodies._shrink: `break` -> `continue` at 0 of break":
        "sizes and numbers only grow, so that the condition holds for all earlier requests, too",
    "tools/watch/recent_bodies.py, _best: `1` -> `2` at 21 of best = SharedPrefix(-1, 0)":
        "everybody who reads this number only asks whether it is negative",
    "tools/server_logs/log_causes.py, _bodies: `0` -> `1` at 29 of start, pieces, size = 0, [], 0":
        "the start is set together with the first piece of a body, and read only with pieces",
    'tools/server_logs/read_lines.py, head_of: `>` -> `>=` at 44 of return visible_text(raw[:at])[:_HEAD] '
    'if at > 0 else ""':
        "the text before place 0 is empty",
    "tools/server_logs/logged_requests.py, overlapping: `0` -> `1` at 17 of group, end = [], 0":
        "the next request raises it at once to the number of its last line, which is at least 1",
    "tools/server_logs/logged_requests.py, overlapping: `0` -> `1` at 6 of end = 0":
        "the first request raises it at once to the number of its last line, which is at least 1",
    'judging/rule_set_order.py, place_of: argument `""` dropped at 71 of base = profile if profile in engine.line else '
    'engine.beside.':
        "the base is then None instead of an empty text; neither is in the line of an engine",
    'tools/conformance/ci_reports.py, _families: argument `""` dropped at 67 of state, why = report.section(section), '
    'report.unfinished.get(':
        "the reason is then None instead of an empty text; filter(None) and the `or` of _why take both for no reason",
    "base/http_client.py, HttpExchange.lines: `1` -> `2` at 45 of while line := response.readline(LINE_BYTES + 1):":
        "a longer line is refused, whether one or two of its bytes beyond the limit were read",
    "engines/sglang/mem_cache/hicache_controller.py, HiCacheController.write_backup: `>` -> `>=` at 11 of if "
    "lacking > 0 and self.evict_host(lacking, FULL) < lacking:":
        "to evict copies until 0 slots are free changes nothing",
    "engines/sglang/mem_cache/hicache_controller.py, HiCacheController.commit_load_back: `continue` -> `break` at"
    " 0 of continue":
        "the state of a request is that of a single node",
    "engines/sglang/mem_cache/hicache_controller.py, HiCacheController._reclaim_full_host_duplicates: `break` -> "
    "`continue` at 0 of break":
        "all later nodes of the loop meet the same condition",
    "engines/sglang/mem_cache/hicache_controller.py, HiCacheController.commit_load_back: call forgotten at 0 of "
    "core.update_evictable_leaf_sets(last_node)":
        "its only caller then locks this node, which takes it from the sets of leaves",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache._evict_excess_path_states: `continue` -> "
    "`break` at 0 of continue":
        "the nodes before the tail have a child with slots, because the tail has; none of them is a leaf",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache._held_node: call forgotten at 0 of "
    "self.report()":
        "the match ends where the inserted node ends, so that it splits none, and only splits are reported",
    "engines/sglang/mem_cache/unified_radix_cache.py, _match_len: `<=` -> `<` at 35 of if child.text is key and "
    "child.end <= most:         # the no":
        "the tokens are then compared, which are equal",
    "engines/sglang/mem_cache/tree_points.py, TreePoints._window: condition True at 88 of return "
    "NodeReport(live, tuple(node.has_host_value_only(part)":
        "without host memory no node has a copy, so that this tuple is the same for all of them",
    "engines/sglang/mem_cache/tree_points.py, TreePoints._hold: `0` -> `1` at 60 of lo = now.live + "
    "ceil_align(max(self.window if now.live else ":
        "the other number is the size of a page, which is at least 1",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache.match_prefix: `break` -> "
    "`continue` at 0 of break":
        "a node that the tokens leave has a single child, its rest, which does not begin with the next tokens",
    "engines/sglang/mem_cache/allocator.py, PagedTokenToKVPoolAllocator.alloc_extend: condition False at "
    "3 of if page == 1:":
        "pages of one slot are then taken in the same order, only more slowly",
    "engines/sglang/mem_cache/allocator.py, PagedTokenToKVPoolAllocator.alloc_extend: condition True at "
    "80 of return np.concatenate((np.arange(last_loc + 1, last_loc + 1 ":
        "without slots in the last page an empty array is joined with the others",
    "engines/vllm/core/kv_cache_manager.py, KVCacheManager._num_blocks_of_full_sequence: `+` -> `-` at 54"
    " of num_local_computed_tokens=request.num_computed_tokens + comp":
        "one number is 0, since requests with computed tokens are not looked up; only the remainder by a size counts",
    "engines/vllm/core/single_type_kv_cache_manager.py, SingleTypeKVCacheManager._remove_blocks_in_range:"
    " `break` -> `continue` at 0 of break":
        "the first block never changes and the last one only grows, so that all blocks before one that is "
        "gone are gone",
    "engines/vllm/core/single_type_kv_cache_manager.py, MambaManager.allocate_new_blocks: `<` -> `<=` at "
    "18 of if prev_block_len < num_skipped_blocks:":
        "with equal numbers no null block is added: a list times 0 or less is empty",
    "engines/vllm/core/single_type_kv_cache_manager.py, MambaManager._resumes_at: returns None at 7 of "
    "return False":
        "its only caller asks whether the result is true",
    "engines/vllm/core/single_type_kv_cache_manager.py, MambaManager.get_num_blocks_to_allocate: argument"
    " `apply_admission_cap=apply_admi` dropped at 43 of num_tokens_main_model=num_tokens_main_model, "
    "apply_admission":
        "the rule of the limit gives groups of states none",
    "engines/vllm/kv_offload/chunk_lookup.py, ChunkLookup._look_up: `-` -> `+` at 14 of if search.end - "
    "query.local < size:":
        "its caller refuses less than a chunk, too, and the rest of the lookup only shortens the end",
    "engines/vllm/kv_offload/chunk_lookup.py, ChunkLookup._look_up: condition False at 3 of if found == "
    "0:":
        "the end is then at most at the tokens of the pool, which its caller refuses",
    "engines/vllm/kv_offload/connector_scheduler.py, OffloadingConnectorScheduler._build_store_job: `0` "
    "-> `1` at 4 of n = 0":
        "without a missing chunk the first ones of none are stored, however many",
    "engines/vllm/kv_offload/cpu_manager.py, LRUCachePolicy.on_request_finished: `0` -> `1` at 35 of "
    "self.ranks |= {key: (self._next(), 0) for key in reversed(ac":
        "the first entry is a new number, which no other rank has, so that the second one is never compared",
    "engines/vllm/worker/block_contents.py, appended: `>` -> `>=` at 8 of if stop > len(buffer):":
        "grown_size then returns the length that there is, and a copy of the same cells replaces the array",
    "engines/vllm/rules/schedule.py, split_in_block: `//` -> `*` at 18 of stop = (ask.start // ask.block "
    "+ 1) * ask.block":
        "a chunk without a state inside ends with the block of its start anyway, which the rule called then "
        "decides",
    "oracle/whole_chosen.py, scores_of: `>` -> `>=` at 27 of total += np.where(products > 0, products, "
    "0.0)":
        "a product of 0 adds 0 either way",
    "oracle/whole_parts.py, _delta_matrices: argument `out=write` dropped at 26 of return keep, "
    "np.rint(write, out=write)":
        "the rounded numbers are then a new array instead of the old one, which is not read again",
    "oracle/shifted_run.py, cold_shifted: `0` -> `1` at 36 of (hidden,) = model.forward([TokenRun(0, "
    "start, piece)], store":
        "the store does not read the number of the sequence",
    "engines/sglang/mem_cache/allocator.py, SWATokenToKVPoolAllocator.free_swa: condition False at 3 of "
    "if not len(slots):":
        "the rest changes nothing for an empty array",
    "engines/sglang/mem_cache/allocator.py, PagedTokenToKVPoolAllocator.alloc_extend: `1` -> `0` at 11 of"
    " if page == 1:":
        "pages of one slot are then taken in the same order, only more slowly",
    "engines/sglang/mem_cache/memory_pool.py, ReqToTokenPool.write: condition True at 3 of if stop > "
    "len(row):":
        "grown_size then returns the length that there is, and a copy of the same slots replaces the row",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache._evict_excess_path_states: "
    "`break` -> `continue` at 0 of break":
        "nothing is dropped once the condition is true, so that it is true for all later nodes, too",
    "engines/sglang/mem_cache/unified_radix_cache.py, UnifiedRadixCache.insert: condition False at 25 of "
    "same = len(child.key) if is_equal else _match_len(child, par":
        "a held node begins the key, so that its tokens are found equal, only more slowly",
    'engines/llama_cpp/snapshot.py, Inspection.live: `0` -> `1` at 12 of copy = Blob(0, parts.get("base"), '
    'parts.get("swa"), recr, pa':
        "_blob reads the parts of this copy, not its size",
    "engines/llama_cpp/memory/recurrent.py, RecurrentCache.state_read: `0` -> `1` at 73 of "
    "sources = find_slot(self.meta, Ubatch((TokenRun(seq, state.p":
        "it is the place in a batch, which find_slot does not read",
    "engines/shared/images.py, check_images: condition True at 40 of found = count_images(request.prompt) if "
    "is_item(max(request.":
        "a prompt without items has no image to count; the condition only saves the count",
    "engines/llama_cpp/media.py, is_admitted: condition True at 3 of if is_item(max(prompt)):":
        "a prompt without items does not end with one, and its longest image has no tokens",
    "engines/llama_cpp/memory/attention.py, AttentionCache._purge: `<=` -> `<` at 14 of if 0 <= first <= last:":
        "the sequence has just lost the cell of last, so that its first position is another one",
    'engines/ik_llama/server.py, task_of: `1` -> `2` at 44 of n = int(request.extra.get("system_tokens", -1))':
        "it is only asked whether it is negative, and replaced by 0 in a slice then",
    "engines/ik_llama/slot_assignment.py, select_slot: `0` -> `1` at 39 of how: ComparedTexts = "
    "srv.rules.compare(0, 0).value":
        "no outcome of IK-COMPARE depends on its numbers, and this decision is not recorded",
    "tools/picture/slot_lanes.py, Lanes.__init__: `0` -> `1` at 97 of letters = max((len(line) for row in scene.rows "
    "for line in l":
        "24 and 7.25 for a letter are less than the least width, 52",
    "engines/llama_cpp/memory/attention.py, AttentionCache._purge: `1` -> `0` at 31 of "
    "self.seq_rm(seq, first, last + 1)":
        "the sequence has just lost the cell of last, and no other cell of it has this position",
    "engines/llama_cpp/memory/cells.py, Cells._empty_used: condition True at 34 of "
    "for other in range(self.n_seq) if len(taken) else ():":
        "without used cells no sequence has any of them; the condition saves the loop",
    "engines/llama_cpp/slot_assignment.py, share_prompt: returns None at 7 of return False":
        "its only caller asks whether the result is true",
    "engines/llama_cpp/slot_assignment.py, share_prompt: returns None at 7 of return False, line 2 of its kind":
        "its only caller asks whether the result is true",
    "engines/llama_cpp/snapshot.py, Inspection.slot_with_id: `>` -> `>=` at 92 of "
    "found: int | None = self.core.rules.slot_id(id_slot, len(sel":
        "both rules LC-SLOT-ID find slot 0 for the id 0, which is also the result without a rule",
    "engines/llama_cpp/adapters.py, _is_valid: `0` -> `1` at 62 of valid = srv.rules.task_valid("
    "min(task.request.prompt, defaul":
        "LC-TASK-VALID only asks whether the number is negative, and its decision is recorded only then",
    "engines/llama_cpp/memory/hybrid_memory.py, Memory.pending: condition True at 41 of "
    "for seq, used in enumerate(table.seqs if table.has_shift els":
        "without a pending shift no cell has one, and the condition only saves the search",
    "engines/llama_cpp/memory/cells.py, Cells.find: `and` -> `or` at 22 of "
    "if len(cells) - k < n and len(self.pos) < self.size:        ":
        "longer arrays add free cells after those that are enough; arrays of full length are not extended",
    "engines/llama_cpp/rules/before_checkpoints.py, reuse_open: `<` -> `<=` at 8 of "
    "while c < len(now) and p < len(asked):":
        "no token follows the last one, so that the last round finds 0 equal tokens; a block has at least 1",
    "engines/vllm/kv_offload/chunk_lookup.py, ChunkLookup._round: `False` -> `True` at 19 of looked_at_window = False":
        "windows that follow the group that shortens are looked up after it anyway, and it finds the end that it left",
    "engines/mlx_lm/caches/batch_rotating_kv_cache.py, _merged: `0` -> `1` at 18 of return Row(start, 0, None), "
    "Row(start, 0, None)":
        "stacked, which alone reads rows, reads the width only of those with a content",
    "engines/mlx_lm/caches/batch_rotating_kv_cache.py, _merged: `0` -> `1` at 39 of return Row(start, 0, None), "
    "Row(start, 0, None)":
        "stacked, which alone reads rows, reads the width only of those with a content",
    "engines/vllm/core/single_type_kv_cache_manager.py, MambaManager._remove_blocks_in_range: condition True at 3 of "
    "if blocks[at]:":
        "the pool passes over the null block, which stands for a column without a state",
    "engines/vllm/core/single_type_kv_cache_manager.py, MambaManager._keeps_checkpoint: `1` -> `2` at 42 of "
    "kept = self.reachable_block_mask(at, at + 1, ())":
        "only the first of these blocks is read",
    "engines/vllm/core/single_type_kv_cache_manager.py, SingleTypeKVCacheManager._waits_for_this_step: returns None at "
    "7 of return False, line 2 of its kind":
        "its callers only ask whether the result is true",
    "engines/vllm/core/single_type_kv_cache_manager.py, SingleTypeKVCacheManager._waits_for_this_step: returns None at "
    "7 of return False":
        "its callers only ask whether the result is true",
    "engines/vllm/core/block_pool.py, BlockPool.__init__: `0` -> `1` at 30 of self.block_hash_num_tokens = [0] * "
    "num_gpu_blocks":
        "it is read only of blocks with a key, and set with the first key",
    "engines/mlx_lm/forward.py, BatchStore.label: `1` -> `0` at 33 of cache.cache = [np.zeros((self.b, 1), LABEL) for "
    "_ in cache.c":
        "without a model only the number of rows of a state is read",
    "engines/mlx_lm/forward.py, BatchStore.label: `1` -> `2` at 33 of cache.cache = [np.zeros((self.b, 1), LABEL) for "
    "_ in cache.c":
        "without a model only the number of rows of a state is read",
    "engines/vllm/kv_cache_planning.py, _check_offloaded_sizes: `>` -> `>=` at 12 of if interval > 0 and any(interval "
    "% size for size in sparse):":
        "0 is a multiple of every size",
    "engines/vllm/prefix_points.py, PrefixPoints._changed: `>` -> `>=` at 40 of while before is not None and "
    "before.end > node.end - pieces.":
        "a prefix that the piece does not change is as usable as before, and reports nothing",
    "engines/vllm/prefix_points.py, PrefixPoints._has: `>` -> `>=` at 7 of if end > block and (before is None or not "
    "before.whole & bit":
        "the end is not a multiple of the block there",
    "engines/vllm/prefix_points.py, PrefixPoints._has: returns None at 7 of return False":
        "its only caller asks whether all results are true",
    "engines/vllm/prefix_points.py, PrefixPoints._has: returns None at 7 of return False, line 2 of its kind":
        "its only caller asks whether all results are true",
    "engines/vllm/rules/blocks.py, PublicationMask.kept: `>=` -> `>` at 21 of kept = [spaced and i >= shift and (i - "
    "shift) % per >= per -":
        "with i equal to shift the remainder is 0, and per - need is at least 1",
    "engines/vllm/rules/lookup.py, reconcile_all: `>` -> `>=` at 67 of far = min(now + (ask.unit if ask.unit and "
    "kind.full and kind":
        "the block and the unit are equal then",
    "engines/vllm/rules/schedule.py, split_states: `<` -> `<=` at 28 of stops = [junction] if start < ask.junction < "
    "end else []":
        "a stop at the start is left out in the next but one statement",
    "engines/vllm/rules/schedule.py, split_states: `<` -> `<=` at 81 of stops += [(start // block + bool(start % "
    "block)) * block, la":
        "the tail is then the last boundary, which is a stop anyway",
    "engines/vllm/rules/schedule.py, split_states: `<` -> `<=` at 48 of stop = min((one for one in stops if start < "
    "one < end), defa":
        "a stop at the end is what the chunk ends with without any",
    "engines/vllm/core/kv_cache_coordinator.py, KVCacheCoordinator.allocate_new_computed_blocks: `any` -> `all` at 3 "
    "of if any(new_computed_blocks.values()) or num_external_compute":
        "a prefix has a block in the table of every group, or has no tokens and none in any",
    "engines/vllm/core/scheduler.py, Scheduler._schedule_waiting: returns None at 7 of return False":
        "schedule only asks whether the result is true",
    "engines/vllm/core/scheduler.py, Scheduler._schedule_waiting: returns None at 7 of return False, line 2 of its "
    "kind":
        "schedule only asks whether the result is true",
    "engines/vllm/core/scheduler.py, Scheduler._update_request_with_output: `break` -> `continue` at 0 of break":
        "the list that the loop reads ends with this token then",
    "engines/vllm/core/single_type_kv_cache_manager.py, SingleTypeKVCacheManager.cache_blocks: `>` -> `>=` at 19 of "
    "if num_full_blocks > num_cached_blocks:, line 2 of its kind":
        "there is no block between equal numbers",
    "engines/vllm/core/single_type_kv_cache_manager.py, FullAttentionManager._cache_partial_tail_block: `<=` -> `<` at "
    "19 of if self.block_size <= unit:":
        "a length in whole hashes is then one in whole blocks, which the last condition refuses",
    "engines/vllm/core/single_type_kv_cache_manager.py, MambaManager.allocate_new_blocks: `>` -> `>=` at 23 of "
    "if num_required_blocks > prev_block_len or has_partial_hit o":
        "with equal numbers no block is left behind, and none is missing",
    "engines/vllm/kv_offload/chunk_lookup.py, ChunkLookup._round: `>` -> `>=` at 40 of looked_at_window |= "
    "group.window_chunks > 0":
        "windows that follow the group that shortens are looked up after it anyway, and it finds the end that it left",
    "engines/vllm/kv_offload/chunk_lookup.py, ChunkLookup._look_up: returns None at 7 of return False":
        "its only caller asks whether the result is true",
    "engines/vllm/kv_offload/chunk_lookup.py, ChunkLookup._look_up: returns None at 7 of return False, line 2 of its "
    "kind":
        "its only caller asks whether the result is true",
    "engines/vllm/kv_offload/cpu_manager.py, CPUOffloadingManager._count: `break` -> `continue` at 0 of break":
        "each later key has been counted already, or meets the same oldest key",
    "engines/vllm/worker/draft_rows.py, prefix_marks: bound dropped at 46 of for token in state.token_ids[len(marks) - "
    "1 : stop + 1]:":
        "tokens are only appended until a restart, which forgets the marks; those of later tokens are not returned",
    "engines/vllm/worker/model_runner.py, ModelRunner._spans: bound dropped at 69 of text = [token + key for token in "
    "chunk.state.token_ids[chunk":
        "the pieces that are cut from the text end at the base",
    "engines/vllm/worker/model_runner.py, ModelRunner._spans: bound dropped at 50 of if i >= chunk.num_accepted_drafts "
    "and sampled[i : i + 1] == ":
        "a token more is sampled than drafts are accepted, so that no token follows this one",
    "engines/mlx_lm/forward.py, BatchStore._ranged: `<` -> `<=` at 26 of "
    "if len(lo) == 1 and lo[0] < hi[0]:                          ":
        "a token that sees nothing has an empty range of rows either way",
    "engines/mlx_lm/forward.py, BatchStore.done: `all` -> `any` at 3 of if all(state is not None for state in "
    "reached):":
        "a pass puts a state of every row into a layer, and without a model of none",
    "engines/mlx_lm/caches/batch_kv_cache.py, BatchKVCache.filter: `<=` -> `<` at 9 of if spare <= 0:":
        "with 0 no column is cut, and the counters stay",
    "engines/mlx_lm/caches/batch_rotating_kv_cache.py, BatchRotatingKVCache.make_mask: `>=` -> `>` at 37 of "
    "return rotated(mask, (0 if self._idx >= self.max_size else s":
        "the mask has as many columns as the ring then, so that both rotations are the same",
    "engines/mlx_lm/caches/rotating_kv_cache.py, RotatingKVCache._dropped: `>` -> `>=` at 83 of "
    "return joined(buffer[:, :, : self.keep], buffer[:, :, drop +":
        "without a column to drop the two parts are the whole buffer",
    "engines/mlx_lm/caches/rotating_kv_cache.py, RotatingKVCache.make_mask: `>=` -> `>` at 20 of "
    "at = 0 if self._idx >= self.max_size else self._idx":
        "the mask has as many columns as the ring then, so that both rotations are the same",
    "engines/mlx_lm/lru/lru_prompt_cache.py, LRUPromptCache._trimmed: `<` -> `<=` at 16 of if own and kept < len(key):":
        "versions that trim in place take a longer key only without a key that begins the query, so that kept is less",
    "engines/mlx_lm/lru/prompt_trie.py, _walk: bound dropped at 45 of "
    "shared = common_prefix(node.tokens, key[at : at + len(node.t":
        "no more than the tokens of the node are common",
    "tools/server_logs/tied_requests.py, TiedRequest.of: condition False at 13 of "
    "return [] if self.kinds.isdisjoint(kinds) else [line for lin":
        "kinds has the kind of every line, so that the list is then empty, too; the condition only saves time",
    "tools/request_bodies/message_fields.py, changed_fields: condition True at 48 of "
    "found = [change for old, new in _pairs(a, b) if old.fields !":
        "equal texts are equal objects, whose fields do not differ; the condition only saves reading them",
    "tools/server_logs/line_prefixes.py, _read_prefix: `break` -> `continue` at 0 of break":
        "the place is then unchanged, and asked about again up to eight times with the same result",
    'tools/conformance/http_check/suite.py, _with_end: `False` -> `True` at 11 of "answers", False, '
    'request, "a reply", reply_text(said) if is':
        "the check only becomes a finding, and make_finding does not read whether it is ok",
    'tools/live/llama_server/gguf_models.py, vocabulary: `<` -> `<=` at 58 of '
    '"tokenizer.ggml.token_type": [3 if i in marks else 1 if i < ':
        "the token 96 is one of the marks, which are asked for first",
    "tools/live/llama_server/process.py, Process.stop: condition True at 3 of if self._popen.stdin is "
    "not None:":
        "the process is started with a pipe as stdin; the condition is for the type checker",
    "tools/live/llama_server/process.py, version_text: argument `check=False` dropped at 83 of done = "
    "subprocess.run(words, capture_output=True, text=True,":
        "it is the default of subprocess.run; ruff requires it",
    'tools/live/llama_server/verify/remote.py, Remote.seed: `<` -> `<=` at 80 of tasks = [task for one '
    'in slots if type(task := one.get("id_t':
        "a task 0 adds nothing to the sum of the tasks",
    'tools/live/real_report.py, _numbers: `0` -> `1` at 73 of return range(min((len(run["requests"]) for '
    'run in data["runs':
        "without runs the table is not shown, and no request differs",
    "tools/live/llama_server/tasks.py, _assign: `0` -> `1` at 11 of return (0, 0), []":
        "every cost is then larger by (1, 0); costs are only compared, and more branches are tried",
    "tools/live/llama_server/tasks.py, _assign: `1` -> `2` at 30 of if best is None or (without + 1, odd) < "
    "best[0]:":
        "a request without a task then costs (2, 0) everywhere; the first number still decides first",
    "tools/live/llama_server/tasks.py, _assign: `>` -> `>=` at 30 of if best is None or best[0][0] > 0:":
        "an assignment of all requests is better than any that leaves one out, which the next line asks",
    "tools/live/llama_server/tasks.py, _assign: condition True at 3 of if best is None or best[0][0] > 0:":
        "an assignment of all requests is better than any that leaves one out",
    "tools/live/llama_server/tasks.py, _assign: `break` -> `continue` at 0 of break":
        "the tasks are sorted by their contradictions, so that every later one is left out, too",
    'tools/live/llama_server/tasks.py, sent_task: `1` -> `2` at 36 of asked = int(request.get("id_slot", -1))':
        "every negative number stands for no slot",
    "tools/live/llama_server/images.py, Images.wire: `1` -> `2` at 27 of before = len(begin) if n + 1 < "
    "len(parts) else 0":
        "the text before an image is never the last but one: behind the image comes the end of the projector",
    'tools/conformance/report_builder.py, make_report: argument `""` dropped at 79 of results = '
    '[_unfinished(one, unfinished.get(FED_BY.get(one.se':
        "_unfinished only asks whether the reason is empty, and None is",
    "engines/shared/kv_rows.py, extend_array: condition True at 43 of out = np.full(shape, fill, array.dtype) if fill "
    "else np.zero":
        "an array that is full of 0 is an array of zeros; the condition only saves writing them",
    "engines/shared/kv_rows.py, sort_by_position: `>` -> `>=` at 12 of if len(pos) > 1 and not (pos[1:] >= "
    "pos[:-1]).all():":
        "a single position has no pair of neighbours, of which all are in order; it only saves the comparison",
    "engines/shared/log_totals.py, counters: `continue` -> `break` at 0 of continue":
        "series yields at most once, so that no round of the inner loop is left",
    "judging/clean_ranges.py, clean_spans: `1` -> `0` at 30 of return spans if point.step == 1 else tuple("
    "_on_grid(spans, p":
        "with a step of 1 every length is on the grid, so that _on_grid yields the same spans",
    "judging/clean_ranges.py, foreign_rows: condition False at 3 of if stop <= n and pos.tobytes() == "
    "np.arange(first, stop).tob":
        "the other branch selects the same rows by a mask, only more slowly",
    "judging/clean_ranges.py, foreign_rows: `<=` -> `<` at 8 of if stop <= n and pos.tobytes() == "
    "np.arange(first, stop).tob":
        "the other branch selects the same rows by a mask, only more slowly",
    "judging/clean_ranges.py, foreign_rows: condition False at 3 of if all(rows.digest.tobytes() == "
    "cold.rows(layer).digest[at].":
        "the comparison after it then finds none, only more slowly",
    "judging/clean_ranges.py, foreign_positions: condition True at 3 of if earlier:":
        "the loop over no earlier positions does nothing; the condition saves the search for the first rows",
    "judging/compare_answer.py, ColdRunCache.covering: condition True at 3 of "
    "if self._found is None or not begins(self._found[0], tokens)":
        "another recent run that begins with these tokens has the same provenance there",
    "judging/judging_observer.py, JudgingObserver.on_event: condition True at 3 of if kind in OBSERVED_EVENTS:":
        "the method of the base class does nothing for other kinds; the condition saves its calls",
    "judging/judging_observer.py, JudgingObserver._store: condition True at 86 of "
    "self.entries = [self.texts[key] for key in inspection.kept()":
        "without texts no key is in them; the condition only saves the loop over the stored objects",
    "judging/shared_runs.py, _Witness.reads: condition True at 3 of if field not in self.read:":
        "the first read has dropped these rule sets, and to drop them again changes nothing",
    "judging/foreign_reads.py, ForeignReadFinder._states: bound dropped at 46 of cold = self.cold_runs.covering("
    "stored.tokens[:n])":
        "a cold run of all tokens begins with that of the first n, of which alone the state is read",
    "judging/foreign_reads.py, ForeignReadFinder._rows: bound dropped at 46 of cold = self.cold_runs.covering("
    "stored.tokens[:n])":
        "a cold run of all tokens begins with that of the first n, of which alone rows are read",
    'judging/foreign_reads.py, _stretches: `<` -> `<=` at 70 of what, origin = "missing" if whose == -2 else "rows", '
    'theirs ':
        "row 0 stands for the tokens from 0 on, whatever their number",
    "replay/recorded_requests.py, read_drafts: `0` -> `1` at 66 of lengths: Mapping[int, int] = MappingProxyType({}), "
    "unknown: ":
        "it is a least length beside that of a replay, which has at least one token",
    "replay/recorded_requests.py, make_request: `0` -> `1` at 86 of by_model: bool = False, log: "
    "Mapping[str, Any] = MappingProx":
        "it is a least length beside that of a replay, which has at least one token",
    'engines/chat_template.py, render: `>` -> `>=` at 69 of thought = template.kind == "reasoning" and role == '
    '"assistan':
        "the message of an assistant is not the last one of a user",
    "base/layout.py, lean_table: `0` -> `1` at 28 of def lean_table(width: int = 0) -> WholeTable:":
        "the width is only compared with ROOMY, 100",
    "base/media_items.py, position: `<` -> `<=` at 9 of while at < index and (image := item_at(tokens, at)) is not N":
        "an image that begins at the index ends after it, so that the last condition of the loop is false",
    "base/shell_words.py, _Reader._end_line: returns None at 7 of return False":
        "its callers ask whether the result is true",
    "base/tokens.py, common_substring: `>` -> `>=` at 15 of if size[other] > size[before] + 1:        # "
    "its shorter subs":
        "a copy of a state of the same size takes its place in every transition to it",
    "base/tokens.py, common_substring: `>` -> `>=` at 23 of longest = held if held > longest else "
    "longest      # called ":
        "an equal length is the same length",
    "base/untrusted_files.py, parse_json: `>` -> `>=` at 86 of suspect = _LARGE_EXPONENT.search(bare) is "
    "not None or max(ma":
        "a number of 100 characters without a large exponent is within the range of a float: _finite returns it",
    "base/untrusted_files.py, parse_json: condition True at 18 of hook = _finite if suspect else None":
        "_finite returns the number that the parser would make, or refuses one that only suspect texts have",
    "base/untrusted_files.py, _check_nesting: `break` -> `continue` at 0 of break":
        "a pass that removes nothing is followed by others that remove nothing",
    "model/attention.py, _QueryBlock._scores: `<` -> `<=` at 9 of if start < stop:":
        "an edge without rows hides none",
    "model/attention_mask.py, StretchView._low: `<` -> `<=` at 42 of return own // -window * -window if window < "
    "0 else np.maximu":
        "without a window the method has returned before",
    "model/forward.py, _RunPass.__init__: `<` -> `<=` at 62 of self.trail: Trail = ShortTrail(first, run.pos0) "
    "if len(first":
        "both classes of trails give the same digests for any number of tokens, as their test shows",
    "judging/recompute_ledger.py, RecomputeLedger.restart: call forgotten at 0 of self.placed.clear()":
        "a new server returns other lists, so that their places are sought anew; it only frees memory",
    "judging/recompute_ledger.py, RecomputeLedger._evaluated_prefix: `-` dropped at 41 of at = "
    "bisect_left(self.in_order, (prompt, -1))":
        "lists equal to the prompt are its neighbours on either side, of which both are compared",
    "model/hash_mixing.py, inverse: `5` -> `6` at 15 of for _ in range(5):":
        "five rounds make more than 64 correct bits of 3; a further round keeps the exact inverse",
    "oracle/whole_provenance.py, _shifted: `<` -> `<=` at 8 of if back < len(x):":
        "with as many places as elements both sides of the assignment are empty",
    "oracle/whole_provenance.py, _scan: `<` -> `<=` at 12 of while reach < len(h):":
        "a round that reaches as far as the list is long adds nothing to it",
    "judging/request_events.py, owned_events: `>` -> `>=` at 42 of after = [one for one in mine if one.place > "
    "released.get(slo":
        "the event at the place of a release is not a launch",
    "replay/unknown_search.py, _other_way: `<` -> `<=` at 59 of kept = {step: n for step, n in "
    "case.passed.items() if step <":
        "the entry of this step is replaced by a new one at once",
    "judging/clean_ranges.py, clean_state: returns None at 7 of return False":
        "its only caller asks whether the result is true",
    "judging/compare_answer.py, ColdRunCache.covering: assignment forgotten at 0 of self._prefix = tokens":
        "the same run is then found by comparison, which the assignment only saves",
    "judging/clean_ranges.py, clean_spans: `<` -> `<=` at 65 of for window, positions in foreign.items() for q in "
    "positions ":
        "the row at hi hides lengths after hi; these come last, and the span before them ends at hi as without them",
    "tools/run/engine_flags.py, _take_flag: returns None at 7 of return False":
        "its only caller asks whether the result is true",
    "tools/run/diff_folder.py, _compared: argument `with_ledger=False` dropped at 49 of "
    "a, b = (run_judged(pair.scenario, name, pair.mode, with_ledg":
        "the ledger is then computed, too, which only takes time: file_data does not read it",
    "scenarios/scenario_search.py, _with_most: `0` -> `1` at 36 of most = max(counts.values(), default=0)":
        "without scenarios the list is empty in both branches",
    "scenarios/scenario_search.py, kinds_of_model: argument `key=len` dropped at 80 of "
    "longest = max((name for name in known_names() if model.start":
        "the known names that begin a name begin each other; the last of them in alphabetical order is the longest, "
        "or names the same model",
    "scenarios/notation/shrink.py, Shrinking._still: returns None at 7 of return False":
        "its callers only ask whether the result is true",
    "scenarios/option_checks.py, model_named: condition True at 33 of "
    "real = manual.known.get(name) if name else None":
        "without a name, the table of names has None for None",
    "tools/search/repair.py, smallest: returns None at 7 of return False":
        "shrink only asks whether the result is true",
    "tools/search/repair.py, smallest: returns None at 7 of return False, line 2 of its kind":
        "shrink only asks whether the result is true",
    "tools/search/shrink_command.py, _shrunk: argument `None` dropped at 32 of "
    "shrinking.run(lambda: next(ticks, None))":
        "the search makes at most as many tries as there are ticks",
    "tools/advise/changed_middle.py, _reordered: `break` -> `continue` at 0 of break":
        "only the last place has no piece, so that the loop ends after it",
    "tools/advise/changed_middle.py, _places: `0` -> `1` at 71 of "
    "starts = accumulate((size((piece,), words) for piece in text":
        "the places of two texts, both counted so, are only compared with each other",
    "tools/picture/svg.py, draw: `0.0` -> `1.0` at 54 of "
    "parts, width = [bars], engine_bars.WIDTH if bars else 0.0":
        "a picture has at least one run, whose drawing is wider than a pixel",
    "tools/picture/walk_recorder.py, _spans: `2` -> `1` at 15 of if len(each) < 2:":
        "parts with the same ranges have them together, too; the condition only saves work",
    "engines/mlx_lm/server_state.py, RuleTracer.__init__: `-` dropped at 27 of self.log, self.mark = log, -1":
        "no decision is logged yet, so that forgetting them at the first one changes nothing",
    "engines/llama_cpp/rules/repaired.py, draft_max_in_batch: `0` -> `1` at 87 of "
    "def draft_max_in_batch(held: int, n_ctx: int, n_predict: int":
        "make_draft, which alone calls it, always gives the share",
    "engines/llama_cpp/rules/before_checkpoints.py, end_late: `False` -> `True` at 12 of eog: bool = False,":
        "the server, its only caller, always gives it",
    "engines/llama_cpp/rules/before_checkpoints.py, end_untold: `False` -> `True` at 12 of eog: bool = False,":
        "the server, its only caller, always gives it",
    "engines/llama_cpp/memory/cells.py, Cells.find: `>=` -> `>` at 32 of "
    "if stop <= self.size and (start >= self.end or self._free(ma":
        "all cells from the end on are free, so that the condition after it holds there, too",
    "engines/llama_cpp/memory/ubatch.py, split_equal: `1` -> `0` at 16 of if len(todo) == 1 and not n_keep_tail:":
        "the loop cuts a single stretch every n_ubatch tokens, as split_seq does, only more slowly",
    "engines/llama_cpp/memory/attention.py, AttentionCache.seq_rm: condition True at 29 of "
    "for table in self.streams if seq < 0 else [self.cells(seq)]:":
        "the streams of other sequences have no cell of this one, so that nothing is removed there",
    "engines/llama_cpp/memory/cells.py, Cells._stretches: `0` -> `1` at 47 of "
    "return np.flatnonzero(taken[n:] == taken[: max(0, len(taken)":
        "if fewer than n cells exist, the left side is empty, and equally empty when compared with a single number",
    "engines/llama_cpp/memory/newest_layout.py, CompressedShape.cells: `1` -> `2` at 14 of "
    "return -(-max(1, -(-n_ctx_seq // self.ratio)) // ROWS_PAD) *":
        "one row and two rows are rounded up to the same multiple of ROWS_PAD",
    "tools/live/llama_server/export/program_text.py, _key: `0` -> `1` at 29 of if long and "
    "isinstance(value[0], int):":
        "a list of a key's value has elements of one type",
    "tools/live/token_map.py, _rivals: bound dropped at 20 of for other in texts[:i]:":
        "a text has no rival in itself, and each pair of texts gives the same rivals in both orders",
    "tools/picture/walk_recorder.py, _stretches: `>` -> `>=` at 78 of "
    "return (*found[: MOST - 1], (found[MOST - 1][0], found[-1][1":
        "of as many ranges as allowed, the last one is joined with itself",
    "tools/rulebook/rules_report.py, tables: condition True at 3 of if rule:":
        "every rule has an id, so that no rule has the empty one",
    "tools/run/diff_report.py, _requests: `0` -> `1` at 51 of "
    'shown = [pair for pair in pairs if verbose or pair[0]["i"] i':
        "both requests of a pair have the same number",
    "tools/run/diff_report.py, _decided: `1` -> `2` at 45 of alone = group.start if len(group) == 1 else -1":
        "it is only asked whether the number is negative",
    "judging/restore_point_index.py, _candidates: condition True at 3 of if branch is not below:":
        "each point of that branch was examined with a longer prefix, so that it reaches at least as far there, and of "
        "equal points the first stays",
    "engines/mlx_lm/caches/array_ops.py, _scale_and_bias: `1` -> `2` at 63 of "
    "scale = np.where(some, edge / np.where(some, steps, np.float":
        "where there are no steps, the outer choice takes the scale instead of this quotient",
    "tools/run/why_command.py, _reasons: argument `runs=others.runs` dropped at 35 of "
    "decided = deciding_rule(run, number, runs=others.runs, show=":
        "the search then makes these runs itself, of the same scenario under the same rules",
    "tools/server_logs/server_runs.py, ServerRuns._is_restart: bound dropped at 33 of "
    "if self._starts and logged.text[:60].lower().startswith(self":
        "the longest start of a grammar has 27 characters, so that the bound only saves the rest of the text",
    "tools/advise/saved_tokens.py, saved_tokens: `any` -> `all` at 9 of "
    'client = any(change["kind"] == "client" for change in best["':
        "every trial of this search changes one thing, so that the best one has a single change",
    "engines/llama_cpp/rules/seq_rm_and_state.py, plane_of_position: `1` -> `0` at 25 of return Decision(plane if 1 "
    "<= plane <= written else 0, becau":
        "a plane of 0 is the value 0 with either bound",
    "engines/llama_cpp/rules/checkpoint_restore.py, pick_v3: `1` -> `0` at 75 of longest = max((c.n_tokens for c in "
    "ckpts if c.n_tokens <= li":
        "it counts only if no checkpoint has at most as many tokens as the limit, which is not negative: none has 0 "
        "tokens then",
    "engines/llama_cpp/rules/checkpoint_restore.py, pick_v3: `1` -> `2` at 75 of longest = max((c.n_tokens for c in "
    "ckpts if c.n_tokens <= li":
        "it counts only if no checkpoint is chosen, and no checkpoint has a negative number of tokens",
    "engines/llama_cpp/rules/prompt_cache.py, evict_fixed_tokens: `0` -> `1` at 59 of by_size = evict_oldest(sizes, "
    "lengths, Limits(limits.size, 0":
        "of this result only the evictions for bytes are read, and they do not depend on the limit of tokens",
    "engines/llama_cpp/rules/checkpoint_create.py, space_when_full: `1` -> `2` at 14 of last, gone = -1, list[int]()":
        "it is only asked whether the number is negative",
    "engines/llama_cpp/rules/context_shift.py, context_shift: `0` -> `1` at 50 of discard = min(max(0, n_discard or "
    "left // 2), max(0, left - ":
        "the context is full, and at least 4 tokens are not kept, so that at least 3 are left",
    "engines/llama_cpp/rules/speculative.py, must_replay: `>` -> `>=` at 17 of yes = n_rollback > 0 and exact and "
    "n_rollback > n_rs_seq":
        "no number of planes is negative, so that the last condition is then false, too",
    "engines/llama_cpp/rules/slot_selection.py, by_content: `0` -> `1` at 64 of found, best = similar(slots, asked, "
    "sps) if sps else (None, ":
        "the share is only read with a slot that was found",
    "engines/llama_cpp/rules/before_checkpoints.py, reuse_open: `<` -> `<=` at 25 of while c < len(now) and p < "
    "len(asked):":
        "no token is asked for after the last one, so that the last rounds find 0 equal tokens; a block has at "
        "least 1",
    "engines/llama_cpp/rules/checkpoint_create.py, space_older: `1` -> `2` at 14 of last, gone = -1, []":
        "it is only asked whether the number is negative",
    "engines/llama_cpp/rules/prompt_cache.py, admit_strict: `<` -> `<=` at 28 of while limits.size and evict < "
    "len(rest) and sum(rest[evict:]":
        "a conversation that exceeds the limit alone is refused before, so that it fits once no entry is left",
    "engines/llama_cpp/rules/before_checkpoints.py, slot_select_00: `0` -> `1` at 25 of found, share = None, F32(0)":
        "the share is only read with a slot that was found",
    "engines/llama_cpp/rules/speculative.py, draft_max: `1` -> `0` at 40 of left = room if n_predict == -1 else "
    "max(1, n_predict - n_gen":
        "the length is then 0 instead of -1 before the last bound, 0",
    "engines/llama_cpp/rules/checkpoint_create.py, create_cr7: `>` -> `>=` at 67 of place = near if user <= 0 else "
    "chunk.start == user or (chunk":
        "a chunk that starts at the message is accepted by the condition before",
    "engines/llama_cpp/memory/attention.py, AttentionCache.prepare: `>` -> `>=` at 61 of after_end = "
    "self._cells_after_end(ubatches) if len(ubatches)":
        "a single micro-batch after all used cells gets the same cells from its search, which nothing follows",
    "engines/llama_cpp/memory/attention.py, AttentionCache.prepare: `1` -> `0` at 63 of after_end = "
    "self._cells_after_end(ubatches) if len(ubatches)":
        "a single micro-batch after all used cells gets the same cells from its search, which nothing follows",
    "engines/llama_cpp/memory/cells.py, Cells.remove: `>=` -> `>` at 7 of if seq >= 0 and self.sets is None and p0 "
    "> self.span(seq)[1]":
        "without the shortcut the search finds no cell of the sequence at these positions",
    "engines/llama_cpp/memory/context.py, Context.hidden: argument `key=lambda piece: piece[0]` dropped at 28 of "
    "pieces = sorted(self._pieces, key=lambda piece: piece[0])":
        "the places are different, so that nothing after them is compared",
    "engines/llama_cpp/memory/attention.py, AttentionCache._cells_after_end: `0` -> `1` at 28 of table = "
    "self.cells(ubatches[0].runs[0].seq)":
        "the table is read only if all micro-batches are of one sequence, or all sequences have one table",
    "engines/llama_cpp/memory/recurrent.py, RecurrentCache.seq_rm: `<` -> `<=` at 37 of if p0 == 0 and p1 == "
    "POS_INF and seq < self.size:":
        "no sequence has the number of the size, so that no rollback is forgotten for it",
    "engines/llama_cpp/memory/recurrent.py, RecurrentCache.state_read: `1` -> `0` at 78 of sources = "
    "find_slot(self.meta, Ubatch((TokenRun(seq, state.p":
        "find_slot reads this number only if the sequence continues in a cell of its own, and it was removed from "
        "all",
    "engines/llama_cpp/memory/cells.py, Cells.find_contiguous: `>=` -> `>` at 14 of if not (first >= start).any() "
    "and len(self.pos) < self.size:":
        "longer arrays add stretches after those that were found, and the first from head on is the same",
    "engines/llama_cpp/memory/cells.py, Cells.find: `<` -> `<=` at 40 of if len(cells) - k < n and len(self.pos) < "
    "self.size:        ":
        "arrays of full length are not extended",
    "engines/llama_cpp/slot_assignment.py, process_task: `1` -> `0` at 25 of if task.request.n_cmpl > 1 and "
    "task.how == COPIED:          ":
        "a single completion has no children to start, for which every server has slots enough",
    "engines/llama_cpp/server.py, queue_task: `1` -> `0` at 53 of task = Task(srv.next_tick(), replace(request, "
    "n_cmpl=1) if h":
        "it is only asked whether the number is greater than 1",
    'engines/llama_cpp/flags.py, _write_unified: argument `1` dropped at 56 of if "kv_unified" not in options or '
    'options.get("parallel", 1)':
        "it is only asked whether the number is -1",
    'engines/llama_cpp/flags.py, _write_unified: `1` -> `2` at 58 of if "kv_unified" not in options or '
    'options.get("parallel", 1)':
        "it is only asked whether the number is -1",
    "engines/llama_cpp/server_state.py, Core.release: argument `grown=True` dropped at 54 of "
    'self.points.changed(slot, "evaluated", kept=ALL_TOKENS, grow':
        "the ranges of the checkpoints, which are unchanged, are then computed again; equal ones are not reported",
    "engines/llama_cpp/slot_assignment.py, link_completions: `0` -> `1` at 84 of if parent.task is not None and "
    "parent.task.how == SELECTED a":
        "the first task may then be a parent although it is a child, but no task has a child as its parent",
    "engines/llama_cpp/server_state.py, Core._draft_context: argument `n_rs_seq=0` dropped at 37 of sizes = "
    "self.settings.sizes._replace(n_rs_seq=0)":
        "only an MTP head comes with rollback planes, and it is an attention layer without states",
    "engines/llama_cpp/adapters.py, split_prompt: `<` -> `<=` at 20 of if slot.alora_start < 0:":
        "no batch ends before the first token: every rule LC-ALORA-SPLIT returns 0 for a start of 0, which is not "
        "recorded",
    "engines/llama_cpp/server.py, update_slots: `0` -> `1` at 20 of slot.prompt_span = (0, 0)":
        "no token of a batch lies before 0 and after 1",
    "engines/llama_cpp/server_state.py, Core.position: `<` -> `<=` at 41 of if not self.has_media_positions or "
    "index < 0:":
        "the position of the first token is 0",
    "engines/llama_cpp/snapshot.py, Inspection.stored: `1` -> `2` at 36 of request = PromptInputs(n, n, n, n + 1, "
    "facts.pos_min, settin":
        "the prompt that continues a checkpoint is longer; no rule that restores reads its length",
    "engines/llama_cpp/prompt_cache.py, PromptCache._check_image: `<` -> `<=` at 37 of if lcp < len(prompt) and "
    "prompt[lcp] < 0 and (end := self.ru":
        "the rule itself asks whether the token is negative, and is recorded only then",
    "engines/llama_cpp/server_flags.py, _contexts: `1` -> `0` at 43 of n_ctx_seq = n_ctx if unified or n_slots == 1 "
    "else pad(n_ctx ":
        "the whole context is a multiple of the pad, so that its only share is the whole",
    "engines/llama_cpp/slot_assignment.py, child_task: argument `others=()` dropped at 22 of request, "
    "prompt=prompt, others=(), shared=0, forced=forced, ":
        "further prompts are read where completions are made of a request, and none are made of a child",
    "engines/llama_cpp/adapters.py, split_prompt: `0` -> `1` at 22 of if slot.alora_start < 0:":
        "no batch ends before the first token: every rule LC-ALORA-SPLIT returns 0 for a start of 0, which is not "
        "recorded",
    'engines/llama_cpp/flags.py, _write_unified: `1` -> `0` at 58 of if "kv_unified" not in options or '
    'options.get("parallel", 1)':
        "it is only asked whether the number is -1",
    "engines/llama_cpp/slot_assignment.py, process_task: `>` -> `>=` at 23 of if task.request.n_cmpl > 1 and "
    "task.how == COPIED:          ":
        "a single completion has no children to start, for which every server has slots enough",
    "engines/llama_cpp/snapshot.py, contiguous_rows: `1` -> `2` at 48 of return last + 1 if cache.n_cells(seq) == "
    "last + 1 else conti":
        "the condition saves the count, which finds as many rows without a hole",
    "engines/llama_cpp/memory_use.py, contexts: argument `n_rs_seq=0` dropped at 48 of own = replace(fixed, "
    "sizes=fixed.sizes._replace(n_rs_seq=0))":
        "only an MTP head comes with rollback planes, and it is an attention layer without states",
    "engines/llama_cpp/snapshot.py, _saved_lengths: `1` -> `0` at 85 of swa = (int(blob.swa.pos.min()), "
    "int(blob.swa.pos.max())) if ":
        "of a window without rows the first position counts as 0 if it is negative",
    "engines/llama_cpp/snapshot.py, _saved_lengths: `1` -> `2` at 85 of swa = (int(blob.swa.pos.min()), "
    "int(blob.swa.pos.max())) if ":
        "of a window without rows the first position counts as 0 if it is negative",
    "engines/llama_cpp/slot_assignment.py, child_task: `1` -> `0` at 67 of request, prompt=prompt, others=(), "
    "shared=0, forced=forced, ":
        "further completions are made of a request only, and what asks for the number also asks for a parent",
    "engines/llama_cpp/slot_assignment.py, child_task: `1` -> `2` at 67 of request, prompt=prompt, others=(), "
    "shared=0, forced=forced, ":
        "further completions are made of a request only, and what asks for the number also asks for a parent",
    "engines/llama_cpp/slot_assignment.py, child_task: argument `n_cmpl=1` dropped at 58 of request, prompt=prompt, "
    "others=(), shared=0, forced=forced, ":
        "further completions are made of a request only, and what asks for the number also asks for a parent",
    "engines/llama_cpp/server_state.py, Core.release: `True` -> `False` at 62 of self.points.changed(slot, "
    '"evaluated", kept=ALL_TOKENS, grow':
        "the ranges of the checkpoints, which are unchanged, are then computed again; equal ones are not reported",
    "engines/llama_cpp/slot_assignment.py, link_completions: `<` -> `<=` at 82 of if parent.task is not None and "
    "parent.task.how == SELECTED a":
        "the first task may then be a parent although it is a child, but no task has a child as its parent",
    "engines/llama_cpp/server.py, update_slots: `break` -> `continue` at 0 of break":
        "a batch that is full stays full, so that no later slot adds to it",
    "engines/llama_cpp/memory_use.py, contexts: argument `sizes=fixed.sizes._replace(n_r` dropped at 19 of own = "
    "replace(fixed, sizes=fixed.sizes._replace(n_rs_seq=0))":
        "only an MTP head comes with rollback planes, and it is an attention layer without states",
    "engines/llama_cpp/prompt_cache.py, PromptCache._check_image: `0` -> `1` at 39 of if lcp < len(prompt) and "
    "prompt[lcp] < 0 and (end := self.ru":
        "the rule itself asks whether the token is negative, and is recorded only then",
    "engines/llama_cpp/memory/cells.py, Cells._free: `>` -> `>=` at 67 of unseen = seqs.sum(axis=0) == 1 if "
    "self.shared_stays and self":
        "with a single sequence every used cell has one",
    "engines/llama_cpp/memory/cells.py, Cells._free: `1` -> `0` at 69 of unseen = seqs.sum(axis=0) == 1 if "
    "self.shared_stays and self":
        "with a single sequence every used cell has one",
    "engines/llama_cpp/memory/attention.py, AttentionCache.seq_rm: `0` -> `1` at 35 of for table in self.streams if "
    "seq < 0 else [self.cells(seq)]:":
        "no other stream has a cell of the sequence that it could lose",
    "engines/llama_cpp/memory/attention.py, AttentionCache.seq_rm: `<` -> `<=` at 33 of for table in self.streams "
    "if seq < 0 else [self.cells(seq)]:":
        "no other stream has a cell of the sequence that it could lose",
    "engines/llama_cpp/memory/cells.py, Cells.find_contiguous: `<` -> `<=` at 48 of if not (first >= start).any() "
    "and len(self.pos) < self.size:":
        "arrays of full length are not extended, and the second search is the first",
    "engines/llama_cpp/memory/dsv4.py, KVCacheDSV4.clear: `1` -> `2` at 12 of self._zero(-1)":
        "each negative number stands for all sequences",
    "engines/llama_cpp/memory/cells.py, Cells.move: `1` -> `2` at 21 of self.extents.forget(-1)":
        "forget takes each negative number for all sequences",
    "engines/llama_cpp/memory/context.py, Context._continues: `>` -> `>=` at 66 of if want and have != want and not "
    "(self.memory.kind.mrope and":
        "the condition before says that the two positions are different",
    "engines/llama_cpp/memory/recurrent.py, RecurrentCache.seq_div: `0` -> `1` at 31 of if d != 1 and cell and "
    "max(p0, 0) <= cell.pos < (POS_INF if ":
        "the first position is 0 after the division, too",
    "engines/llama_cpp/memory/recurrent.py, RecurrentCache.seq_div: `1` -> `0` at 8 of if d != 1 and cell and "
    "max(p0, 0) <= cell.pos < (POS_INF if ":
        "a position that is divided by 1 stays",
    "engines/llama_cpp/memory/ubatch_view.py, UbatchStore.view: `1` -> `0` at 61 of if known is not None and "
    "self.found[part][run][-1] == known[":
        "the general view of the same rows is equal, and the shortcut applies to a single token as before",
    "engines/llama_cpp/memory/attention.py, AttentionCache.prepare: `break` -> `continue` at 0 of break, line 2 of "
    "its kind":
        "it is the last micro-batch, after which the loop ends",
    "engines/llama_cpp/memory/cells.py, Cells.save_at: `1` -> `2` at 27 of self.reach(int(at.max()) + 1)":
        "longer arrays have more empty cells at their end",
    "engines/llama_cpp/memory/newest_layout.py, CompressedShape.cells: `1` -> `0` at 14 of return -(-max(1, "
    "-(-n_ctx_seq // self.ratio)) // ROWS_PAD) *":
        "a context has a token, and so at least a row",
    "engines/llama_cpp/memory/cells.py, Cells.remove: `>` -> `>=` at 14 of if self.n_seq > 1 and (used := "
    "self.seqs[:, at].any(axis=0))":
        "a single sequence shares no cell, so that none of its cells is used after the removal",
    "engines/llama_cpp/memory/cells.py, Cells.find: `<` -> `<=` at 18 of if len(cells) - k < n and len(self.pos) < "
    "self.size:        ":
        "longer arrays add free cells after those that are enough",
    "engines/llama_cpp/memory/recurrent.py, RecurrentCache.cell: `1` -> `2` at 57 of tail = self.meta.tail[seq] if "
    "0 <= seq < self.size else -1":
        "it is only asked whether the number is negative",
    "engines/llama_cpp/memory/recurrent_cells.py, continues_own_cell: `1` -> `0` at 65 of tail = meta.tail[run.seq] "
    "if 0 <= run.seq < len(meta.tail) e":
        "the first cell does not hold a sequence that the memory does not have",
    "engines/llama_cpp/memory/recurrent.py, RecurrentCache.prepare: `1` -> `0` at 20 of if len(ubatches) == 1 and "
    "self.position is as_index and cont":
        "the condition only saves the trial of a batch that continues in its own cell",
    "engines/llama_cpp/memory/cells.py, Cells.divide: `1` -> `2` at 21 of self.extents.forget(-1)":
        "forget takes each negative number for all sequences",
    "engines/llama_cpp/memory/context.py, _find_deferred_cell: bound dropped at 88 of read = cell < table.end and "
    "table.seqs[seq, cell] and not ca":
        "of the mask only the first element is read, that of the cell",
    "engines/llama_cpp/memory/context.py, _find_deferred_cell: `1` -> `2` at 95 of read = cell < table.end and "
    "table.seqs[seq, cell] and not ca":
        "of the mask only the first element is read, that of the cell",
    "engines/llama_cpp/memory/recurrent.py, RecurrentCache.state_read: `0` -> `1` at 65 of sources = "
    "find_slot(self.meta, Ubatch((TokenRun(seq, state.p":
        "it is the number of a token, which find_slot does not read",
    "engines/llama_cpp/memory/cells.py, Cells.place: `>=` -> `>` at 54 of lost = {} if isinstance(cells, range) and "
    "cells.start >= sel":
        "no cell from the end on is used, so that none loses a position",
    "engines/llama_cpp/memory/ubatch.py, split_by_run: `1` -> `0` at 23 of if len(ubatch.runs) == 1:":
        "the cells of a single run are all cells, which the general case returns, too",
    "engines/llama_cpp/memory/attention.py, AttentionCache.prepare: `1` -> `2` at 63 of after_end = "
    "self._cells_after_end(ubatches) if len(ubatches)":
        "the shortcut finds the cells that the trial finds, only more quickly",
    "engines/llama_cpp/memory/cells.py, Cells.find: bound dropped at 41 of return np.concatenate((cells[k:], "
    "cells[:k]))[:n]":
        "there are at least n free cells, so that the later ones are cut off",
    "engines/llama_cpp/memory/context.py, find_deferred_cells: `0` -> `1` at 49 of ubatch = Ubatch((TokenRun(seq, "
    "pos, [token]),), (0,), 1)":
        "it is the place in a batch, which neither the event nor the cells have",
    "engines/llama_cpp/memory/cells.py, Cells.remove: `0` -> `1` at 10 of if seq >= 0 and self.sets is None and p0 "
    "> self.span(seq)[1]":
        "without the shortcut the search finds no cell of the sequence at these positions",
    "engines/llama_cpp/memory/ubatch_view.py, UbatchStore.view: `1` -> `0` at 48 of if known is not None and "
    "self.found[part][run][-1] == known[":
        "the general view of the same rows is equal, and the shortcut applies to a single token as before",
    "engines/llama_cpp/memory/recurrent_cells.py, continues_own_cell: `1` -> `2` at 65 of tail = meta.tail[run.seq] "
    "if 0 <= run.seq < len(meta.tail) e":
        "it is only asked whether the number is negative",
    "engines/llama_cpp/memory/cells.py, Cells.remove: `1` -> `0` at 16 of if self.n_seq > 1 and (used := "
    "self.seqs[:, at].any(axis=0))":
        "a single sequence shares no cell, so that none of its cells is used after the removal",
    "engines/llama_cpp/prefill_chunk.py, add_prompt: `True` -> `False` at 17 of slot.has_begun = True":
        "only the rule of the oldest builds reads the common prefix, and a later chunk begins after it",
    "engines/llama_cpp/prefill_chunk.py, add_prompt: `0` -> `1` at 111 of at = srv.rules.trim_at(len(slot.tokens), "
    "slot.reused if slot":
        "a chunk that is not the first one has a token before it, and the rules take the larger number",
    "engines/llama_cpp/server_flags.py, _check_drafters: `<=` -> `<` at 59 of if len(kinds) > 1 and not "
    '{"ngram-simple", "draft-simple"} <':
        "every build that knows the two drafters also knows others",
    "engines/llama_cpp/slot_save_restore.py, _take_checkpoints: `1` -> `0` at 44 of if srv.dft is not None and "
    "taken and taken[-1].draft is not ":
        "a server with a draft context saves a draft part with every checkpoint, any other with none",
    "engines/llama_cpp/server.py, Server.slot: `100` -> `101` at 83 of def slot(self, action: str, id_slot: int, "
    "file: Path | None ":
        "only a share below 100 shortens the file, and no other use is made of the number",
    "engines/llama_cpp/rules/checkpoint_create.py, first_break: `<` -> `<=` at 57 of return min([stop, *(b for b in "
    "breaks if chunk.start < b < s":
        "a break at the end itself has the same minimum",
    "engines/llama_cpp/adapters.py, cap_prefix: condition True at 3 of if slot.active >= 0:":
        "without such a row both rules LC-ALORA-ROWS return the tokens that they got, which is not recorded",
    "judging/token_radix.py, TokenRadix._walk: condition False at 11 of "
    "n = own if ours == theirs else n + common_prefix(ours, their":
        "the common prefix of equal lists has their length; the comparison only saves looking for it",
    "judging/recompute_ledger.py, RecomputeLedger._known: condition True at 3 of if not durable:":
        "a durable point is lasting whether it rested or not; the condition only saves steps at each release",
    "judging/restore_point_index.py, find_best_point: `break` -> `continue` at 0 of break":
        "the lengths fall on the way up and the rank never does, so that every further node is skipped, too",
    "judging/restore_point_index.py, _candidates: `break` -> `continue` at 0 of break":
        "the lengths are taken in falling order and what is reached never falls, so that all further ones are skipped",
    "engines/vllm/kv_offload/chunk_lookup.py, Search.__init__: `0` -> `1` at 13 of self.found = 0":
        "the first group leaves at least a chunk, of one token or more, and sets it",
    "engines/vllm/kv_offload/cpu_manager.py, StoreOrderLRUCachePolicy.insert: `0` -> `1` at 32 of "
    "self.ranks[key] = self._next(), 0":
        "every rank has a number of its own, so that the second number is never compared",
    "engines/vllm/core/single_type_kv_cache_manager.py, MambaManager.remove_skipped_blocks: condition True at 3 of "
    "if blocks[at]:":
        "free_blocks passes over block 0, and the column then gets the 0 that it has",
    "engines/sglang/mem_cache/unified_cache/unified_tree_core.py, UnifiedTreeCore.release_state: call forgotten at 0 "
    "of self.update_evictable_leaf_sets(lock.node)":
        "the lock on the slots of full attention stays, so that the node is in no set of leaves before and after",
    "engines/vllm/kv_offload/transfer_jobs.py, TransferJobs.offer: condition True at 52 of "
    "missing = self.manager.offer(keys, state.access) if keys els":
        "an offer of no chunks counts nothing, teaches the policy nothing, and returns the empty list",
    "engines/vllm/kv_offload/connector_scheduler.py, OffloadingConnectorScheduler._update_req_states: condition False "
    "at 3 of if not self.sliding_window_groups or not self.allocated_bloc":
        "the loop behind it changes the blocks of these groups that are among those taken: there are none",
    "engines/vllm/worker/block_contents.py, BlockContents.change: condition True at 41 of "
    "for layer, group in self.home.items() if zeroed else ():":
        "without blocks there are no cells, and nothing is zeroed",
    "engines/vllm/kv_offload/cpu_manager.py, CPUOffloadingManager.get_room: `0` -> `1` at 63 of "
    "stay = {key for key in kept if self.keeps(self.offers.get(ke":
        "both rules treat 0 offers and 1 offer alike: a threshold counts offers from 2 on",
    "engines/mlx_lm/caches/batch_kv_cache.py, _joined: `0` -> `1` at 28 of "
    "buffer = blank(likes[part], 0, rows=rows, dtype=dtype)":
        "a side without a buffer gets as many blank columns as the width has, with or without this one",
    "engines/mlx_lm/caches/batch_rotating_kv_cache.py, BatchRotatingKVCache.make_mask: `0` -> `1` at 7 of "
    "held = 0 if self.keys is None else columns(self.keys)":
        "the rules read the columns of a rotated ring alone, and a ring without a buffer is not rotated",
    "tools/server_logs/reconstruct.py, ScenarioBuilder._best: `1` -> `0` at 10 of choices[1:1] = "
    "self._uncached(logged, choices[:1])":
        "a slice that stops before its start is empty, too, and what is assigned to it is inserted at its start",
    "tools/server_logs/reconstruct.py, ScenarioBuilder._user_messages: `<` -> `<=` at 36 of early = {at for at in "
    "missing if at < n_tokens - end - UBATC":
        "UBATCH is one of the BATCHES, of which none so far before the end is missing",
    "tools/server_logs/derivations.py, numbers_of: `0` -> `1` at 100 of if gives.cuts and gives.cuts in "
    "line.read.line.template and ":
        "without a number nothing is derived from the line, whether its prompt may be cut off or not",
    "tools/server_logs/derivations.py, _lengths: `1` -> `0` at 36 of whole = (bool(release) and "
    'release[-1].read.numbers.get("tru':
        "a request with a second release is doubtful, and numbers_of derives nothing for it",
    "tools/server_logs/first_lines.py, _worst: `0` -> `1` at 75 of return max(lost, key=lambda one: one.lost.low if "
    "one.lost is":
        "each of these requests lost tokens; the other value is for the type checker",
    "tools/watch/recent_bodies.py, _best: `>` -> `>=` at 44 of best = SharedPrefix(number, found) if "
    "found > size else best":
        "the tokens at ``size`` are equal, so that a prefix of this size would be longer",
    "tools/server_logs/conclusions.py, _build_range: `0` -> `1` at 8 of since = 0 if low is None else "
    "low.read.line.since":
        "the known builds are greater than 1, so that none lies before it",
    "tools/request_bodies/prompt_causes.py, _missing_characters: `1` -> `0` at 50 of found = "
    "longer.find(shorter[at : at + size], at + 1) if size":
        "both texts differ at this character, so that the search finds nothing there",
    "tools/request_bodies/prompt_causes.py, _missing_characters: `1` -> `2` at 73 of found = "
    "longer.find(shorter[at : at + size], at + 1) if size":
        "the next line takes every number up to 0 for not found",
    "tools/request_bodies/prompt_causes.py, _missing_characters: `1` -> `0` at 73 of found = "
    "longer.find(shorter[at : at + size], at + 1) if size":
        "the next line takes every number up to 0 for not found",
    "tools/request_bodies/prompt_causes.py, _missing_characters: `>` -> `>=` at 27 of return found - at if "
    "found > 0 and longer[found : found + re":
        "a text is found after this character, or the number is -1",
    "tools/request_bodies/prompt_causes.py, raw_cause: `>=` -> `>` at 11 of if thought >= 0 and "
    "_continues_after_reasoning(a, b, at, tho":
        "before an end of reasoning at the first character no reasoning begins, so that the other condition is false",
    "tools/request_bodies/prompt_causes.py, raw_cause: `0` -> `1` at 14 of if thought >= 0 and "
    "_continues_after_reasoning(a, b, at, tho":
        "before an end of reasoning at the first character no reasoning begins, so that the other condition is false",
    "tools/server_logs/earlier_causes.py, EarlierCauses._statement: `0` -> `1` at 54 of numbers = "
    '{"cause": found.signature.key, "lost": lost[0] if ':
        "both numbers are equal where one of them stands for both",
    "tools/server_logs/earlier_causes.py, EarlierCauses._removals: `<=` -> `<` at 8 of if high <= low:":
        "no removal lies after low and at most at high if both are equal; the condition only ends the loop early",
    "tools/server_logs/assumed_history.py, _assumed: `False` -> `True` at 65 of run = run_judged(assumed, "
    "assumed.profiles[0], MODE, with_le":
        "of the run only the evaluated tokens are read; the ledger, which the argument saves, does not change them",
    "engines/sglang/managers/scheduler.py, Scheduler._process_result: condition True at 3 of if not is_prefill:":
        "a batch that evaluates prompts plans nothing, so that the call returns at once",
    "judging/judging_observer.py, AnswerObserver._armed: condition True at 44 of "
    "for key in self.server.inspection.kept() if self.corrupt els":
        "without wrong objects the loop finds none among those that are kept",
    "model/recurrent.py, delta_net: argument `out=y` dropped at 30 of "
    "return RecurrentStep(np.rint(y, out=y), _last(inputs, weight":
        "the result is then a new array instead of the one before the rounding, which is not read again",
    "engines/rule_outcomes.py, _replacing: condition True at 54 of others = named or [variant for variant in variants "
    "if about(":
        "a rule gives its own answer again, and only other answers are alternatives",
    "engines/shared/server_loop.py, SlotCore.window_is_shared: returns None at 7 of return False":
        "it is only asked whether the property is true",
    "engines/ik_llama/memory_use.py, use: condition True at 3 of "
    'if options["spec_type"] == "mtp":':
        "the model has no heads then, whose rows have 0 bytes, and parts without bytes are left out",
    "tools/run/options_file.py, _YamlReader._items: `2` -> `1` at 30 of if _ENTRY.fullmatch(line.text[2:].strip()):":
        "the sign after the dash is a blank, which is stripped",
    "tools/server_logs/client_changes.py, SlotPrompts.change: condition True at 73 of "
    'held = _range_of(request, "held") or (ProvenRange(request.se':
        "a range of all numbers from 0 on proves as little as none: no common prefix is shorter than 0 tokens",
    "tools/conformance/report_builder.py, _floor: `False` -> `True` at 36 of missed = PropertyCheck(result.name, "
    'False, last, "at least 1':
        "make_finding does not read whether the check holds",
    'tools/conformance/report_builder.py, make_report: argument `""` dropped at 54 of results = '
    '[_unseen_mistakes(one, unjudged.get(one.name, ""))':
        "the reason is only asked whether it is empty, and None is, too",
    'tools/conformance/report_builder.py, _passed: argument `""` dropped at 26 of ability = ABILITY.get(name, "")':
        "no ability is named None, as none is named by an empty text",
    "tools/conformance/reference_model.py, Toy.feed: `0` -> `1` at 41 of (hidden,) = "
    "self.model.forward([TokenRun(0, memory.length, t":
        "the model does not read the number of a sequence, and the store holds a single one",
    "tools/conformance/http_check/keyed_histories.py, ServerStages.find_images: `False` -> `True` at 47 of trial "
    "= OpenAIClient(http, RequestFormat(CHAT, False, named)":
        "the trial only counts tokens of Pieces, for which nothing reads whether arrays are sent",
    "tools/conformance/http_check/parallel_histories.py, interleaved: bound dropped at 79 of talks = "
    "[InterruptedTalk(name, [system] if system else []) f":
        "the text has as many letters as there are conversations",
    'tools/live/llama_server/answers.py, hung_up: `1` -> `0` at 29 of if int(request.get("n_cmpl", 1)) > 1:':
        "0 completions are as little more than 1 as 1 is",
    "tools/live/llama_server/client.py, at_once: `True` -> `False` at 41 of pool.shutdown(wait=False, "
    "cancel_futures=True)      # a call":
        "each call has a thread of its own, so that none waits to begin",
    "tools/live/llama_server/export/python_test.py, server_test: `True` -> `False` at 68 of text = "
    "filled(IN_TREE, FILE=python_quoted(script.model.file,":
        "the name of a tiny model is its layers, and no notation of layers has a brace",
    "tools/live/llama_server/export/scenario_file.py, scenario_file: `False` -> `True` at 62 of run = "
    'run_judged(scenario, profile, "provenance", with_ledge':
        "the ledger of the run is not read",
    "tools/live/llama_server/server.py, RoundFilter.__init__: `False` -> `True` at 44 of self._updates = "
    "self._asked = self._works = False":
        "messages before the first round pass anyway, and its begin ends no empty round",
    "tools/live/llama_server/verify/case.py, fitted: `False` -> `True` at 65 of wanted = run_judged(scenario, "
    'profile, "provenance", with_le':
        "the ledger of the run is not read",
    "tools/live/llama_server/verify/case.py, fitted: argument `with_ledger=False` dropped at 42 of if "
    'run_judged(tried, profile, "provenance", with_ledger=Fals':
        "the ledger of the run is not read",
    'tools/live/llama_server/verify/remote.py, Remote.play: `any` -> `all` at 31 of if step["op"] == "parallel" '
    'or any("cancel_after" in one["re':
        "a step that is not parallel has a single member",
    "tools/picture/engine_bars.py, _longest: `1` -> `2` at 98 of return max((part.stop for one in requests for "
    "bar in one.bar":
        "without a stretch no bar is drawn, so that nothing is scaled",
    "tools/picture/event_sentences.py, _kinds: `0` -> `1` at 32 of for (_, was), (k, now) in zip([(0, "
    "SlotContents()), *changes":
        "the number of the event is not read",
    "tools/picture/walk_recorder.py, held: `0` -> `1` at 88 of len(live.tokens), _spans(full), _spans(window), "
    "_spans(index":
        "a compressed row stands for at least 2 tokens, so that 1 token has none, as 0 tokens have",
    "tools/picture/event_sentences.py, minus: `<` -> `<=` at 9 of if start < high and stop > low:":
        "a range that begins where this one ends leaves all of it, and nothing of it is left then",
    "tools/picture/walk_recorder.py, WalkRecorder._read_slot: `>` -> `>=` at 58 of elif answer is not None and "
    "(not owners or answer.request > ":
        "the same request again is not kept, since it does not differ from the last",
    "tools/advise/agent_reasons.py, _decided: `<` -> `<=` at 14 of if there.rank < here.rank:":
        "settings with different values have different options, which are part of the rank",
    "tools/advise/changed_middle.py, _replaced: `1` -> `2` at 76 of found = next((i for i, piece in "
    "enumerate(new[at:]) if piece":
        "it is only asked whether the place is negative",
    "tools/advise/client_changes.py, _chat: `False` -> `True` at 13 of return step, False":
        "the line is changed only if another request is, which is then mended by itself",
    "tools/advise/client_changes.py, _chat: `False` -> `True` at 55 of return "
    "step._replace(chat=(*new[parent].chat, *rest)), False":
        "the line is changed only if another request is, which is then mended by itself",
    "tools/advise/ranking.py, _same: `False` -> `True` at 87 of mine = outcome_of(run_judged(case.scenario, "
    "older.name, MODE":
        "the ledger of the run is not read",
    "tools/advise/setup_changes.py, run_trial: argument `with_ledger=False` dropped at 50 of run = "
    "run_judged(case.scenario, case.profile, MODE, with_led":
        "the ledger of the run is not read",
    "tools/live/llama_server/client.py, at_once: argument `cancel_futures=True` dropped at 24 of "
    "pool.shutdown(wait=False, cancel_futures=True)      # a call":
        "each call has a thread of its own, so that none waits to begin",
    "tools/live/player.py, Player._hear: bound dropped at 43 of self.map.heard(answer, _generated(reply)[: "
    "len(answer)])":
        "heard reads no more tokens than the answer has",
    "tools/live/llama_server/real/drawn_search.py, _difference: returns None at 7 of return False":
        "shrinking only asks whether the result is true",
    'tools/live/llama_server/export/scenario_file.py, _came: argument `done["i"]` dropped at 66 of wrong = '
    'next((one for one in inexact if one["i"] == member.g':
        "the recorder gives every member a number, so that the default is never read",
    'tools/conformance/history_player.py, _reason: returns None at 7 of return "", line 2 of its kind':
        "it is only asked whether there is a reason",
    "tools/conformance/report.py, _sized: `0` -> `1` at 47 of n = min(max(SHORT, 2 * max(space.near, default=0) "
    "+ 2), spac":
        "twice a size of 1, and 2 more, is less than SHORT, as twice 0 is",
    "tools/conformance/properties.py, _named: `0` -> `1` at 59 of under_key = max((usable for usable, *_ in "
    "shared), default=0":
        "without a sequence there is nothing that its number of tokens is compared with",
    "tools/picture/block_cells.py, cell_signs: `1` -> `2` at 13 of cell_sign(0, 1)),":
        "the sign only shows whether there are keys",
    "tools/advise/client_changes.py, _chat: `<` -> `<=` at 87 of return step._replace(chat=(*new[parent].chat, "
    '("assistant", ':
        "an answer that was sent back whole stays the same text, so that nothing changes",
    "engines/llama_cpp/snapshot.py, named: condition True at 29 of return identities(tokens) if core."
    "adapters else tokens":
        "without adapters every token is its own identity, and callers read a sequence",
    'tools/advise/report.py, _tie: returns None at 7 of return ""':
        "its only caller asks whether the text is empty, and prints it if not",
    "tools/conformance/http_check/batch_control.py, StartedServers._server: `==` -> `!=` at 16 of is_"
    "small = size == SMALL":
        "the key of the two running servers is then the other truth value, at every place",
    "strategies/conversation_strategies.py, requests: `+` -> `-` at 82 of beside = sorted({n + by for"
    " n in sizes for by in (-1, 0, 1)}":
        "the three summands are -1, 0 and 1, and so are their negatives",
}
"""Name of the fault -> proof."""
