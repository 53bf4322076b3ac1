"""How much of a new prompt need not be evaluated, and what must be taken back?

S, N   the slot's tokens and their number       P, T   the new prompt and its length
Source: llama.cpp tools/server/server-context.cpp, update_slots (3f545be); spec 3.9 NPAST-LCP, NPAST-ONE.
"""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.engines.base import Decision, rule
from cachesim.tokens import common_prefix


@rule("LC-NPAST-LCP")
def n_past_lcp(lcp: int, cache_prompt: bool) -> Decision:
    """The common prefix of slot and prompt, or nothing if the client asks for a fresh evaluation.
    Source: llama.cpp tools/server/server-context.cpp pre_decode "cache_prompt" "get_common_prefix" (3f545be)."""
    return Decision("LC-NPAST-LCP", lcp if cache_prompt else 0, {"lcp": lcp, "cache_prompt": cache_prompt})


@rule("LC-TASK.COMPLETION")
def completions_only(kind: str) -> Decision:
    """Only a completion asks the prompt cache and leaves checkpoints; an infill or an embedding trims and overwrites
    its slot all the same. Value: does this task? No recording shows the others: from the text only.
    Source: llama.cpp tools/server/server-context.cpp get_available_slot "SERVER_TASK_TYPE_COMPLETION", pre_decode
    "SERVER_TASK_TYPE_COMPLETION" (3f545be); spec 3.4, 3.10."""
    return Decision("LC-TASK.COMPLETION", kind == "completion", {"kind": kind})


POOLED = ("embedding", "rerank")
"""Tasks that generate nothing: they end with their prompt."""


SILENT_TASKS = (*POOLED, "decision")
"""All tasks that end with their prompt."""


@rule("LC-SHARED.UNKNOWN")
def no_decisions(prompts: Sequence[Sequence[int]]) -> Decision:
    """There are no decision tasks. Value: how many first tokens several prompts of one request are evaluated once
    for; None = the server does not know such requests.
    Source: llama.cpp tools/server/server-context.cpp pre_decode "params.cache_prompt {" (3f545be), where no shared
    tokens limit n_past; before b11549."""
    return Decision("LC-SHARED.UNKNOWN", None, {"prompts": len(prompts)})


# [New in llama_cpp@b11549]
@rule("LC-SHARED.PREFIX")
def shared_prefix(prompts: Sequence[Sequence[int]]) -> Decision:
    """The common prefix of all prompts of a decision, but each keeps a token of its own: the first prompt's slot
    evaluates it, the others go on from copies. From the text only.
    Source: llama.cpp tools/server/server-decision.cpp server_decision_group_tasks (b11549)."""
    same = min((common_prefix(list(prompts[0]), list(one)) for one in prompts[1:]), default=0)
    value = min(same, *(len(one) - 1 for one in prompts))
    return Decision("LC-SHARED.PREFIX", value, {"same": same, "prompts": len(prompts)})


def _whole(rule_id: str, kind: str, n_tokens: int, n_ubatch: int, splits: bool) -> Decision:
    value = "" if kind not in POOLED or splits else "whole" if n_tokens <= n_ubatch else "too large"
    return Decision(rule_id, value, {"kind": kind, "n_tokens": n_tokens, "n_ubatch": n_ubatch})


@rule("LC-TASK.WHOLE")
def whole_prompt(kind: str, n_tokens: int, n_ubatch: int, pooling: str) -> Decision:
    """An embedding or a reranking is evaluated in one ubatch and from nothing, unless it is read from the last token
    (pooling "last"). Value: "" = it can be split, "whole", or "too large". From the text only.
    Source: llama.cpp tools/server/server-context.cpp can_split, pre_decode "can_split {" (3f545be); spec 3.9."""
    return _whole("LC-TASK.WHOLE", kind, n_tokens, n_ubatch, pooling == "last")


