"""Faults that change nothing that a caller can notice, each with a proof that another person can check."""

EQUIVALENT: dict[str, str] = {
    'engines/shared/command_line.py, CommandLine.drafts_by_model: argument `"none"` dropped at 81 of return any('
    'kind.startswith("draft-") for kind in str(self.op':
        "without spec_type the text is then None instead of none; neither begins with draft-",
    'judging/token_radix.py, TokenRadix._walk: `min` -> `max` at 6 of own = min(stop, node.stop)':
        "the two slices that are compared end with the shorter of the lists, so that their common prefix is the same",
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
    'engines/llama_cpp/memory/ubatch.py, split_equal: condition False at 3 of if len(todo) == 1 and not n_keep_tail:':
        "the loop cuts a single stretch every n_ubatch tokens, as split_seq does, only more slowly",
}
"""Name of the fault -> proof."""
