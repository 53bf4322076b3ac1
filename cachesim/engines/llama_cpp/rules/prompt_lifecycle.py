"""Prompt start, task kinds, failures and end of generation.

S, N   the slot's tokens and their number       P, T   the new prompt and its length
Source: llama.cpp tools/server/server-context.cpp, update_slots (3f545be), NPAST-ONE.
"""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.base.tokens import common_prefix
from cachesim.engines.llama_cpp.source_files import CONTEXT, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


@rule("LC-TASK-VALID", Role.FAIL,
      llama_cpp(CONTEXT, 'launch_slot_with_task "Prompt contains invalid tokens"', "b11549"))
def valid_tokens(least: int) -> Decision:
    """Refuse a prompt with a token that the model does not have (here -1, the ``least`` of its tokens). Return the
    error text, "" = accepted. The slot has lost already what the request's adapters made it forget."""
    return Decision("Prompt contains invalid tokens" if least < 0 else "", {"least": least})


@rule("LC-TASK-FIRST", Role.FAIL, llama_cpp(CONTEXT, 'process_single_task "get_available_slot"', "b11549"))
def slot_first(least: int) -> Decision:
    """Return "": the tokens of a prompt are validated only after it has a slot. Its search compares them with the
    tokens of slots and entries before."""
    return Decision("", {"least": least})


@rule("LC-NPAST-LCP", Role.PREFIX, llama_cpp(CONTEXT, 'pre_decode "cache_prompt" "get_common_prefix"', "3f545be"))
def n_past_lcp(lcp: int, cache_prompt: bool) -> Decision:
    """Return n_past: the common prefix of slot and prompt, 0 if cache_prompt is false."""
    return Decision(lcp if cache_prompt else 0, {"lcp": lcp, "cache_prompt": cache_prompt})


@rule("LC-TASK.COMPLETION", Role.PROMPT,
      llama_cpp(CONTEXT, 'get_available_slot "SERVER_TASK_TYPE_COMPLETION", '
                'pre_decode "SERVER_TASK_TYPE_COMPLETION"',
                "3f545be"))
def completions_only(kind: str) -> Decision:
    """Return True for a completion: only completions use the prompt cache and create checkpoints. An infill or an
    embedding still trims and overwrites its slot. Not recorded for other tasks: read in the source only."""
    return Decision(kind == "completion", {"kind": kind})


POOLED = ("embedding", "rerank")
"""Tasks without generation: they end with their prompt."""


SILENT_TASKS = (*POOLED, "decision")
"""All tasks that end with their prompt."""


@rule("LC-SHARED.UNKNOWN", Role.PROMPT,
      llama_cpp(CONTEXT, 'pre_decode "params.cache_prompt {"', "3f545be", note="where no shared tokens limit n_past"),
      until="b11549")
def no_decisions(prompts: Sequence[Sequence[int]]) -> Decision:
    """Return None: the server does not support requests with several prompts (decision)."""
    return Decision(None, {"prompts": len(prompts)})


# [New in llama_cpp@b11549]
@rule("LC-SHARED.PREFIX", Role.PROMPT,
      llama_cpp("tools/server/server-decision.cpp", "server_decision_group_tasks", "b11549"), since="b11549")
def shared_prefix(prompts: Sequence[Sequence[int]]) -> Decision:
    """Return the number of first tokens that the prompts of a decision share. They are evaluated once in the first
    prompt's slot and copied to the others; each prompt keeps a token of its own. Read in the source only."""
    same = min((common_prefix(list(prompts[0]), list(one)) for one in prompts[1:]), default=0)
    value = min(same, *(len(one) - 1 for one in prompts))
    return Decision(value, {"same": same, "prompts": len(prompts)})


def _whole(kind: str, n_tokens: int, n_ubatch: int, splits: bool) -> Decision:
    value = "" if kind not in POOLED or splits else "whole" if n_tokens <= n_ubatch else "too large"
    return Decision(value, {"kind": kind, "n_tokens": n_tokens, "n_ubatch": n_ubatch})