# [New in llama_cpp@b11312]
@rule("LC-TASK.WHOLE-MEAN")
def whole_unless_last(kind: str, n_tokens: int, n_ubatch: int, pooling: str) -> Decision:
    """As WHOLE, but a causal reranker (pooling "rank") reads its last token too, and can be split. From the text only.
    Source: llama.cpp tools/server/server-context.cpp can_split (b11312); ggml-org/llama.cpp#28876."""
    return _whole("LC-TASK.WHOLE-MEAN", kind, n_tokens, n_ubatch, pooling in ("last", "rank"))


@rule("LC-TASK-REUSE.ALL")
def all_reuse(kind: str) -> Decision:
    """Every task that can be split goes on where its slot's tokens agree with its prompt. Value: does this one?
    Source: llama.cpp tools/server/server-context.cpp pre_decode "params.cache_prompt" (3f545be), before b11312."""
    return Decision("LC-TASK-REUSE.ALL", True, {"kind": kind})


# [New in llama_cpp@b11312]
@rule("LC-TASK-REUSE.STATEFUL")
def stateless_start_anew(kind: str) -> Decision:
    """Embeddings and rerankings begin with nothing, whatever the slot holds and ``cache_prompt`` says; they overwrite
    it all the same. From the text only.
    Source: llama.cpp tools/server/server-context.cpp pre_decode "is_stateless_task" (b11312)."""
    return Decision("LC-TASK-REUSE.STATEFUL", kind not in POOLED, {"kind": kind})


@rule("LC-MARKS.REQUEST")
def marks_of_any(chat: bool) -> Decision:
    """Where user messages begin is known from the chat template, or from ``message_delimiters`` that any completion may
    send. Value: are the marks looked at?
    Source: llama.cpp tools/server/server-context.cpp handle_completions_impl "message_delimiters" "message_spans"
    (3f545be), before b11549."""
    return Decision("LC-MARKS.REQUEST", True, {"chat": chat})


# [New in llama_cpp@b11549]
@rule("LC-MARKS.CHAT")
def marks_of_chats(chat: bool) -> Decision:
    """Only the chat endpoints know where user messages begin; ``message_delimiters`` of a plain completion are ignored.
    Source: llama.cpp tools/server/server-context.cpp handle_completions_impl, tools/server/server-task.h
    apply_chat_session (b11549); recorded: every completion with delimiters in llama_cpp_b11549."""
    return Decision("LC-MARKS.CHAT", chat, {"chat": chat})


@rule("LC-NPAST-ONE")
def need_one(n_past: int, n_tokens: int) -> Decision:
    """At least one token is evaluated, so that there are logits: a prompt that is held whole gives one back.
    Source: llama.cpp tools/server/server-context.cpp pre_decode "TAG_PROMPT_LOGITS {" (3f545be)."""
    whole = n_past == n_tokens and n_past > 0
    return Decision("LC-NPAST-ONE", n_past - 1 if whole else n_past, {"n_past": n_past, "n_tokens": n_tokens})


@rule("LC-TRIM.ABORT")
def abort_if_refused(n_past: int) -> Decision:
    """A cut that the memory refuses ends the process. Value: is the slot cleared instead, and the prompt begun anew?
    Source: llama.cpp tools/server/server-context.cpp pre_decode "memory_seq_rm", common/common.cpp
    common_memory::seq_rm (3f545be), since #22673 (b9180)."""
    return Decision("LC-TRIM.ABORT", False, {"n_past": n_past})


# [Gone in llama_cpp@minus-one]
@rule("LC-TRIM.CLEAR")
def clear_if_refused(n_past: int) -> Decision:
    """A cut that the memory refuses empties the slot, and the prompt is evaluated from its beginning.
    Source: llama.cpp tools/server/server-context.cpp update_slots (ffdd983fb), before #22673 (b9180)."""
    return Decision("LC-TRIM.CLEAR", True, {"n_past": n_past})


