"""Verdicts on llama-server's log lines, and its lines that are not about the cache."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_verdicts import VERDICTS as SHARED
from cachesim.engines.shared.log_verdicts import Numbers, Verdict, loaded_entry, numbers_of


def checkpoint_check(numbers: Numbers) -> str:
    """Compare a checkpoint with the threshold (rules LC-CKPT-PICK.PK1 to PK3)."""
    found = numbers_of(numbers, "pos_min", "pos_max", "thold")
    if found is None:
        return ""
    pos_min, pos_max, thold = found
    if pos_min >= thold:
        no = f"pos_min = {pos_min:,} is not below the threshold {thold:,}"
        return f"{no}: cannot be restored" if pos_min else f"{no}, but position 0 is accepted since b8693"
    yes = f"pos_min = {pos_min:,} is below the threshold {thold:,}"
    if pos_max <= thold:
        return f"{yes}: can be restored"
    return f"{yes}: can be restored before b9593; later builds also need pos_max = {pos_max:,} <= pos_next"


def refused_trim(numbers: Numbers) -> str:
    """State how much of the common prefix a refused removal costs."""
    found = numbers_of(numbers, "p0")
    return "" if found is None else f"up to {found[0]:,} tokens of a common prefix are evaluated again"


def progressed(numbers: Numbers) -> str:
    """State what a line of progress counts, which depends on its spelling."""
    pair = numbers_of(numbers, "done", "share")
    if pair is None:
        return ""
    return (f"{pair[0]:,} tokens of this prompt are evaluated so far; with the reused ones, about "
            f"{100 * pair[1]:.0f} % of the prompt is in the slot")  # fmt: skip


def too_long(numbers: Numbers) -> str:
    """Compare a refused prompt with the context."""
    pair = numbers_of(numbers, "n_tokens", "n_ctx")
    return "" if pair is None else f"{pair[0]:,} tokens do not fit into {pair[1]:,}"


def drafted(numbers: Numbers) -> str:
    """State the accepted share of the drafted tokens."""
    pair = numbers_of(numbers, "accepted", "drafted")
    return f"{100 * pair[0] / pair[1]:.0f} % of the draft accepted" if pair is not None and pair[1] else ""


VERDICTS: Mapping[str, Verdict] = {
    **SHARED, "ckpt_check": checkpoint_check, "trim_failed": refused_trim, "too_long": too_long, "spec_step": drafted,
    "progress": progressed, "pc_load": loaded_entry,
}  # fmt: skip

ORDINARY: Mapping[str, str] = {
    "HTTP access line": r"(?:done )?request: +[A-Z]+ /\S* \S+ \d+|log_server_request|log_server_r",
    "chat template": r"chat format: |chat template|init: chat|preserve_reasoning|reasoning-budget: ",
    "performance counter": r"graphs reused = |statistics [\w-]+:|sampl(?:er|ing) (?:time|chain)",
    "loading of the model": r"load(?:_tensors|_hparams)?: |llama_model_load|print_info: |loading model|model loaded|"
                            r"local path|common_init|warming up|fitting params|common_(?:fit_params|params_fit|memory)",
    "memory or device": r"(?:ggml_|device_info|system_info|system info)|compute buffer size|output buffer size|"
                        r"graph (?:nodes|splits)|using device|offload(?:ed|ing) ",
    "HTTP server": r"(?:server is )?listening on|http server|using \d+ threads for HTTP|security: |init: using",
    "start of the server": r"initializing \.\.\.|llama threadpool|threadpool init",
    "setting of the context": r"llama_context: |llama_kv_cache\w*: (?:n_rot|attn_rot|upgrading|layer)",
    "task queue": r"post(?:ing)? (?:new task|NEXT_RESPONSE)|new task, id|processing new tasks|update_slots: run slots|"
                  r"add task \d+ to waiting|remove task \d+|waiting list",
    "request parameters": r"sampler params|sampling params|params_from|generate: n_ctx",
    "token": r"n_gen = .*next token|n_decoded = .*next token|slot decode token",
    "router": r"proxying request to model|cmd_child_to_router|child server|spawning server instance",
}  # fmt: skip
"""Names of kinds of line that are not about the cache, with their patterns."""

WARNINGS = frozenset({
    "full_reprocess", "trim_failed", "pc_load_failed", "ckpt_restore_failed", "no_pos_min", "kv_full", "spec_failed",
    "pc_too_big", "pc_no_room", "ckpt_file_bad", "too_long", "cut_off", "start_idle", "start_reuse", "kv_gap", "at_end",
    "reuse_unsupported", "media_failed", "start_media", "assertion",
})  # fmt: skip
"""Kinds of line that warn of lost tokens, of a flag without effect, or of an error."""

FATAL = frozenset({"no_pos_min", "assertion"})
"""Kinds of line with which the process of the server ends."""