@rule("LC-TASK.WHOLE", Role.PROMPT, llama_cpp(CONTEXT, 'can_split, pre_decode "can_split {"', "3f545be"))
def whole_prompt(kind: str, n_tokens: int, n_ubatch: int, pooling: str) -> Decision:
    """Return "whole" for an embedding or reranking, which is evaluated in a single micro-batch from position 0, "too
    large" if n_ubatch is too small, "" for tasks that can be split, such as pooling from the last token. Read in the
    source only."""
    return _whole(kind, n_tokens, n_ubatch, pooling == "last")


# [New in llama_cpp@b11312]
@rule("LC-TASK.WHOLE-MEAN", Role.PROMPT, llama_cpp(CONTEXT, "can_split", "b11312", pull=28876), since="b11312")
def whole_unless_last(kind: str, n_tokens: int, n_ubatch: int, pooling: str) -> Decision:
    """Return as WHOLE, but a reranker with pooling "rank" also reads the last token, and can be split. Read in the
    source only."""
    return _whole(kind, n_tokens, n_ubatch, pooling in ("last", "rank"))


@rule("LC-TASK-REUSE.ALL", Role.PREFIX,
      llama_cpp(CONTEXT, 'pre_decode "params.cache_prompt"', "3f545be"), until="b11312")
def all_reuse(kind: str) -> Decision:
    """Return True: every task that can be split reuses the common prefix."""
    return Decision(True, {"kind": kind})


# [New in llama_cpp@b11312]
@rule("LC-TASK-REUSE.STATEFUL", Role.PREFIX,
      llama_cpp(CONTEXT, 'pre_decode "is_stateless_task"', "b11312"), since="b11312")
def stateless_start_anew(kind: str) -> Decision:
    """Return False for embeddings and rerankings: they start with n_past = 0, whatever cache_prompt is, and still
    overwrite the slot. Read in the source only."""
    return Decision(kind not in POOLED, {"kind": kind})


@rule("LC-MARKS.REQUEST", Role.PROMPT,
      llama_cpp(CONTEXT, 'handle_completions_impl "message_delimiters" "message_spans"', "3f545be"),
      since="#24176 (b9765)", until="b11549")
def marks_of_any(chat: bool) -> Decision:
    """Return True: user messages are known from the chat template, or from ``message_delimiters``, which any
    completion may contain."""
    return Decision(True, {"chat": chat})


# [Gone in llama_cpp@b9765]
@rule("LC-MARKS.SPANS", Role.PROMPT,
      llama_cpp(CONTEXT, 'handle_completions_impl "message_spans"', "7c158fbb4",
                note="recorded: completions with delimiters on b9713"), until="#24176 (b9765)")
def marks_of_spans(chat: bool) -> Decision:
    """Return True for user messages that the chat template marks, or that ``message_spans`` of a completion gives as
    byte offsets; ``message_delimiters`` of a completion are ignored."""
    return Decision(chat, {"chat": chat})


# [New in llama_cpp@b11549]
@rule("LC-MARKS.CHAT", Role.PROMPT,
      llama_cpp(CONTEXT, "handle_completions_impl, tools/server/server-task.h apply_chat_session", "b11549",
                note="recorded: every completion with delimiters in llama_cpp_b11549"), since="b11549")
def marks_of_chats(chat: bool) -> Decision:
    """Return True for chat endpoints only: ``message_delimiters`` of a plain completion are ignored."""
    return Decision(chat, {"chat": chat})


@rule("LC-NPAST-ONE", Role.PREFIX, llama_cpp(CONTEXT, 'pre_decode "TAG_PROMPT_LOGITS {"', "3f545be"))
def need_one(n_past: int, n_tokens: int) -> Decision:
    """Return n_past, reduced by 1 if the whole prompt is cached: at least one token must be evaluated for logits."""
    whole = n_past == n_tokens and n_past > 0
    return Decision(n_past - 1 if whole else n_past, {"n_past": n_past, "n_tokens": n_tokens})