@rule("LC-CLEAR.BOTH")
def clear_both(checkpoints: int) -> Decision:
    """Emptying a slot forgets its checkpoints too. Value: do they go?
    Source: llama.cpp tools/server/server-context.cpp server_slot::prompt_clear (3f545be), since #25649 (b10011)."""
    return Decision("LC-CLEAR.BOTH", True, {"checkpoints": checkpoints})


# [Gone in llama_cpp@head]
@rule("LC-CLEAR.TOKENS")
def clear_tokens(checkpoints: int) -> Decision:
    """Emptying a slot keeps its checkpoints.
    Source: llama.cpp tools/server/server-context.cpp (7c158fbb4), before #25649; history section 7, 9."""
    return Decision("LC-CLEAR.TOKENS", False, {"checkpoints": checkpoints})


@rule("LC-RESTORE-FAIL.CLEAR")
def restore_failed(cause: str) -> Decision:
    """A slot file that cannot be restored empties the slot. Value: what the client is told, and whether the memory and
    the checkpoints go besides the tokens.
    Source: llama.cpp tools/server/server-context.cpp process_single_task "case SERVER_TASK_TYPE_SLOT_RESTORE {"
    (3f545be), since #26640 (b10388)."""
    return Decision("LC-RESTORE-FAIL.CLEAR", (f"Unable to restore slot: {cause}", True), {"cause": cause})


# [Gone in llama_cpp@head]
@rule("LC-RESTORE-FAIL.TOKENS")
def restore_failed_tokens(cause: str) -> Decision:
    """A slot file that cannot be restored makes the slot forget its tokens only. Inferred: no recording shows it.
    Source: llama.cpp tools/server/server-context.cpp SERVER_TASK_TYPE_SLOT_RESTORE (7c158fbb4), before #26640."""
    text = "Unable to restore slot, no available space in KV cache or invalid slot save file"
    return Decision("LC-RESTORE-FAIL.TOKENS", (text, False), {"cause": cause})


@rule("LC-DECODE.RETRY")
def next_attempt(purged: bool, n_batch: int) -> Decision:
    """After a batch that found no room: the same size if an idle slot could be emptied, else half. Value 0 = give up.
    Source: llama.cpp tools/server/server-context.cpp decode "try_clear_idle_slots {" "Context size has been exceeded"
    (3f545be); spec 3.11."""
    value = n_batch if purged else n_batch // 2
    return Decision("LC-DECODE.RETRY", value, {"purged": purged, "n_batch": n_batch})


def stop_word(said: str, words: Sequence[str]) -> str:
    """The first of the stop words that the generated text contains, "" = none."""
    return next((word for word in words if word and word in said), "")


@rule("LC-END")
def end_of_generation(
    n_gen: int, n_predict: int, n_slot: int, n_ctx: int, shift: bool, said: str = "", words: Sequence[str] = (),
    eog: bool = False,
) -> Decision:
    """Does the generation end with this token? "limit" with a full context or a spent budget (a budget of 0
    still yields one token), "word" where the generated text ``said`` contains a stop word, "" = it goes on. A full
    context comes before a stop word, a stop word before the budget; "eos" after a token that ends a generation
    (``eog``), whatever else holds. The value's second half: was the answer truncated?
    Source: llama.cpp tools/server/server-context.cpp process_token "ctx_shift" "has_budget" "find_stopping_strings",
    has_budget, find_stopping_strings (3f545be); spec 3.12."""
    because: dict[str, Any] = {"n_gen": n_gen, "n_predict": n_predict, "n_slot": n_slot, "n_ctx": n_ctx}
    full = not shift and n_slot + 1 >= n_ctx
    word = stop_word(said, words)
    if word:
        because |= {"word": word}
    spent = n_predict != -1 and n_gen >= max(1, n_predict)
    stop = "eos" if eog else "limit" if full else "word" if word else "limit" if spent else ""
    return Decision("LC-END", (stop, full), because)
