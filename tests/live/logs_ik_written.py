"""Writer of the ik_llama.cpp log for a step of a recording. Source: examples/server/server-context.cpp, server-task.cpp
(August 2026); the real lines in ../shared/logs have equal forms."""

from __future__ import annotations

LINES = {
    "slot_by_lru": "INFO [      get_available_slot] selected slot by lru | tid=1 id_slot=0 id_task=-1",
    "slot_by_lcp": "INFO [      get_available_slot] selected slot by lcp similarity | tid=1 id_slot=0 "
                   "id_task=-1 max_lcp_len={lcp} similarity={f_sim}",
    "pc_info": "======== Prompt cache: cache size: {n_tokens}, n_keep: {n_keep}, n_discarded_prompt: {n_discarded}, "
               "cache_ram_n_min: {n_min}, f_keep: {f_keep:.2f}, cache_ram_similarity: {thold:.2f}",
    "pc_begin": "updating prompt cache",
    "pc_save": " - saving prompt with length {n_tokens}, total state size = {mib:.3f} MiB",
    "pc_already": " - prompt is already in the cache, skipping",
    "pc_obsolete": " - removing obsolete cached prompt with length {n_tokens}",
    "pc_search": " - looking for better prompt, base f_keep = {f_keep:.3f}, sim = {f_sim:.3f}, n_keep = 0, "
                 "n_discarded_prompt = 0",
    "pc_load": " - found better prompt with f_keep = {f_keep:.3f}, sim = {f_sim:.3f}, n_keep = 0, "
               "n_discarded_prompt = 0",
    "pc_state": " - cache state: {prompts} prompts, {mib:.3f} MiB (limits: {limit_mib:.3f} MiB, {limit_tokens} tokens, "
                "{est} est)",
    "pc_entry": "   - prompt 0x555500000000: {n_tokens:7d} tokens, {discarded:7d} discarded, checkpoints: "
                "{checkpoints:2d}, {mib:9.3f} MiB",
    "launch": "INFO [   launch_slot_with_task] slot is processing task | tid=1 id_slot=0 id_task={task}",
    "cache_lcp": "======== Cache: cache_size = {n_tokens}, n_past =  {n_past}, n_past_prompt = {n_past_prompt}",
    "ckpt_search": "slot apply_checkp: id  0 | task {task} | n_past = {n_past}, slot.prompt.tokens.size() = "
                   "{n_tokens}, seq_id = {seq_id}, pos_min = {pos_min}",
    "ckpt_restore": "slot apply_checkp: id  0 | task {task} | restored context checkpoint took   1.00 ms (pos_min = "
                    "{pos_min}, pos_max = {pos_max}, n_tokens = {n_tokens}, n_past = {n_past}, size = {mib:.3f} MiB)",
    "full_reprocess": "slot apply_checkp: id  0 | task {task} | forcing full prompt re-processing due to lack of cache "
                      "data (likely due to SWA, see https://github.com/ggml-org/llama.cpp/pull/13194)",
    "ckpt_invalidate": "slot apply_checkp: id  0 | task {task} | erased invalidated context checkpoint (pos_min = "
                       "{pos_min}, pos_max = {pos_max}, size = 0.206 MiB)",
    "ckpt_create": "slot create_check: id  0 | task {task} | created context checkpoint {n} of {max} (pos_min = "
                   "{pos_min}, pos_max = {pos_max}, n_tokens = {n_tokens}, size = {mib:.3f} MiB, took 1.00 ms)",
    "ckpt_evict": "slot create_check: id  0 | task {task} | erasing old context checkpoint (pos_min = {pos_min}, "
                  "pos_max = {pos_max}, n_tokens = {n_tokens}, size = 0.206 MiB)",
    "need_one": "INFO [    batch_pending_prompt] we have to evaluate at least 1 token to generate logits | tid=\"1\" "
                "timestamp=1 id_slot=0 id_task={task}",
    "batch": "INFO [    batch_pending_prompt] kv cache rm [p0, end) | tid=1 id_slot=0 id_task={task} "
             "p0={p0}",
    "ctx_shift": "INFO [           context_shift] slot context shift | tid=1 id_slot=0 id_task={task} "
                 "n_keep={n_keep} n_left={n_left} n_discard={n_discard}",
    "release": "INFO [           release_slots] slot released | tid=1 id_slot=0 id_task={task} "
               "n_ctx=1024 n_past={n_tokens} n_system_tokens=0 n_cache_tokens={n_tokens} truncated={truncated}",
}  # fmt: skip
RATE = "(    0.00 ms per token,     0.00 tokens per second)"


def write_step(step, task):
    """Return the log lines of a step; ``task``: the number of its task."""
    for event in step.get("events", ()):
        if event["ev"] == "release":
            yield from _timings(step.get("response", {}), task)
        if event["ev"] in LINES:
            fields = {name: str(value).lower() if isinstance(value, bool) else value for name, value in event.items()}
            yield LINES[event["ev"]].format(**{"task": task, **fields})


def _timings(answer, task):
    if "prompt_n" not in answer:
        return
    prompt, made = answer["prompt_n"], answer["predicted_n"]
    yield f"slot print_timing: id  0 | task {task} | "
    yield f"prompt eval time =       0.00 ms / {prompt:5d} tokens {RATE}"
    yield f"       eval time =       0.00 ms / {made:5d} tokens {RATE}"
    yield f"      total time =       0.00 ms / {prompt + made:5d} tokens"