@rule("LC-TRIM.ABORT", Role.FAIL,
      llama_cpp(CONTEXT, 'pre_decode "memory_seq_rm", common/common.cpp common_memory::seq_rm', "3f545be"),
      since="#22673 (b9180)")
def abort_if_refused(n_past: int) -> Decision:
    """Abort the server if seq_rm fails. Return whether the slot is cleared instead (False)."""
    return Decision(False, {"n_past": n_past})


@rule("LC-TRIM.ASSERT", Role.FAIL,
      llama_cpp(CONTEXT, 'update_slots "clear_slot", clear_slot "GGML_ASSERT"', "5b2093bec"),
      since="#17267 (b7078)", until="#18391 (b7543)")
def assert_if_refused(n_past: int) -> Decision:
    """End the server by an assertion if seq_rm fails: a slot that is processing must not be cleared. Return whether
    the slot is cleared instead (False)."""
    return Decision(False, {"n_past": n_past})


# [Gone in llama_cpp@b9230]
@rule("LC-TRIM.CLEAR", Role.FAIL, llama_cpp(CONTEXT, "update_slots", "ffdd983fb"), until="#22673 (b9180)")
def clear_if_refused(n_past: int) -> Decision:
    """Clear the slot if seq_rm fails, and evaluate the whole prompt (return True)."""
    return Decision(True, {"n_past": n_past})


@rule("LC-CLEAR.BOTH", Role.DROP, llama_cpp(CONTEXT, "server_slot::prompt_clear", "3f545be"), since="#25649 (b10011)")
def clear_both(checkpoints: int) -> Decision:
    """Return True: clearing a slot also erases its checkpoints."""
    return Decision(True, {"checkpoints": checkpoints})


# [Gone in llama_cpp@b10587]
@rule("LC-CLEAR.TOKENS", Role.DROP, llama_cpp(CONTEXT, "", "7c158fbb4"), until="#25649")
def clear_tokens(checkpoints: int) -> Decision:
    """Return False: clearing a slot does not erase its checkpoints."""
    return Decision(False, {"checkpoints": checkpoints})


@rule("LC-RESTORE-FAIL.CLEAR", Role.FAIL,
      llama_cpp(CONTEXT, 'process_single_task "case SERVER_TASK_TYPE_SLOT_RESTORE {"', "3f545be"),
      since="#26640 (b10388)")
def restore_failed(cause: str) -> Decision:
    """Clear the slot if a slot file cannot be restored. Return the message for the client, and True: memory and
    checkpoints are also cleared."""
    return Decision((f"Unable to restore slot: {cause}", True), {"cause": cause})


# [Gone in llama_cpp@b10587]
@rule("LC-RESTORE-FAIL.TOKENS", Role.FAIL,
      llama_cpp(CONTEXT, "SERVER_TASK_TYPE_SLOT_RESTORE", "7c158fbb4"), until="#26640")
def restore_failed_tokens(cause: str) -> Decision:
    """Drop the slot's tokens if a slot file cannot be restored. Return the message for the client, and False: the cells
    stay. LC-CLEAR decides about the checkpoints."""
    text = "Unable to restore slot, no available space in KV cache or invalid slot save file"
    return Decision((text, False), {"cause": cause})


@rule("LC-DECODE.RETRY", Role.FAIL,
      llama_cpp(CONTEXT, 'decode "try_clear_idle_slots {" "Context size has been exceeded"', "3f545be"))
def next_attempt(purged: bool, n_batch: int) -> Decision:
    """Return n_batch of the next attempt if there are no free cells: unchanged if an idle slot was purged, else half;
    0 = the request fails."""
    value = n_batch if purged else n_batch // 2
    return Decision(value, {"purged": purged, "n_batch": n_batch})


@rule("LC-VIEW-LEAD", Role.FAIL,
      llama_cpp(CONTEXT, 'update_slots "batch.slot_batched" "llama_set_embeddings"', "3f545be",
                note="since #25649, and before #24843"))  # fmt: skip
def batch_is_led() -> Decision:
    """Return the message that ends the process if the request that leads a batch has ended before a later part of the
    batch: None, because a batch is set up once. It is evaluated in parts when cells are lacking."""
    return Decision(None, {})


@rule("LC-VIEW-LEAD.ASSERTS", Role.FAIL,
      llama_cpp(CONTEXT, 'decode "llama_set_embeddings", need_embd', "bddfd2b11", note="recorded at b9873"),
      since="#24843 (b9752)", until="#25649 (b10011)")  # fmt: skip
def part_is_led() -> Decision:
    """Return the message that ends the process: each part is set up by the request that leads the batch."""
    return Decision("GGML_ASSERT(task) failed", {})


def stop_word(said: str, words: Sequence[str]) -> str:
    """Return the first stop word that the generated text contains, "" = none."""
    return next((word for word in words if word and word in said), "")


@rule("LC-END", Role.END,
      llama_cpp(CONTEXT, 'process_token "ctx_shift" "has_budget" "find_stopping_strings", '
                'has_budget, find_stopping_strings',
                "3f545be"))
def end_of_generation(
    n_gen: int, n_predict: int, n_slot: int, n_ctx: int, shift: bool, said: str = "", words: Sequence[str] = (),
    eog: bool = False,
) -> Decision:
    """Stop the generation: "eos" at a token that ends it, "limit" for a full context or when n_predict is reached (0
    still yields a token), "word" at a stop word, "" = it continues. A full context takes precedence over a stop word,
    a stop word over n_predict. The second value says whether the answer was truncated."""
    because: dict[str, Any] = {"n_gen": n_gen, "n_predict": n_predict, "n_slot": n_slot, "n_ctx": n_ctx}
    full = not shift and n_slot + 1 >= n_ctx
    word = stop_word(said, words)
    if word:
        because |= {"word": word}
    spent = n_predict != -1 and n_gen >= max(1, n_predict)
    stop = "eos" if eog else "limit" if full else "word" if word else "limit" if spent else ""
    return Decision((stop, full), because)


@rule("LC-PROMPT-FIT.REFUSE", Role.PROMPT,
      llama_cpp(CONTEXT, 'pre_decode "exceeds the available context size"', "3f545be"), since="#16391 (b6723)")
def refuse_long(n_tokens: int, n_ctx: int, n_keep: int, shift: bool) -> Decision:
    """Refuse a prompt that leaves no room for a token. Return None if the prompt fits, else the text of the error."""
    text = f"request ({n_tokens} tokens) exceeds the available context size ({n_ctx} tokens), try increasing it"
    return Decision(text if n_tokens >= n_ctx else None, {"n_tokens": n_tokens, "n_ctx": n_ctx})


@rule("LC-LIST.ALWAYS", Role.MEMORY,
      llama_cpp(CONTEXT, 'pre_decode "prompt.tokens.push_back"', "3f545be"), since="#13533 (b5379)")
def keep_list(cache_prompt: bool, before: int) -> Decision:
    """Return None: the list of a slot's tokens names what its cells hold, with cache_prompt false too."""
    return Decision(None, {"cache_prompt": cache_prompt})


@rule("LC-FAIL.CLEAR", Role.FAIL,
      llama_cpp(CONTEXT, 'decode "prompt_clear"', "3f545be"), since="#17267 (b7078)")
def failure_clears(busy: int) -> Decision:
    """Return True: if a batch cannot be evaluated, every running slot is cleared."""
    return Decision(True, {"busy": busy})


@rule("LC-TRIM-AT.EVALUATED", Role.REMOVE,
      llama_cpp(CONTEXT, 'pre_decode "memory_seq_rm"', "3f545be"), since="#5420 (b2110)")
def trim_at_n_past(n_past: int, lcp: int) -> Decision:
    """Return where the memory is cut before a chunk is evaluated: at n_past."""
    return Decision(n_past, {"n_past": n_past, "lcp": lcp})
